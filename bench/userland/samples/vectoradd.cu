// A kernel between copies, a variable of the device, and a second context in a thread.
#include "sample.h"

#include <thread>
#include <vector>

__device__ int counter[100] = {7, 8, 9};
__constant__ float factors[32];

static __global__ void add(const float *a, const float *b, float *c, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) {
		c[i] = a[i] * factors[i % 32] + b[i];
		atomicAdd(&counter[i % 100], 1);
	}
}

static int symbols() {
	int first[3] = {}, put[2] = {41, 42};
	float f[32] = {}, g[32] = {};
	for (int i = 0; i < 32; i++)
		f[i] = (float)i;
	size_t bytes = 0;
	void *address = nullptr;
	MUST(cudaGetSymbolSize(&bytes, counter));
	SHOW(bytes);
	MUST(cudaGetSymbolAddress(&address, counter));
	HOLDS(address != nullptr);
	MUST(cudaMemcpyFromSymbol(first, counter, sizeof first));
	SHOW(first[0] + 10 * first[1] + 100 * first[2]);
	MUST(cudaMemcpyToSymbol(counter, put, sizeof put, 2 * sizeof(int)));
	MUST(cudaMemcpyFromSymbol(first, counter, sizeof first, sizeof(int)));
	SHOW(first[0] + 100 * first[1] + 10000 * first[2]);
	MUST(cudaMemcpyToSymbol(factors, f, sizeof f));
	MUST(cudaMemcpyFromSymbol(g, factors, sizeof g));
	HOLDS(!std::memcmp(f, g, sizeof f));
	return 0;
}

int vectoradd(const char *) {
	const int n = 1 << 16;
	std::vector<float> h(n, 3), back(n);
	float *a, *b, *c;
	MUST(cudaMalloc(&a, n * sizeof *a));
	MUST(cudaMalloc(&b, n * sizeof *b));
	MUST(cudaMalloc(&c, n * sizeof *c));
	MUST(cudaMemcpy(a, h.data(), n * sizeof *a, cudaMemcpyHostToDevice));
	MUST(cudaMemcpy(b, a, n * sizeof *a, cudaMemcpyDeviceToDevice));
	add<<<n / 256, 256>>>(a, b, c, n);
	MUST(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpy(back.data(), b, n * sizeof *b, cudaMemcpyDeviceToHost));
	HOLDS(back == h);
	add<<<1, 2048>>>(a, b, c, n);
	SAY(cudaGetLastError());
	if (symbols())
		return 1;
	cudaError_t there = cudaErrorUnknown;
	std::thread([&] { there = cudaMemset(c, 0, n); }).join();
	SAY(there);
	MUST(cudaFree(b));
	MUST(cudaFree(c));
	MUST(cudaFree(a));
	MUST(cudaDeviceReset());
	MUST(cudaMalloc(&a, 1));
	return 0;
}
