// How many blocks of a kernel fit on a multiprocessor, as cuda_occupancy.h of NVIDIA's toolkit
// computes it for compute capability 9.0.
#include "internal.h"

enum {
	THREADS = 2048, // of a multiprocessor
	BLOCKS = 32,
	REGISTERS = 65536,
	WARP = 32,
	SHARED = 233472,
	RESERVED = 1024, // shared memory of each block
	SHARED_OF_BLOCK = 232448,
	CLUSTER = 8, // blocks of a cluster, unless the kernel allows more
	LARGE_CLUSTER = 16,
};

static int least(int a, int b) { return a < b ? a : b; }

static int fit(CUfunction f, int block, size_t shared) {
	int warps = (block + WARP - 1) / WARP;
	int registers = (f->attributes[4] * WARP + 255) / 256 * 256; // of a warp, in units of 256
	size_t bytes = ((size_t)f->attributes[1] + shared + RESERVED + 127) / 128 * 128;
	int n = least(BLOCKS, THREADS / (warps * WARP));
	if (registers)
		n = least(n, REGISTERS / registers / warps);
	return least(n, (int)(SHARED / bytes));
}

static bool fits(CUfunction f, int block, size_t shared) {
	return FK_IS(f, FK_FUNCTION) && block > 0 && shared <= SHARED_OF_BLOCK;
}

FK_API cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction f, int block, size_t shared) {
	FK_TRY(fk_usable());
	if (!blocks || !fits(f, block, shared))
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = block > f->attributes[0] ? 0 : fit(f, block, shared);
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction f, int block, size_t shared, unsigned int flags) {
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, shared);
}

FK_API cuOccupancyMaxPotentialBlockSize(
	int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t shared, int limit) {
	FK_TRY(fk_usable());
	if (!grid || !block || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	int most = limit > 0 ? least(limit, f->attributes[0]) : f->attributes[0];
	*block = *grid = 0;
	for (int size = most / WARP * WARP; size > 0; size -= WARP) {
		int n = fit(f, size, shared_of ? shared_of(size) : shared);
		if (n * size > *grid * *block)
			*block = size, *grid = n;
	}
	*grid *= (int)fk.width;
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
	size_t (*shared_of)(int), size_t shared, int limit, unsigned int flags) {
	(void)flags;
	return cuOccupancyMaxPotentialBlockSize(grid, block, f, shared_of, shared, limit);
}

FK_API cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks, int block) {
	FK_TRY(fk_usable());
	if (!bytes || !FK_IS(f, FK_FUNCTION) || blocks <= 0 || block <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	size_t each = (size_t)SHARED / (size_t)blocks / 128 * 128, taken = (size_t)f->attributes[1];
	*bytes = each > taken + RESERVED ? each - taken - RESERVED : 0;
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *c) {
	FK_TRY(fk_usable());
	if (!size || !c || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	*size = f->attributes[14] ? LARGE_CLUSTER : CLUSTER; // 14: non-portable sizes are allowed
	return CUDA_SUCCESS;
}

FK_API cuOccupancyMaxActiveClusters(int *clusters, CUfunction f, const CUlaunchConfig *c) {
	FK_TRY(fk_usable());
	if (!clusters || !c || !FK_IS(f, FK_FUNCTION))
		return CUDA_ERROR_INVALID_VALUE;
	int block = (int)(c->blockDimX * c->blockDimY * c->blockDimZ);
	if (!fits(f, block, c->sharedMemBytes))
		return CUDA_ERROR_INVALID_VALUE;
	unsigned int cluster[3];
	fk_cluster_of(f, c, cluster);
	int blocks = fit(f, block, c->sharedMemBytes) * (int)fk.width;
	*clusters = blocks / (int)(cluster[0] * cluster[1] * cluster[2]);
	return CUDA_SUCCESS;
}
