// Memory in the order of streams: the default pool, one of the program's own, and their attributes.
#include "sample.h"

#include <cstdint>

static __global__ void touch(int *p) { p[threadIdx.x] = 1; }

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr a) {
	uint64_t v = 0;
	SAY(cudaMemPoolGetAttribute(pool, a, &v));
	return v;
}

int pools(const char *) {
	enum : size_t { MIB = 1 << 20 };
	cudaMemPool_t pool, own;
	cudaStream_t s;
	int *p, *q;
	MUST(cudaMalloc(&p, 4096));
	touch<<<1, 32>>>(p);
	MUST(cudaDeviceSynchronize());
	MUST(cudaFree(p));
	MUST(cudaStreamCreate(&s));
	MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
	size_t before = left();
	uint64_t keep = 64 * MIB;
	MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	for (int i = 0; i < 3; i++) {
		MUST(cudaMallocAsync(&p, 32 * MIB, s));
		MUST(cudaMallocAsync(&q, 32 * MIB, s));
		touch<<<1, 32, 0, s>>>(p);
		MUST(cudaFreeAsync(p, s));
		MUST(cudaFreeAsync(q, s));
		MUST(cudaStreamSynchronize(s));
	}
	SHOW(attribute(pool, cudaMemPoolAttrUsedMemCurrent));
	SHOW(attribute(pool, cudaMemPoolAttrReservedMemCurrent) / MIB);
	SHOW(attribute(pool, cudaMemPoolAttrUsedMemHigh) / MIB);
	MUST(cudaMemPoolTrimTo(pool, 0));
	SHOW(attribute(pool, cudaMemPoolAttrReservedMemCurrent));
	HOLDS(as_before(before));
	cudaMemPoolProps props = {};
	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	MUST(cudaMemPoolCreate(&own, &props));
	MUST(cudaMallocFromPoolAsync(&p, MIB, own, s));
	MUST(cudaMemsetAsync(p, 3, MIB, s));
	unsigned char back[4096];
	MUST(cudaMemcpyAsync(back, p, sizeof back, cudaMemcpyDeviceToHost, s));
	MUST(cudaStreamSynchronize(s));
	HOLDS(filled(back, 3, sizeof back));
	MUST(cudaFreeAsync(p, s));
	MUST(cudaStreamSynchronize(s));
	MUST(cudaMemPoolDestroy(own));
	MUST(cudaMallocAsync(&p, MIB, s));
	MUST(cudaFree(p));
	MUST(cudaStreamDestroy(s));
	MUST(cudaMemPoolTrimTo(pool, 0));
	HOLDS(as_before(before));
	return 0;
}
