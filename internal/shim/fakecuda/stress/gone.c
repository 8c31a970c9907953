// gone destroys a context while a thread frees one of two allocations of it, for which it waits
// until a kernel has ended. What the context had is gone then.
//
// usage: gone
// It says "{}" when all is over and stays until its standard input ends.
#include "../example/load.h"

#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static CUdeviceptr second;

static void *give(void *unused) {
	CUresult r = CU(cuCtxSetCurrent)(context);
	if (!r)
		CU(cuMemFree_v2)(second);
	return unused;
}

int main(void) {
	enum { MIB = 1 << 20, HEAD_START_US = 20000 };
	CUmodule module;
	CUfunction f;
	CUdeviceptr first;
	pthread_t thread;
	char c;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, 0));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=200000\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuMemAlloc_v2)(&first, 4 * MIB));
	CHECK(CU(cuMemAlloc_v2)(&second, 4 * MIB));
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	pthread_create(&thread, NULL, give, NULL);
	usleep(HEAD_START_US);
	CHECK(CU(cuCtxDestroy_v2)(context));
	pthread_join(thread, NULL);
	printf("{}\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
