/*
 * Graphs with memory nodes, launched while others are launched, trimmed and destroyed exactly in
 * the driver's calls.
 */
#include "../src/weir.h"

#include "expect.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CAP 1000

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own;

/* ---- the driver: graph N has two nodes, of N bytes and of one half more, and a child with one */

static uint64_t reserved;       /* by the driver for graphs */
static bool tells = true;       /* how much that is */
static CUresult fails;          /* what the next launch gives */
static uint64_t gives;          /* what the driver reserves in the next launch or upload */
static void (*meanwhile)(void); /* done by others in it */
static void (*then)(void);      /* done by others once the driver has reserved it */
static uint64_t counted_then, calls, destroyed;

static CUresult run(void)
{
	void (*f)(void) = meanwhile, (*g)(void) = then;
	CUresult r = fails;
	meanwhile = then = NULL;
	fails = CUDA_SUCCESS;
	calls++;
	counted_then = own->mem_used_bytes;
	if (f)
		f();
	reserved += r ? 0 : gives;
	if (g)
		g();
	return r;
}

static CUresult driver_launch(CUgraphExec exec, CUstream stream)
{
	(void)exec, (void)stream;
	return run();
}

static CUresult driver_instantiate(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	*exec = (CUgraphExec)graph;
	return params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? run() : CUDA_SUCCESS;
}

static CUresult driver_destroy(CUgraphExec exec)
{
	(void)exec;
	destroyed++;
	return CUDA_SUCCESS;
}

static CUresult driver_trim(CUdevice device)
{
	void (*f)(void) = meanwhile;
	(void)device;
	meanwhile = NULL;
	if (f)
		f();
	reserved = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_device(CUdevice *d)
{
	*d = 0;
	return CUDA_SUCCESS;
}

static unsigned asked; /* how much that is */
static void (*as_asked)(void); /* done by others before it has answered */

static CUresult driver_attribute(CUdevice d, CUgraphMem_attribute what, void *value)
{
	void (*f)(void) = as_asked;
	uint64_t now = reserved;
	(void)d;
	asked++;
	as_asked = NULL;
	if (f)
		f();
	if (!tells || what != (CUgraphMem_attribute)CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)value = now;
	return CUDA_SUCCESS;
}

enum { WHOLE = 1, HALF, CHILD };

static CUresult driver_nodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	uintptr_t g = (uintptr_t)graph;
	size_t all = g & 1 ? 1 : 3;
	for (size_t i = 0; nodes && i < all; i++)
		nodes[i] = (CUgraphNode)(g << 4 | (i + WHOLE));
	*n = all;
	return CUDA_SUCCESS;
}

static CUresult driver_type(CUgraphNode node, CUgraphNodeType *type)
{
	*type = ((uintptr_t)node & 15) == CHILD ? CU_GRAPH_NODE_TYPE_GRAPH
											: CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	return CUDA_SUCCESS;
}

static CUresult driver_params(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	uintptr_t g = (uintptr_t)node >> 4;
	params->bytesize = ((uintptr_t)node & 15) == HALF ? g / 2 : g;
	return CUDA_SUCCESS;
}

