// pauses stands for a program that leaves the device idle for a little after each kernel: its host
// prepares the next one meanwhile, so the pause is computed and not slept.
//
// usage: pauses [seconds [kernel-us [pause-us]]]      defaults: 3, 100, 200
// The last line is JSON: launches.
#include "../example/load.h"

#include <time.h>

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	unsigned us = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
	uint64_t pause = (argc > 3 ? strtoul(argv[3], NULL, 10) : 200) * 1000;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	char image[64];
	snprintf(image, sizeof image, "kernel k us=%u\n", us);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, image));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	uint64_t launches = 0, end = now_ns() + (uint64_t)(seconds * 1e9);
	for (uint64_t now = now_ns(); now < end; launches++) {
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		CHECK(CU(cuStreamSynchronize)(s));
		for (uint64_t done = now = now_ns(); now < done + pause && now < end; now = now_ns()) {
		}
	}
	printf("{\"launches\":%llu}\n", (unsigned long long)launches);
	return 0;
}
