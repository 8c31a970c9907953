// exits leaves while the device is busy, in one of the ways there are, with exit code 7.
//
// usage: exits return|exit|thread|_exit|quick|child|destructor|launching|slow [us]
//   thread      a second thread calls exit, and the first one goes on to launch
//   child       a child that has not used CUDA exits first
//   destructor  a handler of exit that was registered before cuInit launches, too late
//   launching   a handler of exit that was registered after cuInit launches
//   slow        a handler of exit that was registered before cuInit says "leaving" and lasts until
//               standard input ends
//   us          length of a kernel; 200
#include "../example/load.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = 7 };

static CUcontext context;
static CUfunction busy;
static CUstream stream;
static unsigned us = 200;

static CUresult launch(void) {
	void *params[] = {&us};
	return CU(cuLaunchKernel)(busy, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static void too_late(void) {
	if (context && launch() != CUDA_ERROR_DEINITIALIZED)
		_exit(1);
}

static void slow(void) {
	puts("leaving");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static void in_time(void) {
	if (launch())
		_exit(1);
}

static void *leave(void *unused) {
	(void)unused;
	exit(CODE);
}

int main(int argc, char **argv) {
	const char *how = argc > 1 ? argv[1] : "return";
	us = argc > 2 ? (unsigned)atoi(argv[2]) : us;
	CUmodule module;
	pthread_t thread;
	if (!strcmp(how, "destructor"))
		atexit(too_late);
	if (!strcmp(how, "slow"))
		atexit(slow);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, module, "busy"));
	CHECK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	if (!strcmp(how, "launching"))
		atexit(in_time);
	for (int i = 0; i < 20; i++)
		CHECK(launch());
	if (!strcmp(how, "exit"))
		exit(CODE);
	if (!strcmp(how, "_exit"))
		_exit(CODE);
	if (!strcmp(how, "quick"))
		quick_exit(CODE);
	if (!strcmp(how, "thread")) {
		if (pthread_create(&thread, NULL, leave, NULL))
			return 1;
		pause();
	}
	if (!strcmp(how, "child")) {
		int status = 0;
		pid_t child = fork();
		if (!child)
			exit(CODE);
		if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != CODE)
			return 1;
	}
	return CODE;
}
