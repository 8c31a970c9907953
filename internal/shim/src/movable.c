/*
 * Memory that can be moved to the host and back: what the program asks cuMemAlloc and
 * cuMemAllocPitch for, in a job that was started to give it away (weir exec --oversubscribe).
 *
 * Each allocation has a range of addresses of its own for as long as it lives (cuMemAddressReserve)
 * in which memory is mapped in pieces (cuMemCreate, cuMemMap), so that pointers, also those within
 * graphs and other memory, hold wherever the bytes are. What is smaller than the driver's granule
 * for that would waste most of it, and is left to the driver.
 *
 * What differs for the program: the memory has no handle for other processes (cuIpcGetMemHandle:
 * CUDA_ERROR_NOT_SUPPORTED, as of all memory that is mapped so). For the driver it belongs to no
 * context, so weir frees it with the one that it was allocated in, and names that one.
 */
#include "weir.h"

#include <stdlib.h>

#define PIECE (UINT64_C(64) << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_movable *all; /* under the lock, or by the mover while the memory is away */
static uint64_t total;           /* bytes of all */
static uint32_t told;            /* of IPC */
static uint32_t lates;           /* allocations that are to be freed when they can be, */
static uint64_t due;             /* and the bytes of those */

/* CUmemAccessDesc of cuda.h */
struct access {
	CUmemLocation location;
	int flags;
};

enum { LOCATION_DEVICE = 1, PINNED = 1, READ_WRITE = 3 };

void weir_movables_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	all = NULL;
	total = 0;
	lates = 0;
	due = 0;
}

struct weir_movable *weir_movables(void)
{
	return all;
}

uint64_t weir_movable_bytes(void)
{
	return weir_get(&total);
}

/* weir_movable_absent is how much of it is not on the device, for the mover. */
uint64_t weir_movable_absent(void)
{
	uint64_t sum = 0;
	for (const struct weir_movable *m = all; m; m = m->next)
		for (uint32_t i = 0; i < m->count; i++)
			sum += m->pieces[i].here ? 0 : weir_piece_bytes(m, i);
	return sum;
}

/* weir_movables_kept takes memory of the host from a piece that is on the device, for the mover;
 * false: none has any. */
bool weir_movables_kept(struct weir_pinned *p, uint64_t *bytes, CUcontext *context)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (struct weir_movable *m = all; m && !found; m = m->next)
		for (uint32_t i = 0; i < m->count && !found; i++) {
			found = m->pieces[i].here && m->pieces[i].host.at;
			if (!found)
				continue;
			*p = m->pieces[i].host;
			*bytes = weir_piece_bytes(m, i);
			*context = m->context;
			m->pieces[i].host = (struct weir_pinned){0};
		}
	pthread_mutex_unlock(&lock);
	return found;
}

static CUmemAllocationProp properties(CUdevice device)
{
	return (CUmemAllocationProp){
		.type = PINNED, .location = {.type = LOCATION_DEVICE, .id = device}};
}

/* granule is what memory is mapped in multiples of; 0: the driver cannot. */
static uint64_t granule(CUdevice device)
{
	weir_fn_cuMemGetAllocationGranularity ask = WEIR_DRIVER(cuMemGetAllocationGranularity);
	CUmemAllocationProp p = properties(device);
	size_t n = 0;
	bool can = ask && WEIR_DRIVER(cuMemAddressReserve) && WEIR_DRIVER(cuMemAddressFree) &&
		WEIR_DRIVER(cuMemCreate) && WEIR_DRIVER(cuMemRelease) && WEIR_DRIVER(cuMemMap) &&
		WEIR_DRIVER(cuMemUnmap) && WEIR_DRIVER(cuMemSetAccess) && ask(&n, &p, 0) == CUDA_SUCCESS;
	return can ? n : 0;
}

