// The process's record of what lies where.
#ifndef WEIR_FAKE_MEMORY_H
#define WEIR_FAKE_MEMORY_H

#include "internal.h"

typedef enum {
	FK_DEVICE,     // cuMemAlloc and its kin
	FK_MANAGED,    // lies in host memory too
	FK_POOLED,     // cuMemAllocAsync
	FK_HOSTED,     // cuMemHostAlloc and cuMemAllocHost
	FK_REGISTERED, // cuMemHostRegister
	FK_RESERVED,   // an address range without memory
	FK_MAPPED,     // memory mapped within a reserved range
	FK_OPENED,     // another process's allocation
	FK_POOL_OPENED, // the same, from a pool of that process
	FK_IMPORTED,   // mapped from external memory
	FK_GRAPHED,    // of a graph's allocation node
} fk_origin;

// fk_hold is device memory that something holds.
typedef struct {
	uint64_t bytes;         // of its own
	struct fk_block *block; // shared with others (hold.c)
	CUdeviceptr address;    // as device memory
} fk_hold;

typedef struct fk_allocation {
	CUdeviceptr address;
	size_t bytes;
	fk_hold hold;     // device memory of its own
	uint64_t charged; // of its pool or graph
	fk_origin origin;
	CUdevice device;
	CUcontext context;
	uint64_t id;
	unsigned int flags;
	fk_store *store; // its contents; of FK_RESERVED there are none
	uint64_t within; // where in the store it begins
	CUmemoryPool pool;
	struct fk_backing *backing; // of FK_MAPPED
	uint32_t export;            // 1 + index, 0 for none
	uint64_t opened;            // serial of another process's export, 0 for none
	CUgraphExec exec;           // of FK_GRAPHED: whose memory it is
} fk_allocation;

// All of these are called with fk.lock held.

// fk_find is the allocation that holds the address, the innermost one; NULL for none.
fk_allocation *fk_find(CUdeviceptr address);

// fk_place picks a free range of device addresses. fk_insert records an allocation, whose contents
// it makes unless they are given, and then takes; NULL when the host has no memory. fk_of_device
// tells whether an address is one of the device's.
CUdeviceptr fk_place(size_t bytes, size_t alignment);
bool fk_of_device(CUdeviceptr address);
fk_allocation *fk_insert(fk_allocation a);

// fk_drop forgets an allocation and gives back what it charged, to its pool or to the device.
void fk_drop(fk_allocation *a);

// fk_charge takes device memory for the process, fk_refund gives it back.
CUresult fk_charge(CUdevice d, uint64_t bytes);
void fk_refund(CUdevice d, uint64_t bytes);

// fk_hold_memory takes device memory by the granules of the profile, fk_drop_memory gives it back.
// fk_rounded is how much that is for something that shares no granule.
CUresult fk_hold_memory(CUdevice d, uint64_t bytes, fk_hold *h);
void fk_drop_memory(CUdevice d, fk_hold *h);
uint64_t fk_rounded(CUdevice d, uint64_t bytes);

// fk_each calls f for each allocation until it returns false.
void fk_each(bool (*f)(fk_allocation *a, void *data), void *data);

// fk_copying describes a copy or set for the timeline; fk_copying_3d and fk_setting also what it
// does (copy.c). None needs the lock.
fk_task fk_copying(CUgraphNodeType type, CUdevice d, uint64_t bytes, bool host);
CUresult fk_copying_3d(const CUDA_MEMCPY3D *p, CUdevice d, fk_task *t);
fk_task fk_setting(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t size, size_t width,
	size_t height, CUdevice d);

// fk_array_side is where copies to and from an array begin, which end within it (array.c).
CUresult fk_array_side(CUarray a, size_t x, size_t y, size_t z, fk_motion *m, fk_side *side);

void fk_pool_refund(CUmemoryPool pool, uint64_t bytes); // pool.c

// fk_pool_foreign tells whether p is a pool of another process.
bool fk_pool_foreign(CUmemoryPool p); // pool.c
void fk_graphed_free(fk_allocation *a);                 // graphmem.c

#endif
