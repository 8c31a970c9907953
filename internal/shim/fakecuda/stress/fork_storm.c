// fork_storm forks while its threads launch. Of the children, one kind touches no CUDA; one asks
// for CUDA after a fork of a process that has it, which the driver refuses; one replaces itself by
// a program that uses CUDA.
//
// usage: fork_storm [forks [threads]]      defaults: 50, 4
// The last line is JSON: forks, launches.
#include "../example/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;
static CUfunction kernel;
static atomic_bool over;
static atomic_ullong launches;

static void *launch(void *unused) {
	CUstream s;
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	while (!atomic_load(&over)) {
		for (int i = 0; i < 8; i++, atomic_fetch_add(&launches, 1))
			CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
		CHECK(CU(cuStreamSynchronize)(s));
	}
	return unused;
}

static CUresult (*init)(unsigned int);
static CUresult (*count_devices)(int *);

static int child(int kind, char *self) {
	int count;
	switch (kind) {
	case 0:
		return 0;
	case 1:
		return init(0) == CUDA_ERROR_NOT_INITIALIZED &&
				count_devices(&count) == CUDA_ERROR_NOT_INITIALIZED
			? 0
			: 3;
	default:
		execl(self, self, "child", (char *)NULL);
		return 4;
	}
}

// fresh is what a child does that has replaced itself: it uses CUDA like any program.
static int fresh(void) {
	CUdeviceptr p;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuMemAlloc_v2)(&p, 1 << 20));
	CHECK(CU(cuMemFree_v2)(p));
	return 0;
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "child"))
		return fresh();
	int forks = argc > 1 ? atoi(argv[1]) : 50, count = argc > 2 ? atoi(argv[2]) : 4;
	pthread_t threads[64];
	CUmodule module;
	count = count > 64 ? 64 : count;
	init = CU(cuInit);
	count_devices = CU(cuDeviceGetCount);
	CHECK(init(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel k us=20-200\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "k"));
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, launch, NULL))
			return 1;
	for (int i = 0; i < forks; i++) {
		int status = 0;
		pid_t pid = fork();
		if (!pid)
			_exit(child(i % 3, argv[0]));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "fork %d: status %x\n", i, (unsigned)status);
			return 1;
		}
	}
	atomic_store(&over, true);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"forks\":%d,\"launches\":%llu}\n", forks, (unsigned long long)atomic_load(&launches));
	return 0;
}
