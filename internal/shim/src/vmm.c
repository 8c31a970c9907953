/*
 * Memory that is created, mapped, unmapped and released in steps. The device has it from its
 * creation until the handle is released as often as it was given and no address range is mapped to
 * it.
 */
#include "weir.h"

#include <stdlib.h>

struct physical {
	uint64_t bytes;
	uint32_t handles, mappings;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool on_host(int location)
{
	return location == CU_MEM_LOCATION_TYPE_HOST || location == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

void weir_vmm_reset(void)
{
	pthread_mutex_init(&lock, NULL);
}

static bool note(CUmemGenericAllocationHandle handle, uint64_t bytes)
{
	struct physical *p = calloc(1, sizeof *p);
	if (!p)
		return false;
	*p = (struct physical){.bytes = bytes, .handles = 1};
	if (weir_sizes_put(WEIR_KIND_PHYSICAL, handle, bytes, p))
		return true;
	free(p);
	return false;
}

/* drop_if_unused ends p's count once nothing refers to it. The lock is held; it is given up. */
static void drop_if_unused(struct physical *p)
{
	bool last = p->handles == 0 && p->mappings == 0;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	weir_release(p->bytes);
	free(p);
}

CUresult weir_on_mem_create(enum weir_call call, CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	weir_fn_cuMemCreate real = (weir_fn_cuMemCreate)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_ready() || !handle || !prop || on_host(prop->location.type))
		return real(handle, size, prop, flags);
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		!weir_device_is_ours(prop->location.id))
		return CUDA_ERROR_INVALID_DEVICE; /* the job has no memory there */
	if (!weir_take(size))
		return weir_deny();
	CUresult r = real(handle, size, prop, flags);
	if (r != CUDA_SUCCESS || !note(*handle, size))
		weir_release(size);
	return r;
}

CUresult weir_on_mem_import(enum weir_call call, CUmemGenericAllocationHandle *handle,
	void *osHandle, CUmemAllocationHandleType type)
{
	weir_fn_cuMemImportFromShareableHandle real =
		(weir_fn_cuMemImportFromShareableHandle)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(handle, osHandle, type);
	if (r != CUDA_SUCCESS || !handle || !weir_ready())
		return r;
	/* The process's own memory may come back; another's is counted there. */
	pthread_mutex_lock(&lock);
	void *known;
	if (weir_sizes_get(WEIR_KIND_PHYSICAL, *handle, NULL, &known))
		((struct physical *)known)->handles++;
	pthread_mutex_unlock(&lock);
	return r;
}

CUresult weir_on_mem_release(enum weir_call call, CUmemGenericAllocationHandle handle)
{
	weir_fn_cuMemRelease real = (weir_fn_cuMemRelease)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_ready())
		return real(handle);
	/* The record is changed before the call: afterwards the driver may give the same handle again.
	 * */
	void *with = NULL;
	pthread_mutex_lock(&lock);
	struct physical *p = weir_sizes_get(WEIR_KIND_PHYSICAL, handle, NULL, &with) ? with : NULL;
	if (p && p->handles == 1)
		weir_sizes_take(WEIR_KIND_PHYSICAL, handle, NULL, NULL);
	pthread_mutex_unlock(&lock);
	CUresult r = real(handle);
	if (!p)
		return r;
	pthread_mutex_lock(&lock);
	if (r != CUDA_SUCCESS) {
		if (p->handles == 1)
			weir_sizes_put(WEIR_KIND_PHYSICAL, handle, p->bytes, p);
		pthread_mutex_unlock(&lock);
		return r;
	}
	/* of two threads that gave back the last two handles neither has seen one left */
	if (!--p->handles && weir_sizes_get(WEIR_KIND_PHYSICAL, handle, NULL, &with) && with == p)
		weir_sizes_take(WEIR_KIND_PHYSICAL, handle, NULL, NULL);
	drop_if_unused(p);
	return r;
}

CUresult weir_on_mem_map(enum weir_call call, CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	weir_fn_cuMemMap real = (weir_fn_cuMemMap)weir_real(call);
	if (!real)
		return weir_missing();
	void *with = NULL;
	struct physical *p = NULL;
	if (weir_ready()) {
		pthread_mutex_lock(&lock);
		p = weir_sizes_get(WEIR_KIND_PHYSICAL, handle, NULL, &with) ? with : NULL;
		if (p)
			p->mappings++;
		pthread_mutex_unlock(&lock);
	}
	CUresult r = real(ptr, size, offset, handle, flags);
	if (!p)
		return r;
	if (r == CUDA_SUCCESS && weir_sizes_put(WEIR_KIND_MAPPING, ptr, size, p))
		return r;
	pthread_mutex_lock(&lock);
	p->mappings--;
	drop_if_unused(p);
	return r;
}

/* end_mapping ends the mapping that begins at an address, of *bytes; false: none does. */
static bool end_mapping(uint64_t at, uint64_t *bytes)
{
	void *with;
	if (!weir_sizes_take(WEIR_KIND_MAPPING, at, bytes, &with))
		return false;
	struct physical *p = with;
	pthread_mutex_lock(&lock);
	p->mappings--;
	drop_if_unused(p);
	return true;
}

/* A range may cover several mappings, each as a whole, and others that are not counted. */
CUresult weir_on_mem_unmap(enum weir_call call, CUdeviceptr ptr, size_t size)
{
	weir_fn_cuMemUnmap real = (weir_fn_cuMemUnmap)weir_real(call);
	if (!real)
		return weir_missing();
	bool counted = weir_ready();
	CUresult r = real(ptr, size);
	if (r != CUDA_SUCCESS || !counted)
		return r;
	uint64_t at = ptr, end = ptr + size, n = 0;
	while (at < end && end_mapping(at, &n))
		at += n;
	size_t others = 0;
	uint64_t *begin = at < end ? weir_sizes_keys(WEIR_KIND_MAPPING, &others) : NULL;
	for (size_t i = 0; begin && i < others; i++)
		if (begin[i] >= at && begin[i] < end)
			end_mapping(begin[i], &n);
	free(begin);
	return r;
}

/* mapping_at finds what an address inside a mapping is backed by. The lock is held. */
static struct physical *mapping_at(uint64_t addr)
{
	weir_fn_cuMemGetAddressRange_v2 range = WEIR_DRIVER(cuMemGetAddressRange_v2);
	CUdeviceptr base;
	size_t n;
	void *with;
	if (weir_sizes_get(WEIR_KIND_MAPPING, addr, NULL, &with))
		return with;
	if (range && range(&base, &n, addr) == CUDA_SUCCESS &&
		weir_sizes_get(WEIR_KIND_MAPPING, base, NULL, &with))
		return with;
	return NULL;
}

CUresult weir_on_mem_retain(enum weir_call call, CUmemGenericAllocationHandle *handle, void *addr)
{
	weir_fn_cuMemRetainAllocationHandle real = (weir_fn_cuMemRetainAllocationHandle)weir_real(call);
	if (!real)
		return weir_missing();
	if (weir_is_movable((uintptr_t)addr)) /* as of all memory of cuMemAlloc, which has none */
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = real(handle, addr);
	if (r != CUDA_SUCCESS || !handle || !weir_ready())
		return r;
	void *with;
	pthread_mutex_lock(&lock);
	struct physical *p = weir_sizes_get(WEIR_KIND_PHYSICAL, *handle, NULL, &with)
		? with
		: mapping_at((uintptr_t)addr);
	if (p && weir_sizes_put(WEIR_KIND_PHYSICAL, *handle, p->bytes, p))
		p->handles++;
	pthread_mutex_unlock(&lock);
	return r;
}
