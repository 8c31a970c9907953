/*
 * A pool that grows by more than was counted, looked at by two threads at once: while the one
 * counts what there is more, the other frees all and counts anew. It prints what is counted at the
 * end.
 */
#include "../src/weir.h"

static int lock_or_tell(pthread_mutex_t *m);
static bool reserve(uint64_t bytes);

#define pthread_mutex_lock lock_or_tell
#define weir_reserve reserve
#include "../src/pool.c"
#undef pthread_mutex_lock
#undef weir_reserve

#include <stdio.h>

#define PORTION (UINT64_C(1) << 20)
#define AT (UINT64_C(0x200000000000))

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static uint64_t counted, reserved; /* by the library, and by the driver's pool */
static bool raced;                 /* the other thread was or is under way */
static pthread_t other;
static pthread_mutex_t progress = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool through; /* the other thread is done, or waits for this one */

static void tell(void)
{
	pthread_mutex_lock(&progress);
	through = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&progress);
}

static int lock_or_tell(pthread_mutex_t *m)
{
	if (!pthread_mutex_trylock(m))
		return 0;
	tell();
	return pthread_mutex_lock(m);
}

/* ---- the driver: one pool, which takes two portions for the first allocation */

static CUmemoryPool const only = (CUmemoryPool)&reserved;

static CUresult driver_alloc(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	(void)bytes, (void)pool, (void)stream;
	reserved = 2 * PORTION;
	*at = AT;
	return CUDA_SUCCESS;
}

static CUresult driver_free(CUdeviceptr at, CUstream stream)
{
	(void)at, (void)stream;
	reserved = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_get(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
	(void)pool;
	if (what != (CUmemPool_attribute)CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)value = reserved;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuMemAllocFromPoolAsync:
		return (void *)driver_alloc;
	case WEIR_cuMemFreeAsync:
		return (void *)driver_free;
	case WEIR_cuMemPoolGetAttribute:
		return (void *)driver_get;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

uint64_t weir_cap(void) { return UINT64_MAX; }
void weir_release(uint64_t bytes) { weir_sub(&counted, bytes); }
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
CUresult weir_deny(void) { return CUDA_ERROR_OUT_OF_MEMORY; }
void weir_look_again(void) {}
bool weir_shrunk_since(void) { return false; }
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
bool weir_capturing(CUstream s, int per_thread) { return s && per_thread; }
void weir_graphs_captured_alloc(void) {}
bool weir_device_is_ours(CUdevice dev) { return !dev; }
bool weir_pointer_forget(CUdeviceptr at, struct weir_freed *f)
{
	*f = (struct weir_freed){.at = at};
	return false;
}
void weir_pointer_restore(struct weir_freed *f) { (void)f; }

/* ---- the program */

static void *free_all(void *unused)
{
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, NULL);
	weir_pools_refresh(false);
	tell();
	return unused;
}

/* reserve counts; when that is for what the pool has taken beyond what was counted before, another
 * thread goes as far as it can meanwhile. */
static bool reserve(uint64_t bytes)
{
	if (reserved && bytes && !raced) {
		raced = true;
		pthread_create(&other, NULL, free_all, NULL);
		pthread_mutex_lock(&progress);
		while (!through)
			pthread_cond_wait(&changed, &progress);
		pthread_mutex_unlock(&progress);
	}
	weir_add(&counted, bytes);
	return true;
}

int main(void)
{
	CUdeviceptr at;
	portion = PORTION;
	weir_on_mem_alloc_from_pool_async(WEIR_cuMemAllocFromPoolAsync, &at, 100, only, NULL);
	if (!raced)
		return 1;
	pthread_join(other, NULL);
	printf("%llu\n", (unsigned long long)counted);
	return 0;
}
