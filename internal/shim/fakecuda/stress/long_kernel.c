// long_kernel launches one kernel that lasts, and says when it has ended.
//
// usage: long_kernel [seconds]      default: 10
// Lines: "launched", then JSON: wall_ms from launch to end, event_ms between events around the
// kernel.
#include "../example/load.h"

#include <time.h>

int main(int argc, char **argv) {
	unsigned us = (unsigned)((argc > 1 ? atof(argv[1]) : 10) * 1e6);
	void *params[] = {&us};
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUevent from, to;
	float ms;
	struct timespec a, b;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel long us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "long"));
	CHECK(CU(cuEventCreate)(&from, CU_EVENT_DEFAULT));
	CHECK(CU(cuEventCreate)(&to, CU_EVENT_DEFAULT));
	clock_gettime(CLOCK_MONOTONIC, &a);
	CHECK(CU(cuEventRecord)(from, NULL));
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	CHECK(CU(cuEventRecord)(to, NULL));
	puts("launched");
	fflush(stdout);
	CHECK(CU(cuStreamSynchronize)(NULL));
	clock_gettime(CLOCK_MONOTONIC, &b);
	CHECK(CU(cuEventElapsedTime)(&ms, from, to));
	printf("{\"wall_ms\":%.3f,\"event_ms\":%.3f}\n",
		(double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6, (double)ms);
	CHECK(CU(cuEventDestroy_v2)(from));
	CHECK(CU(cuEventDestroy_v2)(to));
	return 0;
}
