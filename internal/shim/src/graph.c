/*
 * Memory that graphs allocate when they run. The driver keeps it in one allocator for each device,
 * from a graph's first launch or upload until it is trimmed. An instantiated graph is counted at
 * the first of them with all its allocation nodes, which the driver may let share memory; the count
 * then comes down to the driver's own figure. That falls too when memory is freed that has outlived
 * its graph, which is freed like any other.
 */
#include "weir.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of charged and making */
static bool any;          /* an allocation node was made in this process */
static uint64_t charged;  /* counted for graphs, */
static uint64_t making;   /* of that, for first launches under way, */
static uint64_t waiting;  /* and of that, for those that wait at the gate; atomic */
static uintptr_t trims = 1; /* bumped by each trim: graphs launched before are counted again */

void weir_graphs_captured_alloc(void)
{
	__atomic_store_n(&any, true, __ATOMIC_RELAXED);
}

void weir_graphs_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	any = false;
	charged = making = waiting = 0;
}

/* weir_graphs_waiting is what is counted for launches that wait at the gate: the device has none of
 * it. */
uint64_t weir_graphs_waiting(void)
{
	return weir_get(&waiting);
}

CUresult weir_on_graph_add_alloc(enum weir_call call, CUgraphNode *node, CUgraph graph,
	const CUgraphNode *dependencies, size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	weir_fn_cuGraphAddMemAllocNode real = (weir_fn_cuGraphAddMemAllocNode)weir_real(call);
	if (!real)
		return weir_missing();
	weir_graphs_captured_alloc();
	return real(node, graph, dependencies, n, params);
}

CUresult weir_on_graph_add_node(enum weir_call call, CUgraphNode *node, CUgraph graph,
	const CUgraphNode *dependencies, size_t n, CUgraphNodeParams *params)
{
	weir_fn_cuGraphAddNode real = (weir_fn_cuGraphAddNode)weir_real(call);
	if (!real)
		return weir_missing();
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		weir_graphs_captured_alloc();
	return real(node, graph, dependencies, n, params);
}

CUresult weir_on_graph_add_node_v2(enum weir_call call, CUgraphNode *node, CUgraph graph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
	CUgraphNodeParams *params)
{
	weir_fn_cuGraphAddNode_v2 real = (weir_fn_cuGraphAddNode_v2)weir_real(call);
	if (!real)
		return weir_missing();
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		weir_graphs_captured_alloc();
	return real(node, graph, dependencies, data, n, params);
}

static uint64_t graph_bytes(CUgraph graph, int depth);

static uint64_t node_bytes(CUgraphNode node, int depth)
{
	weir_fn_cuGraphNodeGetType type_of = WEIR_DRIVER(cuGraphNodeGetType);
	weir_fn_cuGraphMemAllocNodeGetParams params_of = WEIR_DRIVER(cuGraphMemAllocNodeGetParams);
	weir_fn_cuGraphChildGraphNodeGetGraph child_of = WEIR_DRIVER(cuGraphChildGraphNodeGetGraph);
	CUgraphNodeType type;
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraph child;
	if (!type_of || type_of(node, &type) != CUDA_SUCCESS)
		return 0;
	if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && params_of &&
		params_of(node, &params) == CUDA_SUCCESS)
		return weir_taken(params.bytesize);
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && child_of && child_of(node, &child) == CUDA_SUCCESS)
		return graph_bytes(child, depth + 1);
	return 0;
}

static uint64_t graph_bytes(CUgraph graph, int depth)
{
	weir_fn_cuGraphGetNodes nodes_of = WEIR_DRIVER(cuGraphGetNodes);
	size_t n = 0;
	if (depth > 8 || !nodes_of || nodes_of(graph, NULL, &n) != CUDA_SUCCESS || !n)
		return 0;
	CUgraphNode *nodes = malloc(n * sizeof *nodes);
	uint64_t total = 0;
	if (nodes && nodes_of(graph, nodes, &n) == CUDA_SUCCESS)
		for (size_t i = 0; i < n; i++)
			total += node_bytes(nodes[i], depth);
	free(nodes);
	return total;
}

