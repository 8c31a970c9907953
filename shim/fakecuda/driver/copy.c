// Copies and sets. They take the device for bytes divided by bandwidth, like a kernel. Content is
// kept for the first FK_SHADOW bytes of an allocation, and moves when the call is made, not when
// the stream comes to it: a program that orders its calls in one thread reads what it wrote.
#include "memory.h"

#include <stdlib.h>
#include <string.h>

unsigned char *fk_view(CUdeviceptr address, size_t *room) {
	fk_allocation *a = fk_find(address);
	*room = 0;
	if (!a || a->origin == FK_RESERVED)
		return NULL;
	size_t offset = address - a->address;
	if (a->origin == FK_MANAGED || a->origin == FK_HOSTED || a->origin == FK_REGISTERED) {
		*room = a->bytes - offset;
		return (unsigned char *)(uintptr_t)address;
	}
	size_t kept = a->bytes < FK_SHADOW ? a->bytes : FK_SHADOW;
	if (!a->shadow)
		a->shadow = calloc(1, kept);
	if (!a->shadow || offset >= kept)
		return NULL;
	*room = kept - offset;
	return a->shadow + offset;
}

static void put(CUdeviceptr to, const void *from, size_t bytes) {
	size_t room;
	unsigned char *p = fk_view(to, &room);
	if (p)
		memmove(p, from, bytes < room ? bytes : room);
}

static void get(void *to, CUdeviceptr from, size_t bytes) {
	size_t room, n;
	unsigned char *p = fk_view(from, &room);
	n = bytes < room ? bytes : room;
	if (p)
		memmove(to, p, n);
	memset((unsigned char *)to + (p ? n : 0), 0, bytes - (p ? n : 0));
}

// valid reports whether a range lies within memory of the device.
static bool valid(CUdeviceptr address, size_t bytes) {
	fk_allocation *a = fk_find(address);
	for (CUdeviceptr end = address + bytes; a && a->origin != FK_RESERVED;
		a = fk_find(a->address + a->bytes))
		if (end - a->address <= a->bytes)
			return true;
	return false;
}

fk_task fk_copying(CUgraphNodeType type, CUdevice d, uint64_t bytes, bool host) {
	const fk_terms *t = &fk.queues[d].device.file->terms;
	uint64_t bps = host ? t->host_bps : t->device_bps;
	uint64_t ns = (uint64_t)((double)bytes / (double)bps * 1e9) + 1000;
	return (fk_task){.type = type, .least_ns = ns, .most_ns = ns};
}

typedef enum { TO_DEVICE, TO_HOST, WITHIN, ANY } direction;

typedef struct {
	CUdeviceptr to, from; // or host addresses
	uint64_t bytes;
	direction way;
	bool sync;
	CUstream stream;
} move;

// run checks the ranges, moves the content and queues the time.
static CUresult run(const move *m) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (m->sync)
		FK_TRY(fk_unsafe());
	if (!m->bytes)
		return CUDA_SUCCESS;
	fk_enter();
	bool from_device = m->way == TO_HOST || m->way == WITHIN || (m->way == ANY && fk_find(m->from));
	bool to_device = m->way == TO_DEVICE || m->way == WITHIN || (m->way == ANY && fk_find(m->to));
	if ((from_device && !valid(m->from, m->bytes)) || (to_device && !valid(m->to, m->bytes)) ||
		!m->from || !m->to)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	size_t room;
	if (from_device && to_device) {
		const unsigned char *p = fk_view(m->from, &room);
		if (p)
			put(m->to, p, m->bytes < room ? m->bytes : room);
	} else if (from_device) {
		get((void *)(uintptr_t)m->to, m->from, m->bytes);
	} else if (to_device) {
		put(m->to, (const void *)(uintptr_t)m->from, m->bytes);
	} else {
		memmove((void *)(uintptr_t)m->to, (const void *)(uintptr_t)m->from, m->bytes);
	}
	fk_leave(0);
	fk_queue *q;
	uint64_t seq;
	fk_task t =
		fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, c->device, m->bytes, !(from_device && to_device));
	FK_TRY(fk_submit(m->stream, &t, &q, &seq));
	if (m->sync && q)
		fk_wait(q, seq);
	return CUDA_SUCCESS;
}

// COPY makes the four calls of one copy: with and without a stream, and for per-thread default
// streams.
#define COPY(name, version, to_type, from_type, way) \
	FK_API name##version(to_type to, from_type from, size_t bytes) { \
		return run(&(move){(uintptr_t)to, (uintptr_t)from, bytes, way, true, NULL}); \
	} \
	FK_API name##version##_ptds(to_type to, from_type from, size_t bytes) { \
		return run( \
			&(move){(uintptr_t)to, (uintptr_t)from, bytes, way, true, CU_STREAM_PER_THREAD}); \
	} \
	FK_API name##Async##version(to_type to, from_type from, size_t bytes, CUstream s) { \
		return run(&(move){(uintptr_t)to, (uintptr_t)from, bytes, way, false, s}); \
	} \
	FK_API name##Async##version##_ptsz(to_type to, from_type from, size_t bytes, CUstream s) { \
		return run(&(move){(uintptr_t)to, (uintptr_t)from, bytes, way, false, fk_ptsz(s)}); \
	}

