// grow makes the driver take memory of which no call says how much, and then stays until its input
// ends.
//
// usage: grow stack BYTES      a limit on each thread's stack
//        grow load COUNT       functions, loaded one by one
//        grow launch COUNT     functions, loaded by their first launches
//        grow context COUNT    contexts
// then, for each line of input with a number, an allocation of so many MiB.
// After each it prints JSON: the result, and what is free by cuMemGetInfo.
#include "../example/load.h"

#include <string.h>

static void report(CUresult result) {
	size_t free, total;
	CHECK(CU(cuMemGetInfo_v2)(&free, &total));
	printf("{\"result\":%d,\"free\":%zu}\n", result, free);
	fflush(stdout);
}

static CUresult load(unsigned count, int launch) {
	for (unsigned i = 0; i < count; i++) {
		CUmodule module;
		CUfunction f;
		CUresult r = CU(cuModuleLoadData)(&module, "kernel k us=10\n");
		if (r)
			return r;
		CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
		r = launch ? CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL)
				   : CU(cuFuncLoad)(f);
		if (r)
			return r;
	}
	return CU(cuCtxSynchronize)();
}

int main(int argc, char **argv) {
	const char *how = argc > 2 ? argv[1] : "context";
	unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	CUcontext context;
	CUresult r = CUDA_SUCCESS;
	char line[32];
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	if (!strcmp(how, "stack"))
		r = CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, count);
	else if (!strcmp(how, "context"))
		for (unsigned i = 1; i < count && !r; i++)
			r = CU(cuCtxCreate_v2)(&context, 0, 0);
	else
		r = load(count, !strcmp(how, "launch"));
	report(r);
	while (fgets(line, sizeof line, stdin)) {
		CUdeviceptr p;
		report(CU(cuMemAlloc_v2)(&p, (size_t)strtoul(line, NULL, 10) << 20));
	}
	return 0;
}
