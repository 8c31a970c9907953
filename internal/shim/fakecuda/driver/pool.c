// Stream-ordered memory. A pool takes device memory in chunks of 2 MiB, and keeps what is freed up
// to its release threshold until the program next synchronises, or trims it.
//
// What is freed on a stream is free once the stream has come there. Until then an allocation on the
// same stream can have it, and one on another stream only if the device has no more for the pool to
// grow by, which then waits for the first stream (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
// in the driver's documentation). That a stream has waited for an event behind the free is not
// looked at: such a pool grows, as one may. How much is in use counts without what is freed.
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct CUmemPoolHandle_st {
	uint32_t kind;
	CUdevice device;
	bool given, host; // given: the device's default pool; host: memory of the host
	bool foreign;     // of another process: its allocations can be opened, and none made
	struct CUmemPoolHandle_st *next;
	CUmemPoolProps properties;
	uint64_t used, used_high, reserved, reserved_high, threshold;
	int reuse[4];
};

enum { CHUNK = 2 << 20 };

// leaving is memory that is freed on a stream which may not have come there.
struct leaving {
	struct leaving *next;
	fk_queue *queue;
	uint64_t seq; // of the free, UINT64_MAX: not queued yet
	uint32_t stream;
	CUdevice device;
	CUmemoryPool pool; // NULL: no pool's
	uint64_t bytes;    // of the pool, less what was allocated anew
	fk_hold hold;      // of others
};

static struct leaving *leavings, **last_leaving = &leavings;

