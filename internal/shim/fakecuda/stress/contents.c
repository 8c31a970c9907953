// contents checks by value what copies, sets and kernels with an effect leave in memory, and when.
//
// usage: contents
// The last line is JSON: checks, the number that held. A check that fails ends the program.
#include "../example/load.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1 << 14, BYTES = 4 * WORDS, GRANULE = 2 << 20 };

static CUcontext context;
static CUfunction busy, fill, add, copy;
static int checks;

static void hold(bool holds, const char *what, int line) {
	if (!holds) {
		fprintf(stderr, "contents.c:%d: %s\n", line, what);
		exit(1);
	}
	checks++;
}

#define HOLD(condition) hold(condition, #condition, __LINE__)

static void launch(CUfunction f, CUstream s, void **params) {
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static void wait_us(CUstream s, unsigned us) { launch(busy, s, (void *[]){&us}); }

static void fill_words(CUstream s, CUdeviceptr p, uint32_t value, uint32_t n) {
	launch(fill, s, (void *[]){&p, &value, &n});
}

static void add_words(CUstream s, CUdeviceptr p, uint32_t value, uint32_t n) {
	launch(add, s, (void *[]){&p, &value, &n});
}

static CUstream stream(void) {
	CUstream s;
	CHECK(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

static CUdeviceptr allocate(size_t bytes) {
	CUdeviceptr p;
	CHECK(CU(cuMemAlloc_v2)(&p, bytes));
	return p;
}

static uint32_t word(CUdeviceptr p) {
	uint32_t w;
	CHECK(CU(cuMemcpyDtoH_v2)(&w, p, 4));
	return w;
}

static bool all(CUdeviceptr p, uint32_t value, size_t n) {
	static uint32_t got[WORDS];
	CHECK(CU(cuMemcpyDtoH_v2)(got, p, 4 * n));
	for (size_t i = 0; i < n; i++)
		if (got[i] != value)
			return false;
	return true;
}

// Operations of a stream see what those before them left, to the last byte, and pageable memory is
// read when the call is made.
static void in_order(void) {
	CUstream s = stream();
	CUdeviceptr a = allocate(BYTES), b = allocate(BYTES);
	static uint32_t in[WORDS], out[WORDS];
	for (uint32_t i = 0; i < WORDS; i++)
		in[i] = 7 * i;
	wait_us(s, 2000);
	CHECK(CU(cuMemcpyHtoDAsync_v2)(a, in, BYTES, s));
	in[WORDS - 1] = 0;
	add_words(s, a, 1, WORDS);
	CHECK(CU(cuMemcpyDtoDAsync_v2)(b, a, BYTES, s));
	CHECK(CU(cuMemsetD32Async)(a, 9, WORDS, s));
	CHECK(CU(cuMemcpyDtoHAsync_v2)(out, b, BYTES, s));
	CHECK(CU(cuStreamSynchronize)(s));
	for (uint32_t i = 0; i < WORDS; i++)
		HOLD(out[i] == 7 * i + 1);
	HOLD(all(a, 9, WORDS));
	CHECK(CU(cuMemFree_v2)(a));
	CHECK(CU(cuMemFree_v2)(b));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// Pinned memory is read and written when the device comes to it, without a call of the program.
static void pinned(void) {
	CUstream s = stream();
	CUdeviceptr d = allocate(64);
	volatile uint32_t *p;
	CHECK(CU(cuMemHostAlloc)((void **)&p, 4096, 0));
	p[0] = 1, p[1] = p[2] = 0;
	CHECK(CU(cuStreamWaitValue32_v2)(s, (CUdeviceptr)(uintptr_t)(p + 2), 1, 1));
	CHECK(CU(cuMemcpyHtoDAsync_v2)(d, (void *)p, 4, s));
	add_words(s, d, 5, 1);
	CHECK(CU(cuMemcpyDtoHAsync_v2)((void *)(p + 1), d, 4, s));
	p[0] = 2;
	__atomic_store_n(p + 2, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(p + 1, __ATOMIC_ACQUIRE))
		usleep(100);
	HOLD(p[1] == 7);
	CHECK(CU(cuMemFreeHost)((void *)p));
	CHECK(CU(cuMemFree_v2)(d));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// Streams that an event joins see each other's results.
static void joined(void) {
	CUstream s = stream(), t = stream();
	CUevent e;
	CUdeviceptr p = allocate(BYTES), q = allocate(BYTES);
	CHECK(CU(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING));
	for (uint32_t i = 1; i < 20; i++) {
		wait_us(s, 100);
		fill_words(s, p, i, WORDS);
		CHECK(CU(cuEventRecord)(e, s));
		CHECK(CU(cuStreamWaitEvent)(t, e, 0));
		uint32_t n = WORDS;
		launch(copy, t, (void *[]){&q, &p, &n});
		CHECK(CU(cuEventRecord)(e, t));
		CHECK(CU(cuStreamWaitEvent)(s, e, 0));
	}
	CHECK(CU(cuCtxSynchronize)());
	HOLD(all(q, 19, WORDS));
	CHECK(CU(cuEventDestroy_v2)(e));
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuMemFree_v2)(q));
	CHECK(CU(cuStreamDestroy_v2)(s));
	CHECK(CU(cuStreamDestroy_v2)(t));
}

// A stream that waits for a word keeps no other from writing it, and a host function that waits for
// a stream keeps no stream from going on.
static void look_at_word(void *p) {
	while (!__atomic_load_n((uint32_t *)p, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void words(void) {
	CUstream s = stream(), t = stream(), u = stream();
	CUdeviceptr d = allocate(64);
	uint32_t *p;
	CHECK(CU(cuMemHostAlloc)((void **)&p, 4096, 0));
	CHECK(CU(cuMemsetD32_v2)(d, 0, 16));
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuLaunchHostFunc)(u, look_at_word, p));
	CHECK(CU(cuStreamWaitValue32_v2)(s, d, 3, 1));
	CHECK(CU(cuStreamWriteValue32_v2)(s, (CUdeviceptr)(uintptr_t)p, 1, 0));
	CHECK(CU(cuStreamWaitValue64_v2)(t, d + 8, 1, 0));
	CHECK(CU(cuStreamWriteValue32_v2)(t, d, 3, 0));
	HOLD(CU(cuStreamQuery)(u) == CUDA_ERROR_NOT_READY);
	HOLD(CU(cuStreamQuery)(s) == CUDA_ERROR_NOT_READY);
	CHECK(CU(cuMemcpyHtoD_v2)(d + 8, &(uint64_t){1}, 8));
	CHECK(CU(cuStreamSynchronize)(u));
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuStreamSynchronize)(t));
	HOLD(word(d) == 3 && p[0] == 1);
	CHECK(CU(cuMemFree_v2)(d));
	CHECK(CU(cuMemFreeHost)(p));
	CHECK(CU(cuStreamDestroy_v2)(s));
	CHECK(CU(cuStreamDestroy_v2)(t));
	CHECK(CU(cuStreamDestroy_v2)(u));
}

// A wait for bits is over with one of them, or with one that neither has.
static void bits(void) {
	enum { AND = 2, NOR = 3 };
	CUstream s = stream(), t = stream();
	uint32_t *p;
	CHECK(CU(cuMemHostAlloc)((void **)&p, 4096, 0));
	__atomic_store_n(p, 1, __ATOMIC_RELEASE);
	CHECK(CU(cuStreamWaitValue32_v2)(s, (CUdeviceptr)(uintptr_t)p, 6, AND));
	CHECK(CU(cuStreamWaitValue32_v2)(t, (CUdeviceptr)(uintptr_t)p, ~UINT32_C(1), NOR));
	usleep(2000);
	HOLD(CU(cuStreamQuery)(s) == CUDA_ERROR_NOT_READY);
	HOLD(CU(cuStreamQuery)(t) == CUDA_ERROR_NOT_READY);
	__atomic_store_n(p, 5, __ATOMIC_RELEASE);
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(CU(cuStreamQuery)(t) == CUDA_ERROR_NOT_READY);
	__atomic_store_n(p, 4, __ATOMIC_RELEASE);
	CHECK(CU(cuStreamSynchronize)(t));
	CHECK(CU(cuMemFreeHost)(p));
	CHECK(CU(cuStreamDestroy_v2)(s));
	CHECK(CU(cuStreamDestroy_v2)(t));
}

// Rows and planes go where their pitches say, from and to arrays too.
static void shapes(void) {
	enum { W = 24, H = 5, D = 3 };
	unsigned char in[D][H][W], out[D][H][W];
	size_t pitch;
	CUdeviceptr p;
	CUarray a;
	for (int i = 0; i < D * H * W; i++)
		((unsigned char *)in)[i] = (unsigned char)(i * 11);
	CHECK(CU(cuMemAllocPitch_v2)(&p, &pitch, W, H * D, 4));
	CHECK(CU(cuMemsetD2D8_v2)(p, pitch, 0xee, pitch, H * D));
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = W,
		.Height = H,
		.Depth = D,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1};
	CHECK(CU(cuArray3DCreate_v2)(&a, &d));
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = p,
		.dstPitch = pitch,
		.dstHeight = H,
		.WidthInBytes = W,
		.Height = H,
		.Depth = D};
	CHECK(CU(cuMemcpy3D_v2)(&c));
	HOLD(word(p + W) == 0xeeeeeeee);
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE, c.srcDevice = p, c.srcPitch = pitch, c.srcHeight = H;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY, c.dstArray = a;
	CHECK(CU(cuMemcpy3DAsync_v2)(&c, NULL));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY, c.srcArray = a;
	c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = out, c.dstPitch = W;
	CHECK(CU(cuMemcpy3D_v2)(&c));
	HOLD(!memcmp(in, out, sizeof in));
	CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = a,
		.srcXInBytes = 4,
		.srcY = 1,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = out,
		.dstPitch = 8,
		.WidthInBytes = 8,
		.Height = 4};
	CHECK(CU(cuMemcpy2D_v2)(&flat));
	for (int y = 0; y < 4; y++)
		HOLD(!memcmp((unsigned char *)out + 8 * y, &in[0][y + 1][4], 8));
	flat.WidthInBytes = W;
	HOLD(CU(cuMemcpy2D_v2)(&flat) == CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuArrayDestroy)(a));
	CHECK(CU(cuMemFree_v2)(p));
}

