// Graphs that are captured from streams, updated, cloned and launched again, with memory of their
// own.
#include "sample.h"

static __global__ void add(int *p, int n) { p[threadIdx.x] += n; }

static cudaError_t record(cudaStream_t s, cudaStream_t beside, cudaEvent_t fork, cudaEvent_t join,
	int *p, unsigned char *back, int value, cudaGraph_t *g) {
	cudaError_t r = cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
	if (r)
		return r;
	cudaMemsetAsync(p, value, 4096, s);
	cudaEventRecord(fork, s);
	cudaStreamWaitEvent(beside, fork, 0);
	add<<<1, 32, 0, beside>>>(p + 4096, value);
	cudaEventRecord(join, beside);
	add<<<1, 32, 0, s>>>(p + 8192, value);
	cudaStreamWaitEvent(s, join, 0);
	cudaMemcpyAsync(back, p, 4096, cudaMemcpyDeviceToHost, s);
	return cudaStreamEndCapture(s, g);
}

static int refused(cudaStream_t s, int *p) {
	cudaGraph_t g = nullptr;
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	cudaStreamCaptureStatus status;
	MUST(cudaStreamIsCapturing(s, &status));
	SHOW(status);
	void *q = nullptr;
	SAY(cudaMalloc(&q, 1 << 20)); // unsafe while a stream is being captured
	SAY(cudaStreamEndCapture(s, &g));
	SAY(cudaGetLastError());
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	add<<<1, 32, 0, s>>>(p, 1);
	SAY(cudaStreamSynchronize(s));
	SAY(cudaStreamEndCapture(s, &g));
	SAY(cudaGetLastError());
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	SAY(cudaMalloc(&q, 1 << 20));
	MUST(cudaStreamEndCapture(s, &g));
	MUST(cudaGraphDestroy(g));
	MUST(cudaFree(q));
	return 0;
}

static int with_memory(cudaStream_t s) {
	cudaGraph_t g;
	cudaGraphExec_t x;
	int *q;
	size_t before = left();
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	MUST(cudaMallocAsync(&q, 32 << 20, s));
	add<<<1, 32, 0, s>>>(q, 1);
	MUST(cudaFreeAsync(q, s));
	MUST(cudaStreamEndCapture(s, &g));
	MUST(cudaGraphInstantiate(&x, g, 0));
	for (int i = 0; i < 3; i++)
		MUST(cudaGraphLaunch(x, s));
	MUST(cudaStreamSynchronize(s));
	MUST(cudaGraphExecDestroy(x));
	MUST(cudaGraphDestroy(g));
	MUST(cudaDeviceGraphMemTrim(0));
	HOLDS(as_before(before));
	return 0;
}

int capture(const char *) {
	cudaStream_t s, beside;
	cudaEvent_t fork, join;
	cudaGraph_t g, other, clone;
	cudaGraphExec_t x;
	int *p;
	unsigned char *back;
	MUST(cudaMalloc(&p, 1 << 20));
	MUST(cudaMallocHost(&back, 4096));
	MUST(cudaStreamCreate(&s));
	MUST(cudaStreamCreate(&beside));
	MUST(cudaEventCreate(&fork));
	MUST(cudaEventCreate(&join));
	MUST(record(s, beside, fork, join, p, back, 5, &g));
	size_t n = 0;
	MUST(cudaGraphGetNodes(g, nullptr, &n));
	SHOW(n);
	MUST(cudaGraphInstantiate(&x, g, 0));
	std::memset(back, 0, 4096);
	for (int i = 0; i < 10; i++)
		MUST(cudaGraphLaunch(x, s));
	MUST(cudaStreamSynchronize(s));
	HOLDS(filled(back, 5, 4096));
	MUST(record(s, beside, fork, join, p, back, 6, &other));
	cudaGraphExecUpdateResultInfo info = {};
	MUST(cudaGraphExecUpdate(x, other, &info));
	SHOW(info.result);
	MUST(cudaGraphUpload(x, s));
	MUST(cudaGraphLaunch(x, s));
	MUST(cudaStreamSynchronize(s));
	HOLDS(filled(back, 6, 4096));
	MUST(cudaGraphClone(&clone, g));
	MUST(cudaGraphGetNodes(clone, nullptr, &n));
	SHOW(n);
	MUST(cudaGraphDestroy(clone));
	MUST(cudaGraphDestroy(other));
	MUST(cudaGraphDestroy(g));
	MUST(cudaGraphExecDestroy(x));
	if (refused(s, p) || with_memory(s))
		return 1;
	MUST(cudaEventDestroy(fork));
	MUST(cudaEventDestroy(join));
	MUST(cudaStreamDestroy(beside));
	MUST(cudaStreamDestroy(s));
	MUST(cudaFreeHost(back));
	MUST(cudaFree(p));
	return 0;
}
