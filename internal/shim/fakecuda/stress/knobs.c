// knobs measures what calls cost beyond what they ask for, for comparison with the profile.
//
// usage: knobs
// The last line is JSON: context, bytes of the context; one, bytes that the first allocation of 1
// byte takes, two, that the second takes; large, what 3 MiB and a byte take; first_us and
// second_us, the time of a function's first and second launch; code, bytes that the first takes;
// stack, those of stacks of 2 KiB a thread; fifo, those of a buffer of 3 MiB for printf; waited,
// whether a kernel had ended when an allocation was freed; loaded_late, whether one had when
// another function was launched first; pageable_waited, whether one had when an asynchronous copy
// behind it, to memory that is not pinned, had returned, in one row and in two; within_waited, the
// same of a synchronous copy within the device; record_us, device time of a record; put_us,
// query_us and elapsed_us, the calling thread's time of a record, a query and a difference of
// events; blocked_us, of a wait for a kernel of 1 us by a blocking event; teardown_us; left, bytes
// that are held at the end.
#include "../example/load.h"

#include <stdbool.h>
#include <time.h>

static double now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static size_t held(void) {
	size_t free, total;
	CHECK(CU(cuMemGetInfo_v2)(&free, &total));
	return total - free;
}

static size_t before;

static size_t more(void) {
	size_t was = before;
	before = held();
	return before - was;
}

static double launch(CUfunction f, unsigned us) {
	double start = now_us();
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&us}, NULL));
	return now_us() - start;
}

static CUdeviceptr allocate(size_t bytes) {
	CUdeviceptr p;
	CHECK(CU(cuMemAlloc_v2)(&p, bytes));
	return p;
}

// calls tells what calls of events take, the least of a few of each, and of waits the most: for a
// kernel that has ended before nobody waits.
static void calls(CUfunction f) {
	enum { TIMES = 5 };
	double least[3] = {1e9, 1e9, 1e9}, blocked = 0;
	CUevent a, b;
	float ms;
	CHECK(CU(cuEventCreate)(&a, 0));
	CHECK(CU(cuEventCreate)(&b, CU_EVENT_BLOCKING_SYNC));
	for (int i = 0; i < TIMES; i++) {
		CHECK(CU(cuEventRecord)(b, NULL));
		CHECK(CU(cuCtxSynchronize)());
		double at[5] = {now_us()};
		CHECK(CU(cuEventRecord)(a, NULL));
		at[1] = now_us();
		CHECK(CU(cuCtxSynchronize)());
		double from = now_us();
		CHECK(CU(cuEventQuery)(a));
		at[2] = at[1] + now_us() - from;
		from = now_us();
		CHECK(CU(cuEventElapsedTime)(&ms, b, a));
		at[3] = at[2] + now_us() - from;
		launch(f, 1);
		CHECK(CU(cuEventRecord)(b, NULL));
		from = now_us();
		CHECK(CU(cuEventSynchronize)(b));
		at[4] = at[3] + now_us() - from;
		for (int n = 0; n < 3; n++)
			least[n] = at[n + 1] - at[n] < least[n] ? at[n + 1] - at[n] : least[n];
		blocked = at[4] - at[3] > blocked ? at[4] - at[3] : blocked;
	}
	CHECK(CU(cuEventDestroy_v2)(a));
	CHECK(CU(cuEventDestroy_v2)(b));
	printf(",\"put_us\":%.1f,\"query_us\":%.1f,\"elapsed_us\":%.1f,\"blocked_us\":%.1f", least[0],
		least[1], least[2], blocked);
}

static double record_us(void) {
	CUevent a, b;
	float ms;
	CHECK(CU(cuEventCreate)(&a, 0));
	CHECK(CU(cuEventCreate)(&b, 0));
	CHECK(CU(cuEventRecord)(a, NULL));
	CHECK(CU(cuEventRecord)(b, NULL));
	CHECK(CU(cuEventSynchronize)(b));
	CHECK(CU(cuEventElapsedTime)(&ms, a, b));
	CHECK(CU(cuEventDestroy_v2)(a));
	CHECK(CU(cuEventDestroy_v2)(b));
	return (double)ms * 1000;
}

