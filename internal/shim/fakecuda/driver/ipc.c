// Allocations and events of other processes, found by a serial number in the device's table of
// exports; and waits for events of other devices, for which the service thread looks.
#include "memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What an IPC handle holds.
typedef struct {
	uint64_t magic, serial;
	uint32_t device, index;
} ticket;

#define MEMORY_TICKET UINT64_C(0x5745495249504331)
#define EVENT_TICKET UINT64_C(0x5745495249504332)
#define POOLED_TICKET UINT64_C(0x5745495249504333)

// export_of finds or makes an export; *index is 1 + its place. Called with fk.lock held.
static CUresult export_of(fk_queue *q, const fk_allocation *a, uint32_t *index) {
	uint64_t offset = 0;
	if (*index)
		return CUDA_SUCCESS;
	fk_share(q);
	int fd = a ? fk_store_share(a->store, &offset) : -1;
	fk_lock(&q->device);
	fk_file *f = q->device.file;
	for (uint32_t i = 0; i < FK_EXPORTS && !*index; i++) {
		fk_export *e = &f->exports[i];
		if (e->serial)
			continue;
		*e = (fk_export){.address = a ? a->address : 0,
			.bytes = a ? fk_rounded(a->device, a->bytes) : 0,
			.size = a ? a->bytes : 0,
			.offset = offset,
			.slot = q->device.slot,
			.pid = (uint32_t)getpid(),
			.fd = fd};
		if (i >= f->exports_high)
			f->exports_high = i + 1;
		atomic_signal_fence(memory_order_seq_cst);
		e->serial = ++f->serial;
		*index = i + 1;
	}
	fk_unlock(&q->device);
	return *index ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void fk_unexport(fk_device *d, uint32_t export) {
	if (!export)
		return;
	fk_lock(d);
	d->file->exports[export - 1].serial = 0;
	fk_unlock(d);
}

static fk_export seen(fk_device *d, uint32_t index, uint64_t serial) {
	fk_export e = {0};
	fk_lock(d);
	if (index && index <= FK_EXPORTS && d->file->exports[index - 1].serial == serial)
		e = d->file->exports[index - 1];
	fk_unlock(d);
	return e;
}

// give writes a ticket for the allocation, which must be of the origin, into the n bytes of a
// handle.
static CUresult give(void *out, size_t n, CUdeviceptr address, fk_origin origin, uint64_t magic) {
	FK_TRY(fk_usable());
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_allocation *a = fk_find(address);
	if (!a || a->origin != origin)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	fk_queue *q = &fk.queues[a->device];
	CUresult r = export_of(q, a, &a->export);
	if (r)
		return fk_leave(r);
	ticket t = {
		magic, q->device.file->exports[a->export - 1].serial, (uint32_t)a->device, a->export};
	memset(out, 0, n);
	memcpy(out, &t, sizeof t);
	return fk_leave(CUDA_SUCCESS);
}

// contents opens what another process has exported, through that process's descriptor.
static fk_store *contents(const fk_export *e) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%u/fd/%d", e->pid, e->fd);
	return fk_store_file(open(path, O_RDWR | O_CLOEXEC), e->offset, e->size);
}

// take opens the allocation that a handle has a ticket for.
static CUresult take(CUdeviceptr *out, const void *handle, fk_origin origin, uint64_t magic) {
	CUcontext c;
	ticket t;
	FK_TRY(fk_current(&c));
	memcpy(&t, handle, sizeof t);
	if (!out || t.magic != magic || t.device >= fk.count)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_export e = seen(&fk.queues[t.device].device, t.index, t.serial);
	if (!e.serial || e.pid == (uint32_t)getpid())
		return fk_leave(e.serial ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
	CUdeviceptr at = fk_place(e.size, 512);
	fk_allocation a = {.address = at,
		.bytes = e.size,
		.opened = e.serial,
		.store = contents(&e),
		.origin = origin,
		.device = (CUdevice)t.device,
		.context = c};
	if (!at || !a.store || !fk_insert(a))
		return fk_leave(CUDA_ERROR_MAP_FAILED);
	fk_device *d = &fk.queues[t.device].device;
	fk_lock(d);
	fk_opened(d, e.serial);
	fk_unlock(d);
	fk_share(&fk.queues[t.device]);
	*out = at;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address) {
	return give(out, sizeof *out, address, FK_DEVICE, MEMORY_TICKET);
}

FK_API cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : take(out, &handle, FK_OPENED, MEMORY_TICKET);
}

