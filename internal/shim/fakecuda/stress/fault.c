// fault launches kernels and then one that ends in an access to an illegal address, beside which
// the program lives on, as a notebook does: each call gives the error from then on.
//
// usage: fault [ms]      it goes on to launch for so long and until its standard input ends, and at
//                        least twice after that; 0, the default: it launches no more and waits for
//                        that end
// The last line is JSON: failed, the launches that gave the error.
#include "../example/load.h"

#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// told tells whether standard input has ended; it does not wait.
static bool told(void) {
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char c;
	while (poll(&p, 1, 0) > 0)
		if (read(STDIN_FILENO, &c, 1) <= 0)
			return true;
	return false;
}

int main(int argc, char **argv) {
	double ms = argc > 1 ? atof(argv[1]) : 0, until;
	long failed = 0;
	char c;
	CUcontext context;
	CUmodule module;
	CUfunction good, bad;
	CUstream s, t, u;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel good us=20\nkernel bad us=300 fault\n"));
	CHECK(CU(cuModuleGetFunction)(&good, module, "good"));
	CHECK(CU(cuModuleGetFunction)(&bad, module, "bad"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&t, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&u, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuLaunchKernel)(good, 1, 1, 1, 32, 1, 1, 0, u, NULL, NULL));
	CHECK(CU(cuStreamSynchronize)(u));
	for (int i = 0; i < 100; i++)
		CHECK(CU(cuLaunchKernel)(good, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuLaunchKernel)(bad, 1, 1, 1, 32, 1, 1, 0, t, NULL, NULL));
	while (!CU(cuLaunchKernel)(good, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL))
		;
	if (CU(cuStreamSynchronize)(t) != CUDA_ERROR_ILLEGAL_ADDRESS) {
		fprintf(stderr, "no fault\n");
		return 1;
	}
	puts("fault");
	fflush(stdout);
	until = now_ms() + ms;
	for (int more = 2; ms > 0 && more > 0; more -= told() && now_ms() >= until) {
		if (CU(cuLaunchKernel)(good, 1, 1, 1, 32, 1, 1, 0, failed % 2 ? s : u, NULL, NULL) !=
			CUDA_ERROR_ILLEGAL_ADDRESS)
			return 1;
		failed++;
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	while (!failed && read(STDIN_FILENO, &c, 1) > 0)
		;
	printf("{\"failed\":%ld}\n", failed);
	return 0;
}
