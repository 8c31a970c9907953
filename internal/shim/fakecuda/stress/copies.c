// copies makes each call that copies or sets, in each of its forms, and checks by value what it
// left in memory and that nothing beside it has changed: at once, behind work that is held back,
// and captured into a graph.
//
// usage: copies [DEVICE]
// Peers are two contexts, of device 0 and of DEVICE, 0 too if it is not given. The last line is
// JSON: checks, the number that held. A check that fails ends the program.
#include "../example/load.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES = 6000 };

// Where bytes lie. Each place has two memories, what is copied from and what is copied to.
typedef enum { DEVICE, HOST, ARRAY, PEER } place;

static CUcontext context, other;
static CUstream ours, beside;
static CUdeviceptr from, to, far, away;
static CUarray from_array, to_array;
static unsigned char *from_host, *to_host;
static uint32_t *word; // that held streams wait for
static int checks;

static unsigned char source(place p, size_t i) {
	return (unsigned char)(i * 31 + i / 251 + 17 * (size_t)p + 1);
}

// A form is one of the calls of a name: that of the legacy default stream, or of the thread's own.
static void *form(const char *name, const char *suffix) {
	char all[64];
	snprintf(all, sizeof all, "%s%s", name, suffix);
	return cu_symbol(all);
}

#define FORM(name, suffix) ((__typeof__(&name))form(#name, suffix))

// A shape is where the bytes of a copy lie on its two sides.
typedef struct {
	size_t to, from, width, height, depth, to_pitch, to_slice, from_pitch, from_slice;
} shape;

enum { TO = 5, FROM = 3, N = 3001, FIRST = 1000 };
static const shape linear = {TO, FROM, N, 1, 1, 0, 0, 0, 0};

// Rows and planes begin at these places, and lie in planes of these rows.
enum { W = 17, H = 7, D = 2, TO_PITCH = 64, FROM_PITCH = 96, TO_ROWS = 10, FROM_ROWS = 12 };
enum { TO_Y = 2, FROM_Y = 1, TO_SLICE = TO_PITCH * TO_ROWS, FROM_SLICE = FROM_PITCH * FROM_ROWS };
static const shape rows = {TO_Y * TO_PITCH + TO, FROM_Y *FROM_PITCH + FROM, W, H, 1, TO_PITCH, 0,
	FROM_PITCH, 0};
static const shape planes = {TO_SLICE + TO_Y * TO_PITCH + TO,
	FROM_SLICE + FROM_Y * FROM_PITCH + FROM, W, H, D, TO_PITCH, TO_SLICE, FROM_PITCH, FROM_SLICE};

// What is set: words, and rows of them.
enum { SET_AT = 8, SET_WORDS = 700, SET_WIDTH = 5, SET_HEIGHT = 6, UNTOUCHED = 0xee };
static const uint32_t value = 0xa1b2c3d4;

// LINEAR and LINEAR_ASYNC make a call's function of the two sides of it.
#define LINEAR(name, ...) \
	static CUresult call_##name(const char *x, CUstream s) { \
		(void)s; \
		return FORM(name, x)(__VA_ARGS__); \
	}
#define LINEAR_ASYNC(name, ...) \
	static CUresult call_##name(const char *x, CUstream s) { \
		return FORM(name, x)(__VA_ARGS__, s); \
	}

LINEAR(cuMemcpyHtoD_v2, to + TO, from_host + FROM, N)
LINEAR(cuMemcpyDtoH_v2, to_host + TO, from + FROM, N)
LINEAR(cuMemcpyDtoD_v2, to + TO, from + FROM, N)
LINEAR(cuMemcpy, to + TO, (uintptr_t)(from_host + FROM), N)
LINEAR(cuMemcpyPeer, away + TO, other, from + FROM, context, N)
LINEAR(cuMemcpyDtoA_v2, to_array, TO, from + FROM, N)
LINEAR(cuMemcpyAtoD_v2, to + TO, from_array, FROM, N)
LINEAR(cuMemcpyHtoA_v2, to_array, TO, from_host + FROM, N)
LINEAR(cuMemcpyAtoH_v2, to_host + TO, from_array, FROM, N)
LINEAR(cuMemcpyAtoA_v2, to_array, TO, from_array, FROM, N)
LINEAR_ASYNC(cuMemcpyHtoDAsync_v2, to + TO, from_host + FROM, N)
LINEAR_ASYNC(cuMemcpyDtoHAsync_v2, to_host + TO, from + FROM, N)
LINEAR_ASYNC(cuMemcpyDtoDAsync_v2, to + TO, from + FROM, N)
LINEAR_ASYNC(cuMemcpyAsync, (uintptr_t)(to_host + TO), from + FROM, N)
LINEAR_ASYNC(cuMemcpyPeerAsync, to + TO, context, far + FROM, other, N)
LINEAR_ASYNC(cuMemcpyHtoAAsync_v2, to_array, TO, from_host + FROM, N)
LINEAR_ASYNC(cuMemcpyAtoHAsync_v2, to_host + TO, from_array, FROM, N)

