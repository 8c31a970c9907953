// Kernels that print. What they print is their own work: it is there on a device that computes.
#include "sample.h"

static __global__ void hello(int n) { printf("thread %d of %d\n", (int)threadIdx.x, n); }

int print(const char *) {
	size_t bytes = 0;
	MUST(cudaDeviceGetLimit(&bytes, cudaLimitPrintfFifoSize));
	HOLDS(bytes > 0);
	MUST(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 4 << 20));
	MUST(cudaDeviceGetLimit(&bytes, cudaLimitPrintfFifoSize));
	HOLDS(bytes >= 4 << 20);
	hello<<<1, 4>>>(4);
	MUST(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
	hello<<<1, 4>>>(4);
	MUST(cudaDeviceSynchronize());
	return 0;
}
