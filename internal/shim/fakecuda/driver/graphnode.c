// Nodes of graphs: adding, reading and changing them, and the edges between them.
#include "graph.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

// kernel_task reads a kernel node's parameters, of which those before CUDA 12 are a prefix.
static CUresult kernel_task(const CUDA_KERNEL_NODE_PARAMS_v1 *p, CUkernel kernel, fk_task *t) {
	CUfunction f = p && p->func ? p->func : kernel;
	if (!p || !FK_IS(f, FK_FUNCTION))
		return p ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	*t = (fk_task){.type = CU_GRAPH_NODE_TYPE_KERNEL,
		.least_ns = f->least_ns,
		.most_ns = f->most_ns,
		.function = f,
		.shape = {p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ,
			p->sharedMemBytes}};
	return fk_arguments(f, p->kernelParams, p->extra, t);
}

static CUresult copy_task(const CUDA_MEMCPY3D *p, fk_task *t) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	return fk_copying_3d(p, c->device, t);
}

static CUresult set_task(const CUDA_MEMSET_NODE_PARAMS *p, fk_task *t) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	*t = fk_setting(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, c->device);
	return CUDA_SUCCESS;
}

static CUresult host_task(const CUDA_HOST_NODE_PARAMS *p, fk_task *t) {
	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*t = (fk_task){.type = CU_GRAPH_NODE_TYPE_HOST, .call = p->fn, .data = p->userData};
	return CUDA_SUCCESS;
}

static CUresult event_task(CUgraphNodeType type, CUevent e, fk_task *t) {
	*t = (fk_task){.type = type, .event = e};
	return FK_IS(e, FK_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult alloc_task(CUDA_MEM_ALLOC_NODE_PARAMS *p, fk_task *t) {
	if (!p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	p->dptr = fk_place(p->bytesize, 512);
	fk_leave(0);
	*t = (fk_task){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .address = p->dptr, .bytes = p->bytesize};
	return p->dptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// add appends a task whose parameters were read with the result given.
static CUresult add(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t count,
	CUresult read, const fk_task *t) {
	FK_TRY(fk_usable());
	FK_TRY(read);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	return fk_leave(fk_add(g, from, count, t, out));
}

FK_API cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_KERNEL_NODE_PARAMS *p) {
	fk_task t;
	return add(out, g, from, n, kernel_task((const void *)p, p ? p->kern : NULL, &t), &t);
}

FK_API cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
	fk_task t;
	return add(out, g, from, n, kernel_task(p, NULL, &t), &t);
}

FK_API cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_MEMCPY3D *p, CUcontext c) {
	fk_task t;
	return add(
		out, g, from, n, FK_IS(c, FK_CONTEXT) ? copy_task(p, &t) : CUDA_ERROR_INVALID_CONTEXT, &t);
}

FK_API cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c) {
	fk_task t;
	return add(
		out, g, from, n, FK_IS(c, FK_CONTEXT) ? set_task(p, &t) : CUDA_ERROR_INVALID_CONTEXT, &t);
}

FK_API cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n,
	const CUDA_HOST_NODE_PARAMS *p) {
	fk_task t;
	return add(out, g, from, n, host_task(p, &t), &t);
}

FK_API cuGraphAddChildGraphNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUgraph child) {
	fk_task t = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .child = child};
	return add(
		out, g, from, n, FK_IS(child, FK_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &t);
}

FK_API cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n) {
	return add(out, g, from, n, CUDA_SUCCESS, &(fk_task){.type = CU_GRAPH_NODE_TYPE_EMPTY});
}

FK_API cuGraphAddEventRecordNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUevent e) {
	fk_task t;
	return add(out, g, from, n, event_task(CU_GRAPH_NODE_TYPE_EVENT_RECORD, e, &t), &t);
}

FK_API cuGraphAddEventWaitNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUevent e) {
	fk_task t;
	return add(out, g, from, n, event_task(CU_GRAPH_NODE_TYPE_WAIT_EVENT, e, &t), &t);
}

FK_API cuGraphAddMemAllocNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p) {
	fk_task t;
	return add(out, g, from, n, alloc_task(p, &t), &t);
}

FK_API cuGraphAddMemFreeNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUdeviceptr address) {
	return add(out, g, from, n, CUDA_SUCCESS,
		&(fk_task){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = address});
}

