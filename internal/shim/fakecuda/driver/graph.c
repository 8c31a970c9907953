// Graphs. A launch runs the nodes one after the other in a topological order, so it takes the sum
// of their durations: consecutive nodes that occupy the device become one operation of the stream.
#include "internal.h"
#include "graph.h"

#include <stdlib.h>
#include <string.h>

CUgraph fk_new_graph(void) {
	CUgraph g = calloc(1, sizeof *g);
	if (g)
		g->kind = FK_GRAPH;
	return g;
}

void fk_free_node(CUgraphNode n) {
	if (n->child)
		fk_free_graph(n->child);
	free(n->from);
	free(n);
}

void fk_free_graph(CUgraph g) {
	for (size_t i = 0; i < g->count; i++)
		fk_free_node(g->nodes[i]);
	free(g->nodes);
	g->kind = 0;
	free(g);
}

static bool seek(CUgraphNode a, CUgraphNode b) {
	if (a == b)
		return true;
	a->mark = 1;
	for (size_t i = 0; i < a->froms; i++)
		if (!a->from[i]->mark && seek(a->from[i], b))
			return true;
	return false;
}

bool fk_behind(CUgraphNode a, CUgraphNode b) {
	for (size_t i = 0; i < a->graph->count; i++)
		a->graph->nodes[i]->mark = 0;
	return seek(a, b);
}

bool fk_link(CUgraphNode n, const CUgraphNode *from, size_t count) {
	CUgraphNode *all = realloc(n->from, (n->froms + count + 1) * sizeof *all);
	if (!all)
		return false;
	if (count)
		memcpy(all + n->froms, from, count * sizeof *all);
	n->from = all, n->froms += count;
	return true;
}

static CUgraph copy(CUgraph g);

CUresult fk_add(
	CUgraph g, const CUgraphNode *from, size_t count, const fk_task *task, CUgraphNode *out) {
	if (!FK_IS(g, FK_GRAPH) || (count && !from))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (from[i]->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
	CUgraphNode n = calloc(1, sizeof *n),
				*nodes = realloc(g->nodes, (g->count + 1) * sizeof *nodes);
	if (nodes)
		g->nodes = nodes;
	if (!n || !nodes || !fk_link(n, from, count)) {
		free(n);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	n->graph = g, n->task = *task, n->id = g->ids++;
	if (task->child && !(n->child = copy(task->child))) {
		fk_free_node(n);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	g->nodes[g->count++] = n;
	if (out)
		*out = n;
	return CUDA_SUCCESS;
}

static CUgraphNode by_id(CUgraph g, uint32_t id) {
	for (size_t i = 0; i < g->count; i++)
		if (g->nodes[i]->id == id)
			return g->nodes[i];
	return NULL;
}

// copy keeps the identifiers, by which a node is found in the copy.
static CUgraph copy(CUgraph g) {
	CUgraph to = fk_new_graph();
	for (size_t i = 0; to && i < g->count; i++) {
		CUgraphNode n, old = g->nodes[i];
		fk_task task = old->task;
		task.child = old->child;
		if (fk_add(to, NULL, 0, &task, &n)) {
			fk_free_graph(to);
			return NULL;
		}
		n->id = old->id;
	}
	for (size_t i = 0; to && i < g->count; i++)
		for (size_t j = 0; j < g->nodes[i]->froms; j++)
			fk_link(to->nodes[i], &(CUgraphNode){by_id(to, g->nodes[i]->from[j]->id)}, 1);
	if (to)
		to->ids = g->ids;
	return to;
}

// order appends the graph's nodes to a program, each after those it depends on; child graphs in
// place of their nodes.
static bool order(CUgraphExec x, CUgraph g);

static bool visit(CUgraphExec x, CUgraphNode n) {
	if (n->mark)
		return n->mark == 2; // 1: a cycle
	n->mark = 1;
	for (size_t i = 0; i < n->froms; i++)
		if (!visit(x, n->from[i]))
			return false;
	n->mark = 2;
	fk_step *steps = realloc(x->steps, (x->count + 1) * sizeof *steps);
	if (!steps)
		return false;
	x->steps = steps;
	x->steps[x->count++] = (fk_step){.node = n->id, .origin = n, .task = n->task, .enabled = true};
	return !n->child || order(x, n->child);
}

static bool order(CUgraphExec x, CUgraph g) {
	for (size_t i = 0; i < g->count; i++)
		g->nodes[i]->mark = 0;
	for (size_t i = 0; i < g->count; i++)
		if (!visit(x, g->nodes[i]))
			return false;
	return true;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g, uint64_t flags) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(g, FK_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphExec x = calloc(1, sizeof *x);
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	x->kind = FK_EXEC, x->flags = flags;
	fk_enter();
	if (!order(x, g)) {
		free(x->steps);
		free(x);
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	}
	*out = x;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
	return instantiate(out, g, flags);
}

FK_API cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size) {
	if (error)
		*error = NULL;
	if (log && size)
		*log = 0;
	return instantiate(out, g, 0);
}

FK_API cuGraphInstantiate_v2(
	CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t size) {
	return cuGraphInstantiate(out, g, error, log, size);
}

FK_API cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = instantiate(out, g, p->flags);
	p->hErrNode_out = NULL, p->result_out = r != CUDA_SUCCESS;
	return r;
}

FK_API cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
	return cuGraphInstantiateWithParams(out, g, p);
}

