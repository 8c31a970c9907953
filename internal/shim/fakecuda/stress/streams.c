// streams makes streams, launches on them and destroys them, and retains and releases the primary
// context as often, and tells how many bytes of the process's memory that has cost beyond the
// first rounds: the least of a few batches of rounds. The driver's objects are among them.
//
// usage: streams [rounds]; 400
#include "../example/load.h"

#include <limits.h>
#include <malloc.h>
#include <time.h>

static void round_of(CUfunction kernel, bool release) {
	enum { LAUNCHES = 24 };
	unsigned us = 20;
	void *params[] = {&us};
	CUstream s;
	CUcontext c;
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < LAUNCHES; i++)
		CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
	CHECK(CU(cuStreamSynchronize)(s));
	if (release) {
		CHECK(CU(cuDevicePrimaryCtxRetain)(&c, 0));
		CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
	}
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// held is what the process's memory takes: once it is at most so much, as some is destroyed a
// little later, or has not gone down for long.
static size_t held(size_t most) {
	enum { LOOKS = 200 };
	size_t is = mallinfo2().uordblks;
	for (int looks = 0; looks < LOOKS && is > most; looks++) {
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
		size_t now = mallinfo2().uordblks;
		looks = now < is ? 0 : looks;
		is = now;
	}
	return is;
}

int main(int argc, char **argv) {
	enum { BATCHES = 4 };
	int rounds = argc > 1 ? atoi(argv[1]) : 400, first = rounds / 4;
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	mallopt(M_ARENA_MAX, 1); // of which mallinfo2 tells
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "busy"));
	long cost[2];
	for (int release = 0; release < 2; release++) {
		for (int i = 0; i < first; i++)
			round_of(kernel, release);
		// What is kept to be used again grows where the device is far behind, and not each time;
		// what is lost does each time.
		cost[release] = LONG_MAX;
		for (int times = 0; times < BATCHES && cost[release] > 0; times++) {
			size_t before = held(0);
			for (int i = 0; i < rounds; i++)
				round_of(kernel, release);
			long more = (long)held(before) - (long)before;
			cost[release] = more < cost[release] ? more : cost[release];
		}
	}
	printf("{\"destroyed\":%ld,\"released\":%ld}\n", cost[0], cost[1]);
	return 0;
}
