// rendezvous is one rank of several: in each step a kernel runs, then the ranks wait for each other
// on the device, by words in a file that all map, as collectives do, and another kernel runs.
//
// usage: rendezvous FILE RANK RANKS STEPS [US]      default: kernels of 1000 us
// Prints JSON: rank, steps, seconds from the first launch on, and worst_ms, the longest step.
#include "../example/load.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
	if (argc < 5)
		return 2;
	unsigned rank = (unsigned)atoi(argv[2]), ranks = (unsigned)atoi(argv[3]);
	unsigned steps = (unsigned)atoi(argv[4]);
	char text[64];
	snprintf(text, sizeof text, "kernel k us=%s\n", argc > 5 ? argv[5] : "1000");
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 1;
	unsigned *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		return 1;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	CUdeviceptr at;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, text));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuMemHostRegister_v2)(words, 4096, 0));
	CHECK(CU(cuMemHostGetDevicePointer_v2)(&at, words, 0));
	double from = now(), worst = 0;
	for (unsigned i = 1; i <= steps; i++) {
		double began = now();
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		CHECK(CU(cuStreamWriteValue32_v2)(s, at + 4 * rank, i, 0));
		for (unsigned r = 0; r < ranks; r++)
			CHECK(CU(cuStreamWaitValue32_v2)(s, at + 4 * r, i, 0));
		CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		CHECK(CU(cuStreamSynchronize)(s));
		double took = now() - began;
		worst = took > worst ? took : worst;
	}
	printf("{\"rank\":%u,\"steps\":%u,\"seconds\":%.3f,\"worst_ms\":%.3f}\n", rank, steps,
		now() - from, worst * 1e3);
	return 0;
}