static CUresult any_task(CUgraphNodeParams *p, fk_task *t) {
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return kernel_task((const void *)&p->kernel, p->kernel.kern, t);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_task(&p->memcpy.copyParams, t);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return set_task(&p->memset, t);
	case CU_GRAPH_NODE_TYPE_HOST:
		return host_task(&p->host, t);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		*t = (fk_task){.type = p->type, .child = p->graph.graph};
		return FK_IS(t->child, FK_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*t = (fk_task){.type = p->type};
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event_task(p->type, p->eventWait.event, t);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return alloc_task(&p->alloc, t);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		*t = (fk_task){.type = p->type, .address = p->free.dptr};
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

FK_API cuGraphAddNode(
	CUgraphNode *out, CUgraph g, const CUgraphNode *from, size_t n, CUgraphNodeParams *p) {
	fk_task t;
	return add(out, g, from, n, any_task(p, &t), &t);
}

FK_API cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *from,
	const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p) {
	(void)edges;
	return cuGraphAddNode(out, g, from, n, p);
}

// change replaces a node's task by one of the same type, in its graph or in an exec made from it.
static CUresult change(CUgraphExec x, CUgraphNode n, CUresult read, const fk_task *t) {
	FK_TRY(fk_usable());
	FK_TRY(read);
	if (!n || n->task.type != t->type || (x && !FK_IS(x, FK_EXEC)))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_task *to = x ? NULL : &n->task;
	for (size_t i = 0; x && i < x->count; i++)
		if (x->steps[i].origin == n)
			to = &x->steps[i].task;
	if (to)
		*to = *t;
	return fk_leave(to ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p) {
	fk_task t;
	return change(NULL, n, kernel_task((const void *)p, p ? p->kern : NULL, &t), &t);
}

FK_API cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
	fk_task t;
	return change(NULL, n, kernel_task(p, NULL, &t), &t);
}

FK_API cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p) {
	fk_task t;
	return x ? change(x, n, kernel_task((const void *)p, p ? p->kern : NULL, &t), &t)
			 : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphExecKernelNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
	fk_task t;
	return x ? change(x, n, kernel_task(p, NULL, &t), &t) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphExecMemcpyNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext c) {
	fk_task t;
	return x && FK_IS(c, FK_CONTEXT) ? change(x, n, copy_task(p, &t), &t)
									 : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphExecMemsetNodeSetParams(
	CUgraphExec x, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c) {
	fk_task t;
	return x && FK_IS(c, FK_CONTEXT) ? change(x, n, set_task(p, &t), &t) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphExecHostNodeSetParams(CUgraphExec x, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p) {
	fk_task t;
	return x ? change(x, n, host_task(p, &t), &t) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams *p) {
	fk_task t;
	return change(NULL, n, any_task(p, &t), &t);
}

FK_API cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode n, CUgraphNodeParams *p) {
	fk_task t;
	return x ? change(x, n, any_task(p, &t), &t) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuGraphKernelNodeGetParams_v2(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p) {
	FK_TRY(fk_usable());
	if (!n || !p || n->task.type != CU_GRAPH_NODE_TYPE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	const unsigned int *s = n->task.shape;
	CUfunction f = n->task.function;
	for (int i = 0; i < 4; i++)
		n->parameters[i] = f->argument == i ? (void *)&n->task.argument : &n->task.arguments[i];
	*p = (CUDA_KERNEL_NODE_PARAMS){.func = n->task.function,
		.gridDimX = s[0],
		.gridDimY = s[1],
		.gridDimZ = s[2],
		.blockDimX = s[3],
		.blockDimY = s[4],
		.blockDimZ = s[5],
		.sharedMemBytes = s[6],
		.kernelParams = n->parameters,
		.kern = n->task.function};
	return CUDA_SUCCESS;
}

FK_API cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1 *p) {
	CUDA_KERNEL_NODE_PARAMS all;
	FK_TRY(p ? cuGraphKernelNodeGetParams_v2(n, &all) : CUDA_ERROR_INVALID_VALUE);
	memcpy(p, &all, sizeof *p);
	return CUDA_SUCCESS;
}

FK_API cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *p) {
	FK_TRY(fk_usable());
	if (!n || !p || n->task.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	*p = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
										  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = n->task.bytes,
		.dptr = n->task.address};
	return CUDA_SUCCESS;
}

FK_API cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *address) {
	FK_TRY(fk_usable());
	if (!n || !address || n->task.type != CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	*address = n->task.address;
	return CUDA_SUCCESS;
}

FK_API cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *g) {
	FK_TRY(fk_usable());
	if (!n || !g || !n->child)
		return CUDA_ERROR_INVALID_VALUE;
	*g = n->child;
	return CUDA_SUCCESS;
}

