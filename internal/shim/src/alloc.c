/*
 * Calls that take device memory at once and give it back at once: linear, pitched, managed, arrays,
 * memory of other interfaces.
 *
 * Memory that another process has allocated and this one opens (IPC handles, descriptors of
 * cuMemCreate's memory, pools) is counted there, whichever job that is of, and not a second time.
 *
 * All follow one order. Taking: count, call the driver, note the size, or take the count back.
 * Giving back: forget the size, call the driver, take the count back; forgetting first, because the
 * driver may hand the same address to another thread at once.
 *
 * What is counted is what the driver takes: whole granules (measure.c). Those smaller than one
 * share a block of that size, which is known by the address: each is counted as a block of its own
 * before the call, and after it only the first in a block is. An allocation may be refused so where
 * the rest of a block would have had room for it.
 */
#include "weir.h"

#include <stdlib.h>

#define DRIVER_OR_RETURN(symbol) \
	weir_fn_##symbol real = (weir_fn_##symbol)weir_real(call); \
	if (!real) \
		return weir_missing()

/* weir_context_id is what tells a context, or the current one for NULL, from all others of the
 * process, also from those that get its handle after it ("unique for the life of the program",
 * cuCtxGetId). A driver before CUDA 12.0 has only the handle. */
void *weir_context_id(CUcontext ctx)
{
	weir_fn_cuCtxGetId id_of = WEIR_DRIVER(cuCtxGetId);
	weir_fn_cuCtxGetCurrent current = WEIR_DRIVER(cuCtxGetCurrent);
	unsigned long long id;
	if (id_of && id_of(ctx, &id) == CUDA_SUCCESS)
		return (void *)(uintptr_t)id;
	if (!ctx && current && current(&ctx) != CUDA_SUCCESS)
		ctx = NULL;
	return ctx;
}

/* settle ends an allocation of n counted bytes that has key as its handle, and goes with the
 * context that is current. What is noted of that handle went with its context: the driver has given
 * it anew. */
static CUresult settle(CUresult r, enum weir_kind kind, uint64_t key, uint64_t n)
{
	uint64_t stale;
	if (r == CUDA_SUCCESS && weir_sizes_take(kind, key, &stale, NULL))
		weir_release(stale);
	if (r != CUDA_SUCCESS || !weir_sizes_put(kind, key, n, weir_context_id(NULL)))
		weir_release(n); /* without a note it could never be given back */
	return r;
}

/* A pointer is noted with a mark of its own, as the driver gives addresses anew. Its lowest bits
 * say that the memory lies in a shared block, or that it may take less than is counted for it. */
enum { SHARED = 1, LOOSE = 2, MARK = 4 };

static void *new_mark(unsigned how)
{
	static uintptr_t last;
	return (void *)(weir_add(&last, MARK) | how);
}

static bool is_shared(const void *mark)
{
	return (uintptr_t)mark & SHARED;
}

/* leave_block takes one out of the shared block at an address; true: it was the last. */
static bool leave_block(CUdeviceptr at)
{
	return !weir_sizes_count(WEIR_KIND_BLOCK, at / weir_granule(), -1);
}

/* forgotten completes what is known of a pointer whose note was taken. */
static void forgotten(struct weir_freed *f)
{
	f->bytes = !is_shared(f->mark) || leave_block(f->at) ? f->size : 0;
}

/* weir_pointer_forget forgets what is at an address, before it is freed; false: nothing is known of
 * it. Of a shared block only the last one gives bytes back. */
bool weir_pointer_forget(CUdeviceptr at, struct weir_freed *f)
{
	*f = (struct weir_freed){.at = at};
	if (!weir_sizes_take(WEIR_KIND_POINTER, at, &f->size, &f->mark))
		return false;
	forgotten(f);
	return true;
}

/* weir_pointer_take is that for a free in stream order: the memory stays in its block, and counts,
 * until weir_pointer_reached, or weir_pointer_untake if it was not freed. */
