// leave makes contexts, allocates in them, and destroys them with what it left there, or detaches
// from them as often as it attached. It also makes them beside memory that may take less than it
// looks like: two managed buffers that can share a block, and a heap that no kernel uses.
//
// usage: leave [TIMES]      default: 10
// The last line is JSON: lost, how much less memory is free than before.
#include "../example/load.h"

static size_t left(void) {
	size_t free, total;
	CHECK(CU(cuMemGetInfo_v2)(&free, &total));
	return free;
}

// heap sets a limit, which is 8 MiB at first.
static void heap(size_t mib) { CHECK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, mib << 20)); }

// keep retains the primary context once more and releases it, which leaves it as it is.
static void keep(void) {
	CUcontext same;
	size_t before = left();
	CHECK(CU(cuDevicePrimaryCtxRetain)(&same, 0));
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
	CHECK(left() == before ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

static void end(CUcontext c, bool detach) {
	CUcontext same;
	if (!detach) {
		CHECK(CU(cuCtxDestroy_v2)(c));
		return;
	}
	CHECK(CU(cuCtxAttach)(&same, 0));
	size_t before = left();
	CHECK(CU(cuCtxDetach)(c));
	CHECK(left() == before ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
	CHECK(CU(cuCtxDetach)(c));
}

static void beside(void) {
	CUcontext c;
	CUdeviceptr p[2];
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemAllocManaged)(&p[i], 5000, CU_MEM_ATTACH_GLOBAL));
	heap(64);
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	CHECK(CU(cuCtxDestroy_v2)(c));
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemFree_v2)(p[i]));
	heap(8);
}

int main(int argc, char **argv) {
	CUcontext first, c;
	CUdeviceptr p, kept;
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray a;
	CUmipmappedArray m;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&first, 0));
	CHECK(CU(cuCtxPushCurrent_v2)(first));
	CHECK(CU(cuMemAlloc_v2)(&kept, 1000));
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0)); // the first of its kind may cost more
	CHECK(CU(cuCtxDestroy_v2)(c));
	size_t before = left();
	for (int i = argc > 1 ? atoi(argv[1]) : 10; i; i--) {
		CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
		CHECK(CU(cuMemAlloc_v2)(&p, 3 << 20));
		CHECK(CU(cuMemAlloc_v2)(&p, 100));
		CHECK(CU(cuMemAllocManaged)(&p, 5000, CU_MEM_ATTACH_GLOBAL));
		CHECK(CU(cuArray3DCreate_v2)(&a, &shape));
		CHECK(CU(cuMipmappedArrayCreate)(&m, &shape, 3));
		heap(16);
		heap(4); // less than it began with
		heap(12);
		end(c, i % 2);
		heap(16);
		keep();
		heap(8);
		beside();
	}
	printf("{\"lost\":%lld}\n", (long long)before - (long long)left());
	CHECK(CU(cuMemFree_v2)(kept));
	return 0;
}
