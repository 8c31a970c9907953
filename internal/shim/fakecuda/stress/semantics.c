// semantics checks the rules of streams, events, graphs, capture, faults and green contexts on a
// device that nobody else uses, against what NVIDIA's manual says of them and against the durations
// asked for.
//
// usage: semantics
// The last line is JSON: checks, the number that held. A check that fails ends the program.
#include "../example/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

static CUcontext context;
static CUfunction busy; // its first parameter is its duration in microseconds
static int checks;

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void hold(bool holds, const char *what, int line) {
	if (!holds) {
		fprintf(stderr, "semantics.c:%d: %s\n", line, what);
		exit(1);
	}
	checks++;
}

#define HOLD(condition) hold(condition, #condition, __LINE__)
#define GIVES(call, result) hold((call) == (result), #call " gives " #result, __LINE__)

static void launch(CUstream s, unsigned us) {
	void *params[] = {&us};
	CHECK(CU(cuLaunchKernel)(busy, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static CUstream stream(unsigned flags, int priority) {
	CUstream s;
	CHECK(CU(cuStreamCreateWithPriority)(&s, flags, priority));
	return s;
}

static CUevent events[256]; // all that were made, for the end
static int made;

static CUevent event(void) {
	CUevent e;
	CHECK(CU(cuEventCreate)(&e, CU_EVENT_DEFAULT));
	if (made < 256)
		events[made++] = e;
	return e;
}

static CUevent mark(CUstream s) {
	CUevent e = event();
	CHECK(CU(cuEventRecord)(e, s));
	return e;
}

static double between(CUevent a, CUevent b) {
	float ms;
	CHECK(CU(cuEventSynchronize)(b));
	CHECK(CU(cuEventElapsedTime)(&ms, a, b));
	return (double)ms;
}

static double plugged; // until when the plug occupies the device at least

// plug occupies the device while a check queues its work, so that the work's times do not depend on
// when the host got to queue it.
static CUevent plug(CUstream s) {
	plugged = now_ms() + 30;
	launch(s, 30000);
	return mark(s);
}

// in_time reports whether what was queued since the plug came while that occupied the device. Where
// other work on this machine kept the program from running for as long, its times say nothing: the
// check is made again after it.
static bool in_time(void) {
	if (now_ms() < plugged)
		return true;
	CHECK(CU(cuCtxSynchronize)());
	return false;
}

static void repeat(bool (*check)(void)) {
	while (!check())
		;
}

static bool near(double got, double want) { return got > want - 0.001 && got < want + 0.001; }

// Kernels of a stream run in order for as long as they were asked to; events between them show it,
// and never run backwards.
static bool in_order(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0);
	CUevent e[9];
	double start = now_ms();
	e[0] = plug(s);
	for (unsigned i = 0; i < 8; i++) {
		launch(s, 500 * (i + 1));
		e[i + 1] = mark(s);
	}
	float ms;
	CUresult of_stream = CU(cuStreamQuery)(s), of_event = CU(cuEventQuery)(e[8]),
			 of_time = CU(cuEventElapsedTime)(&ms, e[0], e[8]);
	if (!in_time())
		return false;
	GIVES(of_stream, CUDA_ERROR_NOT_READY);
	GIVES(of_event, CUDA_ERROR_NOT_READY);
	GIVES(of_time, CUDA_ERROR_NOT_READY);
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(now_ms() - start >= 48);
	GIVES(CU(cuStreamQuery)(s), CUDA_SUCCESS);
	GIVES(CU(cuEventQuery)(e[8]), CUDA_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		HOLD(near(between(e[i], e[i + 1]), 0.5 * (i + 1)));
	CHECK(CU(cuStreamDestroy_v2)(s));
	return true;
}

// One kernel at a time: two streams share the device, and a stream that waits for another's event
// starts after it.
static bool across(void) {
	CUstream a = stream(CU_STREAM_NON_BLOCKING, 0), b = stream(CU_STREAM_NON_BLOCKING, 0);
	CUevent start = plug(a);
	launch(a, 2000);
	CUevent first = mark(a);
	CHECK(CU(cuStreamWaitEvent)(b, first, 0));
	launch(b, 1000);
	CUevent second = mark(b);
	launch(a, 3000);
	CUevent third = mark(a);
	if (!in_time())
		return false;
	HOLD(near(between(start, first), 2));
	HOLD(near(between(first, second), 1));
	double all = between(start, third); // the last kernel of a may come before or after that of b
	HOLD(near(all, 5) || near(all, 6));
	return true;
}

// The more urgent stream's kernels go first, whoever asked first.
static bool priorities(void) {
	CUstream low = stream(CU_STREAM_NON_BLOCKING, 0), high = stream(CU_STREAM_NON_BLOCKING, -5);
	int least, greatest, got;
	CHECK(CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
	HOLD(least == 0 && greatest == -5);
	CHECK(CU(cuStreamGetPriority)(high, &got));
	HOLD(got == -5);
	CUevent start = plug(low);
	for (int i = 0; i < 10; i++)
		launch(low, 1000);
	CUevent last = mark(low);
	launch(high, 500);
	CUevent urgent = mark(high);
	if (!in_time())
		return false;
	HOLD(near(between(start, urgent), 0.5));
	HOLD(near(between(start, last), 10.5));
	return true;
}

// The legacy default stream waits for blocking streams and they for it; non-blocking ones take no
// part.
static bool legacy(void) {
	CUstream a = stream(CU_STREAM_DEFAULT, 0), b = stream(CU_STREAM_DEFAULT, 0),
			 free_one = stream(CU_STREAM_NON_BLOCKING, -5);
	CUevent start = plug(a);
	launch(a, 2000);
	launch(NULL, 1000);
	CUevent middle = mark(NULL);
	launch(b, 1000);
	CUevent end = mark(b);
	launch(free_one, 100);
	CUevent early = mark(free_one);
	if (!in_time())
		return false;
	HOLD(near(between(start, early), 0.1));
	HOLD(near(between(start, middle), 3.1));
	HOLD(near(between(start, end), 4.1));
	CHECK(CU(cuStreamSynchronize)(NULL));
	GIVES(CU(cuStreamQuery)(b), CUDA_SUCCESS);
	return true;
}

static atomic_int called;

static void call(void *work_done) {
	atomic_store((atomic_int *)work_done, 1);
	struct timespec t = {.tv_nsec = 3000000};
	nanosleep(&t, NULL);
}

// A host function runs after what precedes it in its stream, and what follows waits for it, however
// late other work on this machine makes it.
static bool host_functions(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0);
	atomic_store(&called, 0);
	CUevent start = plug(s);
	launch(s, 2000);
	CHECK(CU(cuLaunchHostFunc)(s, call, &called));
	launch(s, 1000);
	CUevent end = mark(s);
	bool early = atomic_load(&called);
	if (!in_time())
		return false;
	HOLD(!early);
	double ms = between(start, end);
	HOLD(atomic_load(&called) && ms >= 6);
	return true;
}

static CUgraphExec instance(CUgraph g) {
	CUgraphExec x;
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	return x;
}

static double run_graph(CUgraphExec x, CUstream s) {
	for (;;) {
		CUevent from = plug(s);
		CHECK(CU(cuGraphLaunch)(x, s));
		CUevent end = mark(s);
		if (in_time())
			return between(from, end);
	}
}

// A graph takes the sum of its nodes, whether captured or built, with forks inside, and with a
// child.
static void graphs(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0), t = stream(CU_STREAM_NON_BLOCKING, 0);
	CUgraph g, parent;
	CUgraphNode nodes[8], child, extra;
	size_t count = 8;
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(s, 1000);
	CUevent fork = mark(s);
	CHECK(CU(cuStreamWaitEvent)(t, fork, 0));
	launch(t, 2000);
	launch(s, 500);
	CUevent join = mark(t);
	CHECK(CU(cuStreamWaitEvent)(s, join, 0));
	launch(s, 250);
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphGetNodes)(g, nodes, &count));
	HOLD(count == 4);
	CHECK(CU(cuGraphNodeGetDependencies)(nodes[3], NULL, &count));
	HOLD(count == 2);
	CUgraphExec x = instance(g);
	HOLD(near(run_graph(x, s), 3.75));
	HOLD(near(run_graph(x, t), 3.75));

	unsigned us = 1250;
	void *params[] = {&us};
	CUDA_KERNEL_NODE_PARAMS p = {.func = busy,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CHECK(CU(cuGraphCreate)(&parent, 0));
	CHECK(CU(cuGraphAddChildGraphNode)(&child, parent, NULL, 0, g));
	CHECK(CU(cuGraphAddKernelNode_v2)(&extra, parent, &child, 1, &p));
	CUgraphExec y = instance(parent);
	HOLD(near(run_graph(y, s), 5));
	us = 250;
	CHECK(CU(cuGraphExecKernelNodeSetParams_v2)(y, extra, &p));
	HOLD(near(run_graph(y, s), 4));
	CHECK(CU(cuGraphNodeSetEnabled)(y, extra, 0));
	HOLD(near(run_graph(y, s), 3.75));
	CHECK(CU(cuGraphAddDependencies)(parent, &extra, &child, 1));
	CUgraphExec none;
	GIVES(CU(cuGraphInstantiateWithFlags)(&none, parent, 0), CUDA_ERROR_INVALID_VALUE); // a cycle
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphExecDestroy)(y));
	CHECK(CU(cuGraphDestroy)(parent));
	CHECK(CU(cuGraphDestroy)(g));
}