bool weir_pointer_take(CUdeviceptr at, struct weir_freed *f)
{
	*f = (struct weir_freed){.at = at};
	return weir_sizes_take(WEIR_KIND_POINTER, at, &f->size, &f->mark);
}

void weir_pointer_reached(struct weir_freed *f)
{
	forgotten(f);
	weir_release(f->bytes);
}

void weir_pointer_untake(struct weir_freed *f)
{
	if (!weir_sizes_put(WEIR_KIND_POINTER, f->at, f->size, f->mark))
		weir_pointer_reached(f);
}

/* settle_pointer is settle for n counted bytes at an address: 0, SHARED or LOOSE. */
static CUresult settle_pointer(CUdeviceptr at, uint64_t n, unsigned how)
{
	bool shared = how == SHARED;
	struct weir_freed stale;
	if (weir_pointer_forget(at, &stale))
		weir_release(stale.bytes);
	uint64_t sharing = shared ? weir_sizes_count(WEIR_KIND_BLOCK, at / weir_granule(), 1) : 1;
	if (sharing != 1)
		weir_release(n);
	if (sharing && !weir_sizes_put(WEIR_KIND_POINTER, at, n, new_mark(how)) &&
		(!shared || leave_block(at)))
		weir_release(n);
	return CUDA_SUCCESS;
}

/* settle_at is settle for n bytes at an address, of which weir_taken(n) are counted. Whether those
 * of 32-bit addresses share blocks is not known: they are counted as if they did not. */
static CUresult settle_at(CUresult r, CUdeviceptr at, uint64_t n)
{
	uint64_t counted = weir_taken(n);
	bool small = n < weir_granule();
	if (r == CUDA_SUCCESS)
		return settle_pointer(at, counted, !small ? 0 : at > UINT32_MAX ? SHARED : LOOSE);
	weir_release(counted);
	return r;
}

/* weir_pointers_gone gives back what went with a context: the driver frees what was allocated in it
 * ("destroys and cleans up all resources associated with the context", cuCtxDestroy), and knows its
 * addresses no more. Once it has said so of one, that may be another thread's new allocation. */
void weir_pointers_gone(void)
{
	weir_fn_cuPointerGetAttribute ask = WEIR_DRIVER(cuPointerGetAttribute);
	size_t n = 0;
	uint64_t *at = ask ? weir_sizes_keys(WEIR_KIND_POINTER, &n) : NULL;
	for (size_t i = 0; at && i < n; i++) {
		struct weir_freed f = {.at = at[i]};
		CUcontext ctx;
		if (weir_sizes_get(WEIR_KIND_POINTER, at[i], NULL, &f.mark) &&
			ask(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, at[i]) == CUDA_ERROR_INVALID_VALUE &&
			weir_sizes_take_same(WEIR_KIND_POINTER, at[i], &f.size, f.mark)) {
			forgotten(&f);
			weir_release(f.bytes);
		}
	}
	free(at);
}

/* weir_handles_gone gives back the arrays and imported memory that went with a context, by what
 * weir_context_id gave for that. */
void weir_handles_gone(const void *context)
{
	static const enum weir_kind kinds[] = {
		WEIR_KIND_ARRAY, WEIR_KIND_MIPMAP, WEIR_KIND_EXTERNAL};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		size_t n = 0;
		uint64_t bytes, *keys = weir_sizes_keys(kinds[k], &n);
		void *with;
		for (size_t i = 0; keys && i < n; i++)
			if (weir_sizes_get(kinds[k], keys[i], NULL, &with) && with == context &&
				weir_sizes_take(kinds[k], keys[i], &bytes, NULL))
				weir_release(bytes);
		free(keys);
	}
}

/* weir_pointer_restore notes it again, as it was not freed. */
void weir_pointer_restore(struct weir_freed *f)
{
	bool shared = is_shared(f->mark);
	uint64_t sharing =
		shared ? weir_sizes_count(WEIR_KIND_BLOCK, f->at / weir_granule(), 1) : 1;
	if (sharing > 1) /* another has come into the block meanwhile, or is there, and is counted */
		weir_release(f->bytes);
	else if (!f->bytes) /* the others have left the block meanwhile, and gave it back */
		weir_overdraw(f->size);
	if (!weir_sizes_put(WEIR_KIND_POINTER, f->at, f->size, f->mark) &&
		(!shared || leave_block(f->at)))
		weir_release(f->size);
}

