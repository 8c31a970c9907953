// Steps of a random program that take memory of the device by other calls than its buffers', and
// give it back, with what counts looked at in between.
#ifndef WEIR_FAKE_RANDOM_MEMORY_H
#define WEIR_FAKE_RANDOM_MEMORY_H

#include "random.h"

// LOOK holds that all that is taken is counted.
#define LOOK(w) ((w)->alone ? counted(__func__) : (void)0)

// tall sets and copies a rectangle of so many rows that it is a large copy, though no row is.
static void tall(world *w) {
	CUstream s = any_stream(w);
	CUdeviceptr p;
	size_t pitch;
	uint32_t width = 256 + below(&w->rng, 768), height = LARGE / (4 * width) + 1,
			 value = (uint32_t)draw(&w->rng);
	height += below(&w->rng, height - 1);
	CHECK(CU(cuMemAllocPitch_v2)(&p, &pitch, 4 * (size_t)width, height, 4));
	LOOK(w);
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = p,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = w->pinned,
		.dstPitch = 4 * (size_t)width,
		.WidthInBytes = 4 * (size_t)width,
		.Height = height};
	CHECK(CU(cuMemsetD2D32Async)(p, pitch, value, width, height, s));
	CHECK(CU(cuMemcpy2DAsync_v2)(&c, s));
	copies(w, c.WidthInBytes * height);
	copies(w, c.WidthInBytes * height);
	CHECK(CU(cuStreamSynchronize)(s));
	for (uint32_t i = 0; i < width * height; i++)
		HOLD(w->pinned[i] == value);
	CHECK(CU(cuMemFree_v2)(p));
}

// limit sets one of the context's, beside which the context of a moment comes and goes, and sets it
// back.
static void limit(world *w) {
	static const struct {
		int of;
		uint32_t most;
	} limits[] = {{CU_LIMIT_STACK_SIZE, 1536}, {CU_LIMIT_PRINTF_FIFO_SIZE, 8 << 20},
		{CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20}};
	uint32_t i = below(&w->rng, 3);
	size_t was;
	CUcontext c;
	if (!w->alone)
		return; // others set it back as well
	CHECK(CU(cuCtxGetLimit)(&was, limits[i].of));
	CHECK(CU(cuCtxSetLimit)(limits[i].of, 1 + below(&w->rng, limits[i].most)));
	LOOK(w);
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	LOOK(w);
	CHECK(CU(cuCtxDestroy_v2)(c));
	CHECK(CU(cuCtxSetLimit)(limits[i].of, was));
	LOOK(w);
}

// outlive has allocations outlive their pool. Some are freed in the order of another stream, and so
// is one that is of no pool.
static void outlive(world *w) {
	enum { MANY = 3 };
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	CUdeviceptr p[MANY], linear;
	uint32_t n = 1 + below(&w->rng, MANY);
	CUstream s = any_stream(w), other = any_stream(w);
	CHECK(CU(cuMemPoolCreate)(&pool, &props));
	for (uint32_t i = 0; i < n; i++)
		CHECK(CU(cuMemAllocFromPoolAsync)(&p[i], 1 + below(&w->rng, 2 * GRANULE), pool, s));
	LOOK(w);
	CHECK(CU(cuMemPoolDestroy)(pool));
	for (uint32_t i = 0; i < n; i++) {
		LOOK(w);
		switch (below(&w->rng, 3)) {
		case 0:
			CHECK(CU(cuMemFreeAsync)(p[i], s));
			break;
		case 1:
			CHECK(CU(cuMemFreeAsync)(p[i], other));
			break;
		default:
			CHECK(CU(cuMemFree_v2)(p[i]));
		}
	}
	CHECK(CU(cuMemAlloc_v2)(&linear, 1 + below(&w->rng, 2 * GRANULE)));
	LOOK(w);
	CHECK(CU(cuMemFreeAsync)(linear, other));
	LOOK(w);
}

