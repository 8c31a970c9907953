// Memory of graphs. An allocation node has its address when it is made and its memory from the
// first launch of an exec that has it; a free node ends the allocation, but the memory stays with
// the exec until the exec is destroyed or the device's graph memory trimmed (CUDA C++ Programming
// Guide, Graph Memory Nodes). Memory that outlives its graph stays until it is freed.
#include "graph.h"
#include "memory.h"

static void used(fk_queue *q, int64_t bytes) {
	q->graph_used += (uint64_t)bytes;
	q->graph_used_high = q->graph_used > q->graph_used_high ? q->graph_used : q->graph_used_high;
}

static void reserved(fk_queue *q, int64_t bytes) {
	q->graph_reserved += (uint64_t)bytes;
	q->graph_reserved_high =
		q->graph_reserved > q->graph_reserved_high ? q->graph_reserved : q->graph_reserved_high;
}

void fk_graphed_free(fk_allocation *a) {
	CUgraphExec x = a->exec;
	for (size_t i = 0; x && i < x->count; i++)
		if (x->steps[i].task.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
			x->steps[i].task.address == a->address)
			x->steps[i].live = false;
	used(&fk.queues[a->device], -(int64_t)a->bytes);
	if (!x) { // its exec has gone before it and left it the memory
		reserved(&fk.queues[a->device], -(int64_t)a->bytes);
		a->charged = a->bytes;
	}
	fk_drop(a);
}

void fk_graph_free(CUdeviceptr address) {
	fk_allocation *a = fk_find(address);
	if (!a || a->address != address)
		return;
	if (a->origin == FK_GRAPHED)
		fk_graphed_free(a);
	else if (a->origin == FK_POOLED)
		fk_drop(a);
}

static uint64_t wanted(const struct CUgraphExec_st *x) {
	uint64_t sum = 0;
	for (size_t i = 0; i < x->count; i++)
		if (x->steps[i].task.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			sum += x->steps[i].task.bytes;
	return sum;
}

// back takes the memory that the exec's allocation nodes need.
static CUresult back(CUgraphExec x, CUdevice d, uint64_t bytes) {
	if (x->backing >= bytes)
		return CUDA_SUCCESS;
	FK_TRY(fk_charge(d, bytes - x->backing));
	if (!x->backing) {
		x->next = fk.execs;
		fk.execs = x;
	}
	reserved(&fk.queues[d], (int64_t)(bytes - x->backing));
	x->backing = bytes, x->device = d;
	return CUDA_SUCCESS;
}

CUresult fk_graph_memory(CUgraphExec x, CUstream s) {
	CUdevice d = s->context->device;
	uint64_t bytes = wanted(x);
	for (size_t i = 0; bytes && i < x->count; i++) {
		if (!x->steps[i].live)
			continue;
		if (!(x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
			return CUDA_ERROR_INVALID_VALUE;
		fk_graph_free(x->steps[i].task.address);
	}
	return bytes ? back(x, d, bytes) : CUDA_SUCCESS;
}

CUresult fk_graph_alloc(CUgraphExec x, fk_step *step) {
	fk_allocation a = {.address = step->task.address,
		.bytes = step->task.bytes,
		.origin = FK_GRAPHED,
		.device = x->device,
		.exec = x};
	if (!fk_insert(a))
		return CUDA_ERROR_OUT_OF_MEMORY;
	step->live = true;
	used(&fk.queues[x->device], (int64_t)step->task.bytes);
	return CUDA_SUCCESS;
}

// release gives back the memory of nodes that are not live; those that are keep theirs.
static uint64_t release(CUgraphExec x) {
	uint64_t live = 0;
	for (size_t i = 0; i < x->count; i++)
		live += x->steps[i].live ? x->steps[i].task.bytes : 0;
	uint64_t back = x->backing - live;
	if (back)
		fk_refund(x->device, back);
	reserved(&fk.queues[x->device], -(int64_t)back);
	x->backing = live;
	return live;
}

static void unlist(CUgraphExec x) {
	for (CUgraphExec *p = &fk.execs; *p; p = &(*p)->next)
		if (*p == x) {
			*p = x->next;
			return;
		}
}

void fk_graph_memory_free(CUgraphExec x) {
	if (!x->backing)
		return;
	release(x);
	for (size_t i = 0; i < x->count; i++)
		if (x->steps[i].live)
			fk_find(x->steps[i].task.address)->exec = NULL;
	unlist(x);
}

FK_API cuDeviceGraphMemTrim(CUdevice d) {
	FK_TRY(fk_device_ok(d));
	fk_enter();
	for (CUgraphExec x = fk.execs, next; x; x = next) {
		next = x->next;
		if (x->device == d && !release(x))
			unlist(x);
	}
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attribute, void *value) {
	FK_TRY(fk_device_ok(d));
	if (!value || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_queue *q = &fk.queues[d];
	*(uint64_t *)value = (const uint64_t[]){
		q->graph_used, q->graph_used_high, q->graph_reserved, q->graph_reserved_high}[attribute];
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuDeviceSetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attribute, void *value) {
	FK_TRY(fk_device_ok(d));
	if (!value || *(uint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_queue *q = &fk.queues[d];
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		q->graph_used_high = q->graph_used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		q->graph_reserved_high = q->graph_reserved;
	else
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	return fk_leave(CUDA_SUCCESS);
}
