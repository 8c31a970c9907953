// Virtual memory management: memory without an address (a backing), reserved addresses, and
// mappings of one in the other. A backing charges its bytes from creation until the last of its
// handles, its mappings and its exported descriptors is gone, in whichever process they are
// ("references to the handle (including it's shareable counterparts)", cuMemRelease), or its
// process. Memory of the host charges nothing.
#include "memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fk_backing {
	uint64_t bytes, handle;
	uint32_t handles, mappings;
	CUmemAllocationProp properties;
	CUdevice device;
	bool foreign; // created by another process, which is charged
	bool lingers; // only exported descriptors are left of it
	int fd;       // with the contents and what is exported, if it can be, else -1
	fk_store *store;
	struct fk_backing *next;
};

enum { GRANULE = 2 << 20 };
static struct fk_backing *backings;
static uint64_t last_handle;

// What the last page of an exported descriptor holds, a file that only its holders can read; the
// contents are before it.
typedef struct {
	uint64_t magic, bytes, handle;
	CUmemAllocationProp properties;
	uint32_t pid, pad;
} exported;

#define EXPORTED UINT64_C(0x574549524d454d31)
enum { PAGE = 4096 };

// export_file makes the file of a backing that can be exported.
static int export_file(uint64_t bytes, uint64_t handle, const CUmemAllocationProp *p) {
	exported e = {.magic = EXPORTED,
		.bytes = bytes,
		.handle = handle,
		.properties = *p,
		.pid = (uint32_t)getpid()};
	int fd = memfd_create("weir fake memory", MFD_CLOEXEC);
	if (fd >= 0 && !ftruncate(fd, (off_t)(bytes + PAGE)) &&
		pwrite(fd, &e, sizeof e, (off_t)bytes) == (ssize_t)sizeof e)
		return fd;
	close(fd);
	return -1;
}

static struct fk_backing *of(CUmemGenericAllocationHandle handle) {
	struct fk_backing *b = backings;
	while (b && b->handle != handle)
		b = b->next;
	return b;
}

static struct fk_backing *held(CUmemGenericAllocationHandle handle) {
	struct fk_backing *b = of(handle);
	return b && b->handles ? b : NULL;
}

