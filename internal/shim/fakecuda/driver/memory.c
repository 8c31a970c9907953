// Device memory, managed memory and pinned host memory: the address space and the allocating calls
// that need no pool.
//
// An allocation charges the bytes that were asked for (pitched ones: pitch times height), exactly
// in the profile "plain", so that tests can compare ledgers to the byte.
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
	fk_allocation **all; // by address
	size_t count, room;
	CUdeviceptr next;
	uint64_t ids;
} space;

// Device addresses lie where the host's are not: below the mappings, above a program at its usual
// place.
#define LOWEST UINT64_C(0x200000000000)
#define HIGHEST UINT64_C(0x500000000000)

// after is the index of the first allocation above the address.
static size_t after(CUdeviceptr address) {
	size_t low = 0, high = space.count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (space.all[mid]->address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

// A mapping may lie in a reserved range, whose record then starts at or before it: the innermost is
// the last one that begins there.
fk_allocation *fk_find(CUdeviceptr address) {
	for (size_t i = after(address); i-- > 0;) {
		fk_allocation *a = space.all[i];
		if (address - a->address < a->bytes)
			return a;
		if (a->origin != FK_MAPPED)
			return NULL;
	}
	return NULL;
}

// taken is the end of what overlaps a range, 0 for nothing.
static CUdeviceptr taken(CUdeviceptr at, size_t bytes) {
	for (size_t i = after(at + bytes - 1); i-- > 0;) {
		fk_allocation *a = space.all[i];
		if (a->address + a->bytes > at)
			return a->address + a->bytes;
		if (a->origin != FK_MAPPED)
			return 0;
	}
	return 0;
}

bool fk_of_device(CUdeviceptr address) { return address >= LOWEST && address < HIGHEST; }

CUdeviceptr fk_place(size_t bytes, size_t alignment) {
	if (bytes > HIGHEST - LOWEST)
		return 0;
	CUdeviceptr at = space.next ? space.next : LOWEST, end = 0;
	for (int rounds = 0; rounds < 2; at = LOWEST, rounds++)
		for (;; at = end) {
			at = (at + alignment - 1) / alignment * alignment;
			if (at + bytes > HIGHEST)
				break;
			end = taken(at, bytes);
			if (end)
				continue;
			space.next = at + bytes;
			return at;
		}
	return 0;
}

fk_allocation *fk_insert(fk_allocation from) {
	if (space.count == space.room) {
		size_t room = space.room ? 2 * space.room : 64;
		fk_allocation **all = realloc(space.all, room * sizeof *all);
		if (!all)
			return NULL;
		space.all = all, space.room = room;
	}
	fk_allocation *a = malloc(sizeof *a);
	if (!a) {
		fk_unkeep(from.store);
		return NULL;
	}
	*a = from;
	a->id = ++space.ids;
	bool host =
		a->origin == FK_MANAGED || a->origin == FK_HOSTED || a->origin == FK_REGISTERED;
	if (!a->store && a->origin != FK_RESERVED)
		a->store = host ? fk_store_host((void *)(uintptr_t)a->address, a->bytes,
							  a->origin != FK_REGISTERED)
						: fk_store_new(a->bytes);
	if (!a->store && a->origin != FK_RESERVED) {
		free(a);
		return NULL;
	}
	size_t i = after(a->address);
	memmove(space.all + i + 1, space.all + i, (space.count - i) * sizeof *space.all);
	space.all[i] = a;
	space.count++;
	return a;
}

void fk_drop(fk_allocation *a) {
	for (size_t i = after(a->address); i-- > 0;)
		if (space.all[i] == a) {
			memmove(space.all + i, space.all + i + 1, (space.count - i - 1) * sizeof *space.all);
			space.count--;
			break;
		}
	fk_device *d = &fk.queues[a->device].device;
	fk_unexport(d, a->export);
	if (a->opened) {
		fk_lock(d);
		fk_closed(d, a->opened);
		fk_unlock(d);
	}
	fk_unkeep(a->store);
	if (a->pool)
		fk_pool_refund(a->pool, a->charged);
	else if (a->charged)
		fk_refund(a->device, a->charged);
	fk_drop_memory(a->device, &a->hold);
	free(a);
}

void fk_each(bool (*f)(fk_allocation *a, void *data), void *data) {
	for (size_t i = 0; i < space.count; i++)
		if (!f(space.all[i], data))
			return;
}

void fk_memory_of_context(CUcontext c) {
	for (size_t i = space.count; i-- > 0;)
		if (!space.all[i]->pool && fk_root(space.all[i]->context) == c)
			fk_drop(space.all[i]);
}

CUresult fk_charge(CUdevice d, uint64_t bytes) {
	fk_queue *q = &fk.queues[d];
	fk_frees_settle();
	fk_lock(&q->device);
	bool fits = fk_take(&q->device, bytes, false);
	fk_unlock(&q->device);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void fk_refund(CUdevice d, uint64_t bytes) {
	fk_queue *q = &fk.queues[d];
	fk_lock(&q->device);
	fk_give(&q->device, bytes, false);
	fk_unlock(&q->device);
}

// allocate serves the calls that return device memory. 32-bit callers get a low address.
static CUresult allocate(CUdeviceptr *out, uint64_t bytes, CUdeviceptr low) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_hold hold;
	CUresult r = fk_hold_memory(c->device, bytes, &hold);
	if (r)
		return fk_leave(r);
	CUdeviceptr at = low ? low : hold.address;
	if (!at ||
		!fk_insert((fk_allocation){
			.address = at, .bytes = bytes, .hold = hold, .device = c->device, .context = c})) {
		fk_drop_memory(c->device, &hold);
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out = at;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) { return allocate(out, bytes, 0); }

FK_API cuMemAllocPitch_v2(
	CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element) {
	if (!pitch || !width || !height || width > UINT32_MAX || height > UINT32_MAX ||
		(element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	size_t wide = (width + 511) / 512 * 512;
	FK_TRY(allocate(out, (uint64_t)wide * height, 0));
	*pitch = wide;
	return CUDA_SUCCESS;
}

// The calls of before CUDA 3.2 have 32-bit addresses and sizes.
FK_API cuMemAlloc(CUdeviceptr_v1 *out, unsigned int bytes) {
	static CUdeviceptr next = 0x10000000;
	CUdeviceptr at;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUdeviceptr low = next;
	bool fits = low + bytes < UINT32_MAX;
	next = fits ? (low + bytes + 511) / 512 * 512 : low;
	fk_leave(0);
	FK_TRY(fits ? allocate(&at, bytes, low) : CUDA_ERROR_OUT_OF_MEMORY);
	*out = (CUdeviceptr_v1)at;
	return CUDA_SUCCESS;
}

FK_API cuMemAllocPitch(CUdeviceptr_v1 *out, unsigned int *pitch, unsigned int width,
	unsigned int height, unsigned int element) {
	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t wide = ((uint64_t)width + 511) / 512 * 512;
	FK_TRY(wide * height > UINT32_MAX ? CUDA_ERROR_OUT_OF_MEMORY
									  : cuMemAlloc(out, (unsigned int)(wide * height)));
	*pitch = (unsigned int)wide;
	return CUDA_SUCCESS;
}

// settled waits for the context's work, if freeing what lies at the address does.
static void settled(CUdeviceptr address) {
	fk_enter();
	fk_allocation *a = fk_find(address);
	fk_queue *q = a && (a->origin == FK_DEVICE || a->origin == FK_MANAGED)
		? &fk.queues[a->device]
		: NULL;
	fk_leave(0);
	if (q && FK_KNOB(&q->device, free_sync))
		fk_wait_all(q);
}

// free_of frees what may be freed by the call.
static CUresult free_of(CUdeviceptr address, bool host) {
	FK_TRY(fk_sound());
	FK_TRY(fk_unsafe());
	if (!address)
		return CUDA_SUCCESS;
	settled(address);
	fk_enter();
	fk_allocation *a = fk_find(address);
	bool right = a && a->address == address &&
		(host ? a->origin == FK_HOSTED
			  : a->origin == FK_DEVICE || a->origin == FK_MANAGED || a->origin == FK_POOLED ||
					a->origin == FK_IMPORTED || a->origin == FK_POOL_OPENED ||
					a->origin == FK_GRAPHED);
	if (!right)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	if (a->origin == FK_GRAPHED)
		fk_graphed_free(a);
	else
		fk_drop(a);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemFree_v2(CUdeviceptr address) { return free_of(address, false); }
FK_API cuMemFree(CUdeviceptr_v1 address) { return free_of(address, false); }
FK_API cuMemFreeHost(void *p) { return free_of((uintptr_t)p, true); }

// hosted maps memory of the host that the device can reach. It is not touched, so it costs nothing
// until the program uses it.
static CUresult hosted(uintptr_t *out, size_t bytes, unsigned int flags, fk_origin origin) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	FK_TRY(fk_unsafe());
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	fk_hold hold = {0};
	fk_enter();
	CUresult r = origin == FK_MANAGED ? fk_hold_memory(c->device, bytes, &hold) : CUDA_SUCCESS;
	if (r)
		return fk_leave(r);
	void *p = mmap(
		NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	fk_allocation a = {.address = (uintptr_t)p,
		.bytes = bytes,
		.hold = hold,
		.origin = origin,
		.device = c->device,
		.context = c,
		.flags = flags};
	if (p == MAP_FAILED || !fk_insert(a)) {
		fk_drop_memory(c->device, &hold);
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out = (uintptr_t)p;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags) {
	uintptr_t p;
	if (!out || (flags != 1 && flags != 2))
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(hosted(&p, bytes, flags, FK_MANAGED));
	*out = p;
	return CUDA_SUCCESS;
}

FK_API cuMemHostAlloc(void **out, size_t bytes, unsigned int flags) {
	uintptr_t p;
	if (!out || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	FK_TRY(hosted(&p, bytes, flags, FK_HOSTED));
	*out = (void *)p;
	return CUDA_SUCCESS;
}

FK_API cuMemAllocHost_v2(void **out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }
FK_API cuMemAllocHost(void **out, unsigned int bytes) { return cuMemHostAlloc(out, bytes, 0); }

FK_API cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!p || !bytes || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	if (fk_find((uintptr_t)p))
		return fk_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	fk_allocation a = {.address = (uintptr_t)p,
		.bytes = bytes,
		.origin = FK_REGISTERED,
		.device = c->device,
		.context = c,
		.flags = flags};
	return fk_leave(fk_insert(a) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

FK_API cuMemHostRegister(void *p, size_t bytes, unsigned int flags) {
	return cuMemHostRegister_v2(p, bytes, flags);
}

FK_API cuMemHostUnregister(void *p) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_allocation *a = fk_find((uintptr_t)p);
	if (!a || a->origin != FK_REGISTERED || a->address != (uintptr_t)p)
		return fk_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	fk_drop(a);
	return fk_leave(CUDA_SUCCESS);
}

static fk_allocation *pinned(const void *p) {
	fk_allocation *a = fk_find((uintptr_t)p);
	return a && (a->origin == FK_HOSTED || a->origin == FK_REGISTERED) ? a : NULL;
}

FK_API cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags) {
	FK_TRY(fk_usable());
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = pinned(p) ? (uintptr_t)p : 0;
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuMemHostGetFlags(unsigned int *flags, void *p) {
	FK_TRY(fk_usable());
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_allocation *a = pinned(p);
	*flags = a ? a->flags : 0;
	return fk_leave(a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuMemGetInfo_v2(size_t *free, size_t *total) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	fk_device *d = &fk.queues[c->device].device;
	fk_enter();
	fk_frees_settle();
	fk_lock(d);
	fk_reap(d);
	uint64_t hard, room = fk_room(d, &hard), left = d->file->terms.memory - fk_used(d);
	*total = hard < d->file->terms.memory ? hard : d->file->terms.memory;
	*free = room < left ? room : left;
	fk_unlock(d);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemGetInfo(unsigned int *free, unsigned int *total) {
	size_t f, t;
	FK_TRY(cuMemGetInfo_v2(&f, &t));
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	*free = f > UINT32_MAX ? UINT32_MAX : (unsigned int)f;
	*total = t > UINT32_MAX ? UINT32_MAX : (unsigned int)t;
	return CUDA_SUCCESS;
}

FK_API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_allocation *a = fk_find(address);
	if (!a || a->origin == FK_RESERVED)
		return fk_leave(CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = a->address;
	if (bytes)
		*bytes = a->bytes;
	return fk_leave(CUDA_SUCCESS);
}
