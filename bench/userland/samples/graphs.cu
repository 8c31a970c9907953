// A graph made node by node, whose nodes' parameters are read back and changed.
#include "sample.h"

static __global__ void add(int *p, int n) { p[threadIdx.x] += n; }

static void count(void *n) { ++*static_cast<int *>(n); }

static cudaError_t depend(cudaGraph_t g, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
	return cudaGraphAddDependencies(g, &from, &to, nullptr, 1);
#else
	return cudaGraphAddDependencies(g, &from, &to, 1);
#endif
}

static cudaMemsetParams set(void *p, unsigned value) {
	cudaMemsetParams m = {};
	m.dst = p, m.value = value, m.elementSize = 1, m.width = 4096, m.height = 1, m.pitch = 4096;
	return m;
}

int graphs(const char *) {
	cudaGraph_t g, child;
	cudaGraphNode_t fill, kernel, copy, host, inner, empty;
	cudaGraphExec_t x;
	cudaStream_t s;
	int *p, called = 0, n = 3;
	unsigned char back[4096] = {};
	MUST(cudaMalloc(&p, 1 << 16));
	MUST(cudaStreamCreate(&s));
	MUST(cudaGraphCreate(&g, 0));
	cudaMemsetParams m = set(p, 7);
	MUST(cudaGraphAddMemsetNode(&fill, g, nullptr, 0, &m));
	int *behind = p + 4096;
	void *args[] = {&behind, &n};
	cudaKernelNodeParams k = {};
	k.func = (void *)add, k.gridDim = dim3(1), k.blockDim = dim3(32), k.kernelParams = args;
	MUST(cudaGraphAddKernelNode(&kernel, g, &fill, 1, &k));
	MUST(cudaGraphAddMemcpyNode1D(&copy, g, nullptr, 0, back, p, 4096, cudaMemcpyDeviceToHost));
	MUST(depend(g, kernel, copy));
	cudaHostNodeParams h = {count, &called};
	MUST(cudaGraphAddHostNode(&host, g, &copy, 1, &h));
	MUST(cudaGraphCreate(&child, 0));
	MUST(cudaGraphAddEmptyNode(&empty, child, nullptr, 0));
	MUST(cudaGraphAddChildGraphNode(&inner, g, &host, 1, child));
	size_t nodes = 0;
	MUST(cudaGraphGetNodes(g, nullptr, &nodes));
	SHOW(nodes);
	MUST(cudaGraphGetRootNodes(g, nullptr, &nodes));
	SHOW(nodes);
	cudaGraphNodeType type;
	MUST(cudaGraphNodeGetType(kernel, &type));
	SHOW(type);
	cudaKernelNodeParams read = {};
	MUST(cudaGraphKernelNodeGetParams(kernel, &read));
	SHOW(read.blockDim.x);
	HOLDS(read.func == (void *)add);
	MUST(cudaGraphInstantiate(&x, g, 0));
	MUST(cudaGraphLaunch(x, s));
	MUST(cudaGraphLaunch(x, s));
	MUST(cudaStreamSynchronize(s));
	SHOW(called);
	HOLDS(filled(back, 7, 4096));
	m = set(p, 8);
	MUST(cudaGraphExecMemsetNodeSetParams(x, fill, &m));
	k.blockDim = dim3(64);
	MUST(cudaGraphExecKernelNodeSetParams(x, kernel, &k));
	MUST(cudaGraphLaunch(x, s));
	MUST(cudaStreamSynchronize(s));
	HOLDS(filled(back, 8, 4096));
	SHOW(called);
	MUST(cudaGraphExecDestroy(x));
	MUST(cudaGraphDestroy(child));
	MUST(cudaGraphDestroy(g));
	MUST(cudaStreamDestroy(s));
	MUST(cudaFree(p));
	return 0;
}
