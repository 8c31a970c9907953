// Threads, each on its own default stream: this file is compiled with --default-stream per-thread.
#include "sample.h"

#include <thread>
#include <vector>

static __global__ void touch(int *p) { p[threadIdx.x] = 1; }

static cudaError_t one(int i) {
	enum { BYTES = 4096 };
	unsigned char back[BYTES];
	int *p;
	cudaError_t r = cudaMalloc(&p, BYTES);
	for (int round = 0; !r && round < 20; round++) {
		touch<<<1, 32>>>(p);
		r = cudaMemsetAsync(p, i, BYTES, cudaStreamPerThread);
		if (!r)
			r = cudaMemcpyAsync(back, p, BYTES, cudaMemcpyDeviceToHost);
		if (!r)
			r = cudaStreamSynchronize(0);
		if (!r && !filled(back, (unsigned char)i, BYTES))
			r = cudaErrorUnknown;
	}
	cudaError_t freed = cudaFree(p);
	return r ? r : freed;
}

int perthread(const char *) {
	enum { N = 8 };
	cudaError_t r[N];
	std::vector<std::thread> all;
	for (int i = 0; i < N; i++)
		all.emplace_back([&r, i] { r[i] = one(i + 1); });
	for (auto &t : all)
		t.join();
	for (int i = 0; i < N; i++)
		SAY(r[i]);
	MUST(cudaDeviceSynchronize());
	return 0;
}
