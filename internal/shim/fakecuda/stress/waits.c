// waits has work on the device that ends only when the thread that launched it, or another one, has
// got further launches through.
//
// usage: waits value [kernels [rounds]]         behind a wait on a word that the host writes then
//        waits receive [rounds [late [ms]]]     a receive, then its send on another stream; in the
//                                               first so many rounds the sender is late by so long
//        waits streams [streams [us]]           as value, each kernel on a stream of its own; with
//        us, kernels that take so long, each of a module of its own, and that do not wait
//        waits threads [rounds]                 the same from two threads
//        waits callback [kernels]               a host function that needs the launching thread
//        defaults: 300, 20, 0, 0; 64 streams
// A receive is a graph with a host function that waits, and a send a kernel after which the host
// says so. The last line is JSON: first_ms, worst_ms and last_ms of a round.
#include "../example/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static CUcontext context;
static CUfunction kernel;
static CUstream one, two;
static atomic_uint sent, received;
static double first, worst, last;

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void sleep_ms(double ms) {
	struct timespec t = {(time_t)(ms / 1e3), (long)((ms - 1e3 * (double)(long)(ms / 1e3)) * 1e6)};
	nanosleep(&t, NULL);
}

static void took(double ms) {
	first = first > 0 ? first : ms;
	worst = ms > worst ? ms : worst;
	last = ms;
}

static void load(void) {
	CUmodule module;
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "busy"));
}

static void launch(CUstream s, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static void until_sent(void *round) {
	while (atomic_load(&sent) < *(unsigned *)round)
		sleep_ms(0.05);
	atomic_fetch_add(&received, 1);
}

// receiver is the graph that ends when the round has been sent.
static CUgraphExec receiver(unsigned *round) {
	CUgraph g;
	CUgraphExec x;
	CHECK(CU(cuStreamBeginCapture_v2)(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(one, 10);
	CHECK(CU(cuLaunchHostFunc)(one, until_sent, round));
	CHECK(CU(cuStreamEndCapture)(one, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	return x;
}

// word_of is a word of the host that the device can wait for.
static uint32_t *word_of(CUdeviceptr *address) {
	void *word;
	CHECK(CU(cuMemHostAlloc)(&word, 4, 0));
	CHECK(CU(cuMemHostGetDevicePointer_v2)(address, word, 0));
	memset(word, 0, 4);
	return word;
}

static void streams(unsigned n, unsigned us) {
	CUdeviceptr address;
	CUevent waited;
	uint32_t *word = word_of(&address);
	CHECK(CU(cuEventCreate)(&waited, CU_EVENT_DISABLE_TIMING));
	double from = now_ms();
	CHECK(CU(cuStreamWaitValue32_v2)(one, address, 1, 0));
	if (us)
		launch(one, us);
	CHECK(CU(cuEventRecord)(waited, one));
	for (unsigned i = 0; i < n; i++) {
		CUstream s;
		CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
		if (us)
			load();
		else
			CHECK(CU(cuStreamWaitEvent)(s, waited, 0));
		launch(s, us ? us : 50);
	}
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	took(now_ms() - from);
	CHECK(CU(cuCtxSynchronize)());
}

static void value(unsigned kernels, unsigned rounds) {
	CUdeviceptr address;
	uint32_t *word = word_of(&address);
	for (unsigned round = 1; round <= rounds; round++) {
		double from = now_ms();
		CHECK(CU(cuStreamWaitValue32_v2)(one, address, round, 0));
		for (unsigned i = 0; i < kernels; i++)
			launch(one, 50);
		__atomic_store_n(word, round, __ATOMIC_SEQ_CST);
		took(now_ms() - from);
		CHECK(CU(cuStreamSynchronize)(one));
	}
}

// send lets one launch through on the stream that the receiver does not use.
static void send(void) {
	launch(two, 10);
	CHECK(CU(cuStreamSynchronize)(two));
	atomic_fetch_add(&sent, 1);
}

static void receive(unsigned rounds, unsigned late, double ms) {
	unsigned round = 0;
	CUgraphExec x = receiver(&round);
	for (round = 1; round <= rounds; round++) {
		double from = now_ms();
		CHECK(CU(cuGraphLaunch)(x, one));
		if (round <= late)
			sleep_ms(ms);
		for (int i = 0; i < 4; i++) // what a program launches between them
			launch(one, 20);
		send();
		CHECK(CU(cuStreamSynchronize)(one));
		took(now_ms() - from);
	}
}

static void *sender(void *rounds) {
	CHECK(CU(cuCtxSetCurrent)(context));
	for (unsigned i = 0; i < *(unsigned *)rounds; i++) {
		while (atomic_load(&received) < i)
			sleep_ms(0.05);
		send();
	}
	return NULL;
}

static void threads(unsigned rounds) {
	pthread_t peer;
	unsigned round = 0;
	CUgraphExec x = receiver(&round);
	pthread_create(&peer, NULL, sender, &rounds);
	for (round = 1; round <= rounds; round++) {
		double from = now_ms();
		CHECK(CU(cuGraphLaunch)(x, one));
		launch(one, 20);
		CHECK(CU(cuStreamSynchronize)(one));
		took(now_ms() - from);
	}
	pthread_join(peer, NULL);
}

static void locked(void *lock) {
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
}

static void callback(unsigned kernels) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	double from = now_ms();
	pthread_mutex_lock(&lock);
	CHECK(CU(cuLaunchHostFunc)(one, locked, &lock));
	for (unsigned i = 0; i < kernels; i++)
		launch(i % 2 ? one : two, 200);
	pthread_mutex_unlock(&lock);
	took(now_ms() - from);
	CHECK(CU(cuCtxSynchronize)());
}

int main(int argc, char **argv) {
	const char *kind = argc > 1 ? argv[1] : "value";
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : strcmp(kind, "receive") ? 300 : 20;
	unsigned more = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	load();
	CHECK(CU(cuStreamCreate)(&one, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&two, CU_STREAM_NON_BLOCKING));
	if (!strcmp(kind, "receive"))
		receive(n, more, argc > 4 ? atof(argv[4]) : 0);
	else if (!strcmp(kind, "streams"))
		streams(argc > 2 ? n : 64, more);
	else if (!strcmp(kind, "threads"))
		threads(n);
	else if (!strcmp(kind, "callback"))
		callback(n);
	else
		value(n, more ? more : 1);
	printf("{\"first_ms\":%.3f,\"worst_ms\":%.3f,\"last_ms\":%.3f}\n", first, worst, last);
	return 0;
}
