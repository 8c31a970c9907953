// The steps of a random program (random.c), and the host's account of what they leave in memory.
#ifndef WEIR_FAKE_RANDOM_H
#define WEIR_FAKE_RANDOM_H

#include "../example/load.h"
#include "../model/model.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
static inline uint64_t draw(uint64_t *state) {
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(draw(state) % n); }

static inline uint64_t mix(uint64_t digest, uint64_t value) {
	uint64_t state = digest ^ value;
	return draw(&state);
}

#define HOLD(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static struct {
	CUmodule module;
	CUfunction wait, fill, add, copy;
} kernels;

// Words of a buffer: few, or now and then so many that to copy them takes as long as a kernel.
enum { STREAMS = 4, BUFFERS = 6, FEW = 1 << 14, MOST = 1 << 19, GRANULE = 2 << 20 };
enum { ROWS = 1 << 15 };  // at most, of an array
enum { LARGE = 1 << 20 }; // bytes of a copy that the library tells of

// A buffer is memory of the device and what it should hold. Work on it in another stream than the
// last follows that stream's by an event, so that what it holds does not depend on the schedule.
typedef struct {
	enum { NONE, PLAIN, POOLED, MANAGED, MAPPED } kind;
	CUdeviceptr p;
	uint32_t words;
	uint32_t *holds;
	CUstream last;
	bool used;
	CUmemGenericAllocationHandle handle; // of MAPPED
} buffer;

typedef struct {
	uint64_t rng, digest;
	uint64_t copied, graphs; // bytes of large copies and sets, and launches of graphs
	bool alone; // no other thread: captures may forbid what others do
	CUstream stream[STREAMS];
	CUevent event;
	CUmemoryPool pool;
	uint32_t *pinned, *got;
	buffer buffer[BUFFERS];
} world;

// note adds what a call gave to the digest.
static inline void note(world *w, uint64_t what) { w->digest = mix(w->digest, what); }
#define GIVES(w, call) note(w, (uint64_t)(call))

