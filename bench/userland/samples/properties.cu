// What a program asks about device and kernels before it works.
#include "sample.h"

static __global__ void __launch_bounds__(128) bounded(double a, char b, float *c) {
	__shared__ float tile[64];
	tile[threadIdx.x % 64] = (float)a;
	__syncthreads();
	c[threadIdx.x] = tile[b];
}

template <typename T> static __global__ void dynamic(T *p) {
	extern __shared__ char raw[];
	p[threadIdx.x] = (T)raw[threadIdx.x];
}

int properties(const char *) {
	int n = 0, v = 0;
	cudaDeviceProp p;
	MUST(cudaDriverGetVersion(&v));
	SHOW(v / 1000);
	MUST(cudaRuntimeGetVersion(&v));
	SHOW(v);
	MUST(cudaGetDeviceCount(&n));
	SHOW(n);
	MUST(cudaGetDeviceProperties(&p, 0));
	std::printf("%s, compute capability %d.%d\n", p.name, p.major, p.minor);
	std::printf("memory total %zu\n", p.totalGlobalMem);
	SHOW(p.multiProcessorCount);
	SHOW(p.sharedMemPerBlockOptin);
	SHOW(p.memoryPoolsSupported);
	SHOW(p.cooperativeLaunch);
	SHOW(p.managedMemory);
	char bus[32];
	MUST(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
	MUST(cudaDeviceGetByPCIBusId(&n, bus));
	SHOW(n);
	int least, greatest;
	MUST(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	SHOW(least - greatest);
	cudaFuncAttributes f;
	MUST(cudaFuncGetAttributes(&f, bounded));
	SHOW(f.maxThreadsPerBlock);
	SHOW(f.sharedSizeBytes);
	HOLDS(f.numRegs > 0);
	SHOW(f.binaryVersion);
	MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, bounded, 128, 0));
	SHOW(n);
	int grid, block;
	MUST(cudaOccupancyMaxPotentialBlockSize(&grid, &block, dynamic<int>, 1 << 14, 0));
	SHOW(grid);
	SHOW(block);
	const int large = 1 << 16;
	int *out;
	MUST(cudaMalloc(&out, 4096));
	dynamic<<<1, 32, large>>>(out);
	SAY(cudaGetLastError());
	MUST(cudaFuncSetAttribute(
		dynamic<int>, cudaFuncAttributeMaxDynamicSharedMemorySize, large));
	dynamic<<<1, 32, large>>>(out);
	SAY(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	MUST(cudaFree(out));
	SAY(cudaSetDevice(99));
	SAY(cudaGetLastError());
	return 0;
}
