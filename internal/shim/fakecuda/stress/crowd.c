// crowd starts many processes at once, each of which makes a context, allocates, launches once and
// waits for its kernel.
//
// usage: crowd [processes]      default: 300
// The last line is JSON: processes, ms until the last of them was done.
#include "../example/load.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int one(int gate) {
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	char unused;
	if (read(gate, &unused, 1) != 0) // returns when the parent closes the other end
		return 1;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=100\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "k"));
	CHECK(CU(cuMemAlloc_v2)(&p, 1 << 20));
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	CHECK(CU(cuCtxSynchronize)());
	return 0;
}

int main(int argc, char **argv) {
	int count = argc > 1 ? atoi(argv[1]) : 300, gate[2], failed = 0;
	if (pipe(gate))
		return 1;
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (!pid) {
			close(gate[1]);
			_exit(one(gate[0]));
		}
	}
	double start = now_ms();
	close(gate[1]);
	for (int i = 0, status; i < count; i++)
		failed += wait(&status) < 0 || status;
	printf("{\"processes\":%d,\"ms\":%.1f}\n", count, now_ms() - start);
	return failed != 0;
}