FK_API cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *type) {
	FK_TRY(fk_usable());
	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = n->task.type;
	return CUDA_SUCCESS;
}

static fk_step *step_of(CUgraphExec x, CUgraphNode n) {
	for (size_t i = 0; FK_IS(x, FK_EXEC) && i < x->count; i++)
		if (x->steps[i].origin == n)
			return &x->steps[i];
	return NULL;
}

FK_API cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode n, unsigned int enabled) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_step *s = step_of(x, n);
	if (s)
		s->enabled = enabled != 0;
	return fk_leave(s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode n, unsigned int *enabled) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_step *s = step_of(x, n);
	if (s && enabled)
		*enabled = s->enabled;
	return fk_leave(s && enabled ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

// fill answers the calls that either count nodes or store at most *room of them.
static void fill(CUgraphNode *out, size_t room, size_t at, CUgraphNode n) {
	if (out && at < room)
		out[at] = n;
}

static CUresult listed(CUgraph g, CUgraphNode *out, size_t *count, bool roots) {
	FK_TRY(fk_usable());
	if (!FK_IS(g, FK_GRAPH) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	size_t found = 0, room = *count;
	fk_enter();
	for (size_t i = 0; i < g->count; i++)
		if (!roots || !g->nodes[i]->froms)
			fill(out, room, found++, g->nodes[i]);
	*count = found;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
	return listed(g, nodes, count, false);
}
FK_API cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
	return listed(g, nodes, count, true);
}

FK_API cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count) {
	FK_TRY(fk_usable());
	if (!FK_IS(g, FK_GRAPH) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	size_t found = 0, room = *count;
	fk_enter();
	for (size_t i = 0; i < g->count; i++)
		for (size_t j = 0; j < g->nodes[i]->froms; j++, found++) {
			fill(from, room, found, g->nodes[i]->from[j]);
			fill(to, room, found, g->nodes[i]);
		}
	*count = found;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphNodeGetDependencies(CUgraphNode n, CUgraphNode *out, size_t *count) {
	FK_TRY(fk_usable());
	if (!n || !count)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	for (size_t i = 0; i < n->froms; i++)
		fill(out, *count, i, n->from[i]);
	*count = n->froms;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphNodeGetDependentNodes(CUgraphNode n, CUgraphNode *out, size_t *count) {
	FK_TRY(fk_usable());
	if (!n || !count)
		return CUDA_ERROR_INVALID_VALUE;
	size_t found = 0, room = *count;
	fk_enter();
	for (size_t i = 0; i < n->graph->count; i++)
		for (size_t j = 0; j < n->graph->nodes[i]->froms; j++)
			if (n->graph->nodes[i]->from[j] == n)
				fill(out, room, found++, n->graph->nodes[i]);
	*count = found;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphAddDependencies(
	CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
	FK_TRY(fk_usable());
	if (!FK_IS(g, FK_GRAPH) || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	for (size_t i = 0; i < count; i++)
		if (from[i]->graph != g || to[i]->graph != g || from[i] == to[i])
			return fk_leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (!fk_link(to[i], &from[i], 1))
			return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	return fk_leave(CUDA_SUCCESS);
}

static void unlink_from(CUgraphNode n, CUgraphNode from) {
	size_t kept = 0;
	for (size_t i = 0; i < n->froms; i++)
		if (n->from[i] != from)
			n->from[kept++] = n->from[i];
	n->froms = kept;
}

FK_API cuGraphRemoveDependencies(
	CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
	FK_TRY(fk_usable());
	if (!FK_IS(g, FK_GRAPH) || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	for (size_t i = 0; i < count; i++)
		unlink_from(to[i], from[i]);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGraphDestroyNode(CUgraphNode n) {
	FK_TRY(fk_usable());
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUgraph g = n->graph;
	size_t kept = 0;
	for (size_t i = 0; i < g->count; i++) {
		unlink_from(g->nodes[i], n);
		if (g->nodes[i] != n)
			g->nodes[kept++] = g->nodes[i];
	}
	g->count = kept;
	fk_free_node(n);
	return fk_leave(CUDA_SUCCESS);
}