// Mappings of one memory show the same contents, and a copy runs over mappings side by side.
static void mappings(void) {
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = 3};
	CUmemGenericAllocationHandle h[2];
	CUdeviceptr at, flat = allocate(2 * GRANULE);
	CHECK(CU(cuMemCreate)(&h[0], GRANULE, &props, 0));
	props.requestedHandleTypes = 0;
	CHECK(CU(cuMemCreate)(&h[1], GRANULE, &props, 0));
	CHECK(CU(cuMemAddressReserve)(&at, 3 * GRANULE, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		CHECK(CU(cuMemMap)(at + (size_t)i * GRANULE, GRANULE, 0, h[i % 2], 0));
	CHECK(CU(cuMemSetAccess)(at, 3 * GRANULE, &access, 1));
	CHECK(CU(cuMemsetD32_v2)(flat, 5, 2 * GRANULE / 4));
	CHECK(CU(cuMemcpyDtoD_v2)(at + GRANULE / 2, flat, GRANULE));
	HOLD(word(at + GRANULE / 2 - 4) == 0 && word(at + GRANULE / 2) == 5);
	HOLD(word(at + GRANULE) == 5 && word(at + GRANULE * 3 / 2) == 0);
	HOLD(word(at + 2 * GRANULE + GRANULE / 2) == 5); // the first memory again
	HOLD(CU(cuMemcpyDtoD_v2)(at + 2 * GRANULE, flat, 2 * GRANULE) == CUDA_ERROR_INVALID_VALUE);
	CHECK(CU(cuMemUnmap)(at, 3 * GRANULE));
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemRelease)(h[i]));
	CHECK(CU(cuMemAddressFree)(at, 3 * GRANULE));
	CHECK(CU(cuMemFree_v2)(flat));
}