/* weir_piece_map puts memory of the device under a piece, whose contents are not defined. */
CUresult weir_piece_map(struct weir_movable *m, uint32_t i)
{
	CUmemAllocationProp p = properties(m->device);
	struct access access = {p.location, READ_WRITE};
	CUdeviceptr at = weir_piece_at(m, i);
	uint64_t n = weir_piece_bytes(m, i);
	CUmemGenericAllocationHandle handle;
	CUresult r = WEIR_DRIVER(cuMemCreate)(&handle, n, &p, 0);
	if (r != CUDA_SUCCESS)
		return r;
	r = WEIR_DRIVER(cuMemMap)(at, n, 0, handle, 0);
	bool mapped = r == CUDA_SUCCESS;
	if (mapped)
		r = WEIR_DRIVER(cuMemSetAccess)(at, n, (const CUmemAccessDesc *)&access, 1);
	WEIR_DRIVER(cuMemRelease)(handle); /* the mapping keeps it */
	if (mapped && r != CUDA_SUCCESS)
		WEIR_DRIVER(cuMemUnmap)(at, n);
	m->pieces[i].here = r == CUDA_SUCCESS;
	return r;
}

/* weir_piece_unmap gives the memory back to the device. */
CUresult weir_piece_unmap(struct weir_movable *m, uint32_t i)
{
	CUresult r = WEIR_DRIVER(cuMemUnmap)(weir_piece_at(m, i), weir_piece_bytes(m, i));
	if (r == CUDA_SUCCESS)
		m->pieces[i].here = false;
	return r;
}

CUdeviceptr weir_piece_at(const struct weir_movable *m, uint32_t i)
{
	return m->at + i * PIECE;
}

uint64_t weir_piece_bytes(const struct weir_movable *m, uint32_t i)
{
	uint64_t rest = m->bytes - i * PIECE;
	return rest < PIECE ? rest : PIECE;
}

/* discard ends what there is of an allocation, which the device does not use. */
static void discard(struct weir_movable *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		if (m->pieces[i].here)
			weir_piece_unmap(m, i);
		weir_piece_forget(&m->pieces[i], weir_piece_bytes(m, i));
	}
	WEIR_DRIVER(cuMemAddressFree)(m->at, m->bytes);
	free(m);
}

/* make makes an allocation of whole granules. */
static CUresult make(struct weir_movable **made, CUdevice device, uint64_t bytes)
{
	uint32_t count = (uint32_t)((bytes + PIECE - 1) / PIECE);
	struct weir_movable *m = calloc(1, sizeof *m + count * sizeof *m->pieces);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->bytes = bytes;
	m->device = device;
	CUresult r = WEIR_DRIVER(cuMemAddressReserve)(&m->at, bytes, 0, 0, 0);
	if (r != CUDA_SUCCESS) {
		free(m);
		return r;
	}
	for (m->count = count; count && r == CUDA_SUCCESS; count--)
		r = weir_piece_map(m, count - 1);
	if (r != CUDA_SUCCESS)
		discard(m);
	else
		*made = m;
	return r;
}

/* number notes the driver's numbers of an allocation that was just made. Memory that is mapped
 * later has others, and what a program has registered by these is to stay so. */
static void number(struct weir_movable *m)
{
	weir_fn_cuPointerGetAttribute ask = WEIR_DRIVER(cuPointerGetAttribute);
	unsigned long long buffer = 0, block = 0;
	if (!ask)
		return;
	ask(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, m->at);
	ask(&block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, m->at);
	m->buffer = buffer;
	m->block = block;
}

static void enter(struct weir_movable *m)
{
	pthread_mutex_lock(&lock);
	m->next = all;
	m->link = &all;
	if (all)
		all->link = &m->next;
	all = m;
	weir_set(&weir_slot()->movable_bytes, weir_add(&total, m->bytes));
	pthread_mutex_unlock(&lock);
}

static void leave(struct weir_movable *m)
{
	pthread_mutex_lock(&lock);
	*m->link = m->next;
	if (m->next)
		m->next->link = m->link;
	weir_set(&weir_slot()->movable_bytes, weir_sub(&total, m->bytes));
	pthread_mutex_unlock(&lock);
}

