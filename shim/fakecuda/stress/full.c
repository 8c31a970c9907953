// full fills the device's queue behind a wait for a word, so that whoever puts one thing more into
// it waits, as the library's watcher soon does with an event. Then it does what no full queue keeps
// a program from: it captures a stream, and destroys one that is idle. At last it writes the word.
//
// usage: full
// The last line is JSON: ms, which all that took until the word was written.
#include "../example/load.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { QUEUE = 1024, SPARE = 24 };

static CUcontext context;
static CUstream filled;
static CUevent event;

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *fill(void *count) {
	CHECK(CU(cuCtxSetCurrent)(context));
	for (int i = 0; i < *(int *)count; i++)
		CHECK(CU(cuEventRecord)(event, filled));
	return NULL;
}

int main(void) {
	int most = QUEUE - SPARE, rest = 2 * SPARE;
	CUmodule module;
	CUfunction kernel;
	CUstream waits, idle, captured;
	CUgraph graph;
	CUdeviceptr address;
	pthread_t thread;
	void *word;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=20\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "busy"));
	CUstream *all[] = {&filled, &waits, &idle, &captured};
	for (int i = 0; i < 4; i++)
		CHECK(CU(cuStreamCreate)(all[i], CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuMemHostAlloc)(&word, 4, 0));
	CHECK(CU(cuMemHostGetDevicePointer_v2)(&address, word, 0));
	memset(word, 0, 4);
	for (int i = 0; i < 8; i++) { // so that it is known how long it takes
		CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, i % 2 ? idle : waits, NULL, NULL));
		CHECK(CU(cuCtxSynchronize)());
	}
	CHECK(CU(cuStreamWaitValue32_v2)(waits, address, 1, 0));
	fill(&most);
	CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, waits, NULL, NULL));
	if (pthread_create(&thread, NULL, fill, &rest))
		return 1;
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); // the watcher comes
	double from = now_ms();
	CHECK(CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(CU(cuStreamEndCapture)(captured, &graph));
	CHECK(CU(cuGraphDestroy)(graph));
	CHECK(CU(cuStreamDestroy_v2)(idle));
	double took = now_ms() - from;
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	CHECK(CU(cuCtxSynchronize)());
	printf("{\"ms\":%.3f}\n", took);
	return 0;
}