static bool on_device(const CUmemAllocationProp *p) {
	return p->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

// Each exported descriptor is a description of its own, with a lock that ends with its last copy.
static struct flock mark(short type) {
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
}

static bool is_exported(const struct fk_backing *b) {
	struct flock any = mark(F_WRLCK);
	return b->fd >= 0 && !b->foreign && !fcntl(b->fd, F_OFD_GETLK, &any) &&
		any.l_type != F_UNLCK;
}

static void set_lingers(struct fk_backing *b, bool lingers) {
	fk_queue *q = &fk.queues[b->device];
	if (lingers != b->lingers)
		atomic_fetch_add(&q->lingering, lingers ? 1 : -1);
	b->lingers = lingers;
	if (lingers)
		fk_wake(&q->work);
}

static void unhold(struct fk_backing *b) {
	set_lingers(b, !b->handles && !b->mappings && is_exported(b));
	if (b->handles || b->mappings || b->lingers)
		return;
	for (struct fk_backing **p = &backings; *p; p = &(*p)->next)
		if (*p == b) {
			*p = b->next;
			break;
		}
	if (on_device(&b->properties) && !b->foreign)
		fk_refund(b->device, b->bytes);
	if (b->fd >= 0)
		close(b->fd);
	fk_unkeep(b->store);
	free(b);
}

void fk_backings_settle(CUdevice d) {
	for (struct fk_backing *b = backings, *next; b; b = next) {
		next = b->next;
		if (b->lingers && b->device == d)
			unhold(b);
	}
}

// make makes a backing; fd is that of the process that has it, which is taken, or -1.
static CUresult make(
	CUmemGenericAllocationHandle *out, uint64_t bytes, const CUmemAllocationProp *p, int fd) {
	bool foreign = fd >= 0;
	CUdevice d = on_device(p) ? p->location.id : 0;
	FK_TRY(fk_device_ok(d));
	fk_enter();
	CUresult r = fk_join(d);
	if (!r && on_device(p) && !foreign)
		r = fk_charge(d, bytes);
	if (!r && !foreign && p->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		fd = export_file(bytes, last_handle + 1, p);
	fk_store *store = fd < 0 ? fk_store_alone(bytes)
							 : fk_store_file(fcntl(fd, F_DUPFD_CLOEXEC, 0), 0, bytes);
	struct fk_backing *b = r || !store ? NULL : calloc(1, sizeof *b);
	if (!b) {
		if (!r && on_device(p) && !foreign)
			fk_refund(d, bytes);
		fk_unkeep(store);
		close(fd);
		return fk_leave(r ? r : CUDA_ERROR_OUT_OF_MEMORY);
	}
	*b = (struct fk_backing){.bytes = bytes,
		.handle = ++last_handle,
		.handles = 1,
		.properties = *p,
		.device = d,
		.foreign = foreign,
		.fd = fd,
		.store = store,
		.next = backings};
	backings = b;
	*out = b->handle;
	return fk_leave(CUDA_SUCCESS);
}

// The calls of this file are allowed while streams are captured: PyTorch's allocator makes them
// then with its expandable segments, outside of relaxed mode, and its tests of graphs run with
// those (test_cuda_expandable_segments.py).
FK_API cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *p,
	unsigned long long flags) {
	FK_TRY(fk_usable());
	if (!out || !p || flags || !bytes || bytes % GRANULE ||
		p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
		p->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	return make(out, bytes, p, -1);
}

FK_API cuMemRelease(CUmemGenericAllocationHandle handle) {
	FK_TRY(fk_usable());
	fk_enter();
	struct fk_backing *b = held(handle);
	if (!b)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	b->handles--;
	unhold(b);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemAddressReserve(
	CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
	(void)wish;
	FK_TRY(fk_usable());
	if (!out || !bytes || bytes % GRANULE || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUdeviceptr at = fk_place(bytes, alignment > GRANULE ? alignment : GRANULE);
	if (!at || !fk_insert((fk_allocation){.address = at, .bytes = bytes, .origin = FK_RESERVED}))
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = at;
	return fk_leave(CUDA_SUCCESS);
}

// range finds a mapping within a range, and the reservation that holds the range's start if it
// holds all of it.
typedef struct {
	CUdeviceptr from;
	size_t bytes;
	fk_allocation *reserved, *mapped;
	size_t covered; // bytes of whole mappings within the range
} range;

static bool look(fk_allocation *a, void *data) {
	range *r = data;
	if (a->origin == FK_RESERVED && r->from >= a->address && r->from - a->address <= a->bytes &&
		r->bytes <= a->bytes - (r->from - a->address))
		r->reserved = a;
	if (a->origin == FK_MAPPED && a->address < r->from + r->bytes &&
		a->address + a->bytes > r->from) {
		r->mapped = a;
		if (a->address >= r->from && a->address + a->bytes <= r->from + r->bytes)
			r->covered += a->bytes;
	}
	return true;
}

static range looked(CUdeviceptr from, size_t bytes) {
	range r = {.from = from, .bytes = bytes};
	fk_each(look, &r);
	return r;
}

FK_API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
	FK_TRY(fk_usable());
	fk_enter();
	range r = looked(address, bytes);
	if (!r.reserved || r.mapped || r.reserved->address != address || r.reserved->bytes != bytes)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	fk_drop(r.reserved);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags) {
	FK_TRY(fk_usable());
	fk_enter();
	struct fk_backing *b = held(handle);
	range r = looked(address, bytes);
	if (!b || flags || offset || !bytes || bytes > b->bytes || bytes % GRANULE || !r.reserved ||
		r.mapped)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	fk_allocation a = {.address = address,
		.bytes = bytes,
		.origin = FK_MAPPED,
		.device = b->device,
		.store = fk_keep(b->store),
		.backing = b};
	if (!fk_insert(a))
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	b->mappings++;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemUnmap(CUdeviceptr address, size_t bytes) {
	FK_TRY(fk_usable());
	fk_enter();
	range r = looked(address, bytes);
	if (!r.mapped || r.covered != bytes)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	for (; r.mapped; r = looked(address, bytes)) {
		struct fk_backing *b = r.mapped->backing;
		fk_drop(r.mapped);
		b->mappings--;
		unhold(b);
	}
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemSetAccess(
	CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
	FK_TRY(fk_usable());
	if (!access || !count)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	range r = looked(address, bytes);
	return fk_leave(r.mapped && r.covered == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
	FK_TRY(fk_usable());
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	fk_allocation *a = fk_find(address);
	*flags = 3;
	return fk_leave(a && a->origin == FK_MAPPED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

FK_API cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *p, int option) {
	FK_TRY(fk_usable());
	if (!bytes || !p || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = GRANULE;
	return CUDA_SUCCESS;
}

FK_API cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *p, CUmemGenericAllocationHandle handle) {
	FK_TRY(fk_usable());
	fk_enter();
	struct fk_backing *b = held(handle);
	if (!p || !b)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	*p = b->properties;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
	FK_TRY(fk_usable());
	fk_enter();
	fk_allocation *a = fk_find((uintptr_t)address);
	if (!out || !a || a->origin != FK_MAPPED)
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	a->backing->handles++;
	*out = a->backing->handle;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemExportToShareableHandle(
	void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
	FK_TRY(fk_usable());
	if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	struct fk_backing *b = held(handle);
	if (!b || !(b->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return fk_leave(CUDA_ERROR_INVALID_VALUE);
	fk_share(&fk.queues[b->device]);
	struct flock shared = mark(F_RDLCK);
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &shared)) {
		close(fd);
		return fk_leave(CUDA_ERROR_OPERATING_SYSTEM);
	}
	*(int *)out = fd;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os, int type) {
	FK_TRY(fk_usable());
	exported e;
	int fd = (int)(intptr_t)os;
	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	struct stat st;
	if (fstat(fd, &st) || pread(fd, &e, sizeof e, st.st_size - PAGE) != (ssize_t)sizeof e ||
		e.magic != EXPORTED || e.bytes + PAGE != (uint64_t)st.st_size)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	struct fk_backing *own = e.pid == (uint32_t)getpid() ? of(e.handle) : NULL;
	if (own) {
		own->handles++;
		set_lingers(own, false);
		*out = own->handle;
	}
	fk_leave(0);
	if (own)
		return CUDA_SUCCESS;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FK_TRY(copy < 0 ? CUDA_ERROR_OPERATING_SYSTEM : make(out, e.bytes, &e.properties, copy));
	fk_share(&fk.queues[on_device(&e.properties) ? e.properties.location.id : 0]);
	return CUDA_SUCCESS;
}
