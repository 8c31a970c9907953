// clients says what the process may use of the device as a client of MPS, at each step of its life,
// and then how long kernels take by events. What it sets in its environment after cuInit is as a
// program that wants more.
//
// usage: clients [kernels [milliseconds [percent-set-later [anyway]]]]      defaults: 1, 20, 100
//        anyway: goes on whatever cuInit says, and prints what it gets for a context instead
// The last line is JSON: enabled, before and after (multiprocessors of the device before and after
// a context is made), context (those of the context), later (those of a second context), ms.
#include "../example/load.h"

int main(int argc, char **argv) {
	int count = argc > 1 ? atoi(argv[1]) : 1, enabled, before, after;
	unsigned us = 1000 * (argc > 2 ? (unsigned)atoi(argv[2]) : 20);
	void *params[] = {&us};
	CUcontext context, later;
	CUexecAffinityParam first, second;
	CUmodule module;
	CUfunction f;
	CUevent start, end;
	float ms;
	if (argc > 4) {
		CU(cuInit)(0);
		printf("%d\n", CU(cuDevicePrimaryCtxRetain)(&context, 0));
		return 0;
	}
	CHECK(CU(cuInit)(0));
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", argc > 3 ? argv[3] : "100", 1);
	CHECK(CU(cuDeviceGetAttribute)(&enabled, 133, 0));
	CHECK(CU(cuDeviceGetAttribute)(&before, 16, 0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuDeviceGetAttribute)(&after, 16, 0));
	CHECK(CU(cuCtxGetExecAffinity)(&first, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	CHECK(CU(cuCtxCreate_v2)(&later, 0, 0));
	CHECK(CU(cuCtxGetExecAffinity)(&second, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	CHECK(CU(cuCtxDestroy_v2)(later));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuEventCreate)(&start, CU_EVENT_DEFAULT));
	CHECK(CU(cuEventCreate)(&end, CU_EVENT_DEFAULT));
	CHECK(CU(cuEventRecord)(start, NULL));
	for (int i = 0; i < count; i++)
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(CU(cuEventRecord)(end, NULL));
	CHECK(CU(cuEventSynchronize)(end));
	CHECK(CU(cuEventElapsedTime)(&ms, start, end));
	printf("{\"enabled\":%d,\"before\":%d,\"after\":%d,\"context\":%u,\"later\":%u,\"ms\":%.3f}\n",
		enabled, before, after, first.param.smCount.val, second.param.smCount.val, (double)ms);
	return 0;
}