static inline void launch(CUfunction f, CUstream s, void **params) {
	CHECK(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static inline void launch_wait(CUstream s, uint32_t us) {
	us = us ? us : 1;
	launch(kernels.wait, s, (void *[]){&us});
}

static inline void launch_fill(CUfunction f, CUstream s, CUdeviceptr p, uint32_t v, uint32_t n) {
	launch(f, s, (void *[]){&p, &v, &n});
}

static inline void launch_copy(CUstream s, CUdeviceptr to, CUdeviceptr from, uint32_t n) {
	launch(kernels.copy, s, (void *[]){&to, &from, &n});
}

// copies notes a copy or set that is made, and not captured.
static inline void copies(world *w, uint64_t bytes) { w->copied += bytes < LARGE ? 0 : bytes; }

static inline CUstream any_stream(world *w) { return w->stream[below(&w->rng, STREAMS)]; }

// use has a stream follow what was last done with a buffer.
static inline void use(world *w, buffer *b, CUstream s) {
	if (b->used && b->last != s) {
		CHECK(CU(cuEventRecord)(w->event, b->last));
		CHECK(CU(cuStreamWaitEvent)(s, w->event, 0));
	}
	b->last = s, b->used = true;
}

static inline void settle(buffer *b) {
	if (b->used)
		CHECK(CU(cuStreamSynchronize)(b->last));
}

// ---- memory

static void map_buffer(buffer *b) {
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = 3};
	CHECK(CU(cuMemCreate)(&b->handle, GRANULE, &props, 0));
	CHECK(CU(cuMemAddressReserve)(&b->p, GRANULE, 0, 0, 0));
	CHECK(CU(cuMemMap)(b->p, GRANULE, 0, b->handle, 0));
	CHECK(CU(cuMemSetAccess)(b->p, GRANULE, &access, 1));
}

// allocate makes a buffer of any kind, whose contents are those of new memory: unknown, so that it
// is filled first.
static void allocate(world *w, buffer *b) {
	CUstream s = any_stream(w);
	uint32_t most = below(&w->rng, 64) ? FEW : MOST;
	*b = (buffer){.kind = 1 + below(&w->rng, MAPPED), .words = 1 + below(&w->rng, most)};
	size_t bytes = 4 * (size_t)b->words;
	b->holds = malloc(bytes);
	HOLD(b->holds);
	switch (b->kind) {
	case POOLED:
		if (below(&w->rng, 2))
			CHECK(CU(cuMemAllocAsync)(&b->p, bytes, s));
		else
			CHECK(CU(cuMemAllocFromPoolAsync)(&b->p, bytes, w->pool, s));
		b->last = s, b->used = true;
		break;
	case MANAGED:
		CHECK(CU(cuMemAllocManaged)(&b->p, bytes, CU_MEM_ATTACH_GLOBAL));
		break;
	case MAPPED:
		map_buffer(b);
		break;
	default:
		CHECK(CU(cuMemAlloc_v2)(&b->p, bytes));
	}
	uint32_t value = (uint32_t)draw(&w->rng);
	use(w, b, s);
	CHECK(CU(cuMemsetD32Async)(b->p, value, b->words, s));
	copies(w, bytes);
	for (uint32_t i = 0; i < b->words; i++)
		b->holds[i] = value;
}

static void release(world *w, buffer *b) {
	CUstream s = any_stream(w);
	if (b->kind == POOLED) {
		use(w, b, s);
		CHECK(CU(cuMemFreeAsync)(b->p, s));
	} else if (b->kind == MAPPED) {
		settle(b);
		CHECK(CU(cuMemUnmap)(b->p, GRANULE));
		CHECK(CU(cuMemRelease)(b->handle));
		CHECK(CU(cuMemAddressFree)(b->p, GRANULE));
	} else if (b->kind != NONE) {
		settle(b);
		CHECK(CU(cuMemFree_v2)(b->p));
	}
	free(b->holds);
	*b = (buffer){0};
}

static buffer *any_buffer(world *w) {
	buffer *b = &w->buffer[below(&w->rng, BUFFERS)];
	if (b->kind == NONE)
		allocate(w, b);
	return b;
}

// check reads a buffer, by one of the ways there are, and holds that it is what it should be.
static void check(world *w, buffer *b) {
	uint32_t *got = w->got;
	size_t bytes = 4 * (size_t)b->words;
	CUstream s = any_stream(w);
	use(w, b, s);
	uint32_t how = below(&w->rng, 4);
	if (how != 2 || b->kind != MANAGED)
		copies(w, bytes);
	switch (how) {
	case 0:
		CHECK(CU(cuMemcpyDtoHAsync_v2)(w->pinned, b->p, bytes, s));
		CHECK(CU(cuStreamSynchronize)(s));
		HOLD(!memcmp(w->pinned, b->holds, bytes));
		break;
	case 1:
		CHECK(CU(cuMemcpyDtoHAsync_v2)(got, b->p, bytes, s));
		CHECK(CU(cuEventRecord)(w->event, s));
		CHECK(CU(cuEventSynchronize)(w->event));
		HOLD(!memcmp(got, b->holds, bytes));
		break;
	case 2:
		if (b->kind == MANAGED) {
			settle(b);
			HOLD(!memcmp((void *)(uintptr_t)b->p, b->holds, bytes));
			break;
		}
		// fall through
	default:
		settle(b);
		CHECK(CU(cuMemcpyDtoH_v2)(got, b->p, bytes));
		HOLD(!memcmp(got, b->holds, bytes));
	}
	for (uint32_t i = 0; i < b->words; i += 1 + b->words / FEW)
		note(w, b->holds[i]);
}

// device maps what the device says of itself: no call, which could be answered by the library.
static const fk_file *device(void) {
	static const fk_file *mapped;
	char path[4096];
	if (mapped)
		return mapped;
	const char *dir = getenv("WEIR_FAKE_DIR");
	snprintf(path, sizeof path, "%s/gpu0", dir ? dir : "");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	HOLD(fd >= 0);
	void *p = mmap(NULL, sizeof *mapped, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	HOLD(p != MAP_FAILED);
	return mapped = p;
}

// Amounts are what this process takes, by what the device says of it and by what it is told is not
// free.
typedef struct {
	int64_t held, told;
} amounts;

static amounts accounts(void) {
	const fk_file *d = device();
	amounts a = {0};
	size_t free_bytes, total;
	for (uint32_t i = 0; i < d->high; i++)
		if (d->slots[i].pid == (uint32_t)getpid())
			a.held += (int64_t)(d->slots[i].memory + d->slots[i].context_memory);
	CHECK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
	a.told = (int64_t)(total - free_bytes);
	return a;
}

// untold is what functions take that are loaded at their first launch, which nobody tells.
static int64_t untold(void) {
	uint64_t granule = device()->terms.knobs.granule, n = 4 * device()->terms.knobs.lazy_bytes;
	return (int64_t)(granule ? (n + granule - 1) / granule * granule : n);
}

static void wrong_account(const char *where, amounts a) {
	fprintf(
		stderr, "%s: %lld bytes held, %lld counted\n", where, (long long)a.held, (long long)a.told);
	exit(1);
}

// balance waits for an account to be right, which it may not be for a while: a stream may come to a
// free between the two looks, or before the count comes down.
static void balance(
	bool (*right)(amounts now, amounts before), amounts before, const char *where) {
	enum { LOOKS = 200, PAUSE_NS = 100000 };
	amounts a = accounts();
	for (int i = 0; !right(a, before); i++, a = accounts()) {
		if (i == LOOKS)
			wrong_account(where, a);
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
}

static bool none_missed(amounts a, amounts before) {
	(void)before;
	return a.told + untold() >= a.held;
}

// counted holds that what this process takes is not among what it is told is free: no allocation is
// missed.
static void counted(const char *where) { balance(none_missed, (amounts){0}, where); }

static bool none_left(amounts a, amounts before) {
	return a.told - a.held <= before.told - before.held + untold();
}

static bool solo; // all that counts is this process's

// given holds that of what came and went since no more counts than the device has.
static void given(world *w, amounts before, const char *where) {
	if (solo && w->alone)
		balance(none_left, before, where);
}

// ---- work

// An operation needs no more than a stream, so that it can be captured.
typedef struct {
	enum { FILL, ADD, BYTES, COPY, KERNEL_COPY, WAIT } kind;
	uint32_t value, at, some, n;
} operation;

static operation choose(world *w, const buffer *a, const buffer *b) {
	operation o = {.kind = below(&w->rng, WAIT + 1), .value = (uint32_t)draw(&w->rng)};
	o.n = a->words < b->words ? a->words : b->words;
	o.at = below(&w->rng, a->words), o.some = 1 + below(&w->rng, a->words - o.at);
	if (a == b && (o.kind == COPY || o.kind == KERNEL_COPY))
		o.kind = ADD;
	return o;
}

static void issue(const operation *o, const buffer *a, const buffer *b, CUstream s) {
	CUdeviceptr at = a->p + 4 * (size_t)o->at;
	switch (o->kind) {
	case FILL:
		launch_fill(kernels.fill, s, at, o->value, o->some);
		break;
	case ADD:
		launch_fill(kernels.add, s, a->p, o->value, a->words);
		break;
	case BYTES:
		CHECK(CU(cuMemsetD8Async)(at, (unsigned char)o->value, 4 * (size_t)o->some, s));
		break;
	case COPY:
		CHECK(CU(cuMemcpyDtoDAsync_v2)(a->p, b->p, 4 * (size_t)o->n, s));
		break;
	case KERNEL_COPY:
		launch_copy(s, a->p, b->p, o->n);
		break;
	case WAIT:
		launch_wait(s, o->value % 60);
	}
}

// account does to what the buffers should hold what the operation does to them.
static void account(const operation *o, const buffer *a, const buffer *b) {
	for (uint32_t i = 0; o->kind == FILL && i < o->some; i++)
		a->holds[o->at + i] = o->value;
	for (uint32_t i = 0; o->kind == ADD && i < a->words; i++)
		a->holds[i] += o->value;
	if (o->kind == BYTES)
		memset(a->holds + o->at, (int)(o->value & 0xff), 4 * (size_t)o->some);
	if (o->kind == COPY || o->kind == KERNEL_COPY)
		memcpy(a->holds, b->holds, 4 * (size_t)o->n);
}

// moves notes an operation that is not captured.
static void moves(world *w, const operation *o) {
	if (o->kind == COPY || o->kind == BYTES)
		copies(w, 4 * (uint64_t)(o->kind == COPY ? o->n : o->some));
}

static void operate(world *w) {
	buffer *a = any_buffer(w), *b = any_buffer(w);
	CUstream s = any_stream(w);
	use(w, a, s);
	use(w, b, s);
	operation o = choose(w, a, b);
	issue(&o, a, b, s);
	account(&o, a, b);
	moves(w, &o);
}

// upload copies to the device from memory that the driver has to read at once, or from pinned
// memory, which it may read later.
static void upload(world *w) {
	buffer *a = any_buffer(w);
	CUstream s = any_stream(w);
	size_t bytes = 4 * (size_t)a->words;
	uint32_t value = (uint32_t)draw(&w->rng), *in = malloc(bytes);
	HOLD(in);
	for (uint32_t i = 0; i < a->words; i++)
		in[i] = a->holds[i] = value * i;
	use(w, a, s);
	copies(w, bytes);
	switch (below(&w->rng, 3)) {
	case 0:
		CHECK(CU(cuMemcpyHtoDAsync_v2)(a->p, in, bytes, s));
		memset(in, 0xff, bytes);
		break;
	case 1:
		settle(a);
		CHECK(CU(cuMemcpyHtoD_v2)(a->p, in, bytes));
		break;
	default:
		memcpy(w->pinned, in, bytes);
		CHECK(CU(cuMemcpyAsync)(a->p, (CUdeviceptr)(uintptr_t)w->pinned, bytes, s));
		CHECK(CU(cuStreamSynchronize)(s)); // the pinned memory is used again
	}
	free(in);
}

// rows copies a rectangle from buffer to buffer, or through an array.
static void rows(world *w) {
	buffer *a = any_buffer(w), *b = any_buffer(w);
	uint32_t pitch = 1 + below(&w->rng, 64), n = a->words < b->words ? a->words : b->words,
			 height = n / pitch < ROWS ? n / pitch : ROWS, width = 1 + below(&w->rng, pitch);
	bool array = below(&w->rng, 2);
	CUstream s = any_stream(w);
	if (a == b || !height)
		return;
	use(w, a, s);
	use(w, b, s);
	CUarray between;
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = width,
		.Height = height,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32,
		.NumChannels = 1};
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = b->p,
		.srcPitch = 4 * (size_t)pitch,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = a->p,
		.dstPitch = 4 * (size_t)pitch,
		.WidthInBytes = 4 * (size_t)width,
		.Height = height};
	if (array) {
		CHECK(CU(cuArrayCreate_v2)(&between, &shape));
		c.dstMemoryType = CU_MEMORYTYPE_ARRAY, c.dstArray = between;
		CHECK(CU(cuMemcpy2DAsync_v2)(&c, s));
		c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		c.srcMemoryType = CU_MEMORYTYPE_ARRAY, c.srcArray = between;
	}
	CHECK(CU(cuMemcpy2DAsync_v2)(&c, s));
	for (int i = 0; i < 1 + array; i++)
		copies(w, (uint64_t)c.WidthInBytes * height);
	for (uint32_t y = 0; y < height; y++)
		memcpy(a->holds + y * pitch, b->holds + y * pitch, 4 * (size_t)width);
	if (array) {
		CHECK(CU(cuStreamSynchronize)(s));
		CHECK(CU(cuArrayDestroy)(between));
	}
}

// ---- graphs

enum { OPERATIONS = 6 };

// capture_one captures an operation, in the stream itself or in another that joins it.
static void capture_one(
	world *w, const operation *o, buffer *a, buffer *b, CUstream s, CUstream t) {
	if (below(&w->rng, 3)) {
		issue(o, a, b, s);
		return;
	}
	CHECK(CU(cuEventRecord)(w->event, s));
	CHECK(CU(cuStreamWaitEvent)(t, w->event, 0));
	issue(o, a, b, t);
	CHECK(CU(cuEventRecord)(w->event, t));
	CHECK(CU(cuStreamWaitEvent)(s, w->event, 0));
}

static CUgraph by_capture(world *w, const operation *o, unsigned n, buffer *a, buffer *b) {
	unsigned which = below(&w->rng, 2);
	CUstream s = w->stream[2 + which], t = w->stream[3 - which];
	CUgraph g;
	// a capture of the mode "global" forbids calls of other threads
	CHECK(CU(cuStreamBeginCapture_v2)(s, w->alone ? below(&w->rng, 3) : 1 + below(&w->rng, 2)));
	for (unsigned i = 0; i < n; i++) {
		capture_one(w, &o[i], a, b, s, t);
		if (below(&w->rng, 4) == 0)
			usleep(below(&w->rng, 300));
	}
	CHECK(CU(cuStreamEndCapture)(s, &g));
	CHECK(CU(cuEventDestroy_v2)(w->event)); // one that was captured
	CHECK(CU(cuEventCreate)(&w->event, CU_EVENT_DISABLE_TIMING));
	return g;
}

static CUgraphNode node(
	CUgraph g, const CUgraphNode *from, const operation *o, buffer *a, buffer *b, CUcontext c) {
	CUgraphNode n;
	CUdeviceptr at = a->p + 4 * (size_t)o->at;
	uint32_t us = 1 + o->value % 60, value = o->value, some = o->some, all = a->words, less = o->n;
	CUDA_KERNEL_NODE_PARAMS k = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1};
	CUDA_MEMSET_NODE_PARAMS set = {.dst = at,
		.value = o->value & 0xff,
		.elementSize = 1,
		.width = 4 * (size_t)o->some,
		.height = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = b->p,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = a->p,
		.WidthInBytes = 4 * (size_t)o->n,
		.Height = 1,
		.Depth = 1};
	void *fill[] = {&at, &value, &some}, *add[] = {&a->p, &value, &all},
		 *words[] = {&a->p, &b->p, &less}, *wait[] = {&us};
	switch (o->kind) {
	case BYTES:
		CHECK(CU(cuGraphAddMemsetNode)(&n, g, from, from != NULL, &set, c));
		return n;
	case COPY:
		CHECK(CU(cuGraphAddMemcpyNode)(&n, g, from, from != NULL, &copy, c));
		return n;
	case FILL:
		k.func = kernels.fill, k.kernelParams = fill;
		break;
	case ADD:
		k.func = kernels.add, k.kernelParams = add;
		break;
	case KERNEL_COPY:
		k.func = kernels.copy, k.kernelParams = words;
		break;
	default:
		k.func = kernels.wait, k.kernelParams = wait;
	}
	CHECK(CU(cuGraphAddKernelNode_v2)(&n, g, from, from != NULL, &k));
	return n;
}