// Memory of a graph: taken by its first launch, kept between launches, given back by trimming after
// its end.
static void graph_memory(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0);
	CUgraph g;
	CUdeviceptr p;
	size_t before, during, after, total;
	uint64_t reserved;
	CHECK(CU(cuMemGetInfo_v2)(&before, &total));
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(CU(cuMemAllocAsync)(&p, 10 << 20, s));
	launch(s, 100);
	CHECK(CU(cuMemFreeAsync)(p, s));
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CUgraphExec x = instance(g);
	CHECK(CU(cuMemGetInfo_v2)(&during, &total));
	HOLD(during == before);
	for (int i = 0; i < 3; i++) {
		CHECK(CU(cuGraphLaunch)(x, s));
		CHECK(CU(cuMemGetInfo_v2)(&during, &total));
		HOLD(before - during == 10 << 20);
	}
	CHECK(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
	HOLD(reserved == 10 << 20);
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuDeviceGraphMemTrim)(0));
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
	CHECK(CU(cuMemGetInfo_v2)(&after, &total));
	HOLD(after == before);
}

static CUresult unsafe_result;

static void *unsafe_call(void *e) {
	CHECK(CU(cuCtxSetCurrent)(context));
	unsafe_result = CU(cuEventQuery)(e);
	return NULL;
}