static CUresult driver_child(CUgraphNode node, CUgraph *child)
{
	(void)node;
	*child = (CUgraph)(uintptr_t)1;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuGraphLaunch:
	case WEIR_cuGraphUpload:
		return (void *)driver_launch;
	case WEIR_cuGraphInstantiateWithParams:
		return (void *)driver_instantiate;
	case WEIR_cuGraphExecDestroy:
		return (void *)driver_destroy;
	case WEIR_cuDeviceGraphMemTrim:
		return (void *)driver_trim;
	case WEIR_cuCtxGetDevice:
		return (void *)driver_device;
	case WEIR_cuDeviceGetGraphMemAttribute:
		return (void *)driver_attribute;
	case WEIR_cuGraphGetNodes:
		return (void *)driver_nodes;
	case WEIR_cuGraphNodeGetType:
		return (void *)driver_type;
	case WEIR_cuGraphMemAllocNodeGetParams:
		return (void *)driver_params;
	case WEIR_cuGraphChildGraphNodeGetGraph:
		return (void *)driver_child;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

static bool fits = true;                    /* what instantiating took */
static uintptr_t forgotten; /* the graph */
static uint64_t counted_grown, shrunk, moved; /* when that is looked at, and looks for less */
static uint64_t unmeasured; /* how often something may have grown */

uint64_t weir_now(void) { return 0; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
uint64_t weir_taken(uint64_t bytes) { return bytes; }

static unsigned entered, within; /* launches in the gate, and what was waited for meanwhile */
static void (*until_room)(void); /* done by others while there is no room */

bool weir_take(uint64_t bytes)
{
	void (*f)(void) = until_room;
	if (weir_reserve(bytes))
		return true;
	within += entered;
	until_room = NULL;
	if (f)
		f();
	return f && weir_reserve(bytes);
}

static unsigned looks_again; /* for what is not measured */

void weir_look_again(void)
{
	looks_again++;
	within += entered;
}

bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
void weir_unmeasured(void) { unmeasured++; }
void weir_shrunk(void) { shrunk++; }
void weir_function_gone(uintptr_t key) { forgotten = key; }
void weir_moves_begin(void) { moved++; }
void weir_moves_end(void) { moved--; }

static int resumed_with;

int weir_moves_pause(void)
{
	moved--;
	return 5;
}

void weir_moves_resume(int before)
{
	moved++;
	resumed_with = before;
}

static bool captured; /* what is launched is */

bool weir_capturing(CUstream stream, int per_thread)
{
	(void)stream, (void)per_thread;
	return captured;
}

bool weir_grown(void)
{
	counted_grown = own->mem_used_bytes;
	return fits;
}

__thread struct weir_stream *weir_launching_on;
static bool meters = true;    /* the gate, what is launched */
static void (*at_gate)(void); /* done by others while the next launch waits there */
static uint64_t waiting_then, moved_then; /* what was counted for it, and calls under way, then */

bool weir_enter(
	struct weir_ticket *t, uintptr_t key, uint64_t size, CUstream stream, int per_thread)
{
	void (*f)(void) = at_gate;
	(void)key, (void)size, (void)stream, (void)per_thread;
	*t = (struct weir_ticket){0};
	at_gate = NULL;
	waiting_then = weir_graphs_waiting();
	moved_then = moved;
	if (f)
		f();
	entered += meters;
	return meters;
}

void weir_leave(struct weir_ticket *t, CUresult result)
{
	(void)t, (void)result;
	entered--;
}

/* ---- the program */

static CUresult instantiate(uintptr_t graph, bool uploads)
{
	CUgraphExec exec;
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {
		.flags = uploads ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0};
	return weir_on_graph_instantiate_params(
		WEIR_cuGraphInstantiateWithParams, &exec, (CUgraph)graph, &params);
}

static CUresult launch(uintptr_t graph)
{
	return weir_on_graph_launch(WEIR_cuGraphLaunch, (CUgraphExec)graph, NULL);
}

static CUresult destroy(uintptr_t graph)
{
	return weir_on_graph_exec_destroy(WEIR_cuGraphExecDestroy, (CUgraphExec)graph);
}

static uint64_t counted(void)
{
	return own->mem_used_bytes;
}

/* Of graph 100 the driver lets nodes share memory: 100 bytes for 151 counted. */
static void first_launch(void)
{
	instantiate(100, false);
	expect("instantiated", counted(), 0);
	gives = 100;
	launch(100);
	expect("during its first launch", counted_then, 151);
	expect("after it", counted(), 100);
	gives = 0;
	launch(100);
	expect("during its second launch", counted_then, 100);
	expect("after it", counted(), 100);
}

static void other_launch(void)
{
	gives = 30;
	launch(20); /* of which 31 bytes are counted */
	gives = 40;
}

/* While a graph's first launch is under way another's ends, after which the driver is asked: what
 * is counted for the former must stay. */
static void two_launches(void)
{
	instantiate(20, false);
	instantiate(40, false);
	meanwhile = other_launch;
	gives = 40;
	launch(40);
	expect("with two first launches under way", counted_then, 100 + 61 + 31);
	expect("after both", counted(), 100 + 30 + 40);
}

/* The second of two first launches of a graph takes what the first, which fails, does not. */
static void second_beside(void)
{
	expect("while a first launch is to fail", counted(), 170 + 91);
	gives = 60;
	launch(60);
	expect("during another beside it", counted_then, 170 + 91 + 91);
	expect("after that", counted(), 170 + 91 + 60);
	gives = 0;
}

static void failures(void)
{
	gives = 0;
	instantiate(60, false);
	fails = CUDA_ERROR_INVALID_VALUE;
	meanwhile = second_beside;
	expect("a first launch that fails", launch(60), CUDA_ERROR_INVALID_VALUE);
	expect("after it", counted(), 170 + 60);
	launch(60);
	expect("during the next launch, which is no first one", counted_then, 170 + 60);
	reserved -= 60;
	instantiate(90, false);
	fails = CUDA_ERROR_OUT_OF_MEMORY;
	launch(90);
	expect("after one that fails alone", counted(), 170);
	fails = CUDA_ERROR_OUT_OF_MEMORY;
	weir_on_graph_upload(WEIR_cuGraphUpload, (CUgraphExec)(uintptr_t)90, NULL);
	expect("during an upload after that", counted_then, 170 + 136);
	launch(90);
	expect("during a launch after both", counted_then, 170 + 136);
	uint64_t before = calls;
	instantiate(2000, false);
	expect("one that does not fit", launch(2000), CUDA_ERROR_OUT_OF_MEMORY);
	expect("which reaches the driver", calls, before);
	expect("after it", counted(), 170);
}

static void launch_80(void)
{
	instantiate(80, false);
	launch(80);
}

/* The driver's figure has what a launch takes before that has ended: it is not counted twice. What
 * the driver has beyond all that is counted, as for launches past the library, counts from then on.
 */
static void refresh(void)
{
	weir_graphs_refresh();
	counted_then = counted();
}

static void looks(void)
{
	instantiate(10, false);
	gives = 10;
	then = refresh;
	launch(10);
	expect("looked at once the driver has it", counted_then, 170 + 16);
	expect("after it", counted(), 180);
	reserved += 7;
	refresh();
	expect("with more than is counted", counted_then, 187);
	reserved -= 7;
	refresh();
	expect("without it", counted_then, 180);
}

static void trim(void)
{
	weir_on_graph_mem_trim(WEIR_cuDeviceGraphMemTrim, 0);
}

static pthread_t beside;

static void *launch_30(void *unused)
{
	gives = 30;
	launch(30);
	return unused;
}

/* Another thread's first launch gets as far as it can before the driver's answer, which is older,
 * has come. */
static void launch_as_asked(void)
{
	pthread_create(&beside, NULL, launch_30, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void destroy_100(void) { destroy(100); }

static void old_figures(void)
{
	static void (*const look[])(void) = {refresh, destroy_100};
	instantiate(30, false);
	instantiate(100, false);
	for (int i = 0; i < 2; i++) {
		gives = 10; /* or nobody asks */
		launch(100);
		as_asked = launch_as_asked;
		look[i]();
		pthread_join(beside, NULL);
		expect("after a launch beside a look", counted(), reserved);
		trim();
	}
	gives = 0;
	unsigned before = asked;
	refresh();
	expect("questions where nothing is kept", asked, before);
}

static void trims(void)
{
	gives = 60;
	launch(60);
	meanwhile = trim; /* the launch takes anew what it gave back */
	launch(60);
	expect("after a launch of what was trimmed meanwhile", counted(), 60);
	gives = 0;
	meanwhile = launch_80;
	weir_on_graph_mem_trim(WEIR_cuDeviceGraphMemTrim, 0);
	expect("trimmed while another was launched", counted(), 0);
	gives = 80;
	launch(80);
	expect("during the launch of that", counted_then, 121);
	weir_on_graph_mem_trim(WEIR_cuDeviceGraphMemTrim, 0);
	expect("trimmed", counted(), 0);
	gives = 100;
	launch(100);
	expect("during the next launch", counted_then, 151);
	expect("after it", counted(), 100);
}

static void uploads(void)
{
	gives = 50;
	instantiate(50, true);
	expect("while it is instantiated with its upload", counted_then, 100 + 76);
	expect("when it is looked at what that took besides", counted_grown, 150);
	expect("after it", counted(), 150);
	gives = 0;
	launch(50);
	expect("during its first launch", counted_then, 150);
	instantiate(70, false);
	gives = 70;
	uint64_t before = unmeasured;
	weir_on_graph_upload(WEIR_cuGraphUpload, (CUgraphExec)(uintptr_t)70, NULL);
	expect("while another is uploaded", counted_then, 150 + 106);
	expect("after it", counted(), 220);
	expect("is looked at before the next allocation", unmeasured, before + 1);
}

static void ends(void)
{
	uint64_t before = shrunk;
	destroy(70);
	expect("looks for less after a graph is destroyed", shrunk, before + 1);
	expect("forgets how long it took", forgotten, 70);
	expect("counted, as the driver keeps it", counted(), 220);
	tells = false;
	destroy(50);
	expect("where it does not say", counted(), 220 - 76);
	destroy(40);
	expect("without a launch since it was trimmed", counted(), 220 - 76 - 61);
	instantiate(30, false);
	destroy(30);
	expect("without any", counted(), 220 - 76 - 61);
	tells = true;
	reserved = 50; /* what outlived its graph was freed */
	weir_graphs_refresh();
	expect("counted then", counted(), 50);
	reserved = 0;
	weir_graphs_refresh();
	expect("when all is freed", counted(), 0);
	fits = false;
	before = destroyed;
	expect("one that takes too much", instantiate(10, false), CUDA_ERROR_OUT_OF_MEMORY);
	expect("is destroyed", destroyed, before + 1);
	expect("calls that move memory under way", moved, 0);
}

static void free_others(void)
{
	weir_release(CAP - 50);
}

static void free_and_trim(void)
{
	free_others();
	at_gate = trim;
}

static void free_and_launch(void)
{
	free_others();
	launch(100);
	at_gate = trim;
}

static void free_and_meter_nothing(void)
{
	free_others();
	meters = false;
}

static bool in_child;
static uint64_t waiting_in_child;

static void fork_at_gate(void)
{
	int status = -1;
	pid_t child = fork();
	if (!child) { /* of a signal's handler, whose thread goes on in it */
		weir_graphs_reset();
		in_child = true;
		return;
	}
	waitpid(child, &status, 0);
	waiting_in_child = status != 0;
}

static void free_and_fork(void)
{
	free_others();
	at_gate = fork_at_gate;
}

static void launch_100(void) { launch(100); }

/* A driver that does not say what it keeps is believed to keep what has run, and nothing that has
 * not. What runs while all is trimmed may take its memory anew. */
static void untold(void)
{
	fits = true;
	trim();
	unsigned before = asked;
	weir_graphs_refresh();
	expect("questions where nothing counts", asked, before);
	tells = false;
	instantiate(100, false);
	launch(100);
	expect("of a graph that has run", counted(), 151);
	fails = CUDA_ERROR_OUT_OF_MEMORY;
	instantiate(110, true);
	expect("while another is uploaded, which fails", counted_then, 151 + 166);
	expect("after that", counted(), 151);
	expect("known of it", weir_sizes_get(WEIR_KIND_GRAPH, 110, NULL, NULL), false);
	meanwhile = launch_100;
	tells = true;
	weir_on_graph_mem_trim(WEIR_cuDeviceGraphMemTrim, 0);
	expect("during a launch while all is trimmed", counted_then, 2 * 151);
	expect("after both", counted(), 0);
	destroy(100);
}

/* full has others hold what a launch of graph 100 needs, until they do something. */
static CUresult full(void (*then_do)(void))
{
	trim();
	weir_reserve(CAP - 50);
	until_room = then_do;
	within = 0;
	CUresult r = launch(100);
	if (in_child)
		_exit(weir_graphs_waiting() != 0);
	expect("waited for within the gate", within, 0);
	expect("launches that are still in it", entered, 0);
	return r;
}

/* No gate is for some launches, whose memory counts all the same; what is captured takes none. */
static void unmetered_launches(void)
{
	trim();
	meters = false;
	gives = 100;
	expect("unmetered", launch(100), CUDA_SUCCESS);
	expect("during that launch", counted_then, 151);
	expect("after it", counted(), 100);
	trim();
	weir_reserve(CAP - 50);
	uint64_t before = calls;
	until_room = free_others; /* who waits would have it */
	expect("without room", launch(100), CUDA_ERROR_OUT_OF_MEMORY);
	until_room = NULL;
	expect("of the driver's", calls, before);
	captured = true;
	gives = 0;
	expect("captured", launch(100), CUDA_SUCCESS);
	expect("during that launch", counted_then, CAP - 50);
	free_others();
	meters = true;
	expect("captured while it waited at the gate", full(free_and_meter_nothing), CUDA_SUCCESS);
	expect("during that launch", counted_then, 0);
	captured = false;
	meters = true;
	gives = 100;
	launch(100);
	expect("during its first launch", counted_then, 151);
	gives = 0;
	trim();
}

/* A launch that has no room for its memory waits for that outside the gate, where nobody waits for
 * it, and has it when the gate is open. */
static void at_the_cap(void)
{
	fits = tells = true;
	instantiate(100, false);
	gives = 100;
	unsigned before = looks_again;
	expect("once others have freed", full(free_others), CUDA_SUCCESS);
	expect("during that launch", counted_then, 151);
	expect("known to be there for what waits at the gate", waiting_then, 151);
	expect("calls that move memory while it does", moved_then, 0);
	expect("which go on as they began", resumed_with, 5);
	expect("known to be once it is launched", weir_graphs_waiting(), 0);
	expect("after it", counted(), 100);
	expect("looks for what is not measured", looks_again, before + 1);
	gives = 0;
	launch(100);
	expect("looks before a second launch", looks_again, before + 1);
	gives = 100;
	expect("trimmed while it waits at the gate", full(free_and_trim), CUDA_SUCCESS);
	expect("during that launch", counted_then, 151);
	expect("after it", counted(), 100);
	expect("launched and trimmed by others", full(free_and_launch), CUDA_SUCCESS);
	expect("during that launch", counted_then, 151);
	expect("after it", counted(), 100);
	expect("with a fork meanwhile", full(free_and_fork), CUDA_SUCCESS);
	expect("what the child knows to wait", waiting_in_child, 0);
	uint64_t before_calls = calls;
	expect("where nobody frees", full(NULL), CUDA_ERROR_OUT_OF_MEMORY);
	expect("of the driver's", calls, before_calls);
	expect("after it", counted(), CAP - 50);
	free_others();
	gives = 0;
	expect("where nothing is metered any more", full(free_and_meter_nothing), CUDA_SUCCESS);
	expect("during that launch", counted_then, 151);
	expect("after it", counted(), 0);
	unmetered_launches();
	expect("known to wait at the gate at the end", weir_graphs_waiting(), 0);
	expect("calls that move memory under way", moved, 0);
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = CAP;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	instantiate(100, false);
	launch(100);
	expect("where no node was seen to allocate", counted_then, 0);
	weir_graphs_captured_alloc();
	first_launch();
	two_launches();
	failures();
	looks();
	trims();
	uploads();
	ends();
	untold();
	at_the_cap();
	old_figures();
	return checked();
}