/* weir_movable_alloc serves an allocation with memory that can be moved; false: it is to be left to
 * the driver, because it is small, or for the error that the driver will give. */
bool weir_movable_alloc(CUdeviceptr *at, uint64_t size, CUresult *result)
{
	weir_fn_cuCtxGetDevice device_of = WEIR_DRIVER(cuCtxGetDevice);
	weir_fn_cuCtxGetCurrent current = WEIR_DRIVER(cuCtxGetCurrent);
	struct weir_movable *m = NULL;
	CUdevice device;
	if (!weir_peek(&weir.movable) || size < WEIR_MOVABLE_LEAST || size >> 62 || !device_of ||
		!current || device_of(&device) != CUDA_SUCCESS || !weir_device_is_ours(device))
		return false;
	uint64_t g = granule(device);
	if (!g || size < g)
		return false;
	uint64_t bytes = (size + g - 1) / g * g;
	if (!weir_take(bytes)) {
		*result = weir_deny();
		return true;
	}
	bool began = weir_own_begin();
	*result = began ? make(&m, device, bytes) : CUDA_ERROR_UNKNOWN;
	if (m && (current(&m->context) != CUDA_SUCCESS ||
				 !weir_sizes_put(WEIR_KIND_MOVABLE, m->at, bytes, m))) {
		discard(m);
		m = NULL;
		*result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (m) {
		m->size = size;
		m->id = weir_context_id(NULL);
		number(m);
		enter(m);
		*at = m->at;
	}
	if (began)
		weir_own_end();
	if (!m)
		weir_release(bytes);
	return m || *result == CUDA_ERROR_OUT_OF_MEMORY;
}

/* settled waits until the device is done with what was launched in a context, as cuMemFree does;
 * false: it cannot be waited for, as while a stream of it is captured. */
static bool settled(CUcontext context)
{
	weir_fn_cuCtxPushCurrent_v2 push = WEIR_DRIVER(cuCtxPushCurrent_v2);
	weir_fn_cuCtxPopCurrent_v2 pop = WEIR_DRIVER(cuCtxPopCurrent_v2);
	weir_fn_cuCtxSynchronize wait = WEIR_DRIVER(cuCtxSynchronize);
	CUcontext same;
	if (!push || !pop || !wait || push(context) != CUDA_SUCCESS)
		return true; /* it is gone, and what it had to do with it */
	CUresult r = wait();
	pop(&same);
	return r < CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || r > CUDA_ERROR_CAPTURED_EVENT;
}

/* finish frees an allocation that the device does not use. */
static void finish(struct weir_movable *m)
{
	uint64_t n = m->bytes;
	leave(m);
	discard(m);
	weir_release(n);
}

/* linger leaves an allocation to weir_movables_late. */
static void linger(struct weir_movable *m)
{
	weir_add(&lates, 1);
	weir_add(&due, m->bytes);
	weir_set(&m->late, true);
}

/* weir_movable_free frees what begins at an address; false: that cannot be moved. The memory of a
 * process that exits goes with it. */
bool weir_movable_free(CUdeviceptr at)
{
	void *with;
	if (!weir_peek(&weir.movable) || !weir_sizes_take(WEIR_KIND_MOVABLE, at, NULL, &with))
		return false;
	struct weir_movable *m = with;
	if (!weir_own_begin())
		return true;
	if (settled(m->context)) {
		finish(m);
	} else {
		linger(m);
	}
	weir_own_end();
	return true;
}

/* weir_movable_reached says that the device is done with what weir_movable_free_later was called
 * for; seen false: that nobody can see when. It takes no call to the driver: a thread that looks
 * after the device may come here. */
void weir_movable_reached(struct weir_movable *m, bool seen)
{
	weir_set(&m->reached, seen);
	linger(m);
}

/* weir_movable_free_later frees it in the order of a stream; false: that cannot be moved. */
bool weir_movable_free_later(CUdeviceptr at, struct weir_stream *s)
{
	void *with;
	if (!weir_peek(&weir.movable) || !weir_sizes_take(WEIR_KIND_MOVABLE, at, NULL, &with))
		return false;
	struct weir_freed_to to = {.movable = with};
	struct weir_freeing *f = weir_freeing_begin(&to, s);
	if (f)
		weir_freeing_called(f, CUDA_SUCCESS);
	else
		linger(with);
	return true;
}

/* late takes an allocation that could not be freed when the program said so, one that can be now if
 * there is one. */
static struct weir_movable *late(bool reached)
{
	pthread_mutex_lock(&lock);
	struct weir_movable *m = all;
	while (m &&
		!(weir_get(&m->reached) == reached &&
			__atomic_exchange_n(&m->late, false, __ATOMIC_SEQ_CST)))
		m = m->next;
	pthread_mutex_unlock(&lock);
	return m;
}

/* no_longer_due comes after an allocation that lingered was freed. */
static void no_longer_due(uint64_t n)
{
	weir_freeing_gave();
	weir_sub(&due, n);
	weir_sub(&lates, 1);
}

static void finish_late(struct weir_movable *m)
{
	uint64_t n = m->bytes;
	finish(m);
	no_longer_due(n);
}

/* weir_movables_late frees what could not be when the program said so, if it can be; reached: only
 * what the device is known to be done with, for which nobody waits. */
void weir_movables_late(bool reached)
{
	struct weir_movable *m;
	if (!weir_get(&lates) || !weir_own_begin())
		return;
	while ((m = late(true)))
		finish_late(m);
	for (bool yes = !reached; yes && (m = late(false));) {
		yes = settled(m->context);
		if (yes)
			finish_late(m);
		else
			weir_set(&m->late, true);
	}
	weir_own_end();
}

/* weir_movables_due is how many bytes wait for that. */
uint64_t weir_movables_due(void)
{
	return weir_get(&due);
}

static bool take_late(struct weir_movable *m)
{
	bool was = __atomic_exchange_n(&m->late, false, __ATOMIC_SEQ_CST);
	if (was)
		no_longer_due(m->bytes);
	return was;
}

/* take_of takes an allocation of a context that nobody else is about to free. */
static struct weir_movable *take_of(const void *context)
{
	pthread_mutex_lock(&lock);
	struct weir_movable *m = all;
	while (m && !(m->id == context &&
					(weir_sizes_take(WEIR_KIND_MOVABLE, m->at, NULL, NULL) || take_late(m))))
		m = m->next;
	pthread_mutex_unlock(&lock);
	return m;
}

/* weir_movables_gone frees what was allocated in a context that is gone, by what weir_context_id
 * gave for that. */
void weir_movables_gone(const void *context)
{
	struct weir_movable *m;
	if (!weir_peek(&weir.movable) || !weir_own_begin())
		return;
	while ((m = take_of(context)))
		finish(m);
	weir_own_end();
}

/* within finds the allocation that an address lies in, and copies what is known of it. */
static bool within(CUdeviceptr address, struct weir_movable *copy)
{
	bool found = false;
	if (!weir_peek(&weir.movable))
		return false;
	pthread_mutex_lock(&lock);
	for (struct weir_movable *m = all; m && !found; m = m->next)
		if (address - m->at < m->bytes) {
			copy->at = m->at;
			copy->size = m->size;
			copy->context = m->context;
			copy->buffer = m->buffer;
			copy->block = m->block;
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

/* The program knows an allocation, and not its pieces. */
CUresult weir_on_address_range(
	enum weir_call call, CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
	weir_fn_cuMemGetAddressRange_v2 real = (weir_fn_cuMemGetAddressRange_v2)weir_real(call);
	struct weir_movable m;
	if (!real)
		return weir_missing();
	if (!within(dptr, &m))
		return real(base, size, dptr);
	if (base)
		*base = m.at;
	if (size)
		*size = m.size;
	return CUDA_SUCCESS;
}

/* as_one puts right what the driver has said of a piece, where that is not what it says of memory
 * of cuMemAlloc. */
static void as_one(const struct weir_movable *m, CUpointer_attribute what, void *data)
{
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = m->context;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = m->at;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = m->size;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = m->buffer;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = m->block;
		break;
	default:
		break;
	}
}

CUresult weir_on_pointer_attribute(
	enum weir_call call, void *data, CUpointer_attribute what, CUdeviceptr dptr)
{
	weir_fn_cuPointerGetAttribute real = (weir_fn_cuPointerGetAttribute)weir_real(call);
	struct weir_movable m;
	if (!real)
		return weir_missing();
	CUresult r = real(data, what, dptr);
	if (r == CUDA_SUCCESS && within(dptr, &m))
		as_one(&m, what, data);
	return r;
}

CUresult weir_on_pointer_attributes(enum weir_call call, unsigned int count,
	CUpointer_attribute *what, void **data, CUdeviceptr dptr)
{
	weir_fn_cuPointerGetAttributes real = (weir_fn_cuPointerGetAttributes)weir_real(call);
	struct weir_movable m;
	if (!real)
		return weir_missing();
	CUresult r = real(count, what, data, dptr);
	if (r == CUDA_SUCCESS && within(dptr, &m))
		for (unsigned int i = 0; i < count; i++)
			as_one(&m, what[i], data[i]);
	return r;
}

CUresult weir_on_ipc_get(enum weir_call call, CUipcMemHandle *handle, CUdeviceptr dptr)
{
	weir_fn_cuIpcGetMemHandle real = (weir_fn_cuIpcGetMemHandle)weir_real(call);
	struct weir_movable m;
	if (!real)
		return weir_missing();
	if (!within(dptr, &m))
		return real(handle, dptr);
	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		weir_say("memory of a program under --oversubscribe has no handle for other processes "
			"(cuIpcGetMemHandle): run it without");
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* A device that has memory of such a handle would go on with what was there before a move. */
CUresult weir_on_range_handle(enum weir_call call, void *handle, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType type, unsigned long long flags)
{
	weir_fn_cuMemGetHandleForAddressRange real =
		(weir_fn_cuMemGetHandleForAddressRange)weir_real(call);
	struct weir_movable m;
	if (!real)
		return weir_missing();
	return within(dptr, &m) ? CUDA_ERROR_NOT_SUPPORTED : real(handle, dptr, size, type, flags);
}

/* weir_is_movable tells of an address that lies in memory that can be moved. */
bool weir_is_movable(CUdeviceptr at)
{
	struct weir_movable m;
	return within(at, &m);
}

/* What another process has allocated cannot be moved from here. */
CUresult weir_on_ipc_open(
	enum weir_call call, CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
	weir_fn_cuIpcOpenMemHandle_v2 real = (weir_fn_cuIpcOpenMemHandle_v2)weir_real(call);
	weir_fn_cuMemGetAddressRange_v2 range = WEIR_DRIVER(cuMemGetAddressRange_v2);
	CUdeviceptr base;
	size_t n = 0;
	if (!real)
		return weir_missing();
	CUresult r = real(dptr, handle, flags);
	if (r == CUDA_SUCCESS && weir_peek(&weir.movable) && dptr && range &&
		range(&base, &n, *dptr) == CUDA_SUCCESS)
		weir_sizes_put(WEIR_KIND_OPENED, *dptr, n, NULL);
	return r;
}

CUresult weir_on_ipc_close(enum weir_call call, CUdeviceptr dptr)
{
	weir_fn_cuIpcCloseMemHandle real = (weir_fn_cuIpcCloseMemHandle)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(dptr);
	if (r == CUDA_SUCCESS && weir_peek(&weir.movable))
		weir_sizes_take(WEIR_KIND_OPENED, dptr, NULL, NULL);
	return r;
}
