// A program with the CUDA runtime linked into it, as nvcc does by default and as PyTorch does: no libcudart to put anything before.
#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
	do { \
		cudaError_t e = (call); \
		if (e != cudaSuccess) { \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); \
			exit(1); \
		} \
	} while (0)

__global__ void add(const float *a, const float *b, float *c, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) c[i] = a[i] + b[i];
}

int main() {
	const int n = 1 << 20;
	size_t available, total;
	float *a, *b, *c, last;
	CHECK(cudaMemGetInfo(&available, &total));
	CHECK(cudaMallocManaged(&a, n * sizeof *a));
	CHECK(cudaMalloc(&b, n * sizeof *b));
	CHECK(cudaMallocAsync(&c, n * sizeof *c, 0));
	for (int i = 0; i < n; i++) a[i] = 1;
	CHECK(cudaMemcpy(b, a, n * sizeof *b, cudaMemcpyDefault));
	for (int i = 0; i < 1000; i++) add<<<n / 256, 256>>>(a, b, c, n);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&last, c + n - 1, sizeof last, cudaMemcpyDefault));
	void *all = nullptr;
	cudaError_t beyond = cudaMalloc(&all, total + (1 << 20));
	printf("{\"total_bytes\": %zu, \"correct\": %s, \"beyond\": %d}\n", total, last == 2 ? "true" : "false", (int)beyond);
	return 0;
}
