/*
 * Memory that is created, mapped, unmapped and released by two threads at once, exactly in the
 * driver's call of one of them, and long ranges that nobody has counted.
 */
#include "../src/weir.h"

static bool take(enum weir_kind kind, uint64_t key, uint64_t *size, void **with);

#define weir_sizes_take take
#include "../src/vmm.c"
#undef weir_sizes_take

#include "expect.h"

#define CAP 1000
#define AT (UINT64_C(1) << 40)

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own;
static uint64_t takes; /* asked of the table */

static bool take(enum weir_kind kind, uint64_t key, uint64_t *size, void **with)
{
	takes++;
	return weir_sizes_take(kind, key, size, with);
}

/* ---- the driver */

static CUmemGenericAllocationHandle next_handle;
static void (*meanwhile)(void); /* done by others in the next release */
static CUresult fails;

static CUresult result(void)
{
	CUresult r = fails;
	fails = CUDA_SUCCESS;
	return r;
}

static CUresult driver_create(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)size, (void)prop, (void)flags;
	*handle = next_handle;
	return result();
}

static CUresult driver_import(
	CUmemGenericAllocationHandle *handle, void *os, CUmemAllocationHandleType type)
{
	(void)os, (void)type;
	*handle = next_handle;
	return result();
}

static CUresult driver_retain(CUmemGenericAllocationHandle *handle, void *at)
{
	(void)at;
	*handle = next_handle;
	return result();
}

static CUresult driver_release(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	void (*f)(void) = meanwhile;
	meanwhile = NULL;
	if (f)
		f();
	return result();
}

static CUresult driver_map(CUdeviceptr at, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	(void)at, (void)size, (void)offset, (void)handle, (void)flags;
	return result();
}

static CUresult driver_unmap(CUdeviceptr at, size_t size)
{
	(void)at, (void)size;
	return result();
}