FK_API cuGraphExecDestroy(CUgraphExec x) {
	FK_TRY(fk_usable());
	if (!FK_IS(x, FK_EXEC))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	fk_graph_memory_free(x);
	x->kind = 0;
	free(x->steps);
	free(x);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphExecGetFlags(CUgraphExec x, uint64_t *flags) {
	FK_TRY(fk_usable());
	if (!FK_IS(x, FK_EXEC) || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = x->flags;
	return CUDA_SUCCESS;
}

FK_API cuGraphUpload(CUgraphExec x, CUstream s) {
	CUstream to;
	FK_TRY(fk_usable());
	if (!FK_IS(x, FK_EXEC))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	return fk_leave(fk_stream(s, &to));
}

FK_API cuGraphUpload_ptsz(CUgraphExec x, CUstream s) { return cuGraphUpload(x, fk_ptsz(s)); }

// gathered is what has come together of a launch: all work since the last operation of it.
typedef struct {
	uint64_t ns;
	fk_effect *effects;
} gathered;

static void push(CUstream s, gathered *g) {
	if (g->ns)
		fk_push(
			s, (fk_item){.kind = FK_WORK, .duration_ns = g->ns, .effect = g->effects}, NULL);
	*g = (gathered){0};
}

static CUresult run_step(CUgraphExec x, CUstream s, fk_step *step, gathered *g) {
	const fk_task *t = &step->task;
	fk_effect *effect;
	bool faults;
	switch (t->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_MEMCPY:
	case CU_GRAPH_NODE_TYPE_MEMSET:
		if (!step->enabled)
			break;
		FK_TRY(fk_task_effect(t, true, &effect, &faults));
		if (faults) {
			push(s, g);
			fk_push(s,
				(fk_item){.kind = FK_WORK, .duration_ns = fk_draw(t), .faults = true}, NULL);
			break;
		}
		fk_effect_join(&g->effects, effect);
		g->ns += fk_draw(t);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return fk_graph_alloc(x, step);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		fk_graph_free(t->address);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		push(s, g);
		fk_push(s, (fk_item){.kind = FK_HOST, .call = t->call, .data = t->data}, NULL);
		break;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		push(s, g);
		fk_push_record(s, t->event);
		break;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		push(s, g);
		fk_push(s,
			(fk_item){.kind = FK_MARK,
				.after = t->event->device == s->context->device ? t->event->seq : 0},
			NULL);
		break;
	default:
		break;
	}
	return CUDA_SUCCESS;
}

// A graph executes one launch at a time: a launch of it in another stream follows the one before
// (CUDA, graph launches).
FK_API cuGraphLaunch(CUgraphExec x, CUstream handle) {
	CUstream s;
	FK_TRY(fk_usable());
	if (!FK_IS(x, FK_EXEC))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r)
		fk_spend(FK_KNOB(&fk_queue_of(s)->device, launch_ns));
	if (!r && s->capture)
		r = fk_capture_break(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (!r)
		r = fk_capture_conflict(s);
	if (!r)
		r = fk_graph_memory(x, s);
	if (r)
		return fk_leave(r);
	bool elsewhere = x->seq && x->device == s->context->device;
	fk_push(s, (fk_item){.kind = FK_MARK, .after = elsewhere ? x->seq : 0}, NULL);
	gathered g = {0};
	x->device = s->context->device;
	for (size_t i = 0; i < x->count && !r; i++)
		r = run_step(x, s, &x->steps[i], &g);
	push(s, &g);
	x->seq = s->seq;
	return fk_leave(r);
}

FK_API cuGraphLaunch_ptsz(CUgraphExec x, CUstream s) { return cuGraphLaunch(x, fk_ptsz(s)); }

FK_API cuGraphCreate(CUgraph *out, unsigned int flags) {
	FK_TRY(fk_usable());
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return (*out = fk_new_graph()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

FK_API cuGraphDestroy(CUgraph g) {
	FK_TRY(fk_usable());
	if (!FK_IS(g, FK_GRAPH))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	fk_free_graph(g);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphClone(CUgraph *out, CUgraph g) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(g, FK_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = copy(g);
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

FK_API cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode n, CUgraph clone) {
	FK_TRY(fk_usable());
	if (!out || !n || !FK_IS(clone, FK_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = by_id(clone, n->id);
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info) {
	FK_TRY(fk_usable());
	if (!FK_IS(x, FK_EXEC) || !FK_IS(g, FK_GRAPH) || !info)
		return CUDA_ERROR_INVALID_VALUE;
	struct CUgraphExec_st fresh = {0};
	fk_enter();
	bool same = order(&fresh, g) && fresh.count == x->count;
	for (size_t i = 0; same && i < x->count; i++)
		same = fresh.steps[i].task.type == x->steps[i].task.type;
	// 2 is CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED.
	*info = (CUgraphExecUpdateResultInfo){.result = same ? 0 : 2};
	for (size_t i = 0; same && i < x->count; i++) {
		fk_step *to = &x->steps[i];
		to->task = fresh.steps[i].task, to->node = fresh.steps[i].node,
		to->origin = fresh.steps[i].origin;
	}
	free(fresh.steps);
	return fk_leave(same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
}

FK_API cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphNode *error, int *result) {
	CUgraphExecUpdateResultInfo info = {0};
	CUresult r = cuGraphExecUpdate_v2(x, g, &info);
	if (error)
		*error = info.errorNode;
	if (result)
		*result = info.result;
	return r;
}