// A captured graph does at each launch what was captured, with memory of its own and of pools.
static void graphs(void) {
	CUstream s = stream();
	CUgraph g;
	CUgraphExec x;
	CUdeviceptr p = allocate(BYTES), own;
	CHECK(CU(cuMemsetD8_v2)(p, 0, BYTES));
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(CU(cuMemAllocAsync)(&own, BYTES, s));
	CHECK(CU(cuMemcpyDtoDAsync_v2)(own, p, BYTES, s));
	add_words(s, own, 3, WORDS);
	CHECK(CU(cuMemcpyDtoDAsync_v2)(p, own, BYTES, s));
	CHECK(CU(cuMemFreeAsync)(own, s));
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	for (int i = 0; i < 4; i++)
		CHECK(CU(cuGraphLaunch)(x, s));
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(all(p, 12, WORDS));
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
	CHECK(CU(cuMemAllocAsync)(&own, BYTES, s));
	CHECK(CU(cuMemcpyDtoDAsync_v2)(own, p, BYTES, s));
	add_words(s, own, 1, WORDS);
	CHECK(CU(cuMemcpyDtoDAsync_v2)(p, own, BYTES, s));
	CHECK(CU(cuMemFreeAsync)(own, s)); // before the device has come to any of it
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(all(p, 13, WORDS));
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuStreamDestroy_v2)(s));
}