static CUgraph by_hand(const operation *o, unsigned count, buffer *a, buffer *b) {
	CUgraph g;
	CUgraphNode last, *from = NULL;
	CUcontext c;
	CHECK(CU(cuCtxGetCurrent)(&c));
	CHECK(CU(cuGraphCreate)(&g, 0));
	for (unsigned i = 0; i < count; i++) {
		last = node(g, from, &o[i], a, b, c);
		from = &last;
	}
	return g;
}

// graphs puts operations into a graph and launches it a few times.
static void graphs(world *w) {
	buffer *a = any_buffer(w), *b = any_buffer(w);
	unsigned times = 1 + below(&w->rng, 3), n = 1 + below(&w->rng, OPERATIONS);
	operation o[OPERATIONS];
	CUgraphExec x;
	for (unsigned i = 0; i < n; i++)
		o[i] = choose(w, a, b);
	CUgraph g = below(&w->rng, 2) ? by_capture(w, o, n, a, b) : by_hand(o, n, a, b);
	CUstream s = any_stream(w);
	CHECK(CU(cuGraphInstantiateWithFlags)(&x, g, 0));
	use(w, a, s);
	use(w, b, s);
	for (unsigned k = 0; k < times; k++) {
		CHECK(CU(cuGraphLaunch)(x, s));
		w->graphs++;
		for (unsigned i = 0; i < n; i++)
			account(&o[i], a, b);
	}
	if (below(&w->rng, 2))
		CHECK(CU(cuStreamSynchronize)(s));
	CHECK(CU(cuGraphExecDestroy)(x));
	CHECK(CU(cuGraphDestroy)(g));
}

