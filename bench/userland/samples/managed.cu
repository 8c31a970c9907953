// Memory that host and device address alike.
#include "sample.h"

__managed__ int shared_counter = 5;

static __global__ void increase(int *p) { p[threadIdx.x] += ++shared_counter; }

static cudaError_t prefetch(void *p, size_t bytes, int device) {
#if CUDART_VERSION >= 13000
	cudaMemLocation to = {};
	to.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
	to.id = device < 0 ? 0 : device;
	return cudaMemPrefetchAsync(p, bytes, to, 0, 0);
#else
	return cudaMemPrefetchAsync(p, bytes, device, 0);
#endif
}

static cudaError_t advise(void *p, size_t bytes, cudaMemoryAdvise advice) {
#if CUDART_VERSION >= 13000
	cudaMemLocation at = {};
	at.type = cudaMemLocationTypeDevice;
	return cudaMemAdvise(p, bytes, advice, at);
#else
	return cudaMemAdvise(p, bytes, advice, 0);
#endif
}

int managed(const char *) {
	enum : size_t { BYTES = 8 << 20 };
	unsigned char *p;
	SHOW(shared_counter);
	shared_counter = 11;
	MUST(cudaDeviceSynchronize());
	SHOW(shared_counter);
	MUST(cudaMallocManaged(&p, BYTES));
	increase<<<1, 32>>>((int *)p);
	MUST(cudaDeviceSynchronize());
	MUST(cudaFree(p));
	size_t before = left();
	MUST(cudaMallocManaged(&p, BYTES));
	std::memset(p, 9, BYTES);
	MUST(advise(p, BYTES, cudaMemAdviseSetPreferredLocation));
	MUST(prefetch(p, BYTES, 0));
	increase<<<1, 32>>>((int *)p);
	MUST(cudaGetLastError());
	MUST(cudaMemset(p, 6, BYTES));
	MUST(prefetch(p, BYTES, -1));
	MUST(cudaDeviceSynchronize());
	HOLDS(filled(p, 6, BYTES));
	cudaPointerAttributes a;
	MUST(cudaPointerGetAttributes(&a, p));
	HOLDS(a.type == cudaMemoryTypeManaged);
	cudaStream_t s;
	MUST(cudaStreamCreate(&s));
	MUST(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachSingle));
	MUST(cudaStreamSynchronize(s));
	MUST(cudaStreamDestroy(s));
	MUST(cudaFree(p));
	HOLDS(as_before(before));
	return 0;
}
