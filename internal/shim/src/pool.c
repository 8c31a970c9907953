/*
 * Stream-ordered memory. A pool takes memory from the device in its own portions and keeps what is
 * freed for a while, so what counts is what the pool has reserved, not what the program uses of it.
 *
 * For each pool: used is what the program has of it, charged is what is counted in the ledger, and
 * charged >= max(used, reserved by the driver) at all times: an allocation is counted by the whole
 * portions that the pool may grow by, before the driver is asked. What lies between them (slack)
 * serves later allocations and goes back as the driver's figure falls, but for what is freed on
 * other streams that have not come to the free (freeing.c): there the pool may grow instead. It may
 * also grow because no free part of it is large enough, which only its figure tells after the call;
 * then the call is undone if that does not fit, and the growth counts until the driver has it back.
 * A pool that is destroyed has no figure: what is counted for it then is until its last allocation
 * is freed, up to which the driver may keep all of it (cuMemPoolDestroy).
 */
#include "weir.h"

#include <stdlib.h>

struct pool {
	struct pool *next;
	CUmemoryPool handle;
	uint64_t used, charged;
	uint64_t leaving; /* frees that the device may not have come to */
	uint64_t growing; /* by so much more than is used, for allocations under way */
	bool counted; /* false: in host memory */
};

