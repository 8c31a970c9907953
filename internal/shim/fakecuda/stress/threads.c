// threads calls the driver from many threads at once, each with its own stream or the per-thread
// default stream: allocations, launches, copies that must read back what was written, events in
// order, host functions, synchronisation.
//
// usage: threads [threads [rounds]]      defaults: 64, 50
// The last line is JSON: threads, rounds, callbacks.
#include "../example/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static CUcontext context;
static CUfunction kernel;
static atomic_int callbacks;
static int rounds;

static void called(void *count) { atomic_fetch_add((atomic_int *)count, 1); }

static void fail(const char *what, long thread) {
	fprintf(stderr, "thread %ld: %s\n", thread, what);
	exit(1);
}

static void round_of(long me, CUstream s, CUevent *events) {
	CUdeviceptr p;
	unsigned char in[256], out[256];
	float ms;
	memset(in, (int)me, sizeof in);
	CHECK(CU(cuMemAlloc_v2)(&p, 4096));
	CHECK(CU(cuEventRecord)(events[0], s));
	CHECK(CU(cuMemcpyHtoDAsync_v2)(p, in, sizeof in, s));
	CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuLaunchHostFunc)(s, called, &callbacks));
	CHECK(CU(cuMemcpyDtoHAsync_v2)(out, p, sizeof out, s));
	CHECK(CU(cuEventRecord)(events[1], s));
	CHECK(CU(cuEventSynchronize)(events[1]));
	CHECK(CU(cuEventElapsedTime)(&ms, events[0], events[1]));
	if (ms < 0.02f)
		fail("the kernel took no time", me);
	if (memcmp(in, out, sizeof in))
		fail("a copy did not come back", me);
	CHECK(CU(cuMemFree_v2)(p));
}

static void *run(void *arg) {
	long me = (long)arg;
	CUstream s = CU_STREAM_PER_THREAD;
	CUevent events[2];
	CHECK(CU(cuCtxSetCurrent)(context));
	if (me % 2)
		CHECK(CU(cuStreamCreateWithPriority)(&s, CU_STREAM_NON_BLOCKING, (int)(-me % 5)));
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuEventCreate)(&events[i], CU_EVENT_DEFAULT));
	for (int i = 0; i < rounds; i++)
		round_of(me, s, events);
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuEventDestroy_v2)(events[i]));
	if (me % 2)
		CHECK(CU(cuStreamDestroy_v2)(s));
	return NULL;
}

int main(int argc, char **argv) {
	int count = argc > 1 ? atoi(argv[1]) : 64;
	rounds = argc > 2 ? atoi(argv[2]) : 50;
	pthread_t threads[256];
	CUmodule module;
	count = count > 256 ? 256 : count;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=20\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "k"));
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (atomic_load(&callbacks) != count * rounds)
		fail("host functions are missing", -1);
	printf("{\"threads\":%d,\"rounds\":%d,\"callbacks\":%d}\n", count, rounds,
		atomic_load(&callbacks));
	return 0;
}
