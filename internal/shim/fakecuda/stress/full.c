// full fills the device's queue behind a wait for a word, so that whoever puts one thing more into
// it waits: a thread of its own, and soon the library's watcher, with an event behind a launch.
// When so many threads wait it does what no full queue keeps a program from: it captures a stream,
// and destroys one, which both have launched something before. At last it writes the word. If an
// event of the watcher's had a place in the queue, it begins anew.
//
// usage: full threads
// Says "done".
#include "../example/load.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { QUEUE = 1024, SPARE = 24, TEACH = 8, LOOKS = 500 };

static CUcontext context;
static CUstream filled, waits, captured;
static CUevent event;
static CUfunction kernel;
static CUdeviceptr address;
static uint32_t *word;

static void *fill(void *count) {
	CHECK(CU(cuCtxSetCurrent)(context));
	for (int i = 0; i < *(int *)count; i++)
		CHECK(CU(cuEventRecord)(event, filled));
	return NULL;
}

static void launch(CUstream s) {
	CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
}

static int come(uint32_t threads) {
	uint32_t there = 0;
	for (int i = 0; i < LOOKS && there < threads; i++) {
		CHECK(CU(cuWeirFakeRooms)(&there));
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return there >= threads;
}

// filled_up does all that; false: not so many threads came to wait.
static int filled_up(uint32_t threads) {
	int most = QUEUE - SPARE, rest = 2 * SPARE;
	CUstream idle;
	CUgraph graph;
	pthread_t thread;
	CHECK(CU(cuStreamCreate)(&idle, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamWaitValue32_v2)(waits, address, 1, 0));
	fill(&most);
	launch(waits);
	launch(idle);
	launch(captured);
	if (pthread_create(&thread, NULL, fill, &rest))
		exit(1);
	int all = come(1) && come(threads);
	CHECK(CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(CU(cuStreamEndCapture)(captured, &graph));
	CHECK(CU(cuGraphDestroy)(graph));
	CHECK(CU(cuStreamDestroy_v2)(idle));
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	CHECK(CU(cuCtxSynchronize)());
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	return all;
}

int main(int argc, char **argv) {
	uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
	CUmodule module;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=20\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "busy"));
	CUstream *all[] = {&filled, &waits, &captured};
	for (int i = 0; i < 3; i++)
		CHECK(CU(cuStreamCreate)(all[i], CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuMemHostAlloc)((void **)&word, 4, 0));
	CHECK(CU(cuMemHostGetDevicePointer_v2)(&address, word, 0));
	memset(word, 0, 4);
	for (int i = 0; i < TEACH; i++) { // so that it is known how long it takes
		launch(i % 2 ? captured : waits);
		CHECK(CU(cuCtxSynchronize)());
	}
	while (!filled_up(threads))
		;
	puts("done");
	return 0;
}
