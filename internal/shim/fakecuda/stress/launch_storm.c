// launch_storm launches kernels of random durations, eager or as graphs, and says what it asked the
// device for.
//
// usage: launch_storm [seconds [least-us [most-us [eager|graph|both [queued]]]]]
//        defaults: 5, 10, 50000, both, 64
// At most the number of launches named last are queued at a time. The last line is JSON: launches,
// device_us asked for, wall_us.
#include "../example/load.h"

#include <string.h>
#include <time.h>

enum { NODES = 5 };

static uint64_t now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

// between draws a duration, logarithmically even, so that short and long ones are as common.
static unsigned between(unsigned least, unsigned most) {
	unsigned n = least;
	while (n < most && rand() % 8)
		n += n / 4 + 1;
	return n < most ? n : most;
}

static unsigned launch(CUfunction f, CUstream s, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
	return us;
}

// launch_graph captures a few kernels, launches them as one graph and leaves nothing behind.
static unsigned launch_graph(CUfunction f, CUstream s, unsigned us) {
	CUgraph g;
	CUgraphExec x;
	unsigned sum = 0;
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < NODES; i++)
		sum += launch(f, s, us / NODES + 1);
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	CHECK(CU(cuGraphLaunch)(x, s));
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
	return sum;
}

int main(int argc, char **argv) {
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	unsigned least = argc > 2 ? (unsigned)atoi(argv[2]) : 10,
			 most = argc > 3 ? (unsigned)atoi(argv[3]) : 50000;
	const char *kind = argc > 4 ? argv[4] : "both";
	int queued = argc > 5 ? atoi(argv[5]) : 64;
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUstream s;
	CUevent fence;
	srand((unsigned)now_us());
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&f, module, "busy"));
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&fence, CU_EVENT_DISABLE_TIMING));
	uint64_t start = now_us(), device_us = 0, launches = 0;
	for (int n = 1; (double)(now_us() - start) < seconds * 1e6; n++, launches++) {
		bool graph = !strcmp(kind, "graph") || (strcmp(kind, "eager") && rand() % 2);
		unsigned us = between(least, most);
		device_us += graph ? launch_graph(f, s, us) : launch(f, s, us);
		if (n % (queued / 2 + 1) == 0) {
			CHECK(CU(cuEventRecord)(fence, s));
			CHECK(CU(cuEventSynchronize)(fence));
		}
	}
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuEventDestroy_v2)(fence));
	printf("{\"launches\":%llu,\"device_us\":%llu,\"wall_us\":%llu}\n",
		(unsigned long long)launches, (unsigned long long)device_us,
		(unsigned long long)(now_us() - start));
	return 0;
}
