// pod is what runs in the pods of the test: it takes device memory to the last byte that it is
// given, keeps it, and then has the device work all the time, while it looks whether its memory
// still is as it left it. It knows nothing of weir. Any call that fails ends it with an error.
//
// usage: pod pause                 waits to be ended, as the process that holds a pod's namespaces
//        pod work KERNEL-US        until it is ended; prints one line of JSON when it has memory:
//                                  {"got": bytes, "total": bytes, "uuid": "hex"}
//                                  and then four a second:
//                                  {"ns": time, "kernels": of all so far,
//                                  "gap_ms": longest without one since the line before}
#include "example/load.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The device is given the next kernels while it is at the ones before, as frameworks do it: a
// program that waits for each before it launches another leaves the device idle in between.
enum { MOST = 4096, BATCH = 2, AHEAD = 3, LOOKED = 1 << 16 };

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// take allocates ever smaller pieces until not one byte is left, and returns how much it got and
// where the first piece is.
static size_t take(CUdeviceptr *first) {
	size_t got = 0;
	int n = 0;
	for (size_t piece = (size_t)1 << 34; piece; piece >>= 1) {
		CUdeviceptr p;
		CUresult r = CUDA_SUCCESS;
		while (n < MOST && !(r = CU(cuMemAlloc_v2)(&p, piece))) {
			if (!n++)
				*first = p;
			got += piece;
		}
		if (r != CUDA_ERROR_OUT_OF_MEMORY)
			CHECK(r);
	}
	return got;
}

static void hello(CUdevice device, size_t got) {
	size_t unused, total;
	CUuuid id;
	CHECK(CU(cuMemGetInfo_v2)(&unused, &total));
	CHECK(CU(cuDeviceGetUuid)(&id, device));
	printf("{\"got\": %zu, \"total\": %zu, \"uuid\": \"", got, total);
	for (size_t i = 0; i < sizeof id.bytes; i++)
		printf("%02x", (unsigned char)id.bytes[i]);
	printf("\"}\n");
}

// look ends the program if its memory is not as it left it.
static void look(CUdeviceptr at, unsigned char pattern) {
	static unsigned char seen[LOOKED];
	CHECK(CU(cuMemcpyDtoH_v2)(seen, at, LOOKED));
	for (size_t i = 0; i < LOOKED; i++)
		if (seen[i] != pattern) {
			printf("byte %zu is %u, was %u\n", i, seen[i], pattern);
			exit(3);
		}
}

// launch has the device run a batch of kernels, and then mark that it has.
static void launch(CUfunction kernel, CUstream s, CUevent done) {
	for (int i = 0; i < BATCH; i++)
		CHECK(CU(cuLaunchKernel)(kernel, 64, 1, 1, 256, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuEventRecord)(done, s));
}

static void work(unsigned us) {
	CUcontext context;
	CUdevice device;
	CUdeviceptr at = 0;
	CUmodule module;
	CUfunction kernel;
	CUstream s;
	char image[64];
	snprintf(image, sizeof image, "kernel k us=%u\n", us);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDeviceGet)(&device, 0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, device));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, image));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "k"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	hello(device, take(&at));
	unsigned char pattern = (unsigned char)(1 + now_ns() % 251);
	CHECK(CU(cuMemsetD8_v2)(at, pattern, LOOKED));
	CUevent done[AHEAD];
	for (int i = 0; i < AHEAD; i++) {
		CHECK(CU(cuEventCreate)(&done[i], CU_EVENT_DISABLE_TIMING));
		launch(kernel, s, done[i]);
	}
	uint64_t kernels = 0, last = now_ns(), said = last, gap = 0;
	for (int i = 0;; i = (i + 1) % AHEAD) {
		CHECK(CU(cuEventSynchronize)(done[i]));
		launch(kernel, s, done[i]);
		kernels += BATCH;
		uint64_t t = now_ns();
		gap = t - last > gap ? t - last : gap;
		last = t;
		if (t - said >= 250000000u) {
			look(at, pattern);
			said = t;
			printf("{\"ns\": %llu, \"kernels\": %llu, \"gap_ms\": %.1f}\n",
				(unsigned long long)t, (unsigned long long)kernels, (double)gap / 1e6);
			gap = 0;
		}
	}
}

// leave ends the program: the first process of a container has no other answer to a signal.
static void leave(int signal) {
	(void)signal;
	_exit(0);
}

int main(int argc, char **argv) {
	signal(SIGTERM, leave);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "work"))
		work((unsigned)atoi(argv[2]));
	for (;;)
		pause();
}