static bool loaded_late(CUfunction f, CUfunction first) {
	CUevent e;
	CHECK(CU(cuEventCreate)(&e, 0));
	launch(f, 20000);
	CHECK(CU(cuEventRecord)(e, NULL));
	launch(first, 1);
	bool over = CU(cuEventQuery)(e) == CUDA_SUCCESS;
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuEventDestroy_v2)(e));
	return over;
}

// copied tells whether the kernel before a copy of 16 bytes, in rows or in one, was over when the
// call of the copy had returned.
static bool copied(CUfunction f, bool to_host, bool rows) {
	static unsigned char host[16];
	CUdeviceptr p = allocate(32);
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = p,
		.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstHost = host,
		.dstDevice = p + 16,
		.WidthInBytes = 8,
		.Height = 2};
	CUevent e;
	CHECK(CU(cuEventCreate)(&e, 0));
	launch(f, 50000);
	CHECK(CU(cuEventRecord)(e, NULL));
	if (to_host && rows)
		CHECK(CU(cuMemcpy2DAsync_v2)(&c, NULL));
	else if (to_host)
		CHECK(CU(cuMemcpyDtoHAsync_v2)(host, p, 16, NULL));
	else if (rows)
		CHECK(CU(cuMemcpy2D_v2)(&c));
	else
		CHECK(CU(cuMemcpyDtoD_v2)(p + 16, p, 16));
	bool over = CU(cuEventQuery)(e) == CUDA_SUCCESS;
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuEventDestroy_v2)(e));
	CHECK(CU(cuMemFree_v2)(p));
	return over;
}

int main(void) {
	CUcontext c;
	CUmodule m;
	CUfunction f, other;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	printf("{\"context\":%zu", more());
	CUdeviceptr one = allocate(1);
	printf(",\"one\":%zu", more());
	CUdeviceptr two = allocate(1);
	printf(",\"two\":%zu", more());
	CUdeviceptr large = allocate((3u << 20) + 1);
	printf(",\"large\":%zu", more());
	CHECK(CU(cuModuleLoadData)(&m, "kernel busy us=arg0\nkernel other us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, m, "busy"));
	CHECK(CU(cuModuleGetFunction)(&other, m, "other"));
	printf(",\"first_us\":%.1f", launch(f, 1));
	printf(",\"second_us\":%.1f", launch(f, 1));
	printf(",\"code\":%zu", more());
	CHECK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 2048));
	printf(",\"stack\":%zu", more());
	CHECK(CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 3 << 20));
	printf(",\"fifo\":%zu", more());
	CHECK(CU(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20));
	more();
	launch(f, 100000);
	CHECK(CU(cuMemFree_v2)(one));
	printf(",\"waited\":%s", CU(cuStreamQuery)(NULL) ? "false" : "true");
	CHECK(CU(cuMemFree_v2)(two));
	CHECK(CU(cuMemFree_v2)(large));
	CHECK(CU(cuCtxSynchronize)());
	printf(",\"loaded_late\":%s", loaded_late(f, other) ? "true" : "false");
	static const char *const yes_no[] = {"false", "true"};
	printf(",\"pageable_waited\":[%s,%s]", yes_no[copied(f, true, false)],
		yes_no[copied(f, true, true)]);
	printf(",\"within_waited\":[%s,%s]", yes_no[copied(f, false, false)],
		yes_no[copied(f, false, true)]);
	printf(",\"record_us\":%.3f", record_us());
	calls(f);
	double start = now_us();
	CHECK(CU(cuCtxDestroy_v2)(c));
	printf(",\"teardown_us\":%.1f", now_us() - start);
	CHECK(CU(cuDevicePrimaryCtxRetain)(&c, 0));
	CHECK(CU(cuCtxPushCurrent_v2)(c));
	printf(",\"left\":%zu}\n", held());
	return 0;
}
