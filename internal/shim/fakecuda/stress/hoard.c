// hoard allocates so much at a time until it is refused, says how much it got and what the driver
// says that there is, and does so again after freeing all of it.
//
// usage: hoard bytes
// Prints {"got": bytes, "again": bytes, "total": bytes, "free": bytes}.
#include "../example/load.h"

enum { MOST = 4096 };

static size_t take(size_t bytes) {
	static CUdeviceptr p[MOST];
	size_t n = 0;
	while (n < MOST && CU(cuMemAlloc_v2)(&p[n], bytes) == CUDA_SUCCESS)
		n++;
	for (size_t i = 0; i < n; i++)
		CHECK(CU(cuMemFree_v2)(p[i]));
	return n * bytes;
}

int main(int argc, char **argv) {
	CUcontext context;
	CUdevice device;
	size_t unused, total, bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDeviceGet)(&device, 0));
	CHECK(CU(cuCtxCreate_v2)(&context, 0, device));
	CHECK(CU(cuMemGetInfo_v2)(&unused, &total));
	size_t got = take(bytes), again = take(bytes);
	printf("{\"got\": %zu, \"again\": %zu, \"total\": %zu, \"free\": %zu}\n", got, again, total,
		unused);
	return 0;
}