// ---- streams that wait

// shake has one stream wait for a word that another writes, which is told to later, and has work
// behind both: now and then more of it than may be in flight.
static void shake(world *w) {
	CUstream s = w->stream[2], t = w->stream[3];
	buffer *a = any_buffer(w), *b = any_buffer(w);
	CUdeviceptr word = (CUdeviceptr)(uintptr_t)(w->pinned + MOST);
	uint32_t value = ++w->pinned[MOST + 1];
	operation o = choose(w, a, a), later = choose(w, b, b);
	use(w, a, s);
	if (b != a)
		use(w, b, t); // before the wait, which it might follow
	CHECK(CU(cuStreamWaitValue32_v2)(s, word, value, 0));
	issue(&o, a, a, s);
	account(&o, a, a);
	moves(w, &o);
	if (b != a) {
		issue(&later, b, b, t);
		account(&later, b, b);
		moves(w, &later);
	}
	for (unsigned i = below(&w->rng, 8) ? 0 : 3 + below(&w->rng, 3); i--;)
		launch_wait(s, 1000);
	for (unsigned i = below(&w->rng, 4); i--;)
		launch_wait(t, below(&w->rng, 40));
	CHECK(CU(cuStreamWriteValue32_v2)(t, word, value, 0));
}

static void count(void *p) { ++*(uint32_t *)p; }