// Memory that is not touched costs nothing, however much it is.
static void large(void) {
	const size_t bytes = (size_t)4 << 30;
	CUdeviceptr p = allocate(bytes), q = allocate(bytes);
	CHECK(CU(cuMemsetD8_v2)(p, 0, bytes));
	CHECK(CU(cuMemcpyDtoD_v2)(q, p, bytes));
	CHECK(CU(cuMemcpyHtoD_v2)(q + bytes - 4, &(uint32_t){77}, 4));
	HOLD(word(q + bytes - 4) == 77 && word(q + bytes - 8) == 0 && word(p + bytes - 4) == 0);
	CHECK(CU(cuMemFree_v2)(p));
	CHECK(CU(cuMemFree_v2)(q));
}

// Memory that is allocated anew has nothing in it of what was freed, whatever is written first.
static void reused(void) {
	const size_t bytes = (size_t)8 << 20;
	for (int i = 0; i < 2; i++) {
		CUdeviceptr p = allocate(bytes);
		if (i)
			CHECK(CU(cuMemcpyHtoD_v2)(p + 4096, &(uint32_t){7}, 4));
		HOLD(word(p) == 0 && word(p + 8192) == 0 && word(p + bytes - 4) == 0);
		CHECK(CU(cuMemsetD8_v2)(p, 0x5a, bytes));
		CHECK(CU(cuMemFree_v2)(p));
	}
	CUdeviceptr p = allocate(bytes);
	fill_words(NULL, p + 4096, 7, 1);
	HOLD(word(p + 4096) == 7 && word(p) == 0 && word(p + bytes - 4) == 0);
	CHECK(CU(cuMemFree_v2)(p));
}

// zeroed: what is set to zero in the middle, whole pages or not, is that and nothing else.
static void zeroed(CUdeviceptr p, size_t bytes) {
	const size_t from[] = {0, 4096, (1 << 20) + 100}, n[] = {1 << 20, (1 << 21) + 100, 1 << 21};
	for (int i = 0; i < 3; i++) {
		CHECK(CU(cuMemsetD32_v2)(p, 0x5a5a5a5a, bytes / 4));
		CHECK(CU(cuMemsetD8_v2)(p + from[i], 0, n[i]));
		HOLD(!i || word(p + from[i] - 4) == 0x5a5a5a5a);
		HOLD(word(p + from[i]) == 0 && word(p + from[i] + n[i] - 4) == 0);
		HOLD(word(p + from[i] + n[i] - 104) == 0);
		HOLD(word(p + from[i] + n[i]) == 0x5a5a5a5a && word(p + bytes - 4) == 0x5a5a5a5a);
	}
}

