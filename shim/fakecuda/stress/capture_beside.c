// capture_beside captures a stream in the strictest mode while another thread keeps the device busy
// on a stream of its own. A look at an event by any thread whose capture mode is not relaxed would
// end the capture: so whoever watches the device must relax it.
//
// usage: capture_beside [captures]      default: 5
// The last line is JSON: captures.
#include "../example/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static CUcontext context;
static CUfunction busy;
static atomic_bool stop;

static void launch(CUstream s, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(busy, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static void *flood(void *arg) {
	CUstream s;
	(void)arg;
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	while (!atomic_load(&stop))
		launch(s, 300);
	return NULL;
}

int main(int argc, char **argv) {
	int captures = argc > 1 ? atoi(argv[1]) : 5;
	CUmodule module;
	CUstream s;
	pthread_t thread;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, module, "busy"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	if (pthread_create(&thread, NULL, flood, NULL))
		return 1;
	for (int i = 0; i < captures; i++) {
		CUgraph graph;
		CUgraphExec exec;
		struct timespec pause = {.tv_nsec = 30000000};
		CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
		launch(s, 100);
		nanosleep(&pause, NULL);
		launch(s, 100);
		CHECK(CU(cuStreamEndCapture)(s, &graph));
		CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
		CHECK(CU(cuGraphLaunch)(exec, s));
		CHECK(CU(cuStreamSynchronize)(s));
		CHECK(CU(cuGraphExecDestroy)(exec));
		CHECK(CU(cuGraphDestroy)(graph));
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("{\"captures\":%d}\n", captures);
	return 0;
}