COPY(cuMemcpyHtoD, _v2, CUdeviceptr, const void *, TO_DEVICE)
COPY(cuMemcpyDtoH, _v2, void *, CUdeviceptr, TO_HOST)
COPY(cuMemcpyDtoD, _v2, CUdeviceptr, CUdeviceptr, WITHIN)
COPY(cuMemcpy, , CUdeviceptr, CUdeviceptr, ANY)

// Before CUDA 3.2.
FK_API cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned int bytes) {
	return cuMemcpyHtoD_v2(to, from, bytes);
}
FK_API cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned int bytes) {
	return cuMemcpyDtoH_v2(to, from, bytes);
}
FK_API cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes) {
	return cuMemcpyDtoD_v2(to, from, bytes);
}
FK_API cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void *p, unsigned int n, CUstream s) {
	return cuMemcpyHtoDAsync_v2(to, p, n, s);
}
FK_API cuMemcpyDtoHAsync(void *to, CUdeviceptr_v1 p, unsigned int n, CUstream s) {
	return cuMemcpyDtoHAsync_v2(to, p, n, s);
}
FK_API cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 p, unsigned int n, CUstream s) {
	return cuMemcpyDtoDAsync_v2(to, p, n, s);
}

FK_API cuMemcpyPeer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) {
	return FK_IS(tc, FK_CONTEXT) && FK_IS(fc, FK_CONTEXT) ? cuMemcpyDtoD_v2(to, from, bytes)
														  : CUDA_ERROR_INVALID_CONTEXT;
}

FK_API cuMemcpyPeer_ptds(
	CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) {
	return FK_IS(tc, FK_CONTEXT) && FK_IS(fc, FK_CONTEXT) ? cuMemcpyDtoD_v2_ptds(to, from, bytes)
														  : CUDA_ERROR_INVALID_CONTEXT;
}

FK_API cuMemcpyPeerAsync(
	CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream s) {
	return FK_IS(tc, FK_CONTEXT) && FK_IS(fc, FK_CONTEXT) ? cuMemcpyDtoDAsync_v2(to, from, bytes, s)
														  : CUDA_ERROR_INVALID_CONTEXT;
}

FK_API cuMemcpyPeerAsync_ptsz(
	CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream s) {
	return cuMemcpyPeerAsync(to, tc, from, fc, bytes, fk_ptsz(s));
}

// shaped queues the time of a two- or three-dimensional copy; content of such copies is not kept.
static CUresult shaped(CUmemorytype from, CUmemorytype to, size_t width, size_t height,
	size_t depth, bool sync, CUstream s) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (sync)
		FK_TRY(fk_unsafe());
	if (from < CU_MEMORYTYPE_HOST || from > CU_MEMORYTYPE_UNIFIED || to < CU_MEMORYTYPE_HOST ||
		to > CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!width || !height || !depth)
		return CUDA_SUCCESS;
	fk_queue *q;
	uint64_t seq;
	bool host = from == CU_MEMORYTYPE_HOST || to == CU_MEMORYTYPE_HOST;
	fk_task t =
		fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, c->device, (uint64_t)width * height * depth, host);
	FK_TRY(fk_submit(s, &t, &q, &seq));
	if (sync && q)
		fk_wait(q, seq);
	return CUDA_SUCCESS;
}

static CUresult copy2(const CUDA_MEMCPY2D *p, bool sync, CUstream s) {
	return p ? shaped(p->srcMemoryType, p->dstMemoryType, p->WidthInBytes, p->Height, 1, sync, s)
			 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy3(const CUDA_MEMCPY3D *p, bool sync, CUstream s) {
	return p
		? shaped(p->srcMemoryType, p->dstMemoryType, p->WidthInBytes, p->Height, p->Depth, sync, s)
		: CUDA_ERROR_INVALID_VALUE;
}

FK_API cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return copy2(p, true, NULL); }
FK_API cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p) { return copy2(p, true, CU_STREAM_PER_THREAD); }
FK_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return copy2(p, true, NULL); }
FK_API cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *p) {
	return copy2(p, true, CU_STREAM_PER_THREAD);
}
FK_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream s) { return copy2(p, false, s); }
FK_API cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *p, CUstream s) {
	return copy2(p, false, fk_ptsz(s));
}
FK_API cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return copy3(p, true, NULL); }
FK_API cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p) { return copy3(p, true, CU_STREAM_PER_THREAD); }
FK_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream s) { return copy3(p, false, s); }
FK_API cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *p, CUstream s) {
	return copy3(p, false, fk_ptsz(s));
}
FK_API cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p) { return copy3(p, true, NULL); }
FK_API cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *p) {
	return copy3(p, true, CU_STREAM_PER_THREAD);
}
FK_API cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream s) { return copy3(p, false, s); }
FK_API cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *p, CUstream s) {
	return copy3(p, false, fk_ptsz(s));
}