void fk_frees_seen(void) {
	struct leaving **at = &leavings;
	for (struct leaving *l; (l = *at);) {
		if (l->seq == UINT64_MAX || !fk_seen(l->queue, l->seq)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		atomic_fetch_sub(&l->queue->leaving, 1);
		if (l->pool && l->bytes) // of which nothing is left the pool may be gone
			fk_pool_refund(l->pool, l->bytes);
		fk_drop_memory(l->device, &l->hold);
		free(l);
	}
	last_leaving = at;
}

void fk_frees_settle(void) {
	for (uint32_t d = 0; d < FK_DEVICES; d++)
		if (atomic_load(&fk.queues[d].leaving))
			fk_poll(&fk.queues[d], fk.queues[d].next - 1);
	fk_frees_seen();
}

// leave forgets an allocation, whose memory is free when the stream has come to here. The lock is
// held, and given up while the queue is full.
static CUresult leave(fk_allocation *a, CUstream s) {
	struct leaving *l = calloc(1, sizeof *l);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*l = (struct leaving){.queue = fk_queue_of(s),
		.seq = UINT64_MAX,
		.stream = s->id,
		.device = a->device,
		.pool = a->pool,
		.bytes = a->charged,
		.hold = a->hold};
	*last_leaving = l;
	last_leaving = &l->next;
	atomic_fetch_add(&l->queue->leaving, 1);
	a->pool = NULL, a->charged = 0, a->hold = (fk_hold){0};
	fk_drop(a);
	fk_push(s, (fk_item){.kind = FK_MARK}, &l->seq);
	fk_wake(&l->queue->work);
	return CUDA_SUCCESS;
}

// away is how much of a pool is on its way back to it.
static uint64_t away(const struct CUmemPoolHandle_st *p) {
	uint64_t bytes = 0;
	for (const struct leaving *l = leavings; l; l = l->next)
		bytes += l->pool == p ? l->bytes : 0;
	return bytes;
}

// may tells whether the stream can have what is on its way back to the pool: from itself, or from
// others.
static bool may(const struct leaving *l, CUmemoryPool p, CUstream s, bool others) {
	return l->pool == p && (l->stream == s->id) != others &&
		(!others || (l->seq != UINT64_MAX && l->queue == fk_queue_of(s)));
}

// reusable is how much that is, of so many bytes.
static uint64_t reusable(CUmemoryPool p, uint64_t bytes, CUstream s, bool others) {
	uint64_t left = bytes;
	for (const struct leaving *l = leavings; l && left; l = l->next)
		if (may(l, p, s, others))
			left -= l->bytes < left ? l->bytes : left;
	return bytes - left;
}

// reuse takes so many bytes of that; of others *after then names the last free.
static void reuse(CUmemoryPool p, uint64_t left, CUstream s, uint64_t *after) {
	for (struct leaving *l = leavings; l && left; l = l->next) {
		if (!may(l, p, s, after))
			continue;
		uint64_t n = l->bytes < left ? l->bytes : left;
		l->bytes -= n, left -= n, p->used -= n;
		if (after && n && l->seq > *after)
			*after = l->seq;
	}
}

static CUmemoryPool add(fk_queue *q, CUdevice device) {
	CUmemoryPool p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->kind = FK_POOL, p->device = device, p->next = q->pools;
	p->reuse[1] = p->reuse[2] = p->reuse[3] = 1;
	q->pools = p;
	return p;
}

static CUmemoryPool standard(CUdevice device) {
	fk_queue *q = &fk.queues[device];
	if (!q->pools && (q->pool = add(q, device)))
		q->pool->given = true;
	CUmemoryPool p = q->pools;
	while (p && !p->given)
		p = p->next;
	return p;
}

// shrink gives reserved memory back to the device down to the larger of what is used and keep.
static void shrink(CUmemoryPool p, uint64_t keep) {
	uint64_t least = p->used > keep ? p->used : keep;
	if (least >= p->reserved)
		return;
	least = (least + CHUNK - 1) / CHUNK * CHUNK;
	if (!p->host)
		fk_refund(p->device, p->reserved - least);
	p->reserved = least;
}

void fk_pools_settle(fk_queue *q) {
	fk_enter();
	fk_frees_settle();
	for (CUmemoryPool p = q->pools; p; p = p->next)
		shrink(p, p->threshold);
	fk_leave(0);
}

void fk_pool_refund(CUmemoryPool p, uint64_t bytes) {
	p->used -= bytes;
	if (!p->kind && !p->used) { // destroyed before its last allocation
		shrink(p, 0);
		free(p);
	}
}

// grow makes room in the pool for so many bytes more.
static CUresult grow(CUmemoryPool p, uint64_t bytes) {
	if (p->used + bytes <= p->reserved)
		return CUDA_SUCCESS;
	uint64_t more = (p->used + bytes - p->reserved + CHUNK - 1) / CHUNK * CHUNK;
	if (!p->host)
		FK_TRY(fk_charge(p->device, more));
	p->reserved += more;
	return CUDA_SUCCESS;
}

// take makes room in the pool for an allocation on a stream, which is to follow operation *after.
static CUresult take(CUmemoryPool p, uint64_t bytes, CUstream s, uint64_t *after) {
	fk_frees_settle();
	if (p->properties.maxSize &&
		(bytes > p->properties.maxSize || p->used > p->properties.maxSize - bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t lacks = p->used + bytes > p->reserved ? p->used + bytes - p->reserved : 0, theirs = 0,
			 own = reusable(p, lacks, s, false);
	CUresult r = grow(p, bytes - own);
	if (r && p->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES]) {
		theirs = reusable(p, lacks - own, s, true);
		r = grow(p, bytes - own - theirs);
	}
	if (r)
		return r;
	reuse(p, own, s, NULL);
	reuse(p, theirs, s, after);
	p->used += bytes;
	p->used_high = p->used > p->used_high ? p->used : p->used_high;
	p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
	return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle) {
	CUstream s;
	if (!out || !bytes || bytes > UINT64_C(1) << 46)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r)
		r = fk_capture_conflict(s);
	if (r)
		return fk_leave(r);
	CUmemoryPool p = pool ? pool : standard(s->context->device);
	p = pool || !p ? p : fk.queues[s->context->device].pool;
	if (!p)
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	CUdeviceptr at = fk_place(bytes, 512);
	if (s->capture) {
		*out = at;
		return fk_leave(fk_capture_add(s,
			&(fk_task){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .address = at, .bytes = bytes}, NULL));
	}
	uint64_t follows = 0;
	r = at ? take(p, bytes, s, &follows) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r)
		return fk_leave(r);
	fk_allocation a = {.address = at,
		.bytes = bytes,
		.charged = bytes,
		.origin = FK_POOLED,
		.device = p->device,
		.context = s->context,
		.pool = p};
	if (!fk_insert(a)) {
		fk_pool_refund(p, bytes);
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out = at;
	fk_push(s, (fk_item){.kind = FK_MARK, .after = follows}, NULL);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream s) {
	return allocate(out, bytes, NULL, s);
}
FK_API cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream s) {
	return allocate(out, bytes, NULL, fk_ptsz(s));
}

FK_API cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s) {
	return FK_IS(p, FK_POOL) && !p->foreign ? allocate(out, bytes, p, s) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s) {
	return cuMemAllocFromPoolAsync(out, bytes, p, fk_ptsz(s));
}

FK_API cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
	CUstream s;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r)
		r = fk_capture_conflict(s);
	if (r)
		return fk_leave(r);
	if (s->capture)
		return fk_leave(fk_capture_add(
			s, &(fk_task){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = address}, NULL));
	fk_allocation *a = fk_find(address);
	if (!a || a->address != address ||
		(a->origin != FK_POOLED && a->origin != FK_POOL_OPENED && a->origin != FK_DEVICE &&
			a->origin != FK_GRAPHED))
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	if (a->origin != FK_GRAPHED)
		return fk_leave(leave(a, s));
	fk_graphed_free(a);
	fk_push(s, (fk_item){.kind = FK_MARK}, NULL);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream s) {
	return cuMemFreeAsync(address, fk_ptsz(s));
}