// nodes has a graph allocate memory, which is freed in the graph, or after it has gone or before.
static void nodes(world *w) {
	CUgraph g;
	CUgraphNode alloc, end;
	CUgraphExec x;
	CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
										.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = 1 + below(&w->rng, 2 * GRANULE)};
	CUstream s = any_stream(w);
	uint32_t how = below(&w->rng, 4);
	CHECK(CU(cuGraphCreate)(&g, 0));
	CHECK(CU(cuGraphAddMemAllocNode)(&alloc, g, NULL, 0, &p));
	if (how == 0)
		CHECK(CU(cuGraphAddMemFreeNode)(&end, g, &alloc, 1, p.dptr));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	CHECK(CU(cuGraphLaunch)(x, s));
	w->graphs++;
	CHECK(CU(cuStreamSynchronize)(s));
	LOOK(w);
	if (how == 1)
		CHECK(CU(cuMemFree_v2)(p.dptr));
	CHECK(CU(cuGraphExecDestroy)(x));
	LOOK(w);
	if (how == 2)
		CHECK(CU(cuMemFreeAsync)(p.dptr, s));
	amounts before = accounts();
	if (how == 3) {
		CHECK(CU(cuMemFree_v2)(p.dptr));
		given(w, before, __func__);
	}
	CHECK(CU(cuGraphDestroy)(g));
	if (below(&w->rng, 2))
		CHECK(CU(cuDeviceGraphMemTrim)(0));
	LOOK(w);
}

static bool has_managed(const world *w) {
	for (int i = 0; i < BUFFERS; i++)
		if (w->buffer[i].kind == MANAGED)
			return true;
	return false;
}

// variable loads a module with a variable. What that takes is told where no managed memory takes
// less than it may.
static void variable(world *w) {
	char ptx[256];
	CUmodule m;
	CUdeviceptr p;
	size_t bytes;
	uint32_t word, value = (uint32_t)draw(&w->rng);
	snprintf(ptx, sizeof ptx,
		".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 8 .b8 big[%u];\n",
		8 + below(&w->rng, 2 * GRANULE));
	CHECK(CU(cuModuleLoadData)(&m, ptx));
	if (!has_managed(w))
		LOOK(w);
	CHECK(CU(cuModuleGetGlobal_v2)(&p, &bytes, m, "big"));
	note(w, bytes);
	CHECK(CU(cuMemsetD32_v2)(p, value, bytes / 4));
	copies(w, bytes / 4 * 4);
	CHECK(CU(cuMemcpyDtoH_v2)(&word, p + bytes / 4 * 4 - 4, 4));
	HOLD(word == value);
	CHECK(CU(cuModuleUnload)(m));
	if (!has_managed(w))
		LOOK(w);
}

// shapes makes arrays of several dimensions and levels, and memory of another interface.
static void shapes(world *w) {
	CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 1 + below(&w->rng, 256),
		.Height = 1 + below(&w->rng, 256),
		.Depth = 1 + below(&w->rng, 8),
		.Format = CU_AD_FORMAT_HALF,
		.NumChannels = 1u << below(&w->rng, 3)};
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC other = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = 0},
		.size = 1 + below(&w->rng, 2 * GRANULE)};
	CUarray a;
	CUmipmappedArray m;
	CUexternalMemory e;
	amounts before = accounts();
	CHECK(CU(cuArray3DCreate_v2)(&a, &deep));
	CHECK(CU(cuMipmappedArrayCreate)(&m, &deep, 1 + below(&w->rng, 4)));
	CHECK(CU(cuImportExternalMemory)(&e, &other));
	LOOK(w);
	CHECK(CU(cuArrayDestroy)(a));
	CHECK(CU(cuMipmappedArrayDestroy)(m));
	LOOK(w);
	CHECK(CU(cuDestroyExternalMemory)(e));
	given(w, before, __func__);
}