// Memory by handles is set to zero in parts as any, and what lies before it stays.
static void by_handles(void) {
	const size_t bytes = 4 * GRANULE;
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = 3};
	CUmemGenericAllocationHandle h[2];
	CUdeviceptr at;
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemCreate)(&h[i], bytes, &props, 0));
	CHECK(CU(cuMemAddressReserve)(&at, 2 * bytes, 0, 0, 0));
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemMap)(at + (size_t)i * bytes, bytes, 0, h[i], 0));
	CHECK(CU(cuMemSetAccess)(at, 2 * bytes, &access, 1));
	CHECK(CU(cuMemsetD8_v2)(at, 0x5a, bytes));
	zeroed(at + bytes, bytes);
	HOLD(word(at) == 0x5a5a5a5a && word(at + bytes - 4) == 0x5a5a5a5a);
	CHECK(CU(cuMemUnmap)(at, 2 * bytes));
	for (int i = 0; i < 2; i++)
		CHECK(CU(cuMemRelease)(h[i]));
	CHECK(CU(cuMemAddressFree)(at, 2 * bytes));
}

// A kernel's access to memory that is not there ends everything, and says so from then on.
static void fault(void) {
	CUstream s = stream(), t = stream();
	CUevent e;
	CUdeviceptr p = allocate(BYTES);
	uint32_t *go;
	CHECK(CU(cuMemHostAlloc)((void **)&go, 4096, 0));
	CHECK(CU(cuEventCreate)(&e, 0));
	CHECK(CU(cuStreamWaitValue32_v2)(s, (CUdeviceptr)(uintptr_t)go, 1, 1));
	fill_words(s, p, 1, WORDS + 1);
	wait_us(s, 60000000);
	CHECK(CU(cuEventRecord)(e, s));
	CHECK(CU(cuStreamWaitValue32_v2)(t, p, 1, 1));
	__atomic_store_n(go, 1, __ATOMIC_RELEASE);
	HOLD(CU(cuStreamSynchronize)(s) == CUDA_ERROR_ILLEGAL_ADDRESS);
	HOLD(CU(cuEventSynchronize)(e) == CUDA_ERROR_ILLEGAL_ADDRESS);
	HOLD(CU(cuEventQuery)(e) == CUDA_ERROR_ILLEGAL_ADDRESS);
	HOLD(CU(cuMemFree_v2)(p) == CUDA_ERROR_ILLEGAL_ADDRESS);
	HOLD(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
}

int main(void) {
	CUmodule m;
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxPushCurrent_v2)(context));
	CHECK(CU(cuModuleLoadData)(&m, "kernel busy us=arg0\nkernel fill us=20 does=fill\n"
								   "kernel add us=20 does=add\nkernel copy us=20 does=copy\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, m, "busy"));
	CHECK(CU(cuModuleGetFunction)(&fill, m, "fill"));
	CHECK(CU(cuModuleGetFunction)(&add, m, "add"));
	CHECK(CU(cuModuleGetFunction)(&copy, m, "copy"));
	in_order();
	pinned();
	joined();
	words();
	bits();
	shapes();
	mappings();
	graphs();
	large();
	reused();
	CUdeviceptr p = allocate(4 * GRANULE);
	zeroed(p, 4 * GRANULE);
	CHECK(CU(cuMemFree_v2)(p));
	by_handles();
	CHECK(CU(cuModuleUnload)(m));
	CHECK(CU(cuModuleLoadData)(&m, "kernel busy us=arg0\nkernel fill us=20 does=fill\n"));
	CHECK(CU(cuModuleGetFunction)(&busy, m, "busy"));
	CHECK(CU(cuModuleGetFunction)(&fill, m, "fill"));
	fault();
	printf("{\"checks\":%d}\n", checks);
	return 0;
}