// host has functions of the program called in the order of a stream.
static void host(world *w) {
	CUstream s = any_stream(w);
	uint32_t calls = 0, n = 1 + below(&w->rng, 4);
	for (uint32_t i = 0; i < n; i++) {
		launch_wait(s, below(&w->rng, 30));
		CHECK(CU(cuLaunchHostFunc)(s, count, &calls));
	}
	CHECK(CU(cuStreamSynchronize)(s));
	HOLD(calls == n);
}

// ---- errors and waits

// wrong makes calls that give errors, and none else.
static void wrong(world *w) {
	buffer *a = any_buffer(w);
	CUdeviceptr p;
	CUgraph g;
	size_t free_bytes, total;
	uint32_t word;
	GIVES(w, CU(cuMemFree_v2)(0x1234));
	GIVES(w, CU(cuMemAlloc_v2)(&p, (size_t)1 << 40));
	GIVES(w, CU(cuMemAllocAsync)(&p, (size_t)1 << 40, any_stream(w)));
	GIVES(w, CU(cuMemAlloc_v2)(&p, 0));
	GIVES(w, CU(cuMemFree_v2)(0));
	GIVES(w, CU(cuMemcpyDtoH_v2)(&word, 0x1234, 4));
	GIVES(w, CU(cuStreamEndCapture)(w->stream[2], &g));
	GIVES(w, CU(cuStreamCreate)(&w->stream[2], 77));
	GIVES(w, CU(cuMemGetInfo_v2)(&free_bytes, &total));
	note(w, total);
	HOLD(free_bytes <= total);
	CHECK(CU(cuMemGetAddressRange_v2)(NULL, &total, a->p));
	note(w, a->kind == MAPPED ? GRANULE : total);
	CUresult r = CU(cuStreamQuery)(any_stream(w));
	HOLD(!r || r == CUDA_ERROR_NOT_READY);
}

static void synchronise(world *w) {
	switch (below(&w->rng, 3)) {
	case 0:
		CHECK(CU(cuCtxSynchronize)());
		return;
	case 1:
		CHECK(CU(cuStreamSynchronize)(any_stream(w)));
		return;
	default:
		CHECK(CU(cuMemPoolTrimTo)(w->pool, 0));
	}
}

#endif