static CUresult driver_range(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	*base = at / 256 * 256;
	*size = 256;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuMemCreate:
		return (void *)driver_create;
	case WEIR_cuMemImportFromShareableHandle:
		return (void *)driver_import;
	case WEIR_cuMemRetainAllocationHandle:
		return (void *)driver_retain;
	case WEIR_cuMemRelease:
		return (void *)driver_release;
	case WEIR_cuMemMap:
		return (void *)driver_map;
	case WEIR_cuMemUnmap:
		return (void *)driver_unmap;
	case WEIR_cuMemGetAddressRange_v2:
		return (void *)driver_range;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

uint64_t weir_now(void) { return 0; }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
bool weir_take(uint64_t bytes) { return weir_reserve(bytes); }
bool weir_device_is_ours(CUdevice dev) { return !dev; }
bool weir_is_movable(CUdeviceptr at) { return at == AT - 1; }

/* ---- the program */

static CUresult create(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUmemAllocationProp p = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	next_handle = handle;
	return weir_on_mem_create(WEIR_cuMemCreate, &handle, bytes, &p, 0);
}

static CUresult import(CUmemGenericAllocationHandle handle)
{
	next_handle = handle;
	return weir_on_mem_import(WEIR_cuMemImportFromShareableHandle, &handle, NULL, 0);
}

static CUresult retain(CUmemGenericAllocationHandle handle, uint64_t at)
{
	next_handle = handle;
	return weir_on_mem_retain(
		WEIR_cuMemRetainAllocationHandle, &handle, (void *)(uintptr_t)at);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	return weir_on_mem_release(WEIR_cuMemRelease, handle);
}

static CUresult map(uint64_t at, size_t bytes, CUmemGenericAllocationHandle handle)
{
	return weir_on_mem_map(WEIR_cuMemMap, at, bytes, 0, handle, 0);
}

static CUresult unmap(uint64_t at, uint64_t bytes)
{
	return weir_on_mem_unmap(WEIR_cuMemUnmap, at, bytes);
}

static uint64_t counted(void)
{
	return own->mem_used_bytes;
}

static bool known(CUmemGenericAllocationHandle handle)
{
	return weir_sizes_get(WEIR_KIND_PHYSICAL, handle, NULL, NULL);
}

static void in_steps(void)
{
	expect("more than the cap", create(7, CAP + 1), CUDA_ERROR_OUT_OF_MEMORY);
	fails = CUDA_ERROR_INVALID_VALUE;
	create(7, 100);
	expect("what the driver refuses", counted(), 0);
	create(7, 100);
	map(AT, 256, 7);
	release(7);
	expect("mapped and released", counted(), 100);
	expect("known by its handle", known(7), false);
	retain(8, AT + 10);
	expect("none of what weir has mapped", retain(8, AT - 1), CUDA_ERROR_INVALID_VALUE);
	unmap(AT, 256);
	expect("retained by its address and unmapped", counted(), 100);
	release(8);
	expect("released", counted(), 0);
	create(7, 100);
	import(7);
	release(7);
	expect("imported by itself and released once", counted(), 100);
	fails = CUDA_ERROR_INVALID_VALUE;
	release(7);
	expect("where the driver refuses", counted(), 100);
	fails = CUDA_ERROR_INVALID_VALUE;
	map(AT, 256, 7);
	release(7);
	expect("never mapped, and released", counted(), 0);
	import(9);
	expect("of another process", counted(), 0);
	expect("and not known here", known(9), false);
	map(AT, 256, 9);
	release(9);
	unmap(AT, 256);
	expect("mapped, released and unmapped", counted(), 0);
}

/* What the driver refuses changes nothing, and memory on another device is refused before it. */
static void refused(void)
{
	CUmemAllocationProp p = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
	CUmemGenericAllocationHandle handle = 0;
	next_handle = 5;
	expect("on another device", weir_on_mem_create(WEIR_cuMemCreate, &handle, 100, &p, 0),
		CUDA_ERROR_INVALID_DEVICE);
	expect("is not asked for", handle, 0);
	create(7, 100);
	map(AT, 256, 7);
	fails = CUDA_ERROR_INVALID_VALUE;
	import(7);
	release(7);
	fails = CUDA_ERROR_INVALID_VALUE;
	unmap(AT, 256);
	expect("what is not unmapped", counted(), 100);
	unmap(AT, 256);
	expect("what is, and was not imported", counted(), 0);
}

static void release_too(void) { release(7); }

static void at_once(void)
{
	create(7, 100);
	import(7);
	meanwhile = release_too;
	release(7);
	expect("the last two handles given back by two threads", counted(), 0);
	expect("known by them", known(7), false);
	import(7); /* another process's memory, by the same number */
	release(7);
	expect("with that", counted(), 0);
}

/* another_comes: two handles are given back at once, and the number is given anew before the first
 * thread has its own result. */
static void another_comes(void)
{
	release(7);
	create(7, 50);
}

static void anew(void)
{
	create(7, 100);
	import(7);
	meanwhile = another_comes;
	release(7);
	expect("of another by the number of what is gone", counted(), 50);
	expect("which is known", known(7), true);
	release(7);
	expect("and given back", counted(), 0);
}

/* Of a terabyte a few pieces were counted, and others not. */
static void long_ranges(void)
{
	static const uint64_t pieces[] = {AT, AT + 256, AT + (UINT64_C(1) << 30), AT + AT - 256};
	create(7, 100);
	for (int i = 0; i < 4; i++)
		map(pieces[i], 256, 7);
	create(8, 10);
	map(AT - 256, 256, 8);
	create(9, 1);
	map(AT + AT, 256, 9);
	release(7);
	release(8);
	release(9);
	takes = 0;
	unmap(AT, AT);
	expect("beside the range", counted(), 11);
	expect("looks at the table are few", takes < 10, true);
	takes = 0;
	unmap(AT - 256, 256);
	unmap(AT + AT, 256);
	expect("of all", counted(), 0);
	expect("looks at the table, a mapping", takes, 2);
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = CAP;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	in_steps();
	refused();
	at_once();
	anew();
	long_ranges();
	return checked();
}