// set writes a pattern of 1, 2 or 4 bytes over rows of a pitch. Sets of device memory do not wait,
// even without Async.
static CUresult set(CUdeviceptr to, size_t pitch, uint32_t value, size_t size, size_t width,
	size_t height, CUstream s) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!width || !height)
		return CUDA_SUCCESS;
	fk_enter();
	if (!valid(to, height > 1 ? pitch * (height - 1) + width * size : width * size))
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t y = 0; y < height && y * pitch < FK_SHADOW; y++) {
		size_t room;
		unsigned char *p = fk_view(to + y * pitch, &room);
		for (size_t x = 0; p && x < width && (x + 1) * size <= room; x++)
			memcpy(p + x * size, &value, size);
	}
	fk_leave(0);
	fk_task t =
		fk_copying(CU_GRAPH_NODE_TYPE_MEMSET, c->device, (uint64_t)width * size * height, false);
	return fk_submit(s, &t, NULL, NULL);
}

#define SET(bits, type) \
	FK_API cuMemsetD##bits##_v2(CUdeviceptr to, type v, size_t n) { \
		return set(to, 0, v, bits / 8, n, 1, NULL); \
	} \
	FK_API cuMemsetD##bits##_v2_ptds(CUdeviceptr to, type v, size_t n) { \
		return set(to, 0, v, bits / 8, n, 1, CU_STREAM_PER_THREAD); \
	} \
	FK_API cuMemsetD##bits(CUdeviceptr_v1 to, type v, unsigned int n) { \
		return set(to, 0, v, bits / 8, n, 1, NULL); \
	} \
	FK_API cuMemsetD##bits##Async(CUdeviceptr to, type v, size_t n, CUstream s) { \
		return set(to, 0, v, bits / 8, n, 1, s); \
	} \
	FK_API cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type v, size_t n, CUstream s) { \
		return set(to, 0, v, bits / 8, n, 1, fk_ptsz(s)); \
	} \
	FK_API cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type v, size_t w, size_t h) { \
		return set(to, pitch, v, bits / 8, w, h, NULL); \
	} \
	FK_API cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, type v, size_t w, size_t h) { \
		return set(to, pitch, v, bits / 8, w, h, CU_STREAM_PER_THREAD); \
	} \
	FK_API cuMemsetD2D##bits##Async( \
		CUdeviceptr to, size_t pitch, type v, size_t w, size_t h, CUstream s) { \
		return set(to, pitch, v, bits / 8, w, h, s); \
	} \
	FK_API cuMemsetD2D##bits##Async_ptsz( \
		CUdeviceptr to, size_t pitch, type v, size_t w, size_t h, CUstream s) { \
		return set(to, pitch, v, bits / 8, w, h, fk_ptsz(s)); \
	}

SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned int)

FK_API cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice to, CUstream s) {
	FK_TRY(to == -1 ? fk_usable() : fk_device_ok(to));
	fk_enter();
	fk_allocation *a = fk_find(address);
	CUdevice d = a ? a->device : 0;
	fk_leave(0);
	if (!a || a->origin != FK_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	fk_task t = fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, d, bytes, true);
	return fk_submit(s, &t, NULL, NULL);
}

FK_API cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice to, CUstream s) {
	return cuMemPrefetchAsync(address, bytes, to, fk_ptsz(s));
}

FK_API cuMemPrefetchAsync_v2(
	CUdeviceptr address, size_t bytes, CUmemLocation to, unsigned int flags, CUstream s) {
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemPrefetchAsync(
		address, bytes, to.type == CU_MEM_LOCATION_TYPE_DEVICE ? to.id : -1, s);
}

FK_API cuMemPrefetchAsync_v2_ptsz(
	CUdeviceptr address, size_t bytes, CUmemLocation to, unsigned int flags, CUstream s) {
	return cuMemPrefetchAsync_v2(address, bytes, to, flags, fk_ptsz(s));
}

FK_API cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device) {
	(void)bytes, (void)advice, (void)device;
	FK_TRY(fk_usable());
	fk_enter();
	return fk_leave(fk_find(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice, CUmemLocation location) {
	return cuMemAdvise(address, bytes, advice, location.id);
}