FK_API cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties) {
	FK_TRY(fk_usable());
	if (!out || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	bool host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	CUdevice d = host ? 0 : properties->location.id;
	FK_TRY(fk_device_ok(d));
	fk_enter();
	CUresult r = fk_join(d);
	if (!r)
		r = standard(d) && (*out = add(&fk.queues[d], d)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (!r)
		(*out)->properties = *properties, (*out)->host = host;
	return fk_leave(r);
}

FK_API cuMemPoolDestroy(CUmemoryPool p) {
	FK_TRY(fk_usable());
	if (!FK_IS(p, FK_POOL) || p->given)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_queue *q = &fk.queues[p->device];
	for (CUmemoryPool *at = &q->pools; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	if (q->pool == p)
		q->pool = standard(p->device);
	p->kind = 0;
	p->used += 1; // so that the refund, not an earlier one, frees it
	fk_pool_refund(p, 1);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemPoolTrimTo(CUmemoryPool p, size_t keep) {
	FK_TRY(fk_usable());
	if (!FK_IS(p, FK_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_frees_settle();
	shrink(p, keep);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute attribute, void *value) {
	FK_TRY(fk_usable());
	if (!FK_IS(p, FK_POOL) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = CUDA_SUCCESS;
	fk_enter();
	if (attribute >= 1 && attribute <= 3)
		p->reuse[attribute] = *(int *)value;
	else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = *(uint64_t *)value;
	else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !*(uint64_t *)value)
		p->reserved_high = p->reserved;
	else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !*(uint64_t *)value)
		p->used_high = p->used;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	return fk_leave(r);
}

FK_API cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute attribute, void *value) {
	FK_TRY(fk_usable());
	if (!FK_IS(p, FK_POOL) || !value || attribute < 1 || attribute > 8)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_frees_settle();
	const uint64_t words[] = {
		p->threshold, p->reserved, p->reserved_high, p->used - away(p), p->used_high};
	if (attribute <= 3)
		*(int *)value = p->reuse[attribute];
	else
		*(uint64_t *)value = words[attribute - 4];
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *access, size_t count) {
	FK_TRY(fk_usable());
	return FK_IS(p, FK_POOL) && (access || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuMemPoolGetAccess(int *flags, CUmemoryPool p, CUmemLocation *location) {
	FK_TRY(fk_usable());
	if (!FK_IS(p, FK_POOL) || !flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 3;
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice d) {
	FK_TRY(fk_device_ok(d));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_join(d);
	if (!r)
		r = (*out = standard(d)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	return fk_leave(r);
}

FK_API cuDeviceGetMemPool(CUmemoryPool *out, CUdevice d) {
	FK_TRY(cuDeviceGetDefaultMemPool(out, d));
	fk_enter();
	*out = fk.queues[d].pool;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuDeviceSetMemPool(CUdevice d, CUmemoryPool p) {
	FK_TRY(fk_device_ok(d));
	if (!FK_IS(p, FK_POOL) || p->device != d)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk.queues[d].pool = p;
	return fk_leave(CUDA_SUCCESS);
}

// What an exported pool's descriptor holds. What is in the pool is exported one by one (ipc.c).
typedef struct {
	uint64_t magic;
	CUmemPoolProps properties;
} exported;

#define EXPORTED UINT64_C(0x57454952504f4f31)

FK_API cuMemPoolExportToShareableHandle(
	void *out, CUmemoryPool p, int type, unsigned long long flags) {
	FK_TRY(fk_usable());
	if (!out || flags || !FK_IS(p, FK_POOL) || p->foreign ||
		type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!(p->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	exported e = {.magic = EXPORTED, .properties = p->properties};
	int fd = memfd_create("weir fake pool", MFD_CLOEXEC);
	if (fd < 0 || write(fd, &e, sizeof e) != (ssize_t)sizeof e) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

FK_API cuMemPoolImportFromShareableHandle(
	CUmemoryPool *out, void *os, int type, unsigned long long flags) {
	exported e;
	if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		pread((int)(intptr_t)os, &e, sizeof e, 0) != (ssize_t)sizeof e || e.magic != EXPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(cuMemPoolCreate(out, &e.properties));
	(*out)->foreign = true;
	return CUDA_SUCCESS;
}

bool fk_pool_foreign(CUmemoryPool p) { return FK_IS(p, FK_POOL) && p->foreign; }
