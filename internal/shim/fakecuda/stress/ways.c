// ways launches kernels of a millisecond by one of the driver's calls.
//
// usage: ways CALL [launches]      default: 20
// A multi-device launch is of two kernels at once; a prefetch is of managed memory, for as long.
#include "../example/load.h"

#include <string.h>

typedef CUresult (*grid_fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	unsigned, CUstream, void **, void **);
typedef CUresult (*ex_fn)(const CUlaunchConfig *, CUfunction, void **, void **);

typedef CUresult (*fetch_fn)(CUdeviceptr, size_t, CUdevice, CUstream);
typedef CUresult (*fetch_to_fn)(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);

static CUresult prefetch(const char *name, void *call) {
	enum { BYTES = 25000000 }; // a millisecond
	static CUdeviceptr at;
	if (!at)
		CHECK(CU(cuMemAllocManaged)(&at, BYTES, CU_MEM_ATTACH_GLOBAL));
	if (strstr(name, "_v2"))
		return ((fetch_to_fn)call)(
			at, BYTES, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, NULL);
	return ((fetch_fn)call)(at, BYTES, 0, NULL);
}

static CUresult launch(const char *name, void *call, CUfunction f) {
	void *none[] = {NULL};
	if (strstr(name, "Prefetch"))
		return prefetch(name, call);
	if (strstr(name, "MultiDevice")) {
		CUstream s[2];
		CHECK(CU(cuStreamCreate)(&s[0], CU_STREAM_NON_BLOCKING));
		CHECK(CU(cuStreamCreate)(&s[1], CU_STREAM_NON_BLOCKING));
		CUDA_LAUNCH_PARAMS list[] = {{f, 1, 1, 1, 32, 1, 1, 0, s[0], none},
			{f, 1, 1, 1, 32, 1, 1, 0, s[1], none}};
		CUresult r = CU(cuLaunchCooperativeKernelMultiDevice)(list, 2, 0);
		CHECK(CU(cuCtxSynchronize)());
		CHECK(CU(cuStreamDestroy_v2)(s[0]));
		CHECK(CU(cuStreamDestroy_v2)(s[1]));
		return r;
	}
	if (strstr(name, "Ex")) {
		CUlaunchConfig c = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
		return ((ex_fn)call)(&c, f, none, NULL);
	}
	if (!strcmp(name, "cuLaunch"))
		return CU(cuLaunch)(f);
	if (!strcmp(name, "cuLaunchGrid"))
		return CU(cuLaunchGrid)(f, 1, 1);
	if (!strcmp(name, "cuLaunchGridAsync"))
		return CU(cuLaunchGridAsync)(f, 1, 1, NULL);
	return ((grid_fn)call)(f, 1, 1, 1, 32, 1, 1, 0, NULL, none, NULL);
}

int main(int argc, char **argv) {
	const char *name = argc > 1 ? argv[1] : "cuLaunchKernel";
	int times = argc > 2 ? atoi(argv[2]) : 20;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=1000\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	void *call = cu_symbol(name);
	for (int i = 0; i < times; i++) {
		CHECK(launch(name, call, f));
		CHECK(CU(cuCtxSynchronize)());
	}
	return 0;
}
