// green launches in a green context, which can be current in one thread at a time: whoever else
// makes it current, if only for a moment, makes the program's own calls fail.
//
// usage: green [rounds [how]]      default: 50 current
//   how: current  in a stream made with the context current, which it stays
//        stream   in a stream of the context's, with the primary context current
//        default  in the context's default stream
// Then it waits for its standard input to end. The last line is JSON: rounds.
#include "../example/load.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int rounds = argc > 1 ? atoi(argv[1]) : 50;
	const char *how = argc > 2 ? argv[2] : "current";
	bool of_context = !strcmp(how, "stream"), standard = !strcmp(how, "default");
	char c;
	CUcontext primary, green;
	CUdevResource all, part;
	CUdevResourceDesc desc;
	CUgreenCtx handle;
	CUmodule module;
	CUfunction busy;
	CUstream s = NULL;
	unsigned groups = 1;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
	CHECK(CU(cuCtxSetCurrent)(primary));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=20\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, module, "busy"));
	CHECK(CU(cuDeviceGetDevResource)(0, &all, 1));
	CHECK(CU(cuDevSmResourceSplitByCount)(&part, &groups, &all, NULL, 0, 16));
	CHECK(CU(cuDevResourceGenerateDesc)(&desc, &part, 1));
	CHECK(CU(cuGreenCtxCreate)(&handle, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(CU(cuCtxFromGreenCtx)(&green, handle));
	if (of_context) {
		CHECK(CU(cuGreenCtxStreamCreate)(&s, handle, CU_STREAM_NON_BLOCKING, 0));
	} else if (!standard) {
		CHECK(CU(cuCtxPushCurrent_v2)(green));
		CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	}
	for (int i = 0; i < rounds; i++) {
		if (standard)
			CHECK(CU(cuCtxPushCurrent_v2)(green));
		for (int n = 0; n < 7; n++)
			CHECK(CU(cuLaunchKernel)(busy, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		if (standard)
			CHECK(CU(cuCtxPopCurrent_v2)(&green));
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	puts("launched");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuGreenCtxDestroy)(handle));
	printf("{\"rounds\":%d}\n", rounds);
	return 0;
}
