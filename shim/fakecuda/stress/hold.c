// hold attaches to the device when a line comes on standard input, takes memory, launches once, says when it was done, and stays until
// its input ends.
//
// usage: hold [MiB]      default: 1
// Prints "ready", then JSON: pid, attached_ns, the time on CLOCK_MONOTONIC at which its kernel was done.
#include "../example/load.h"

#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	struct timespec t;
	char line[16];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 0;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=100\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuMemAlloc_v2)(&p, mib << 20));
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	CHECK(CU(cuCtxSynchronize)());
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("{\"pid\":%d,\"attached_ns\":%lld}\n", (int)getpid(), (long long)t.tv_sec * 1000000000 + t.tv_nsec);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		;
	return 0;
}
