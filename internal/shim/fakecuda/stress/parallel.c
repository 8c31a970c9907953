// parallel launches one kernel in each of several streams and says how long the device took for all
// of them.
//
// usage: parallel [streams [milliseconds]]      defaults: 4, 50
// The last line is JSON: ms.
#include "../example/load.h"

int main(int argc, char **argv) {
	enum { MOST = 64 };
	int count = argc > 1 ? atoi(argv[1]) : 4;
	unsigned us = 1000 * (argc > 2 ? (unsigned)atoi(argv[2]) : 50), plug = 30000;
	void *params[] = {&us}, *plugs[] = {&plug};
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s[MOST];
	CUevent start, end[MOST];
	float ms, longest = 0;
	count = count > MOST ? MOST : count;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuEventCreate)(&start, CU_EVENT_DEFAULT));
	for (int i = 0; i < count; i++) {
		CHECK(CU(cuStreamCreate)(&s[i], CU_STREAM_NON_BLOCKING));
		CHECK(CU(cuEventCreate)(&end[i], CU_EVENT_DEFAULT));
	}
	// while the others are queued
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, s[0], plugs, NULL));
	CHECK(CU(cuEventRecord)(start, s[0]));
	for (int i = 0; i < count; i++) {
		CHECK(CU(cuStreamWaitEvent)(s[i], start, 0));
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, s[i], params, NULL));
		CHECK(CU(cuEventRecord)(end[i], s[i]));
	}
	for (int i = 0; i < count; i++) {
		CHECK(CU(cuEventSynchronize)(end[i]));
		CHECK(CU(cuEventElapsedTime)(&ms, start, end[i]));
		longest = ms > longest ? ms : longest;
		CHECK(CU(cuEventDestroy_v2)(end[i]));
	}
	CHECK(CU(cuEventDestroy_v2)(start));
	printf("{\"ms\":%.3f}\n", (double)longest);
	return 0;
}
