// Allocations and events of other processes, found by a serial number in the device's table of
// exports; and waits for events of other devices, which the service thread sits out on the stream's
// behalf.
#include "memory.h"

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
static CUresult export_of(fk_queue *q, uint64_t address, uint64_t bytes, uint32_t *index) {
	if (*index)
		return CUDA_SUCCESS;
	fk_lock(&q->device);
	fk_file *f = q->device.file;
	for (uint32_t i = 0; i < FK_EXPORTS && !*index; i++) {
		fk_export *e = &f->exports[i];
		if (e->serial)
			continue;
		*e = (fk_export){
			.address = address, .bytes = bytes, .slot = q->device.slot, .pid = (uint32_t)getpid()};
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
	CUresult r = export_of(q, a->address, a->bytes, &a->export);
	if (r)
		return fk_leave(r);
	ticket t = {
		magic, q->device.file->exports[a->export - 1].serial, (uint32_t)a->device, a->export};
	memset(out, 0, n);
	memcpy(out, &t, sizeof t);
	return fk_leave(CUDA_SUCCESS);
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
	CUdeviceptr at = fk_place(e.bytes, 512);
	fk_allocation a = {.address = at,
		.bytes = e.bytes,
		.origin = origin,
		.device = (CUdevice)t.device,
		.context = c};
	if (!at || !fk_insert(a))
		return fk_leave(CUDA_ERROR_MAP_FAILED);
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
	CUresult r = export_of(q, 0, 0, &event->export);
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
	bool done = fk_done(d, x.slot, x.recorded_seq);
	fk_unlock(d);
	return done;
}

// waited is a copy of an event as it was recorded when the wait was queued.
typedef struct {
	struct CUevent_st event;
	fk_export export;
} waited;

// sit runs on the service thread until the event is done, looking every 100 us.
static void sit(void *p) {
	waited *w = p;
	fk_device *d = &fk.queues[w->event.device].device;
	uint32_t slot = w->event.foreign ? w->export.slot : d->slot;
	uint64_t seq = w->event.foreign ? w->export.recorded_seq : w->event.seq;
	for (bool done = !seq; !done;) {
		fk_lock(d);
		fk_advance(d);
		done = fk_done(d, slot, seq) ||
			(w->event.foreign &&
				d->file->exports[w->event.foreign_index - 1].serial != w->event.foreign);
		fk_unlock(d);
		if (!done)
			fk_sleep_until(NULL, 0, fk_now() + 100000);
	}
	free(w);
}

static CUresult wait_with(CUstream s, CUevent e, fk_export x) {
	waited *w = malloc(sizeof *w);
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	w->event = *e, w->export = x;
	fk_push(s, (fk_item){.kind = FK_HOST, .call = sit, .data = w}, NULL);
	return CUDA_SUCCESS;
}

CUresult fk_wait_other(CUstream s, CUevent e) { return wait_with(s, e, (fk_export){0}); }

CUresult fk_wait_foreign(CUstream s, CUevent e) {
	return wait_with(s, e, seen(&fk.queues[e->device].device, e->foreign_index, e->foreign));
}
