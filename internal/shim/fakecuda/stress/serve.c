// serve stands for inference: requests come at random, each is one kernel that is waited for, and
// what counts is how long a request takes.
//
// usage: serve [seconds [kernel-us [gap-us [seed]]]]      defaults: 3, 200, 5000, 1
// gap-us is the mean time between the end of a request and the next, drawn from an exponential
// distribution. The last line is JSON: requests, p50_us, p99_us, max_us; the time before the first
// launch returns, as p99_launch_us, is what was waited at a gate.
#include "../example/load.h"

#include <math.h>
#include <time.h>

enum { MOST = 1 << 20 };

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double q) {
	return n ? sorted[(int)((n - 1) * q)] : 0;
}

int main(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 3, gap = argc > 3 ? atof(argv[3]) : 5000;
	unsigned us = argc > 2 ? (unsigned)atoi(argv[2]) : 200;
	static double took[MOST], launched[MOST];
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	char image[64];
	srand48(argc > 4 ? atoi(argv[4]) : 1);
	snprintf(image, sizeof image, "kernel k us=%u\n", us);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, image));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	int n = 0;
	enum { WARM = 10 };
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	for (int i = 0; now_ns() < end && n < MOST; i++) {
		uint64_t pause = (uint64_t)(-log1p(-drand48()) * gap * 1e3);
		struct timespec t = {(time_t)(pause / 1000000000u), (long)(pause % 1000000000u)};
		nanosleep(&t, NULL);
		uint64_t from = now_ns();
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		uint64_t between = now_ns();
		CHECK(CU(cuStreamSynchronize)(s));
		if (i < WARM) // the first are measured one by one, to predict the others
			continue;
		launched[n] = (double)(between - from) / 1e3;
		took[n++] = (double)(now_ns() - from) / 1e3;
	}
	qsort(took, (size_t)n, sizeof *took, by_value);
	qsort(launched, (size_t)n, sizeof *launched, by_value);
	printf("{\"requests\":%d,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
		"\"p50_launch_us\":%.1f,\"p99_launch_us\":%.1f}\n",
		n, at(took, n, 0.5), at(took, n, 0.9), at(took, n, 0.99), at(took, n, 1),
		at(launched, n, 0.5), at(launched, n, 0.99));
	return 0;
}
