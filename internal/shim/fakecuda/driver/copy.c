// Copies and sets. They take the device for bytes divided by bandwidth, like a kernel, and move
// their bytes when they end (content.h).
#include "memory.h"

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

// known reports whether the driver knows what lies at an address.
static bool known(CUdeviceptr address) {
	fk_enter();
	bool is = fk_find(address) != NULL;
	fk_leave(0);
	return is;
}

// submit queues a copy, and waits for it if the call does.
static CUresult submit(CUstream s, fk_task *t, bool wait) {
	fk_queue *q;
	uint64_t seq;
	t->waited = wait;
	FK_TRY(fk_submit(s, t, &q, &seq));
	if (!wait || !q)
		return CUDA_SUCCESS;
	fk_wait(q, seq);
	return fk_sound();
}

// waits tells whether a call returns when its copy is done.
static bool waits(CUdevice d, bool sync, bool within, bool to_pageable) {
	const fk_device *device = &fk.queues[d].device;
	return sync ? !(within && FK_KNOB(device, within_async))
				: to_pageable && FK_KNOB(device, pageable_sync);
}

static CUresult run(const move *m) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (m->sync)
		FK_TRY(fk_unsafe());
	if (!m->bytes)
		return CUDA_SUCCESS;
	if (!m->from || !m->to)
		return CUDA_ERROR_INVALID_VALUE;
	bool from_device = m->way != TO_DEVICE && (m->way != ANY || known(m->from)),
		 to_device = m->way != TO_HOST && (m->way != ANY || known(m->to)),
		 within = from_device && to_device;
	fk_task t = fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, c->device, m->bytes, !within);
	t.motion = fk_linear_copy(m->to, m->from, m->bytes);
	t.motion.to.host = m->way == TO_HOST || m->way == ANY;
	t.motion.from.host = m->way == TO_DEVICE || m->way == ANY;
	bool wait = waits(c->device, m->sync, within, !to_device && !known(m->to));
	return submit(m->stream, &t, wait);
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

// one_side is where a copy of rows and planes begins, on one side of its descriptor.
static CUresult one_side(fk_side *out, fk_motion *m, CUmemorytype type, const void *host,
	CUdeviceptr device, CUarray array, const size_t at[3], size_t pitch, size_t height) {
	if (type == CU_MEMORYTYPE_ARRAY)
		return fk_array_side(array, at[0], at[1], at[2], m, out);
	bool mine = type == CU_MEMORYTYPE_HOST;
	pitch = pitch ? pitch : at[0] + m->width;
	if (type < CU_MEMORYTYPE_HOST || type > CU_MEMORYTYPE_UNIFIED || (mine ? !host : !device))
		return CUDA_ERROR_INVALID_VALUE;
	if (pitch < at[0] + m->width || (height && height < at[1] + m->height))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (fk_side){.address = mine ? (uintptr_t)host : device,
		.host = mine || type == CU_MEMORYTYPE_UNIFIED,
		.pitch = pitch,
		.slice = pitch * (height ? height : at[1] + m->height)};
	out->address += at[0] + at[1] * out->pitch + at[2] * out->slice;
	return CUDA_SUCCESS;
}

CUresult fk_copying_3d(const CUDA_MEMCPY3D *p, CUdevice d, fk_task *t) {
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	bool host = p->srcMemoryType == CU_MEMORYTYPE_HOST || p->dstMemoryType == CU_MEMORYTYPE_HOST;
	*t = fk_copying(CU_GRAPH_NODE_TYPE_MEMCPY, d,
		(uint64_t)p->WidthInBytes * p->Height * p->Depth, host);
	fk_motion m = {.action = p->WidthInBytes && p->Height && p->Depth ? FK_COPY : FK_NOTHING,
		.width = p->WidthInBytes,
		.height = p->Height,
		.depth = p->Depth};
	if (m.action == FK_NOTHING)
		return CUDA_SUCCESS;
	FK_TRY(one_side(&m.from, &m, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray,
		(size_t[]){p->srcXInBytes, p->srcY, p->srcZ}, p->srcPitch, p->srcHeight));
	FK_TRY(one_side(&m.to, &m, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray,
		(size_t[]){p->dstXInBytes, p->dstY, p->dstZ}, p->dstPitch, p->dstHeight));
	t->motion = m;
	return CUDA_SUCCESS;
}

static CUresult copy3(const CUDA_MEMCPY3D *p, bool sync, CUstream s) {
	CUcontext c;
	fk_task t;
	FK_TRY(fk_current(&c));
	if (sync)
		FK_TRY(fk_unsafe());
	FK_TRY(fk_copying_3d(p, c->device, &t));
	if (t.motion.action == FK_NOTHING)
		return CUDA_SUCCESS;
	bool host = p->srcMemoryType == CU_MEMORYTYPE_HOST || p->dstMemoryType == CU_MEMORYTYPE_HOST,
		 pageable = p->dstMemoryType == CU_MEMORYTYPE_HOST && !known(t.motion.to.address);
	return submit(s, &t, waits(c->device, sync, !host, pageable));
}

static CUresult copy2(const CUDA_MEMCPY2D *p, bool sync, CUstream s) {
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D deep = {.srcXInBytes = p->srcXInBytes,
		.srcY = p->srcY,
		.srcMemoryType = p->srcMemoryType,
		.srcHost = p->srcHost,
		.srcDevice = p->srcDevice,
		.srcArray = p->srcArray,
		.srcPitch = p->srcPitch,
		.dstXInBytes = p->dstXInBytes,
		.dstY = p->dstY,
		.dstMemoryType = p->dstMemoryType,
		.dstHost = p->dstHost,
		.dstDevice = p->dstDevice,
		.dstArray = p->dstArray,
		.dstPitch = p->dstPitch,
		.WidthInBytes = p->WidthInBytes,
		.Height = p->Height,
		.Depth = 1};
	return copy3(&deep, sync, s);
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

fk_task fk_setting(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t size, size_t width,
	size_t height, CUdevice d) {
	fk_task t =
		fk_copying(CU_GRAPH_NODE_TYPE_MEMSET, d, (uint64_t)width * size * height, false);
	t.motion = (fk_motion){.action = width && height ? FK_SET : FK_NOTHING,
		.to = {.address = to, .pitch = height > 1 ? pitch : 0},
		.width = (uint64_t)width * size,
		.height = height,
		.depth = 1,
		.value = value,
		.size = size};
	return t;
}

// set writes a pattern of 1, 2 or 4 bytes over rows of a pitch. Sets of device memory do not wait,
// even without Async.
static CUresult set(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t size, size_t width,
	size_t height, CUstream s) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!width || !height)
		return CUDA_SUCCESS;
	if (height > 1 && pitch < width * size)
		return CUDA_ERROR_INVALID_VALUE;
	fk_task t = fk_setting(to, pitch, value, size, width, height, c->device);
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
