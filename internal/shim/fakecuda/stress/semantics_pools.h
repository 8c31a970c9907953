// A part of semantics.c, which has the names that it uses.

// A pool has what is freed on a stream that waits, whatever else is asked of it, and goes when the
// last of its frees on any stream comes.
static void pool_left(void) {
	CUstream waits = stream(CU_STREAM_NON_BLOCKING, 0), other = stream(CU_STREAM_NON_BLOCKING, 0);
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	CUdeviceptr at, word;
	volatile uint32_t *host;
	uint64_t reserved;
	CHECK(CU(cuMemHostAlloc)((void **)&host, 4, 0));
	CHECK(CU(cuMemHostGetDevicePointer_v2)(&word, (void *)host, 0));
	*host = 0;
	CHECK(CU(cuMemPoolCreate)(&pool, &props));
	CHECK(CU(cuMemAllocFromPoolAsync)(&at, 4 << 20, pool, waits));
	CHECK(CU(cuStreamWaitValue32_v2)(waits, word, 1, 0));
	CHECK(CU(cuMemFreeAsync)(at, waits));
	GIVES(CU(cuMemAllocFromPoolAsync)(&at, (size_t)1 << 45, pool, other), CUDA_ERROR_OUT_OF_MEMORY);
	GIVES(CU(cuMemAllocFromPoolAsync)(&at, (size_t)1 << 45, pool, waits), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(CU(cuMemPoolTrimTo)(pool, 0));
	CHECK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	HOLD(reserved == 4 << 20);
	CHECK(CU(cuMemAllocFromPoolAsync)(&at, 4 << 20, pool, waits));
	CHECK(CU(cuMemFreeAsync)(at, other));
	CHECK(CU(cuStreamSynchronize)(other));
	CHECK(CU(cuMemPoolDestroy)(pool));
	CHECK(CU(cuMemAlloc_v2)(&at, 64));
	*host = 1;
	CHECK(CU(cuStreamSynchronize)(waits));
	CHECK(CU(cuMemFree_v2)(at));
	CHECK(CU(cuMemFreeHost)((void *)host));
}