static CUresult call_cuMemcpyBatchAsync(const char *x, CUstream s) {
	CUdeviceptr tos[] = {to + TO, to + TO + FIRST};
	CUdeviceptr froms[] = {from + FROM, from + FROM + FIRST};
	size_t sizes[] = {FIRST, N - FIRST}, failed, begin = 0;
	struct { // CUmemcpyAttributes: the order of the stream
		int order, hints[4], flags;
	} how = {.order = 1};
	return FORM(cuMemcpyBatchAsync, x)(tos, froms, sizes, 2, &how, &begin, 1, &failed, s);
}

// flat describes a copy of rows.
static CUDA_MEMCPY2D flat(CUmemorytype from_type, CUmemorytype to_type) {
	return (CUDA_MEMCPY2D){.srcXInBytes = FROM,
		.srcY = FROM_Y,
		.srcMemoryType = from_type,
		.srcHost = from_host,
		.srcDevice = from,
		.srcPitch = FROM_PITCH,
		.dstXInBytes = TO,
		.dstY = TO_Y,
		.dstMemoryType = to_type,
		.dstHost = to_host,
		.dstDevice = to,
		.dstPitch = TO_PITCH,
		.WidthInBytes = W,
		.Height = H};
}

// deep describes a copy of planes.
static CUDA_MEMCPY3D deep(CUmemorytype from_type, CUmemorytype to_type) {
	return (CUDA_MEMCPY3D){.srcXInBytes = FROM,
		.srcY = FROM_Y,
		.srcZ = 1,
		.srcMemoryType = from_type,
		.srcHost = from_host,
		.srcDevice = from,
		.srcPitch = FROM_PITCH,
		.srcHeight = FROM_ROWS,
		.dstXInBytes = TO,
		.dstY = TO_Y,
		.dstZ = 1,
		.dstMemoryType = to_type,
		.dstHost = to_host,
		.dstDevice = to,
		.dstPitch = TO_PITCH,
		.dstHeight = TO_ROWS,
		.WidthInBytes = W,
		.Height = H,
		.Depth = D};
}

