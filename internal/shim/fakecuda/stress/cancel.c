// cancel has a thread launch, cancels it once standard input has a line, waits for its end, and
// says "joined" and whether the thread was cancelled.
#include "../example/load.h"

#include <pthread.h>

static CUcontext context;
static CUfunction kernel;

static void *launches(void *unused) {
	(void)unused;
	CHECK(CU(cuCtxSetCurrent)(context));
	for (;;) {
		CHECK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
		pthread_testcancel();
	}
	return NULL;
}

int main(void) {
	CUmodule module;
	pthread_t thread;
	void *end = NULL;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=100\n"));
	CHECK(CU(cuModuleGetFunction)(&kernel, module, "busy"));
	if (pthread_create(&thread, NULL, launches, NULL))
		return 1;
	getchar();
	pthread_cancel(thread);
	puts("cancelled");
	fflush(stdout);
	pthread_join(thread, &end);
	puts(end == PTHREAD_CANCELED ? "joined" : "ended by itself");
	fflush(stdout);
	getchar();
	return 0;
}
