// Streams, events, asynchronous copies from pinned memory, and functions of the host.
#include "sample.h"

#include <atomic>

static __global__ void work(int *p, int n) {
	for (int i = 0; i < n; i++)
		p[threadIdx.x] += i;
}

static void count(void *n) { ++*static_cast<std::atomic<int> *>(n); }

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *n) {
	if (!status)
		count(n);
}

int streams(const char *) {
	enum { N = 4, BYTES = 1 << 16 };
	std::atomic<int> called{0};
	cudaStream_t s[N];
	cudaEvent_t begin, end, passed;
	unsigned char *host, *device;
	MUST(cudaMallocHost(&host, N * BYTES));
	MUST(cudaMalloc(&device, N * BYTES));
	MUST(cudaEventCreate(&begin));
	MUST(cudaEventCreate(&end));
	MUST(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming));
	for (int i = 0; i < N; i++)
		MUST(cudaStreamCreateWithPriority(&s[i], cudaStreamNonBlocking, -i));
	MUST(cudaEventRecord(begin, s[0]));
	for (int i = 0; i < N; i++) {
		std::memset(host + i * BYTES, i + 1, BYTES);
		MUST(cudaStreamWaitEvent(s[i], begin, 0));
		MUST(cudaMemcpyAsync(device + i * BYTES, host + i * BYTES, BYTES, cudaMemcpyDefault, s[i]));
		work<<<8, 64, 0, s[i]>>>((int *)(device + i * BYTES), 10);
		SAY(cudaGetLastError());
		MUST(cudaLaunchHostFunc(s[i], count, &called));
		MUST(cudaStreamAddCallback(s[i], callback, &called, 0));
		if (i)
			MUST(cudaStreamWaitEvent(s[0], passed, 0));
		MUST(cudaEventRecord(passed, s[i]));
	}
	for (int i = 0; i < N; i++)
		MUST(cudaStreamSynchronize(s[i]));
	SHOW(called);
	MUST(cudaEventRecord(end, s[0]));
	MUST(cudaEventSynchronize(end));
	SAY(cudaEventQuery(begin));
	float ms = -1;
	MUST(cudaEventElapsedTime(&ms, begin, end));
	HOLDS(ms > 0);
	SAY(cudaEventElapsedTime(&ms, begin, passed));
	MUST(cudaMemsetAsync(device, 0x5a, BYTES, s[1]));
	MUST(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, s[1]));
	MUST(cudaStreamSynchronize(s[1]));
	HOLDS(filled(host, 0x5a, BYTES));
	MUST(cudaMemcpy2D(host, 256, device, 512, 256, 32, cudaMemcpyDeviceToHost));
	HOLDS(filled(host, 0x5a, 256 * 32));
	int priority = 9;
	MUST(cudaStreamGetPriority(s[3], &priority));
	SHOW(priority);
	SAY(cudaStreamQuery(nullptr));
	for (int i = 0; i < N; i++)
		MUST(cudaStreamDestroy(s[i]));
	MUST(cudaEventDestroy(begin));
	MUST(cudaEventDestroy(end));
	MUST(cudaEventDestroy(passed));
	MUST(cudaFree(device));
	MUST(cudaFreeHost(host));
	return 0;
}
