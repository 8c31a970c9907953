// Allocations until there is no more, and that the program can go on afterwards.
#include "sample.h"

#include <vector>

int outofmemory(const char *) {
	enum : size_t { PIECE = 256 << 20 };
	std::vector<void *> all;
	size_t free_bytes = 0, total = 0;
	void *p = nullptr;
	MUST(cudaMemGetInfo(&free_bytes, &total));
	cudaError_t r = cudaSuccess;
	for (int i = 0; i < 1000 && !(r = cudaMalloc(&p, PIECE)); i++)
		all.push_back(p);
	SAY(r);
	SAY(cudaGetLastError());
	SAY(cudaGetLastError());
	std::printf("memory taken %zu\n", all.size() * PIECE);
	HOLDS(all.size() == free_bytes / PIECE);
	HOLDS(left() < PIECE);
	SAY(cudaMallocManaged(&p, PIECE));
	SAY(cudaMallocAsync(&p, PIECE, 0));
	size_t freed = 0;
	for (void *q : all)
		freed += cudaFree(q) == cudaSuccess;
	HOLDS(freed == all.size());
	HOLDS(as_before(free_bytes));
	MUST(cudaMallocAsync(&p, PIECE, 0));
	MUST(cudaMemsetAsync(p, 1, 4096, 0));
	MUST(cudaFreeAsync(p, 0));
	MUST(cudaDeviceSynchronize());
	SAY(cudaMalloc(&p, total + 1));
	SAY(cudaMalloc(&p, (size_t)1 << 60));
	return 0;
}
