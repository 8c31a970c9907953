// What a program is told of memory: sizes are those of its share.
#include "sample.h"

int memory(const char *) {
	enum : size_t { MIB = 1 << 20 };
	size_t free_bytes = 0, total = 0, again = 0;
	MUST(cudaMemGetInfo(&free_bytes, &total));
	std::printf("memory total %zu\n", total);
	std::printf("memory free %zu\n", free_bytes);
	HOLDS(free_bytes < total);
	void *p, *pitched, *host;
	MUST(cudaMalloc(&p, 512 * MIB));
	MUST(cudaMemGetInfo(&again, &total));
	SHOW((free_bytes - again) / MIB);
	size_t pitch = 0;
	MUST(cudaMallocPitch(&pitched, &pitch, 1000, 1024));
	HOLDS(pitch >= 1000 && pitch % 256 == 0);
	MUST(cudaHostAlloc(&host, 64 * MIB, cudaHostAllocMapped));
	void *seen = nullptr;
	MUST(cudaHostGetDevicePointer(&seen, host, 0));
	HOLDS(seen != nullptr);
	cudaPointerAttributes a;
	MUST(cudaPointerGetAttributes(&a, p));
	SHOW(a.type);
	MUST(cudaPointerGetAttributes(&a, host));
	SHOW(a.type);
	MUST(cudaPointerGetAttributes(&a, &a));
	SHOW(a.type);
	cudaExtent extent = make_cudaExtent(1000, 10, 10);
	cudaPitchedPtr cube;
	MUST(cudaMalloc3D(&cube, extent));
	MUST(cudaMemset3D(cube, 1, extent));
	cudaArray_t array;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	MUST(cudaMallocArray(&array, &format, 256, 256));
	MUST(cudaFreeArray(array));
	MUST(cudaFree(cube.ptr));
	MUST(cudaFreeHost(host));
	MUST(cudaFree(pitched));
	MUST(cudaFree(p));
	SAY(cudaFree(p));
	SAY(cudaGetLastError());
	MUST(cudaMemGetInfo(&again, &total));
	HOLDS(as_before(free_bytes));
	return 0;
}