FK_API cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address) {
	return give(out, sizeof *out, address, FK_POOLED, POOLED_TICKET);
}

FK_API cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool p, CUmemPoolPtrExportData *data) {
	return data && fk_pool_foreign(p) ? take(out, data, FK_POOL_OPENED, POOLED_TICKET)
									  : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
	return cuIpcOpenMemHandle_v2(out, handle, flags);
}

FK_API cuIpcCloseMemHandle(CUdeviceptr address) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_allocation *a = fk_find(address);
	if (!a || a->origin != FK_OPENED || a->address != address)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	fk_drop(a);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event) {
	FK_TRY(fk_usable());
	if (!out || !FK_IS(event, FK_EVENT) || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_queue *q = &fk.queues[event->device];
	CUresult r = export_of(q, NULL, &event->export);
	if (r)
		return fk_leave(r);
	ticket t = {EVENT_TICKET, q->device.file->exports[event->export - 1].serial,
		(uint32_t)event->device, event->export};
	memset(out, 0, sizeof *out);
	memcpy(out, &t, sizeof t);
	fk_export_record(event);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
	CUcontext c;
	ticket t;
	FK_TRY(fk_current(&c));
	memcpy(&t, &handle, sizeof t);
	if (!out || t.magic != EVENT_TICKET || t.device >= fk.count)
		return CUDA_ERROR_INVALID_VALUE;
	CUevent e = calloc(1, sizeof *e);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*e = (struct CUevent_st){.kind = FK_EVENT,
		.flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS,
		.device = (CUdevice)t.device,
		.foreign = t.serial,
		.foreign_index = t.index};
	*out = e;
	return CUDA_SUCCESS;
}

void fk_export_record(CUevent e) {
	if (!e->export)
		return;
	fk_queue *q = &fk.queues[e->device];
	fk_lock(&q->device);
	q->device.file->exports[e->export - 1].recorded_seq = e->seq;
	fk_unlock(&q->device);
}

// An event whose process has gone is done.
bool fk_foreign_done(CUevent e) {
	fk_device *d = &fk.queues[e->device].device;
	fk_export x = seen(d, e->foreign_index, e->foreign);
	if (!x.serial || !x.recorded_seq)
		return true;
	fk_lock(d);
	fk_advance(d);
	bool done = fk_done(d, x.slot, x.recorded_seq) && fk_settled(d, x.slot, x.recorded_seq);
	fk_unlock(d);
	return done;
}

// waited is a copy of an event as it was recorded when the wait was queued.
typedef struct {
	struct CUevent_st event;
	fk_export export;
} waited;

// passed reports whether a wait is over, which it is also when the event's process has gone.
static bool passed(void *p) {
	waited *w = p;
	fk_queue *q = &fk.queues[w->event.device];
	bool over = true;
	if (w->event.foreign && w->export.recorded_seq) {
		fk_lock(&q->device);
		fk_advance(&q->device);
		over = q->device.file->exports[w->event.foreign_index - 1].serial != w->event.foreign ||
			(fk_done(&q->device, w->export.slot, w->export.recorded_seq) &&
				fk_settled(&q->device, w->export.slot, w->export.recorded_seq));
		fk_unlock(&q->device);
	} else if (!w->event.foreign && w->event.seq) {
		over = fk_poll(q, w->event.seq);
	}
	if (over)
		free(w);
	return over;
}

static CUresult wait_with(CUstream s, CUevent e, fk_export x) {
	waited *w = malloc(sizeof *w);
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w->event = *e, w->export = x;
	fk_push(s, (fk_item){.kind = FK_HOST, .until = passed, .data = w}, NULL);
	return CUDA_SUCCESS;
}

CUresult fk_wait_other(CUstream s, CUevent e) { return wait_with(s, e, (fk_export){0}); }

CUresult fk_wait_foreign(CUstream s, CUevent e) {
	return wait_with(s, e, seen(&fk.queues[e->device].device, e->foreign_index, e->foreign));
}
