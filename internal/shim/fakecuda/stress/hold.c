// hold attaches to the device when a line comes on standard input, takes memory, launches once,
// says when it was done, and stays until its input ends.
//
// usage: hold [MiB]      default: 1
// Prints "ready", then JSON: pid, and the times on CLOCK_MONOTONIC at which cuInit had returned
// (init_ns), memory was allocated (memory_ns) and the kernel was done (ran_ns).
#include "../example/load.h"

#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	char line[16];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 0;
	CHECK(CU(cuInit)(0));
	long long init = now_ns();
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=100\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	if (mib)
		CHECK(CU(cuMemAlloc_v2)(&p, mib << 20));
	long long memory = now_ns();
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	CHECK(CU(cuCtxSynchronize)());
	printf("{\"pid\":%d,\"init_ns\":%lld,\"memory_ns\":%lld,\"ran_ns\":%lld}\n", (int)getpid(),
		init, memory, now_ns());
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		;
	return 0;
}
