// ordered frees memory in the order of a stream that waits for a word of the host, and allocates as
// much again: on the same stream, on another one, or with cuMemAlloc. Then it writes the word and
// allocates once more.
//
// usage: ordered pool|linear|shared|idle MIB
// The last line is JSON: what the allocations gave, of a pool on another stream and on the same
// one, or by cuMemAlloc, of a quarter that was freed on a stream which gets on, and after the word
// was written; and how many ms the longest call took. With shared it is what two streams free of
// small allocations in turn, of which one gets on. With idle it frees when a line comes,
// allocates nothing anew, and stays until its input ends.
#include "../example/load.h"

#include <string.h>
#include <time.h>

static CUstream waits, other;
static uint32_t *word;
static double longest;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// timed gives a call's result, and notes how long it took.
#define timed(call) \
	({ \
		double began = now(); \
		CUresult result = (call); \
		double took = now() - began; \
		longest = took > longest ? took : longest; \
		result; \
	})

static void block(void) {
	CUdeviceptr at;
	CHECK(CU(cuMemHostGetDevicePointer_v2)(&at, word, 0));
	CHECK(CU(cuStreamWaitValue32_v2)(waits, at, 1, 0));
}

static void unblock(void) { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }

static void pool(size_t bytes) {
	CUdeviceptr at;
	CHECK(CU(cuMemAllocAsync)(&at, bytes, waits));
	block();
	CHECK(timed(CU(cuMemFreeAsync)(at, waits)));
	CUresult elsewhere = timed(CU(cuMemAllocAsync)(&at, bytes, other));
	CUresult here = timed(CU(cuMemAllocAsync)(&at, bytes, waits));
	if (here == CUDA_SUCCESS)
		CHECK(timed(CU(cuMemFreeAsync)(at, waits)));
	unblock();
	CUresult after = timed(CU(cuMemAllocAsync)(&at, bytes, other));
	printf("{\"elsewhere\":%d,\"here\":%d,\"after\":%d,", elsewhere, here, after);
	if (after == CUDA_SUCCESS)
		CHECK(CU(cuMemFreeAsync)(at, other));
}

static void linear(size_t bytes) {
	CUdeviceptr at, small;
	CHECK(CU(cuMemAlloc_v2)(&at, bytes));
	block();
	CHECK(timed(CU(cuMemFreeAsync)(at, waits)));
	CUresult elsewhere = timed(CU(cuMemAlloc_v2)(&at, bytes));
	CHECK(CU(cuMemAlloc_v2)(&small, bytes / 4));
	CHECK(timed(CU(cuMemFreeAsync)(small, other)));
	CUresult quarter = timed(CU(cuMemAlloc_v2)(&small, bytes / 4));
	if (quarter == CUDA_SUCCESS)
		CHECK(timed(CU(cuMemFreeAsync)(small, other)));
	unblock();
	CUresult after = timed(CU(cuMemAlloc_v2)(&at, bytes));
	printf("{\"elsewhere\":%d,\"quarter\":%d,\"after\":%d,", elsewhere, quarter, after);
	if (after == CUDA_SUCCESS)
		CHECK(CU(cuMemFreeAsync)(at, other));
}

static void shared(size_t bytes) {
	enum { SMALL = 1 << 20, MOST = 128 };
	CUdeviceptr at, small[MOST];
	size_t n = bytes / SMALL < MOST ? bytes / SMALL : MOST;
	for (size_t i = 0; i < n; i++)
		CHECK(CU(cuMemAlloc_v2)(small + i, SMALL));
	block();
	for (size_t i = 0; i < n; i++)
		CHECK(timed(CU(cuMemFreeAsync)(small[i], i % 2 ? other : waits)));
	CHECK(CU(cuStreamSynchronize)(other));
	CUresult elsewhere = timed(CU(cuMemAlloc_v2)(&at, bytes));
	unblock();
	CUresult after = timed(CU(cuMemAlloc_v2)(&at, bytes));
	printf("{\"elsewhere\":%d,\"after\":%d,", elsewhere, after);
	if (after == CUDA_SUCCESS)
		CHECK(CU(cuMemFreeAsync)(at, other));
}

static void idle(size_t bytes) {
	CUdeviceptr at;
	CHECK(CU(cuMemAlloc_v2)(&at, bytes));
	getchar();
	block();
	CHECK(timed(CU(cuMemFreeAsync)(at, waits)));
	unblock();
	while (getchar() != EOF)
		;
	printf("{");
}

int main(int argc, char **argv) {
	size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 4) << 20;
	CUcontext context;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuStreamCreate)(&waits, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuMemHostAlloc)((void **)&word, 4, 0));
	memset(word, 0, 4);
	if (argc > 1 && !strcmp(argv[1], "linear"))
		linear(bytes);
	else if (argc > 1 && !strcmp(argv[1], "shared"))
		shared(bytes);
	else if (argc > 1 && !strcmp(argv[1], "idle"))
		idle(bytes);
	else
		pool(bytes);
	CHECK(CU(cuCtxSynchronize)());
	printf("\"ms\":%.1f}\n", longest);
	return 0;
}