/* weir_loose is what is counted for what may take less, or nothing as yet: managed memory has pages
 * where they are used (programming guide, "Unified Memory Programming"), and of arrays, of memory
 * of other interfaces and of limits the driver says neither how nor when it takes them. What is
 * freed in stream order counts until it is seen that the stream came there. */
uint64_t weir_loose(void)
{
	return weir_sizes_sum(WEIR_KIND_POINTER, LOOSE) + weir_sizes_sum(WEIR_KIND_ARRAY, 0) +
		weir_sizes_sum(WEIR_KIND_MIPMAP, 0) + weir_sizes_sum(WEIR_KIND_EXTERNAL, 0) +
		weir_limits_counted() + weir_pools_loose() + weir_freeing_bytes();
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;
	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

CUresult weir_on_mem_alloc(enum weir_call call, CUdeviceptr *dptr, size_t bytesize)
{
	DRIVER_OR_RETURN(cuMemAlloc_v2);
	CUresult r;
	if (!weir_ready() || !dptr)
		return real(dptr, bytesize);
	if (weir_movable_alloc(dptr, bytesize, &r))
		return r;
	if (!weir_take(weir_taken(bytesize)))
		return weir_deny();
	r = real(dptr, bytesize);
	return settle_at(r, r ? 0 : *dptr, bytesize);
}

CUresult weir_on_mem_alloc_v1(enum weir_call call, CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	DRIVER_OR_RETURN(cuMemAlloc);
	if (!weir_ready() || !dptr)
		return real(dptr, bytesize);
	if (!weir_take(weir_taken(bytesize)))
		return weir_deny();
	CUresult r = real(dptr, bytesize);
	return settle_at(r, r ? 0 : *dptr, bytesize);
}

CUresult weir_on_mem_alloc_managed(
	enum weir_call call, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	DRIVER_OR_RETURN(cuMemAllocManaged);
	if (!weir_ready() || !dptr)
		return real(dptr, bytesize, flags);
	uint64_t n = weir_taken(bytesize); /* it lies by itself, in the host's address space */
	if (!weir_take(n))
		return weir_deny();
	CUresult r = real(dptr, bytesize, flags);
	if (r == CUDA_SUCCESS)
		return settle_pointer(*dptr, n, LOOSE);
	weir_release(n);
	return r;
}

static CUresult give(enum weir_call call, enum weir_kind kind, uint64_t key)
{
	/* all of these take one handle of the machine's word size */
	typedef CUresult (*free_fn)(uint64_t);
	free_fn real = (free_fn)weir_real(call);
	uint64_t n;
	void *with = NULL;
	if (!real)
		return weir_missing();
	if (!weir_ready() || !weir_sizes_take(kind, key, &n, &with))
		return real(key);
	CUresult r = real(key);
	if (r == CUDA_SUCCESS)
		weir_release(n);
	else if (!weir_sizes_put(kind, key, n, with))
		weir_release(n);
	return r;
}

static CUresult give_pointer(enum weir_call call, CUdeviceptr at)
{
	typedef CUresult (*free_fn)(uint64_t);
	free_fn real = (free_fn)weir_real(call);
	struct weir_freed f;
	if (!real)
		return weir_missing();
	if (!weir_ready())
		return real(at);
	bool noted = weir_pointer_forget(at, &f);
	CUresult r = real(at);
	if (!noted) /* it may be a graph's */
		weir_graphs_refresh();
	else if (r == CUDA_SUCCESS)
		weir_release(f.bytes);
	else
		weir_pointer_restore(&f);
	return r;
}

bool weir_pool_owns(CUdeviceptr dptr);
CUresult weir_pool_free_now(weir_fn_cuMemFree_v2 real, CUdeviceptr dptr);

CUresult weir_on_mem_free(enum weir_call call, CUdeviceptr dptr)
{
	if (weir_ready() && weir_pool_owns(dptr)) {
		DRIVER_OR_RETURN(cuMemFree_v2);
		return weir_pool_free_now(real, dptr);
	}
	if (weir_ready() && weir_movable_free(dptr))
		return CUDA_SUCCESS;
	return give_pointer(call, dptr);
}

CUresult weir_on_mem_free_v1(enum weir_call call, CUdeviceptr_v1 dptr)
{
	return give_pointer(call, dptr);
}

/* The pitch is the driver's choice. It is counted as if rows were 512 bytes apart, as on all
 * devices so far, and corrected afterwards; if the true size does not fit, the memory is given
 * back. */
static CUresult pitched(CUresult r, uint64_t asked, uint64_t actual, CUdeviceptr at)
{
	uint64_t counted = weir_taken(asked), taken = weir_taken(actual);
	if (r != CUDA_SUCCESS) {
		weir_release(counted);
		return r;
	}
	if (taken > counted && !weir_take(taken - counted)) {
		weir_fn_cuMemFree_v2 undo = WEIR_DRIVER(cuMemFree_v2);
		if (undo && weir_own_begin()) {
			undo(at);
			weir_own_end();
		}
		weir_release(counted);
		return weir_deny();
	}
	if (taken < counted)
		weir_release(counted - taken);
	return settle_at(r, at, actual);
}

static uint64_t padded(uint64_t width)
{
	return width > UINT64_MAX - 511 ? width : (width + 511) / 512 * 512;
}

CUresult weir_on_mem_alloc_pitch(enum weir_call call, CUdeviceptr *dptr, size_t *pPitch,
	size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
	DRIVER_OR_RETURN(cuMemAllocPitch_v2);
	CUresult r;
	if (!weir_ready() || !dptr || !pPitch)
		return real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	uint64_t n = times(padded(WidthInBytes), Height);
	bool valid = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
	if (valid && weir_movable_alloc(dptr, n, &r)) {
		*pPitch = r == CUDA_SUCCESS ? padded(WidthInBytes) : *pPitch;
		return r;
	}
	if (!weir_take(weir_taken(n)))
		return weir_deny();
	r = real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	return pitched(r, n, r ? 0 : times(*pPitch, Height), r ? 0 : *dptr);
}

CUresult weir_on_mem_alloc_pitch_v1(enum weir_call call, CUdeviceptr_v1 *dptr, unsigned int *pPitch,
	unsigned int WidthInBytes, unsigned int Height, unsigned int ElementSizeBytes)
{
	DRIVER_OR_RETURN(cuMemAllocPitch);
	if (!weir_ready() || !dptr || !pPitch)
		return real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	uint64_t n = times(padded(WidthInBytes), Height);
	if (!weir_take(weir_taken(n)))
		return weir_deny();
	CUresult r = real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	return pitched(r, n, r ? 0 : times(*pPitch, Height), r ? 0 : *dptr);
}

/* element_bytes is the size of one element of an array. Formats that hold several channels in one
 * word or block are counted by what a block takes per element, rounded up. */
static uint64_t element_bytes(int format, unsigned channels)
{
	if (channels == 0)
		channels = 1;
	switch (format) {
	case 0x01: case 0x08: case 0xc0: case 0xc6: /* 8 bits */
		return channels;
	case 0x02: case 0x09: case 0x10: case 0xc3: case 0xc9: /* 16 bits, half */
		return 2 * (uint64_t)channels;
	case 0x03: case 0x0a: case 0x20: /* 32 bits, float */
		return 4 * (uint64_t)channels;
	case 0xc1: case 0xc7: /* 8 x 2 */
	case 0xb0: /* NV12: 1.5 bytes an element */
		return 2;
	case 0xc2: case 0xc8: case 0xc4: case 0xca: case 0x50: /* 8 x 4, 16 x 2, 10-10-10-2 */
		return 4;
	case 0xc5: case 0xcb: /* 16 x 4 */
		return 8;
	default:
		/* block compressed: 1; planar video: at most 8 */
		return format >= 0x91 && format <= 0x9e ? 1 : 8;
	}
}

static uint64_t array_bytes(
	uint64_t w, uint64_t h, uint64_t d, int format, unsigned channels, unsigned flags)
{
	if (flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		return 0; /* backed by cuMemCreate memory, which is counted there */
	return times(times(times(w, h ? h : 1), d ? d : 1), element_bytes(format, channels));
}

#define COUNTED_CREATE(symbol, n, ...) \
	DRIVER_OR_RETURN(symbol); \
	if (!weir_ready() || !pHandle) \
		return real(__VA_ARGS__); \
	uint64_t bytes = weir_taken(n); \
	if (!weir_take(bytes)) \
		return weir_deny(); \
	CUresult r = real(__VA_ARGS__)

CUresult weir_on_array_create(enum weir_call call, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *a)
{
	COUNTED_CREATE(cuArrayCreate_v2,
		a ? array_bytes(a->Width, a->Height, 0, a->Format, a->NumChannels, 0) : 0, pHandle, a);
	return settle(r, WEIR_KIND_ARRAY, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_array_create_v1(
	enum weir_call call, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *a)
{
	COUNTED_CREATE(cuArrayCreate,
		a ? array_bytes(a->Width, a->Height, 0, a->Format, a->NumChannels, 0) : 0, pHandle, a);
	return settle(r, WEIR_KIND_ARRAY, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_array_3d_create(
	enum weir_call call, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *a)
{
	COUNTED_CREATE(cuArray3DCreate_v2,
		a ? array_bytes(a->Width, a->Height, a->Depth, a->Format, a->NumChannels, a->Flags) : 0,
		pHandle, a);
	return settle(r, WEIR_KIND_ARRAY, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_array_3d_create_v1(
	enum weir_call call, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *a)
{
	COUNTED_CREATE(cuArray3DCreate,
		a ? array_bytes(a->Width, a->Height, a->Depth, a->Format, a->NumChannels, a->Flags) : 0,
		pHandle, a);
	return settle(r, WEIR_KIND_ARRAY, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_array_destroy(enum weir_call call, CUarray hArray)
{
	return give(call, WEIR_KIND_ARRAY, (uintptr_t)hArray);
}

/* Each level halves width and height, and depth unless it counts layers or faces. */
static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *a, unsigned levels)
{
	uint64_t w = a->Width, h = a->Height, d = a->Depth, total = 0;
	bool layered = a->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	for (unsigned i = 0; i < levels && i < 64; i++) {
		uint64_t n = array_bytes(w, h, d, a->Format, a->NumChannels, a->Flags);
		total = total + n < total ? UINT64_MAX : total + n;
		w = w > 1 ? w / 2 : w;
		h = h > 1 ? h / 2 : h;
		if (!layered)
			d = d > 1 ? d / 2 : d;
	}
	return total;
}

CUresult weir_on_mipmap_create(enum weir_call call, CUmipmappedArray *pHandle,
	const CUDA_ARRAY3D_DESCRIPTOR *a, unsigned int levels)
{
	COUNTED_CREATE(cuMipmappedArrayCreate, a ? mipmap_bytes(a, levels) : 0, pHandle, a, levels);
	return settle(r, WEIR_KIND_MIPMAP, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_mipmap_destroy(enum weir_call call, CUmipmappedArray hMipmappedArray)
{
	return give(call, WEIR_KIND_MIPMAP, (uintptr_t)hMipmappedArray);
}

/* Memory of another interface of this process, such as a graphics one, which nobody else counts. */
CUresult weir_on_external_import(
	enum weir_call call, CUexternalMemory *pHandle, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
	COUNTED_CREATE(cuImportExternalMemory, d ? d->size : 0, pHandle, d);
	return settle(r, WEIR_KIND_EXTERNAL, r ? 0 : (uintptr_t)*pHandle, bytes);
}

CUresult weir_on_external_destroy(enum weir_call call, CUexternalMemory extMem)
{
	return give(call, WEIR_KIND_EXTERNAL, (uintptr_t)extMem);
}
