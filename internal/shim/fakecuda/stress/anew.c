// anew launches graphs, each of which it has made for that: no launch is of anything that was
// launched before.
//
// usage: anew [graphs [us [first-us]]]        defaults: 500, 100, the same
// Each is one kernel of so many microseconds; the first may take another time. At most 64 are
// queued. It prints {} in the end.
#include "../example/load.h"

static void launch(CUfunction f, CUstream s, unsigned us) {
	void *params[] = {&us};
	CUgraph g;
	CUgraphExec x;
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0)); // stays, so that no other has its handle
	CHECK(CU(cuGraphLaunch)(x, s));
	CHECK(CU(cuGraphDestroy)(g));
}

int main(int argc, char **argv) {
	int graphs = argc > 1 ? atoi(argv[1]) : 500;
	unsigned us = argc > 2 ? (unsigned)atoi(argv[2]) : 100,
			 first = argc > 3 ? (unsigned)atoi(argv[3]) : us;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	for (int n = 0; n < graphs; n++) {
		launch(f, s, n ? us : first);
		if (n % 64 == 0)
			CHECK(CU(cuStreamSynchronize)(s));
	}
	CHECK(CU(cuStreamSynchronize)(s));
	puts("{}");
	return 0;
}
