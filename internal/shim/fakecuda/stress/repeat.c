// repeat launches one kernel again and again, each when the one before has ended.
//
// usage: repeat [launches [us]]      defaults: 10, 20000
#include "../example/load.h"

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 10;
	unsigned us = argc > 2 ? (unsigned)atoi(argv[2]) : 20000;
	void *params[] = {&us};
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	for (int i = 0; i < n; i++) {
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
		CHECK(CU(cuStreamSynchronize)(NULL));
	}
	puts("done");
	return 0;
}