/* an allocation */
struct request {
	struct weir_want want;
	struct pool *pool;  /* NULL: not counted */
	uint64_t elsewhere; /* freed, and not to be had for it */
	CUstream on;
	struct weir_stream *stream;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools; /* records are used again, and never freed */

CUresult weir_pool_free_now(weir_fn_cuMemFree_v2 real, CUdeviceptr dptr);
bool weir_pool_owns(CUdeviceptr dptr);

static bool on_host(int location)
{
	return location == CU_MEM_LOCATION_TYPE_HOST || location == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static bool pool_on_host(CUmemoryPool pool)
{
	enum { LOCATION_TYPE = 12 };
	weir_fn_cuMemPoolGetAttribute get = WEIR_DRIVER(cuMemPoolGetAttribute);
	int type = 0;
	return get && get(pool, (CUmemPool_attribute)LOCATION_TYPE, &type) == CUDA_SUCCESS &&
		on_host(type);
}

static bool driver_reserved(CUmemoryPool pool, uint64_t *bytes)
{
	weir_fn_cuMemPoolGetAttribute get = WEIR_DRIVER(cuMemPoolGetAttribute);
	*bytes = 0;
	return get &&
		get(pool, (CUmemPool_attribute)CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes) == CUDA_SUCCESS;
}

/* find gives the pool's record, a new one if it has none; NULL: there is no memory for one. The
 * lock is held. */
static struct pool *find(CUmemoryPool handle, bool counted)
{
	struct pool *p = pools;
	while (p && p->handle != handle)
		p = p->next;
	if (p)
		return p;
	p = pools;
	/* until it is destroyed, and over */
	while (p && (p->handle || p->used || p->charged || p->leaving))
		p = p->next;
	if (p) {
		p->handle = handle;
		p->counted = counted;
		return p;
	}
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	*p = (struct pool){.next = pools, .handle = handle, .counted = counted};
	__atomic_store_n(&pools, p, __ATOMIC_RELEASE);
	return p;
}

/* known is a pool's record, NULL if it has none. */
static struct pool *known(CUmemoryPool handle)
{
	pthread_mutex_lock(&lock);
	struct pool *p = pools;
	while (p && p->handle != handle)
		p = p->next;
	pthread_mutex_unlock(&lock);
	return p;
}

static struct pool *pool_of(CUmemoryPool handle)
{
	struct pool *p = known(handle);
	if (p)
		return p;
	bool host = pool_on_host(handle);
	pthread_mutex_lock(&lock);
	p = find(handle, !host);
	pthread_mutex_unlock(&lock);
	return p;
}

/* portion is what pools grow by, as far as what they have reserved tells: all of it are multiples
 * of that. Before the first is seen it is taken to be large, as an allocation must be counted
 * before the pool grows for it. The lock is held. */
#define FIRST_PORTION ((uint64_t)32 << 20)

static uint64_t portion;

static void learn_portion(uint64_t reserved)
{
	uint64_t a = portion, b = reserved;
	while (b) { /* Euclid */
		uint64_t c = a % b;
		a = b;
		b = c;
	}
	portion = a;
}

/* whole rounds up to portions. */
static uint64_t whole(uint64_t n)
{
	uint64_t p = portion ? portion : FIRST_PORTION;
	return n > UINT64_MAX - p ? n : (n + p - 1) / p * p;
}

/* freed_elsewhere is how much of the pool other streams than this have freed and may not have come
 * to. A stream may have freed the same memory many times: it is no more than the pool has beside
 * what is used. The lock is held. */
static uint64_t freed_elsewhere(const struct pool *p, const struct weir_stream *s)
{
	uint64_t freed = weir_freeing_elsewhere(p, s),
			 rest = p->charged > p->used ? p->charged - p->used : 0;
	return freed < rest ? freed : rest;
}

/* claim counts what the pool may grow by for an allocation, which claimed ends. */
static bool claim(struct weir_want *w)
{
	struct request *q = (struct request *)w;
	struct pool *p = q->pool;
	pthread_mutex_lock(&lock);
	q->elsewhere = freed_elsewhere(p, q->stream);
	uint64_t target = whole(p->used + w->bytes + q->elsewhere),
			 more = target > p->charged ? target - p->charged : 0;
	bool ok = weir_reserve(more);
	if (ok) {
		p->used += w->bytes;
		p->growing += q->elsewhere;
		p->charged += more;
	}
	pthread_mutex_unlock(&lock);
	w->lacks = more;
	return ok;
}

static void claimed(const struct request *q)
{
	pthread_mutex_lock(&lock);
	q->pool->growing -= q->elsewhere;
	pthread_mutex_unlock(&lock);
}

/* settle brings charged to what the pool has or may have for claims under way; false: the driver
 * has reserved more than the cap allows, which is not counted unless it stays. */
static bool settle(struct pool *p, bool stays)
{
	uint64_t reserved;
	pthread_mutex_lock(&lock); /* an old figure must not lower what has been counted since */
	if (!p->handle) {
		pthread_mutex_unlock(&lock);
		return true;
	}
	bool told = driver_reserved(p->handle, &reserved);
	if (told && reserved)
		learn_portion(reserved);
	uint64_t want = told ? whole(p->used) : p->used;
	if (reserved > want)
		want = reserved;
	uint64_t least = whole(p->used + p->growing), most = want > least ? want : least;
	uint64_t over = p->charged > most ? p->charged - most : 0,
			 under = want > p->charged ? want - p->charged : 0;
	bool fits = weir_reserve(under); /* before another settles, who would count it again */
	if (!fits && stays)
		weir_overdraw(under);
	if (fits || stays)
		p->charged += under;
	if (over) /* who looks meanwhile finds it counted as long as it is the pool's */
		weir_release(over);
	p->charged -= over;
	pthread_mutex_unlock(&lock);
	return fits;
}

/* drop_if_over gives back what counts for a pool that is destroyed once nothing in it is in use,
 * nor was, as far as the device has come. The lock is held; it is given up. */
static void drop_if_over(struct pool *p)
{
	uint64_t back = p->handle || p->used || p->leaving ? 0 : p->charged;
	weir_release(back);
	p->charged -= back;
	pthread_mutex_unlock(&lock);
}

static void unclaim(struct pool *p, uint64_t n)
{
	pthread_mutex_lock(&lock);
	p->used -= n;
	drop_if_over(p);
}

/* weir_pools_slack tells whether a pool holds more than the program uses. */
bool weir_pools_slack(void)
{
	bool slack = false;
	if (!__atomic_load_n(&pools, __ATOMIC_RELAXED)) /* most programs have none */
		return false;
	pthread_mutex_lock(&lock);
	for (struct pool *p = pools; p; p = p->next)
		slack |= p->handle && p->charged > p->used;
	pthread_mutex_unlock(&lock);
	return slack;
}

/* weir_pools_loose is what counts for pools that are destroyed beyond what is in use: the driver
 * may have it back. */
uint64_t weir_pools_loose(void)
{
	uint64_t bytes = 0;
	pthread_mutex_lock(&lock);
	for (struct pool *p = pools; p; p = p->next)
		bytes += p->handle ? 0 : p->charged - p->used;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* weir_pools_leaving is what pools may give back at most once the device has come to all frees. */
uint64_t weir_pools_leaving(void)
{
	uint64_t bytes = 0;
	pthread_mutex_lock(&lock);
	for (struct pool *p = pools; p; p = p->next)
		bytes += p->leaving && p->charged > p->used ? whole(p->charged - p->used) : 0;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* weir_pools_held is what counts for all pools. */
uint64_t weir_pools_held(void)
{
	uint64_t bytes = 0;
	pthread_mutex_lock(&lock);
	for (struct pool *p = pools; p; p = p->next)
		bytes += p->charged;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* weir_pools_refresh counts anew what the driver keeps, for graphs too; with trim it is asked to
 * keep nothing unused in pools. */
void weir_pools_refresh(bool trim)
{
	weir_fn_cuMemPoolTrimTo trim_to = WEIR_DRIVER(cuMemPoolTrimTo);
	if (!weir_own_begin())
		return;
	for (struct pool *p = __atomic_load_n(&pools, __ATOMIC_ACQUIRE); p; p = p->next) {
		pthread_mutex_lock(&lock);
		CUmemoryPool handle = p->charged > p->used ? p->handle : NULL;
		pthread_mutex_unlock(&lock);
		if (!handle)
			continue;
		if (trim && trim_to)
			trim_to(handle, 0);
		settle(p, true);
	}
	weir_graphs_refresh();
	weir_own_end();
}

void weir_pools_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	pools = NULL;
	portion = 0;
}

/* begin counts bytes for an allocation from the pool. */
static bool begin(struct request *q, CUmemoryPool handle, uint64_t bytes)
{
	q->want = (struct weir_want){.claim = claim, .bytes = bytes};
	q->pool = handle ? pool_of(handle) : NULL;
	if (handle && !q->pool)
		return false;
	if (q->pool && !q->pool->counted)
		q->pool = NULL;
	return !q->pool || weir_find_room(&q->want);
}

/* weir_pool_reached says that the device has come to a free of a pool, whose record is given. */
void weir_pool_reached(void *pool)
{
	struct pool *p = pool;
	pthread_mutex_lock(&lock);
	p->leaving--;
	drop_if_over(p);
}

/* leave begins a free of n bytes of a pool. */
static struct weir_freeing *leave(struct pool *p, uint64_t n, struct weir_stream *s)
{
	struct weir_freed_to to = {.bytes = n, .pool = p};
	struct weir_freeing *f = p->counted ? weir_freeing_begin(&to, s) : NULL;
	pthread_mutex_lock(&lock);
	p->leaving += f != NULL;
	pthread_mutex_unlock(&lock);
	return f;
}

/* give frees n bytes of a pool in the order of a stream. */
static CUresult give(weir_fn_cuMemFreeAsync real, CUdeviceptr at, struct pool *p, uint64_t n,
	CUstream on, struct weir_stream *s)
{
	struct weir_freeing *f = leave(p, n, s);
	CUresult r = real(at, on);
	if (r == CUDA_SUCCESS)
		unclaim(p, n);
	weir_freeing_called(f, r);
	return r;
}

static CUresult finish(struct request *q, CUresult r, CUdeviceptr *dptr)
{
	if (!q->pool)
		return r;
	claimed(q);
	if (r == CUDA_SUCCESS && weir_sizes_put(WEIR_KIND_POOLED, *dptr, q->want.bytes, q->pool)) {
		if (settle(q->pool, false))
			return r;
		weir_fn_cuMemFreeAsync undo = WEIR_DRIVER(cuMemFreeAsync);
		weir_sizes_take(WEIR_KIND_POOLED, *dptr, NULL, NULL);
		if (!undo || give(undo, *dptr, q->pool, q->want.bytes, q->on, q->stream) != CUDA_SUCCESS)
			unclaim(q->pool, q->want.bytes);
		weir_pools_refresh(true);
		return weir_deny();
	}
	unclaim(q->pool, q->want.bytes);
	settle(q->pool, true);
	return r;
}

static CUmemoryPool current_pool(void)
{
	weir_fn_cuCtxGetDevice device = WEIR_DRIVER(cuCtxGetDevice);
	weir_fn_cuDeviceGetMemPool pool = WEIR_DRIVER(cuDeviceGetMemPool);
	CUdevice d;
	CUmemoryPool p = NULL;
	if (device && pool && device(&d) == CUDA_SUCCESS)
		pool(&p, d);
	return p;
}

CUresult weir_on_mem_alloc_async(
	enum weir_call call, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	weir_fn_cuMemAllocAsync real = (weir_fn_cuMemAllocAsync)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_ready() || !dptr)
		return real(dptr, bytesize, hStream);
	if (weir_capturing(hStream, call == WEIR_cuMemAllocAsync_ptsz)) {
		weir_graphs_captured_alloc();
		return real(dptr, bytesize, hStream);
	}
	struct request q = {.on = hStream};
	q.stream = weir_stream_of(hStream, call == WEIR_cuMemAllocAsync_ptsz);
	if (!begin(&q, current_pool(), bytesize))
		return weir_deny();
	return finish(&q, real(dptr, bytesize, hStream), dptr);
}

CUresult weir_on_mem_alloc_from_pool_async(
	enum weir_call call, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	weir_fn_cuMemAllocFromPoolAsync real = (weir_fn_cuMemAllocFromPoolAsync)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_ready() || !dptr)
		return real(dptr, bytesize, pool, hStream);
	if (weir_capturing(hStream, call == WEIR_cuMemAllocFromPoolAsync_ptsz)) {
		weir_graphs_captured_alloc();
		return real(dptr, bytesize, pool, hStream);
	}
	struct request q = {.on = hStream};
	q.stream = weir_stream_of(hStream, call == WEIR_cuMemAllocFromPoolAsync_ptsz);
	if (!begin(&q, pool, bytesize))
		return weir_deny();
	return finish(&q, real(dptr, bytesize, pool, hStream), dptr);
}

/* free_other frees memory of cuMemAlloc, which may be freed in stream order too. */
static CUresult free_other(
	weir_fn_cuMemFreeAsync real, CUdeviceptr dptr, CUstream on, struct weir_stream *s)
{
	struct weir_freed f;
	if (weir_movable_free_later(dptr, s))
		return CUDA_SUCCESS;
	bool noted = weir_pointer_take(dptr, &f);
	struct weir_freed_to to = {.pointer = f};
	struct weir_freeing *later = noted ? weir_freeing_begin(&to, s) : NULL;
	CUresult r = real(dptr, on);
	if (!noted)
		weir_graphs_refresh();
	else if (r != CUDA_SUCCESS)
		weir_pointer_untake(&f);
	else if (!later)
		weir_pointer_reached(&f);
	weir_freeing_called(later, r);
	return r;
}

CUresult weir_on_mem_free_async(enum weir_call call, CUdeviceptr dptr, CUstream hStream)
{
	weir_fn_cuMemFreeAsync real = (weir_fn_cuMemFreeAsync)weir_real(call);
	uint64_t n;
	void *pool = NULL;
	if (!real)
		return weir_missing();
	/* A free that is captured happens when the graph runs; until the program frees for good it
	 * stays counted. */
	if (!weir_ready() || weir_capturing(hStream, call == WEIR_cuMemFreeAsync_ptsz))
		return real(dptr, hStream);
	struct weir_stream *s = weir_stream_of(hStream, call == WEIR_cuMemFreeAsync_ptsz);
	if (!weir_sizes_take(WEIR_KIND_POOLED, dptr, &n, &pool))
		return free_other(real, dptr, hStream, s);
	CUresult r = give(real, dptr, pool, n, hStream, s);
	if (r != CUDA_SUCCESS)
		weir_sizes_put(WEIR_KIND_POOLED, dptr, n, pool);
	return r;
}

bool weir_pool_owns(CUdeviceptr dptr)
{
	return weir_sizes_get(WEIR_KIND_POOLED, dptr, NULL, NULL);
}

/* weir_pool_free_now is cuMemFree of memory from a pool. */
CUresult weir_pool_free_now(weir_fn_cuMemFree_v2 real, CUdeviceptr dptr)
{
	uint64_t n;
	void *pool;
	if (!weir_sizes_take(WEIR_KIND_POOLED, dptr, &n, &pool))
		return real(dptr);
	CUresult r = real(dptr);
	if (r != CUDA_SUCCESS) {
		weir_sizes_put(WEIR_KIND_POOLED, dptr, n, pool);
		return r;
	}
	unclaim(pool, n);
	settle(pool, true);
	return r;
}

CUresult weir_on_mem_pool_create(
	enum weir_call call, CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	weir_fn_cuMemPoolCreate real = (weir_fn_cuMemPoolCreate)weir_real(call);
	if (!real)
		return weir_missing();
	if (poolProps && poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE && weir_ready() &&
		!weir_device_is_ours(poolProps->location.id))
		return CUDA_ERROR_INVALID_DEVICE; /* the job has no memory there */
	CUresult r = real(pool, poolProps);
	if (r != CUDA_SUCCESS || !weir_ready())
		return r;
	pthread_mutex_lock(&lock);
	find(*pool, !on_host(poolProps->location.type));
	pthread_mutex_unlock(&lock);
	return r;
}

/* A destroyed pool gives its memory back when its last allocation is freed, so its record stays
 * until then; the record of an empty one is used again. */
CUresult weir_on_mem_pool_destroy(enum weir_call call, CUmemoryPool pool)
{
	weir_fn_cuMemPoolDestroy real = (weir_fn_cuMemPoolDestroy)weir_real(call);
	if (!real)
		return weir_missing();
	struct pool *p = weir_ready() ? known(pool) : NULL;
	if (!p)
		return real(pool);
	if (p->counted)
		settle(p, true);
	pthread_mutex_lock(&lock);
	p->handle = NULL; /* before the call: afterwards the driver may give the same handle again */
	p->used++;        /* so that the call is over before the pool is */
	pthread_mutex_unlock(&lock);
	CUresult r = real(pool);
	pthread_mutex_lock(&lock);
	p->handle = r == CUDA_SUCCESS ? NULL : pool;
	p->used--;
	drop_if_over(p);
	return r;
}

CUresult weir_on_mem_pool_trim_to(enum weir_call call, CUmemoryPool pool, size_t keep)
{
	weir_fn_cuMemPoolTrimTo real = (weir_fn_cuMemPoolTrimTo)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(pool, keep);
	if (r == CUDA_SUCCESS && weir_ready())
		weir_pools_refresh(false);
	return r;
}