/* instantiated notes a graph's memory nodes, and counts what its launchable form has taken by
 * itself. One that took more than the job may hold is undone. */
static CUresult instantiated(CUresult r, CUgraphExec *exec, CUgraph graph)
{
	weir_fn_cuGraphExecDestroy destroy = WEIR_DRIVER(cuGraphExecDestroy);
	if (r != CUDA_SUCCESS || !exec || !weir_ready())
		return r;
	if (!weir_grown() && destroy && weir_own_begin()) {
		destroy(*exec);
		weir_own_end();
		return weir_deny();
	}
	if (!__atomic_load_n(&any, __ATOMIC_RELAXED))
		return r;
	uint64_t n = graph_bytes(graph, 0);
	if (n)
		weir_sizes_put(WEIR_KIND_GRAPH, (uintptr_t)*exec, n, NULL);
	return r;
}

CUresult weir_on_graph_instantiate(enum weir_call call, CUgraphExec *exec, CUgraph graph,
	CUgraphNode *error, char *log, size_t size)
{
	weir_fn_cuGraphInstantiate_v2 real = (weir_fn_cuGraphInstantiate_v2)weir_real(call);
	return real ? instantiated(real(exec, graph, error, log, size), exec, graph) : weir_missing();
}

CUresult weir_on_graph_instantiate_flags(
	enum weir_call call, CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	weir_fn_cuGraphInstantiateWithFlags real = (weir_fn_cuGraphInstantiateWithFlags)weir_real(call);
	return real ? instantiated(real(exec, graph, flags), exec, graph) : weir_missing();
}

/* settle_locked brings the count to what the driver says it keeps for graphs, and no lower than
 * what is counted for launches under way, which the driver's figure may have already; if it does
 * not say, back by n. The lock is held: an old figure must not lower what has been counted since.
 */
