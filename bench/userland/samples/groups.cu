// Launches whose blocks know of each other: cooperative ones, and clusters.
#include "sample.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

static __global__ void whole(int *p) {
	p[threadIdx.x] = 1;
	cg::this_grid().sync();
	p[threadIdx.x] += 1;
}

static __global__ void __cluster_dims__(2, 1, 1) pairs(int *p) {
	cg::this_cluster().sync();
	p[threadIdx.x] = 2;
}

static __global__ void given(int *p) {
	cg::this_cluster().sync();
	p[threadIdx.x] = 3;
}

static cudaLaunchConfig_t shape(unsigned grid, unsigned block, cudaLaunchAttribute *a, int n) {
	cudaLaunchConfig_t c = {};
	c.gridDim = dim3(grid);
	c.blockDim = dim3(block);
	c.attrs = a;
	c.numAttrs = n;
	return c;
}

int groups(const char *) {
	int *p, each = 0, most = 0, can = 0;
	MUST(cudaMalloc(&p, 4096));
	void *args[] = {&p};
	MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
	SHOW(can);
	MUST(cudaDeviceGetAttribute(&most, cudaDevAttrMultiProcessorCount, 0));
	MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, whole, 256, 0));
	MUST(cudaLaunchCooperativeKernel(whole, dim3(most * each), dim3(256), args));
	SAY(cudaLaunchCooperativeKernel(whole, dim3(most * each + 1), dim3(256), args));
	SAY(cudaGetLastError());
	cudaLaunchAttribute a = {};
	a.id = cudaLaunchAttributeCooperative;
	a.val.cooperative = 1;
	cudaLaunchConfig_t c = shape(most, 128, &a, 1);
	MUST(cudaLaunchKernelEx(&c, whole, p));
	pairs<<<4, 64>>>(p);
	SAY(cudaGetLastError());
	pairs<<<5, 64>>>(p);
	SAY(cudaGetLastError());
	a.id = cudaLaunchAttributeClusterDimension;
	a.val.clusterDim.x = 4;
	a.val.clusterDim.y = a.val.clusterDim.z = 1;
	c = shape(16, 128, &a, 1);
	MUST(cudaOccupancyMaxActiveClusters(&most, given, &c));
	HOLDS(most > 0);
	MUST(cudaOccupancyMaxPotentialClusterSize(&most, given, &c));
	SHOW(most);
	MUST(cudaLaunchKernelEx(&c, given, p));
	a.val.clusterDim.x = 64;
	c = shape(64, 128, &a, 1);
	SAY(cudaLaunchKernelEx(&c, given, p));
	SAY(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	MUST(cudaFree(p));
	return 0;
}
