// Virtual memory management: the driver's calls, which the runtime finds for the program.
#include "sample.h"

#include <cuda.h>

template <typename F> static cudaError_t entry(F *f, const char *name) {
	cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 13000
	return cudaGetDriverEntryPointByVersion(name, (void **)f, 12000, cudaEnableDefault, &found);
#else
	return cudaGetDriverEntryPoint(name, (void **)f, cudaEnableDefault, &found);
#endif
}

static const char *name_of(CUresult r) {
	static decltype(&cuGetErrorName) get;
	const char *name = "?";
	if (!get)
		entry(&get, "cuGetErrorName");
	if (get)
		get(r, &name);
	return name;
}

#define CALL(name, ...) \
	do { \
		decltype(&name) f_ = nullptr; \
		CUresult r_ = entry(&f_, #name) || !f_ ? CUDA_ERROR_NOT_FOUND : f_(__VA_ARGS__); \
		std::printf("%s: %s\n", #name, name_of(r_)); \
	} while (0)

int vmm(const char *) {
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {};
	CUmemGenericAllocationHandle handle[2] = {};
	CUdeviceptr at = 0;
	size_t granule = 0;
	MUST(cudaFree(nullptr));
	size_t before = left();
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CALL(cuMemGetAllocationGranularity, &granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	SHOW(granule);
	size_t bytes = 4 * granule;
	CALL(cuMemAddressReserve, &at, 2 * bytes, 0, 0, 0);
	CALL(cuMemCreate, &handle[0], bytes, &prop, 0);
	CALL(cuMemCreate, &handle[1], bytes, &prop, 0);
	SHOW((before - left()) / granule);
	CALL(cuMemMap, at, bytes, 0, handle[0], 0);
	CALL(cuMemMap, at + bytes, bytes, 0, handle[1], 0);
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CALL(cuMemSetAccess, at, 2 * bytes, &access, 1);
	unsigned char back[8192] = {};
	MUST(cudaMemset((void *)(at + bytes - 4096), 4, 8192));
	MUST(cudaMemcpy(back, (void *)(at + bytes - 4096), 8192, cudaMemcpyDeviceToHost));
	HOLDS(filled(back, 4, 8192));
	CALL(cuMemUnmap, at, 2 * bytes);
	CALL(cuMemRelease, handle[0]);
	CALL(cuMemRelease, handle[1]);
	CALL(cuMemAddressFree, at, 2 * bytes);
	HOLDS(as_before(before));
	CALL(cuMemCreate, &handle[0], (size_t)1 << 50, &prop, 0);
	return 0;
}