static void settle_locked(uint64_t n)
{
	weir_fn_cuCtxGetDevice device = WEIR_DRIVER(cuCtxGetDevice);
	weir_fn_cuDeviceGetGraphMemAttribute get = WEIR_DRIVER(cuDeviceGetGraphMemAttribute);
	CUdevice d;
	uint64_t reserved = 0;
	bool told = device && get && device(&d) == CUDA_SUCCESS &&
		get(d, (CUgraphMem_attribute)CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
			CUDA_SUCCESS;
	uint64_t most = told ? reserved + making : charged > n ? charged - n : 0;
	uint64_t over = charged > most ? charged - most : 0,
			 under = reserved > charged ? reserved - charged : 0;
	weir_overdraw(under);
	weir_release(over);
	charged += under - over;
}

static void settle(uint64_t n)
{
	pthread_mutex_lock(&lock);
	settle_locked(n);
	pthread_mutex_unlock(&lock);
}

/* weir_graphs_refresh counts anew what the driver keeps for graphs. */
void weir_graphs_refresh(void)
{
	if (!__atomic_load_n(&any, __ATOMIC_RELAXED) || !weir_own_begin())
		return;
	pthread_mutex_lock(&lock);
	if (charged)
		settle_locked(0);
	pthread_mutex_unlock(&lock);
	weir_own_end();
}

/* charge counts n bytes for a launch under way, which ended ends; at_once: it waits for nothing. */
static bool charge(uint64_t n, bool at_once)
{
	weir_moves_begin();
	if (!(at_once ? weir_reserve_at_once(n) : weir_take(n))) {
		weir_moves_end();
		return false;
	}
	pthread_mutex_lock(&lock);
	charged += n;
	making += n;
	pthread_mutex_unlock(&lock);
	return true;
}

/* a launch or upload under way of a graph with memory nodes */
struct counting {
	uint64_t n;      /* counted for it */
	uintptr_t trims; /* as it began, 0: it has no such nodes */
	int cancel;      /* what weir_moves_pause gave */
};

/* uncounted is what is to be counted for a graph before it is launched or uploaded: its memory,
 * each time that comes before one has succeeded, as that may fail. */
static uint64_t uncounted(CUgraphExec exec, struct counting *c)
{
	uint64_t n;
	void *at;
	uintptr_t now = __atomic_load_n(&trims, __ATOMIC_SEQ_CST);
	*c = (struct counting){0};
	if (!__atomic_load_n(&any, __ATOMIC_RELAXED) ||
		!weir_sizes_get(WEIR_KIND_GRAPH, (uintptr_t)exec, &n, &at))
		return 0;
	c->trims = now;
	return (uintptr_t)at == now ? 0 : n;
}

/* begin counts that; false: there is no room. */
static bool begin(CUgraphExec exec, struct counting *c, bool at_once)
{
	uint64_t n = uncounted(exec, c);
	if (n && !charge(n, at_once))
		return false;
	c->n = n;
	return true;
}

/* charged_for settles what charge counted. */
static void charged_for(uint64_t n, CUresult r)
{
	pthread_mutex_lock(&lock);
	making -= n < making ? n : making; /* less in the child of a handler's fork */
	pthread_mutex_unlock(&lock);
	settle(r == CUDA_SUCCESS ? 0 : n);
	weir_moves_end();
}

/* ended settles what begin counted. What did not run is counted anew when it is tried again; what
 * was counted before, and trimmed as it ran, may have taken its memory anew. */
static void ended(CUgraphExec exec, const struct counting *c, CUresult r)
{
	if (c->n && r == CUDA_SUCCESS)
		weir_sizes_put(WEIR_KIND_GRAPH, (uintptr_t)exec, c->n, (void *)c->trims);
	if (c->n)
		charged_for(c->n, r);
	else if (c->trims && c->trims != __atomic_load_n(&trims, __ATOMIC_SEQ_CST))
		settle(0);
}

CUresult weir_on_graph_instantiate_params(
	enum weir_call call, CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	weir_fn_cuGraphInstantiateWithParams real =
		(weir_fn_cuGraphInstantiateWithParams)weir_real(call);
	if (!real)
		return weir_missing();
	bool uploads = params && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	uint64_t n = uploads && __atomic_load_n(&any, __ATOMIC_RELAXED) && weir_ready()
		? graph_bytes(graph, 0)
		: 0;
	if (n && !charge(n, false))
		return weir_deny();
	CUresult r = real(exec, graph, params);
	if (n)
		charged_for(n, r); /* before it is looked at what the launchable form takes */
	r = instantiated(r, exec, graph);
	if (n && r == CUDA_SUCCESS)
		weir_sizes_put(WEIR_KIND_GRAPH, (uintptr_t)*exec, n,
			(void *)__atomic_load_n(&trims, __ATOMIC_RELAXED));
	return r;
}

CUresult weir_on_graph_upload(enum weir_call call, CUgraphExec exec, CUstream stream)
{
	weir_fn_cuGraphUpload real = (weir_fn_cuGraphUpload)weir_real(call);
	struct counting c;
	if (!real)
		return weir_missing();
	if (!weir_ready())
		return real(exec, stream);
	if (!begin(exec, &c, false))
		return weir_deny();
	CUresult r = real(exec, stream);
	ended(exec, &c, r);
	weir_unmeasured();
	return r;
}

/* what becomes of a launch */
enum admitted { REFUSED, UNMETERED, ENTERED };

/* wait_begins and wait_ends are for a launch that may wait at the gate with its memory counted: for
 * so long looks at what the device holds go on, which know of it. */
static void wait_begins(struct counting *c)
{
	if (!c->n)
		return;
	weir_add(&waiting, c->n);
	c->cancel = weir_moves_pause();
}

static void wait_ends(const struct counting *c)
{
	if (!c->n)
		return;
	weir_moves_resume(c->cancel);
	uint64_t all = weir_get(&waiting), less;
	do /* nothing of it is left in the child of a handler's fork */
		less = all > c->n ? all - c->n : 0;
	while (!__atomic_compare_exchange_n(
		&waiting, &all, less, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

/* unmetered has a launch that no gate is for be counted all the same, but for one into a capture,
 * which launches nothing. */
static enum admitted unmetered(
	struct counting *c, CUgraphExec exec, CUstream stream, int per_thread)
{
	if (weir_capturing(stream, per_thread)) {
		if (c->n)
			charged_for(c->n, CUDA_ERROR_UNKNOWN);
		*c = (struct counting){0};
		return UNMETERED;
	}
	return !weir_ready() || c->n || begin(exec, c, true) ? UNMETERED : REFUSED;
}

/* admit has a launch enter the gate with its memory counted. Who closes the gate waits for what has
 * entered, so room for the memory is waited for outside, and kept while the gate is closed. */
static enum admitted admit(
	struct weir_ticket *t, struct counting *c, CUgraphExec exec, CUstream stream, int per_thread)
{
	*c = (struct counting){0};
	if (weir_ready() && uncounted(exec, c))
		weir_look_again();
	while (weir_enter(t, (uintptr_t)exec, 0, stream, per_thread)) {
		wait_ends(c);
		if (c->n || begin(exec, c, true))
			return ENTERED;
		weir_leave(t, CUDA_ERROR_OUT_OF_MEMORY);
		if (!begin(exec, c, false))
			return REFUSED;
		wait_begins(c);
	}
	wait_ends(c);
	return unmetered(c, exec, stream, per_thread);
}

CUresult weir_on_graph_launch(enum weir_call call, CUgraphExec exec, CUstream hStream)
{
	weir_fn_cuGraphLaunch real = (weir_fn_cuGraphLaunch)weir_real(call);
	struct weir_ticket t;
	struct counting c;
	if (!real)
		return weir_missing();
	int per_thread = call == WEIR_cuGraphLaunch_ptsz;
	enum admitted how = admit(&t, &c, exec, hStream, per_thread);
	if (how == REFUSED)
		return weir_deny();
	if (how == ENTERED)
		weir_launches(&t);
	CUresult r = real(exec, hStream);
	if (how == ENTERED) {
		weir_launched(&t, r);
		__atomic_fetch_add(&weir_slot()->graph_launches, 1, __ATOMIC_RELAXED);
	}
	ended(exec, &c, r);
	return r;
}

CUresult weir_on_graph_exec_destroy(enum weir_call call, CUgraphExec exec)
{
	weir_fn_cuGraphExecDestroy real = (weir_fn_cuGraphExecDestroy)weir_real(call);
	uint64_t n = 0;
	void *at = NULL;
	if (!real)
		return weir_missing();
	if (!weir_ready())
		return real(exec);
	bool had = weir_sizes_take(WEIR_KIND_GRAPH, (uintptr_t)exec, &n, &at);
	weir_function_gone((uintptr_t)exec);
	CUresult r = real(exec);
	if (had && at)
		settle(n);
	if (r == CUDA_SUCCESS)
		weir_shrunk(); /* of what its instantiation took */
	return r;
}

CUresult weir_on_graph_mem_trim(enum weir_call call, CUdevice device)
{
	weir_fn_cuDeviceGraphMemTrim real = (weir_fn_cuDeviceGraphMemTrim)weir_real(call);
	if (!real)
		return weir_missing();
	/* A graph launched meanwhile may or may not have lost its memory: it is counted as if it had.
	 * */
	__atomic_fetch_add(&trims, 1, __ATOMIC_SEQ_CST);
	weir_moves_begin();
	CUresult r = real(device);
	if (r == CUDA_SUCCESS && weir_ready()) {
		__atomic_fetch_add(&trims, 1, __ATOMIC_SEQ_CST);
		settle(0);
	}
	weir_moves_end();
	return r;
}