static CUresult unsafe_elsewhere(CUevent e) {
	pthread_t t;
	if (pthread_create(&t, NULL, unsafe_call, e))
		exit(1);
	pthread_join(t, NULL);
	return unsafe_result;
}

// Two streams that captured together do so again, and the second graph is like the first.
static void captured_again(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0), t = stream(CU_STREAM_NON_BLOCKING, 0);
	for (int i = 0; i < 2; i++) {
		CUgraph g;
		size_t count = 0;
		CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
		CHECK(CU(cuStreamWaitEvent)(t, mark(s), 0));
		launch(t, 100);
		CHECK(CU(cuStreamWaitEvent)(s, mark(t), 0));
		launch(s, 100);
		CHECK(CU(cuStreamEndCapture)(s, &g));
		CHECK(CU(cuGraphGetNodes)(g, NULL, &count));
		HOLD(count == 2);
		CHECK(CU(cuGraphDestroy)(g));
	}
}

// What a capture forbids, in its thread and in others, and how it ends then.
static void capture_rules(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0), t = stream(CU_STREAM_NON_BLOCKING, 0);
	CUevent done = mark(s);
	CUgraph g;
	CUdeviceptr p;
	CUstreamCaptureStatus status;
	CHECK(CU(cuEventSynchronize)(done));

	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(CU(cuStreamIsCapturing)(s, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	GIVES(unsafe_elsewhere(done), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(CU(cuStreamIsCapturing)(s, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	GIVES(unsafe_elsewhere(done), CUDA_SUCCESS);
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphDestroy)(g));

	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(CU(cuMemAlloc_v2)(&p, 64), CUDA_SUCCESS);
	GIVES(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	GIVES(CU(cuStreamSynchronize)(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CUevent fork = mark(s);
	CHECK(CU(cuStreamWaitEvent)(t, fork, 0));
	launch(t, 10);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	CHECK(CU(cuStreamIsCapturing)(t, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_NONE);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_ILLEGAL_STATE);
	// Memory that is mapped by hand may be made meanwhile.
	CUmemGenericAllocationHandle block;
	CUmemAllocationProp ours = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUstream captured = stream(CU_STREAM_NON_BLOCKING, 0);
	CUgraph recorded;
	CHECK(CU(cuStreamBeginCapture_v2)(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(CU(cuMemCreate)(&block, 2 << 20, &ours, 0), CUDA_SUCCESS);
	GIVES(CU(cuStreamEndCapture)(captured, &recorded), CUDA_SUCCESS);
	CHECK(CU(cuMemRelease)(block));
	CHECK(CU(cuGraphDestroy)(recorded));
	CHECK(CU(cuStreamDestroy_v2)(captured));
}

// The legacy default stream cannot be used while a blocking stream of the context is captured: to
// ask it is no harm, to put something on it ends the capture.
static void capture_and_default(void) {
	CUstream s = stream(CU_STREAM_DEFAULT, 0);
	CUevent e = event();
	CUgraph g;
	CUstreamCaptureStatus status;
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(CU(cuStreamIsCapturing)(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	CHECK(CU(cuStreamIsCapturing)(s, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphDestroy)(g));
	CHECK(CU(cuStreamIsCapturing)(CU_STREAM_LEGACY, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_NONE);

	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(CU(cuEventRecord)(e, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	CHECK(CU(cuStreamIsCapturing)(s, &status));
	HOLD(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	// an event of a capture cannot be looked at in any mode, and to try ends the capture
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CHECK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(CU(cuEventRecord)(e, s));
	GIVES(CU(cuEventQuery)(e), CUDA_ERROR_CAPTURED_EVENT);
	GIVES(CU(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// A kernel's fault ends its context, and no other: all calls give the error until it is destroyed.
static void fault(void) {
	CUcontext c;
	CUmodule m;
	CUfunction bad;
	CUstream s, other = stream(CU_STREAM_NON_BLOCKING, 0);
	CUdeviceptr p;
	CUevent e;
	uint32_t *go; // without it the first kernel may have failed before the second is launched
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	CHECK(CU(cuMemHostAlloc)((void **)&go, 4096, 0));
	CHECK(CU(cuModuleLoadData)(&m, "kernel bad us=100 fault\n"));
	CHECK(CU(cuModuleGetFunction)(&bad, m, "bad"));
	s = stream(CU_STREAM_NON_BLOCKING, 0);
	CHECK(CU(cuEventCreate)(&e, CU_EVENT_DEFAULT));
	GIVES(CU(cuEventRecord)(e, other), CUDA_ERROR_INVALID_HANDLE); // of another context
	CHECK(CU(cuMemAlloc_v2)(&p, 64));
	CHECK(CU(cuStreamWaitValue32_v2)(s, (CUdeviceptr)(uintptr_t)go, 1, 0));
	CHECK(CU(cuLaunchKernel)(bad, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
	CHECK(CU(cuLaunchKernel)(bad, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL));
	__atomic_store_n(go, 1, __ATOMIC_RELEASE);
	CUresult synchronized = CU(cuStreamSynchronize)(s);
	HOLD(synchronized == CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU(cuLaunchKernel)(bad, 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU(cuEventRecord)(e, s), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU(cuEventQuery)(e), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU(cuMemFree_v2)(p), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(CU(cuCtxPushCurrent_v2)(context));
	launch(other, 10);
	CHECK(CU(cuStreamSynchronize)(other));
	CHECK(CU(cuCtxPopCurrent_v2)(NULL));
	CHECK(CU(cuCtxDestroy_v2)(c));
	CHECK(CU(cuEventDestroy_v2)(e));
	CHECK(CU(cuStreamDestroy_v2)(other));
	launch(NULL, 10);
	CHECK(CU(cuCtxSynchronize)());
}

static CUcontext green;
static CUresult green_result;

static void *push_green(void *unused) {
	(void)unused;
	green_result = CU(cuCtxPushCurrent_v2)(green);
	if (!green_result)
		CHECK(CU(cuCtxPopCurrent_v2)(NULL));
	return NULL;
}

static CUresult push_elsewhere(void) {
	pthread_t t;
	if (pthread_create(&t, NULL, push_green, NULL))
		exit(1);
	pthread_join(t, NULL);
	return green_result;
}

// A green context is current in one thread at a time; its streams take the primary context's
// events, and outlive it detached.
static void green_context(void) {
	CUdevResource all, part[2], rest;
	CUdevResourceDesc desc;
	CUgreenCtx g, of;
	CUcontext c;
	CUstream s;
	unsigned groups = 2;
	CHECK(CU(cuDeviceGetDevResource)(0, &all, 1));
	CHECK(CU(cuDevSmResourceSplitByCount)(part, &groups, &all, &rest, 0, 10));
	HOLD(groups == 2 && part[0].sm.smCount == 16 &&
		rest.sm.smCount == all.sm.smCount - 2 * part[0].sm.smCount);
	CHECK(CU(cuDevResourceGenerateDesc)(&desc, part, 1));
	CHECK(CU(cuGreenCtxCreate)(&g, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(CU(cuCtxFromGreenCtx)(&green, g));
	CHECK(CU(cuGreenCtxStreamCreate)(&s, g, CU_STREAM_NON_BLOCKING, 0));
	CHECK(CU(cuStreamGetCtx_v2)(s, &c, &of));
	HOLD(c == context && of == g);
	CHECK(CU(cuStreamGetCtx)(s, &c));
	HOLD(c == green);
	launch(s, 100);
	CUevent e = mark(s);
	CHECK(CU(cuEventSynchronize)(e));
	CHECK(CU(cuGreenCtxRecordEvent)(g, e));
	CHECK(CU(cuEventSynchronize)(e));
	GIVES(push_elsewhere(), CUDA_SUCCESS);
	CHECK(CU(cuCtxPushCurrent_v2)(green));
	GIVES(push_elsewhere(), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(CU(cuCtxPopCurrent_v2)(&c));
	GIVES(push_elsewhere(), CUDA_SUCCESS);
	CHECK(CU(cuGreenCtxDestroy)(g));
	GIVES(CU(cuStreamQuery)(s), CUDA_ERROR_STREAM_DETACHED);
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// Pools keep what is freed up to the threshold until the program synchronises or trims.
static void pools(void) {
	CUstream s = stream(CU_STREAM_NON_BLOCKING, 0);
	CUmemoryPool pool;
	CUdeviceptr p;
	uint64_t keep = UINT64_MAX, reserved, used;
	size_t before, after, total;
	CHECK(CU(cuMemGetInfo_v2)(&before, &total));
	CHECK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
	CHECK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	CHECK(CU(cuMemAllocAsync)(&p, 5 << 20, s));
	CHECK(CU(cuMemFreeAsync)(p, s));
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	CHECK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	HOLD(reserved == 6 << 20 && used == 0);
	CHECK(CU(cuMemPoolTrimTo)(pool, 0));
	CHECK(CU(cuMemGetInfo_v2)(&after, &total));
	HOLD(after == before);
	keep = 0;
	CHECK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

#include "semantics_pools.h"

// A stream waits for a word that another writes after its work.
static void words(void) {
	CUstream a = stream(CU_STREAM_NON_BLOCKING, 0);
	CUdeviceptr p;
	uint32_t word = 7;
	CHECK(CU(cuMemAlloc_v2)(&p, 64));
	CHECK(CU(cuMemsetD32_v2)(p, 0, 16));
	CUevent start = plug(a);
	CHECK(CU(cuStreamWriteValue32_v2)(a, p + 4, 42, 0));
	CHECK(CU(cuStreamWaitValue32_v2)(a, p + 4, 42, 1));
	CUevent end = mark(a);
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p + 4, 4));
	HOLD(word == 0 || word == 42);
	HOLD(between(start, end) >= 0);
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p + 4, 4));
	HOLD(word == 42);
	GIVES(CU(cuStreamWriteValue32_v2)(a, p + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	CUstreamBatchMemOpParams batch[3] = {{.word = {.operation = 2, .address = p, .value = 5}},
		{.operation = 6}, // a barrier
		{.word = {.operation = 1, .address = p, .value = 5, .flags = 1}}};
	CHECK(CU(cuStreamBatchMemOp_v2)(a, 3, batch, 0));
	CHECK(CU(cuStreamSynchronize)(a));
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p, 4));
	HOLD(word == 5);
	GIVES(CU(cuStreamBatchMemOp_v2)(a, 256, batch, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuMemFree_v2)(p));
}

// Names and forms of calls by version and default stream.
static void look_ups(void) {
	static const struct {
		const char *name;
		int version;
		uint64_t flags;
		const char *symbol;
	} rows[] = {
		{"cuMemAlloc", 12000, 0, "cuMemAlloc_v2"},
		{"cuMemAlloc", 2000, 0, "cuMemAlloc"},
		{"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuLaunchKernel"},
		{"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			"cuLaunchKernel_ptsz"},
		{"cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			"cuMemcpyHtoD_v2_ptds"},
		{"cuGetProcAddress", 11080, 0, "cuGetProcAddress"},
		{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
		{"cuStreamGetCaptureInfo", 12000, 0, "cuStreamGetCaptureInfo_v2"},
		{"cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3"},
		{"cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		void *found;
		CHECK(CU(cuGetProcAddress_v2)(rows[i].name, &found, rows[i].version, rows[i].flags, NULL));
		hold(found == cu_symbol(rows[i].symbol), rows[i].symbol, __LINE__);
	}
}

// Foreign and freed handles are errors.
static void refusals(void) {
	CUdeviceptr p;
	size_t n;
	char junk[64] = {0};
	CUmodule m;
	GIVES(CU(cuLaunchKernel)((CUfunction)(void *)junk, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
	GIVES(
		CU(cuLaunchKernel)(busy, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuStreamSynchronize)((CUstream)(void *)junk), CUDA_ERROR_INVALID_HANDLE);
	GIVES(CU(cuMemAlloc_v2)(&p, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuMemAlloc_v2)(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	GIVES(CU(cuMemFree_v2)(0x1234), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuMemcpyHtoD_v2)(0x1234, junk, 8), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuModuleLoadData)(&m, "no device program"), CUDA_ERROR_INVALID_IMAGE);
	CHECK(CU(cuMemAlloc_v2)(&p, 1000));
	GIVES(CU(cuMemcpyHtoD_v2)(p + 999, junk, 2), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuMemGetAddressRange_v2)(NULL, &n, p + 999), CUDA_SUCCESS);
	HOLD(n == 1000);
	CHECK(CU(cuMemFree_v2)(p));
	GIVES(CU(cuMemFree_v2)(p), CUDA_ERROR_INVALID_VALUE);
}

// The bounds of a tensor map's parameters, as cuda.h has them.
static void tensor_maps(void) {
	enum { FLOAT32 = 7, UINT8 = 0, SWIZZLE_64B = 2 };
	CUtensorMap map;
	void *at = (void *)(uintptr_t)0x10000, *odd = (void *)(uintptr_t)0x10008;
	uint64_t dim[2] = {128, 64}, stride[1] = {512}, ragged[1] = {520};
	uint32_t box[2] = {16, 64}, wide[2] = {32, 64}, large[2] = {16, 257}, step[2] = {1, 1};
#define ENCODE(type, address, stride, box, swizzle, fill) \
	CU(cuTensorMapEncodeTiled) \
	(&map, type, 2, address, dim, stride, box, step, 0, swizzle, 0, fill)
	GIVES(ENCODE(FLOAT32, at, stride, box, SWIZZLE_64B, 1), CUDA_SUCCESS);
	GIVES(ENCODE(FLOAT32, odd, stride, box, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(ENCODE(FLOAT32, at, ragged, box, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(ENCODE(FLOAT32, at, stride, large, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(ENCODE(FLOAT32, at, stride, wide, SWIZZLE_64B, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(ENCODE(UINT8, at, stride, box, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuTensorMapReplaceAddress)(&map, odd), CUDA_ERROR_INVALID_VALUE);
	GIVES(CU(cuTensorMapReplaceAddress)(&map, at), CUDA_SUCCESS);
#undef ENCODE
}

int main(void) {
	CUmodule module;
	GIVES(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	CHECK(CU(cuModuleLoadData)(&module, "kernel busy us=arg0\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, module, "busy"));
	repeat(in_order);
	repeat(across);
	repeat(priorities);
	repeat(legacy);
	repeat(host_functions);
	graphs();
	graph_memory();
	captured_again();
	capture_rules();
	capture_and_default();
	fault();
	green_context();
	pools();
	pool_left();
	words();
	look_ups();
	refusals();
	tensor_maps();
	while (made)
		CHECK(CU(cuEventDestroy_v2)(events[--made]));
	CHECK(CU(cuModuleUnload)(module));
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
	printf("{\"checks\":%d}\n", checks);
	return 0;
}
