// The inside of graphs.
#ifndef WEIR_FAKE_GRAPH_H
#define WEIR_FAKE_GRAPH_H

#include "internal.h"

struct CUgraph_st {
	uint32_t kind, ids;
	CUgraphNode *nodes;
	size_t count;
};

struct CUgraphNode_st {
	CUgraph graph;
	uint32_t id, mark; // mark: of a walk over the graph
	fk_task task;
	CUgraph child; // a copy of the task's
	CUgraphNode *from;
	size_t froms;
	void *parameters[4]; // what cuGraphKernelNodeGetParams points to
};

// fk_link makes a node depend on others. fk_free_node frees one that no graph holds any longer.
bool fk_link(CUgraphNode n, const CUgraphNode *from, size_t count);
void fk_free_node(CUgraphNode n);

typedef struct {
	uint32_t node; // its identifier
	CUgraphNode origin;
	fk_task task;
	bool enabled, live; // live: an allocation that has not been freed since the last launch
} fk_step;

struct CUgraphExec_st {
	uint32_t kind;
	CUdevice device;
	uint64_t flags, seq; // seq: the last operation of the last launch
	fk_step *steps;
	size_t count;
	uint64_t backing; // bytes of device memory that its allocation nodes hold
	CUgraphExec next; // of those with backing
};

// Memory of allocation nodes (graphmem.c): taken at a launch, given back when the exec is destroyed
// or the device's graph memory is trimmed. fk_graph_alloc and fk_graph_free run one node. Called
// with fk.lock held.
CUresult fk_graph_memory(CUgraphExec x, CUstream s);
CUresult fk_graph_alloc(CUgraphExec x, fk_step *step);
void fk_graph_free(CUdeviceptr address);
void fk_graph_memory_free(CUgraphExec x);

#endif