// elsewhere uses a context of its own, and leaves what it allocated to the end of it.
static void elsewhere(world *w) {
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC other = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = 0},
		.size = 6 * GRANULE};
	CUcontext c, was;
	CUdeviceptr p, q;
	CUexternalMemory e;
	uint32_t word, value = (uint32_t)draw(&w->rng);
	amounts before = accounts();
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	LOOK(w);
	CHECK(CU(cuMemAlloc_v2)(&p, 1 << 16));
	CHECK(CU(cuMemAllocManaged)(&q, 1 << 16, CU_MEM_ATTACH_GLOBAL));
	if (below(&w->rng, 2))
		CHECK(CU(cuImportExternalMemory)(&e, &other));
	CHECK(CU(cuMemsetD32_v2)(p, value, 1 << 14));
	CHECK(CU(cuMemcpyDtoD_v2)(q, p, 1 << 16));
	CHECK(CU(cuMemcpyDtoH_v2)(&word, q + 60, 4));
	HOLD(word == value);
	CHECK(CU(cuCtxPopCurrent_v2)(&was));
	HOLD(was == c);
	CHECK(CU(cuCtxDestroy_v2)(c));
	LOOK(w);
	if (!has_managed(w))
		given(w, before, __func__);
}

// beside makes a context beside managed memory, which takes less than is counted for it.
static void beside(world *w) {
	enum { MANY = 6 };
	CUdeviceptr p[MANY];
	CUcontext c;
	for (int i = 0; i < MANY; i++)
		CHECK(CU(cuMemAllocManaged)(&p[i], 1 + below(&w->rng, 1 << 16), CU_MEM_ATTACH_GLOBAL));
	CHECK(CU(cuCtxCreate_v2)(&c, 0, 0));
	for (int i = 0; i < MANY; i++)
		CHECK(CU(cuMemFree_v2)(p[i]));
	LOOK(w);
	CHECK(CU(cuCtxDestroy_v2)(c));
	LOOK(w);
}

// ---- all

static void step(world *w) {
	static void (*const steps[])(world *) = {operate, operate, operate, operate, operate, upload,
		upload, rows, graphs, graphs, shake, host, synchronise, wrong};
	static void (*const rare[])(world *) = {
		elsewhere, beside, tall, limit, outlive, nodes, variable, shapes};
	uint32_t n = sizeof steps / sizeof *steps, i = below(&w->rng, n + 5);
	note(w, i);
	if (i < n)
		steps[i](w);
	else if (i == n)
		release(w, &w->buffer[below(&w->rng, BUFFERS)]);
	else if (i == n + 2 && w->alone)
		counted(__func__);
	else if (i == n + 1)
		rare[below(&w->rng, sizeof rare / sizeof *rare)](w);
	else
		check(w, any_buffer(w));
}

static void world_begin(world *w) {
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	w->stream[1] = CU_STREAM_PER_THREAD;
	CHECK(CU(cuStreamCreate)(&w->stream[2], CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreateWithPriority)(&w->stream[3], CU_STREAM_NON_BLOCKING, -1));
	CHECK(CU(cuEventCreate)(&w->event, CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuMemPoolCreate)(&w->pool, &props));
	CHECK(CU(cuMemHostAlloc)((void **)&w->pinned, 4 * (MOST + 2), 0));
	w->got = malloc(4 * MOST);
	HOLD(w->got);
}

static void world_end(world *w) {
	for (int i = 0; i < BUFFERS; i++)
		if (w->buffer[i].kind)
			check(w, &w->buffer[i]);
	for (int i = 0; i < BUFFERS; i++)
		release(w, &w->buffer[i]);
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuStreamDestroy_v2)(w->stream[2]));
	CHECK(CU(cuStreamDestroy_v2)(w->stream[3]));
	CHECK(CU(cuEventDestroy_v2)(w->event));
	CHECK(CU(cuMemPoolDestroy)(w->pool));
	CHECK(CU(cuMemFreeHost)(w->pinned));
	free(w->got);
}

#endif
