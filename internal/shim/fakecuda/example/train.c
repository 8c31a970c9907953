// train stands for a training program: it takes memory for weights and activations, then runs
// iterations of a forward pass, a backward pass and an update, and says how fast it goes and what
// memory it sees. It knows nothing of weir.
//
// usage: train [seconds [kernel-microseconds [MiB]]]
//        defaults: 10, 250, 1024; seconds 0: until killed
#include "load.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 8 };

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// take allocates in pieces, as a caching allocator does, until it has the amount or the device has
// no more.
static size_t take(size_t amount) {
	const size_t piece = (size_t)64 << 20;
	size_t got = 0;
	while (got < amount) {
		CUdeviceptr p;
		CUresult r = CU(cuMemAlloc_v2)(&p, piece);
		if (r == CUDA_ERROR_OUT_OF_MEMORY) {
			printf("out of memory after %zu MiB: going on with that\n", got >> 20);
			break;
		}
		CHECK(r);
		CHECK(CU(cuMemsetD8Async)(p, 0, piece, NULL));
		got += piece;
	}
	return got;
}

static void iterate(CUfunction layer, CUfunction update, CUstream s) {
	for (int i = 0; i < 2 * LAYERS; i++)
		CHECK(CU(cuLaunchKernel)(layer, 64, 1, 1, 256, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuLaunchKernel)(update, 64, 1, 1, 256, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuStreamSynchronize)(s));
}

int main(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	int us = argc > 2 ? atoi(argv[2]) : 250;
	size_t mib = argc > 3 ? strtoul(argv[3], NULL, 10) : 1024;
	char name[64], image[128];
	size_t free_bytes, total_bytes;
	CUcontext context;
	CUmodule module;
	CUfunction layer, update;
	CUstream stream;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDeviceGetName)(name, sizeof name, 0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemGetInfo_v2)(&free_bytes, &total_bytes));
	printf("device: %s, %zu MiB, %zu MiB free\n", name, total_bytes >> 20, free_bytes >> 20);
	size_t got = take(mib << 20);
	CHECK(CU(cuMemGetInfo_v2)(&free_bytes, &total_bytes));
	printf("allocated %zu MiB, %zu MiB free\n", got >> 20, free_bytes >> 20);
	snprintf(image, sizeof image, "kernel layer us=%d\nkernel update us=%d\n", us,
		us / 2 > 0 ? us / 2 : 1);
	CHECK(CU(cuModuleLoadData)(&module, image));
	CHECK(CU(cuModuleGetFunction)(&layer, module, "layer"));
	CHECK(CU(cuModuleGetFunction)(&update, module, "update"));
	CHECK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));

	double start = now(), last = start;
	for (long all = 0, lately = 0; seconds <= 0 || now() - start < seconds;) {
		iterate(layer, update, stream);
		all++, lately++;
		double t = now();
		if (t - last >= 1) {
			printf("%5.1f s  %6.1f iterations/s  %ld in all  (%s)\n", t - start,
				(double)lately / (t - last), all, name);
			lately = 0, last = t;
		}
	}
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
	return 0;
}
