// launch_cost measures what one launch costs its caller: the median over many short runs of
// launches of a very short kernel, so that what else the machine does meanwhile falls out.
//
// usage: launch_cost [seconds]      default: 2
// The last line is JSON: runs, p50_ns of one launch.
#include "../example/load.h"

#include <time.h>

enum { RUN = 32, RUNS = 1 << 20, QUEUED = 16 };

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	static double each[RUNS];
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k ns=200\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	int n = 0;
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	for (uint64_t from = now_ns(); from < end && n < RUNS; from = now_ns()) {
		for (int i = 0; i < RUN; i++)
			CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		each[n++] = (double)(now_ns() - from) / RUN;
		if (n % QUEUED == 0)
			CHECK(CU(cuStreamSynchronize)(s));
	}
	CHECK(CU(cuStreamSynchronize)(s));
	qsort(each, (size_t)n, sizeof *each, by_value);
	printf("{\"runs\":%d,\"p50_ns\":%.1f}\n", n, each[n / 2]);
	return 0;
}