static CUDA_MEMCPY3D_PEER between(CUdeviceptr to_peer, CUcontext tc, CUdeviceptr of, CUcontext fc) {
	CUDA_MEMCPY3D_PEER p = deep(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
	p.srcDevice = of, p.reserved0 = fc;
	p.dstDevice = to_peer, p.reserved1 = tc;
	return p;
}

#define HOST_MEMORY CU_MEMORYTYPE_HOST
#define DEVICE_MEMORY CU_MEMORYTYPE_DEVICE

LINEAR(cuMemcpy2D_v2, (CUDA_MEMCPY2D[]){flat(HOST_MEMORY, DEVICE_MEMORY)})
LINEAR(cuMemcpy2DUnaligned_v2, (CUDA_MEMCPY2D[]){flat(DEVICE_MEMORY, HOST_MEMORY)})
LINEAR_ASYNC(cuMemcpy2DAsync_v2, (CUDA_MEMCPY2D[]){flat(CU_MEMORYTYPE_UNIFIED, DEVICE_MEMORY)})
LINEAR(cuMemcpy3D_v2, (CUDA_MEMCPY3D[]){deep(HOST_MEMORY, DEVICE_MEMORY)})
LINEAR_ASYNC(cuMemcpy3DAsync_v2, (CUDA_MEMCPY3D[]){deep(DEVICE_MEMORY, HOST_MEMORY)})
LINEAR(cuMemcpy3DPeer, (CUDA_MEMCPY3D_PEER[]){between(away, other, from, context)})
LINEAR_ASYNC(cuMemcpy3DPeerAsync, (CUDA_MEMCPY3D_PEER[]){between(to, context, far, other)})

#define SETS(bits, type) \
	LINEAR(cuMemsetD##bits##_v2, to + SET_AT, (type)value, SET_WORDS) \
	LINEAR_ASYNC(cuMemsetD##bits##Async, to + SET_AT, (type)value, SET_WORDS) \
	LINEAR(cuMemsetD2D##bits##_v2, to + SET_AT, TO_PITCH, (type)value, SET_WIDTH, SET_HEIGHT) \
	LINEAR_ASYNC(cuMemsetD2D##bits##Async, to + SET_AT, TO_PITCH, (type)value, SET_WIDTH, \
		SET_HEIGHT)

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned int)

typedef struct {
	const char *name;
	CUresult (*call)(const char *suffix, CUstream s);
	bool async;
	place to, from;
	const shape *at; // NULL: it sets
	unsigned size;   // of what is set
	bool many;       // rows
} row;

#define SYNC(name, ...) {#name, call_##name, false, __VA_ARGS__}
#define ASYNC(name, ...) {#name, call_##name, true, __VA_ARGS__}
#define SET_ROWS(bits) \
	SYNC(cuMemsetD##bits##_v2, DEVICE, DEVICE, NULL, bits / 8, false), \
		ASYNC(cuMemsetD##bits##Async, DEVICE, DEVICE, NULL, bits / 8, false), \
		SYNC(cuMemsetD2D##bits##_v2, DEVICE, DEVICE, NULL, bits / 8, true), \
		ASYNC(cuMemsetD2D##bits##Async, DEVICE, DEVICE, NULL, bits / 8, true)

static const row table[] = {
	SYNC(cuMemcpyHtoD_v2, DEVICE, HOST, &linear, 0, 0),
	SYNC(cuMemcpyDtoH_v2, HOST, DEVICE, &linear, 0, 0),
	SYNC(cuMemcpyDtoD_v2, DEVICE, DEVICE, &linear, 0, 0),
	SYNC(cuMemcpy, DEVICE, HOST, &linear, 0, 0),
	SYNC(cuMemcpyPeer, PEER, DEVICE, &linear, 0, 0),
	SYNC(cuMemcpyDtoA_v2, ARRAY, DEVICE, &linear, 0, 0),
	SYNC(cuMemcpyAtoD_v2, DEVICE, ARRAY, &linear, 0, 0),
	SYNC(cuMemcpyHtoA_v2, ARRAY, HOST, &linear, 0, 0),
	SYNC(cuMemcpyAtoH_v2, HOST, ARRAY, &linear, 0, 0),
	SYNC(cuMemcpyAtoA_v2, ARRAY, ARRAY, &linear, 0, 0),
	ASYNC(cuMemcpyHtoDAsync_v2, DEVICE, HOST, &linear, 0, 0),
	ASYNC(cuMemcpyDtoHAsync_v2, HOST, DEVICE, &linear, 0, 0),
	ASYNC(cuMemcpyDtoDAsync_v2, DEVICE, DEVICE, &linear, 0, 0),
	ASYNC(cuMemcpyAsync, HOST, DEVICE, &linear, 0, 0),
	ASYNC(cuMemcpyPeerAsync, DEVICE, PEER, &linear, 0, 0),
	ASYNC(cuMemcpyHtoAAsync_v2, ARRAY, HOST, &linear, 0, 0),
	ASYNC(cuMemcpyAtoHAsync_v2, HOST, ARRAY, &linear, 0, 0),
	ASYNC(cuMemcpyBatchAsync, DEVICE, DEVICE, &linear, 0, 0),
	SYNC(cuMemcpy2D_v2, DEVICE, HOST, &rows, 0, 0),
	SYNC(cuMemcpy2DUnaligned_v2, HOST, DEVICE, &rows, 0, 0),
	ASYNC(cuMemcpy2DAsync_v2, DEVICE, DEVICE, &rows, 0, 0),
	SYNC(cuMemcpy3D_v2, DEVICE, HOST, &planes, 0, 0),
	ASYNC(cuMemcpy3DAsync_v2, HOST, DEVICE, &planes, 0, 0),
	SYNC(cuMemcpy3DPeer, PEER, DEVICE, &planes, 0, 0),
	ASYNC(cuMemcpy3DPeerAsync, DEVICE, PEER, &planes, 0, 0),
	SET_ROWS(8),
	SET_ROWS(16),
	SET_ROWS(32),
};

// expect fills in what memory has after a call.
static void expect(const row *r, unsigned char *want) {
	memset(want, UNTOUCHED, BYTES);
	if (!r->at) {
		size_t width = (r->many ? SET_WIDTH : SET_WORDS) * r->size;
		for (size_t y = 0; y < (r->many ? SET_HEIGHT : 1); y++)
			for (size_t i = 0; i < width; i++)
				want[SET_AT + y * TO_PITCH + i] = (unsigned char)(value >> 8 * (i % r->size));
		return;
	}
	for (size_t z = 0; z < r->at->depth; z++)
		for (size_t y = 0; y < r->at->height; y++)
			for (size_t i = 0; i < r->at->width; i++)
				want[r->at->to + z * r->at->to_slice + y * r->at->to_pitch + i] = source(r->from,
					r->at->from + z * r->at->from_slice + y * r->at->from_pitch + i);
}

// look reads a place, beside all streams that are held.
static void look(place p, unsigned char *got) {
	static unsigned char *pinned;
	if (!pinned)
		CHECK(CU(cuMemHostAlloc)((void **)&pinned, BYTES, 0));
	if (p == HOST) {
		memcpy(got, to_host, BYTES);
		return;
	}
	if (p == ARRAY)
		CHECK(CU(cuMemcpyAtoHAsync_v2)(pinned, to_array, 0, BYTES, beside));
	else
		CHECK(CU(cuMemcpyDtoHAsync_v2)(pinned, p == PEER ? away : to, BYTES, beside));
	CHECK(CU(cuStreamSynchronize)(beside));
	memcpy(got, pinned, BYTES);
}

// clear makes all that is copied to UNTOUCHED.
static void clear(void) {
	static unsigned char untouched[BYTES];
	memset(untouched, UNTOUCHED, BYTES);
	memset(to_host, UNTOUCHED, BYTES);
	CHECK(CU(cuMemcpyHtoD_v2)(to, untouched, BYTES));
	CHECK(CU(cuMemcpyHtoD_v2)(away, untouched, BYTES));
	CHECK(CU(cuMemcpyHtoA_v2)(to_array, 0, untouched, BYTES));
	CHECK(CU(cuCtxSynchronize)());
}

static void same(const row *r, const char *suffix, const char *when, const unsigned char *want) {
	static unsigned char got[BYTES];
	look(r->to, got);
	for (int i = 0; i < BYTES; i++)
		if (got[i] != want[i]) {
			fprintf(stderr, "copies.c: %s%s %s: byte %d is %#x, want %#x\n", r->name, suffix, when,
				i, got[i], want[i]);
			exit(1);
		}
	checks++;
}

// at_once makes the call and waits for it.
static void at_once(const row *r, const char *suffix, CUstream s, const unsigned char *want) {
	clear();
	CHECK(r->call(suffix, *suffix ? NULL : s));
	CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuCtxSynchronize)()); // copies within a device may not have been waited for
	same(r, suffix, "at once", want);
}

// behind makes the call behind a wait, which it must not overtake.
static void behind(const row *r, const char *suffix, CUstream s, const unsigned char *want) {
	static unsigned char before[BYTES];
	memset(before, UNTOUCHED, BYTES);
	clear();
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	CHECK(CU(cuStreamWaitValue32_v2)(s, (uintptr_t)word, 1, 0));
	CHECK(r->call(suffix, *suffix ? NULL : s));
	same(r, suffix, "before its turn", before);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	CHECK(CU(cuStreamSynchronize)(s));
	same(r, suffix, "after its turn", want);
}

// captured makes the call into a graph, which is launched twice.
static void captured(const row *r, const char *suffix, CUstream s, const unsigned char *want) {
	CUgraph g;
	CUgraphExec x;
	CHECK(CU(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(r->call(suffix, *suffix ? NULL : s));
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	for (int i = 0; i < 2; i++) {
		clear();
		CHECK(CU(cuGraphLaunch)(x, ours));
		CHECK(CU(cuStreamSynchronize)(ours));
		same(r, suffix, "captured", want);
	}
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
}

// launched launches a graph.
static void launched(const row *r, CUgraphExec x) {
	static unsigned char want[BYTES];
	expect(r, want);
	clear();
	CHECK(CU(cuGraphLaunch)(x, ours));
	CHECK(CU(cuStreamSynchronize)(ours));
	same(r, "", "as a node", want);
}

// node launches a graph of one copy or set, which is changed then to another. Only those of one row
// may be changed.
static void node(const row *r, const CUDA_MEMCPY3D *copy, const CUDA_MEMSET_NODE_PARAMS *set,
	const row *r2, const CUDA_MEMCPY3D *copy2, const CUDA_MEMSET_NODE_PARAMS *set2) {
	CUgraph g;
	CUgraphExec x;
	CUgraphNode n;
	CHECK(CU(cuGraphCreate)(&g, 0));
	if (copy)
		CHECK(CU(cuGraphAddMemcpyNode)(&n, g, NULL, 0, copy, context));
	else
		CHECK(CU(cuGraphAddMemsetNode)(&n, g, NULL, 0, set, context));
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	if (r)
		launched(r, x);
	if (copy2)
		CHECK(CU(cuGraphExecMemcpyNodeSetParams)(x, n, copy2, context));
	if (set2)
		CHECK(CU(cuGraphExecMemsetNodeSetParams)(x, n, set2, context));
	if (r2)
		launched(r2, x);
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
}

static void nodes(void) {
	static const shape shorter = {TO + 1, FROM + 2, N / 2, 1, 1, 0, 0, 0, 0};
	CUDA_MEMCPY3D copy = deep(DEVICE_MEMORY, HOST_MEMORY);
	node(&(row){.name = "cuGraphAddMemcpyNode", .to = HOST, .at = &planes}, &copy, NULL, NULL, NULL,
		NULL);
	copy = (CUDA_MEMCPY3D){.srcXInBytes = FROM,
		.srcMemoryType = HOST_MEMORY,
		.srcHost = from_host,
		.dstXInBytes = TO,
		.dstMemoryType = DEVICE_MEMORY,
		.dstDevice = to,
		.WidthInBytes = N,
		.Height = 1,
		.Depth = 1};
	CUDA_MEMCPY3D less = copy;
	less.srcXInBytes += 2, less.dstXInBytes += 1, less.WidthInBytes = N / 2;
	node(&(row){.name = "cuGraphAddMemcpyNode", .from = HOST, .at = &linear}, &copy, NULL,
		&(row){.name = "cuGraphExecMemcpyNodeSetParams", .from = HOST, .at = &shorter}, &less,
		NULL);
	CUDA_MEMSET_NODE_PARAMS set = {to + SET_AT, TO_PITCH, (uint16_t)value, 2, SET_WIDTH,
		SET_HEIGHT};
	node(&(row){.name = "cuGraphAddMemsetNode", .size = 2, .many = true}, NULL, &set, NULL, NULL,
		NULL);
	set = (CUDA_MEMSET_NODE_PARAMS){to + SET_AT, 0, value ^ 1, 4, SET_WORDS / 2, 1};
	CUDA_MEMSET_NODE_PARAMS more = {to + SET_AT, 0, value, 4, SET_WORDS, 1};
	node(NULL, NULL, &set, &(row){.name = "cuGraphExecMemsetNodeSetParams", .size = 4}, NULL,
		&more);
}

static CUdeviceptr allocate(void) {
	CUdeviceptr p;
	CHECK(CU(cuMemAlloc_v2)(&p, BYTES));
	return p;
}

// fill puts what is copied from into a place.
static void fill(place p) {
	static unsigned char bytes[BYTES];
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = source(p, i);
	if (p == HOST)
		memcpy(from_host, bytes, BYTES);
	else if (p == ARRAY)
		CHECK(CU(cuMemcpyHtoA_v2)(from_array, 0, bytes, BYTES));
	else
		CHECK(CU(cuMemcpyHtoD_v2)(p == PEER ? far : from, bytes, BYTES));
}

// set_up makes both contexts and all memory; the context of device 0 is current then.
static void set_up(CUdevice device) {
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = BYTES, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuCtxCreate_v2)(&other, 0, device));
	far = allocate(), away = allocate();
	CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
	CHECK(CU(cuCtxSetCurrent)(context));
	from = allocate(), to = allocate();
	CHECK(CU(cuMemHostAlloc)((void **)&from_host, BYTES, 0));
	CHECK(CU(cuMemHostAlloc)((void **)&to_host, BYTES, 0));
	CHECK(CU(cuMemHostAlloc)((void **)&word, 4096, 0));
	CHECK(CU(cuArray3DCreate_v2)(&from_array, &d));
	CHECK(CU(cuArray3DCreate_v2)(&to_array, &d));
	CHECK(CU(cuStreamCreate)(&ours, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuStreamCreate)(&beside, CU_STREAM_NON_BLOCKING));
	for (place p = DEVICE; p <= PEER; p++)
		fill(p);
}

int main(int argc, char **argv) {
	set_up(argc > 1 ? atoi(argv[1]) : 0);
	static unsigned char want[BYTES];
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const row *r = &table[i];
		expect(r, want);
		for (int own = 0; own < 2; own++) {
			const char *suffix = !own ? "" : r->async ? "_ptsz" : "_ptds";
			CUstream s = own ? CU_STREAM_PER_THREAD : ours;
			at_once(r, suffix, s, want);
			if (r->async) {
				behind(r, suffix, s, want);
				captured(r, suffix, s, want);
			}
		}
	}
	nodes();
	CHECK(CU(cuCtxDestroy_v2)(other));
	CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0));
	printf("{\"checks\":%d}\n", checks);
	return 0;
}
