/*
 * A pool that grows by more than was counted, looked at by two threads at once: while the one
 * counts what there is more, the other frees all and counts anew. Then a pool that is destroyed, or
 * is not, one that grows beyond the cap, and frees that the device has not come to.
 */
#include "../src/weir.h"

static int lock_or_tell(pthread_mutex_t *m);
static bool reserve(uint64_t bytes);
static void give_up(uint64_t bytes);

#define pthread_mutex_lock lock_or_tell
#define weir_reserve reserve
#define weir_release give_up
#include "../src/pool.c"
#undef pthread_mutex_lock
#undef weir_reserve
#undef weir_release

bool weir_reserve(uint64_t bytes) { return reserve(bytes); }

#include "expect.h"
#include "stays.h"

#define PORTION (UINT64_C(1) << 20)
#define AT (UINT64_C(0x200000000000))

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];

static uint64_t counted, reserved; /* by the library, and by the driver's pool */
static uint64_t counted_then, grows = 2 * PORTION; /* when and by what the pool does */
static uint64_t kept; /* by a second pool */
static CUresult allocates;
static void (*meanwhile)(void); /* done by others in the next allocation */
static uint64_t cap = UINT64_MAX;
static bool keeps; /* what is freed */
static CUresult fails; /* what destroying the pool gives */
static unsigned frees;
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

/* ---- the driver: one pool, which takes two portions for the first allocation at first */

static CUmemoryPool const only = (CUmemoryPool)&reserved, second = (CUmemoryPool)&kept;

static CUresult driver_alloc(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	void (*f)(void) = meanwhile;
	(void)bytes, (void)stream;
	counted_then = counted;
	meanwhile = NULL;
	if (f)
		f();
	if (allocates)
		return allocates;
	*(pool == only ? &reserved : &kept) += grows;
	*at = AT;
	return CUDA_SUCCESS;
}

static CUresult driver_free(CUdeviceptr at, CUstream stream)
{
	(void)at, (void)stream;
	reserved = keeps ? reserved : 0;
	frees++;
	return CUDA_SUCCESS;
}

static bool stuck; /* the device comes to no free: none can be trimmed */
static const struct weir_stream *alone; /* to none on this stream, if any */

static unsigned trims;

static CUresult driver_trim(CUmemoryPool pool, size_t keep)
{
	trims++;
	if (stuck)
		return CUDA_SUCCESS;
	*(pool == only ? &reserved : &kept) = keep;
	return CUDA_SUCCESS;
}

static void (*meanwhile_destroyed)(void); /* done by others in the next call */

static CUresult driver_destroy(CUmemoryPool pool)
{
	void (*f)(void) = meanwhile_destroyed;
	(void)pool;
	meanwhile_destroyed = NULL;
	if (f)
		f();
	return fails;
}

static CUresult driver_get(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
	if (what != (CUmemPool_attribute)CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	*(uint64_t *)value = pool == only ? reserved : kept;
	return CUDA_SUCCESS;
}

static unsigned events; /* that are there */

static CUresult driver_query(CUevent e)
{
	return stuck && (!alone || e == (CUevent)alone) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult driver_destroy_event(CUevent e)
{
	(void)e;
	events--;
	return CUDA_SUCCESS;
}

static unsigned made;

static CUresult driver_create(CUmemoryPool *pool, const CUmemPoolProps *of)
{
	(void)of;
	made++;
	*pool = second;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuMemAllocFromPoolAsync:
		return (void *)driver_alloc;
	case WEIR_cuMemFreeAsync:
		return (void *)driver_free;
	case WEIR_cuMemPoolCreate:
		return (void *)driver_create;
	case WEIR_cuMemPoolTrimTo:
		return (void *)driver_trim;
	case WEIR_cuMemPoolDestroy:
		return (void *)driver_destroy;
	case WEIR_cuMemPoolGetAttribute:
		return (void *)driver_get;
	case WEIR_cuEventQuery:
		return (void *)driver_query;
	case WEIR_cuEventDestroy_v2:
		return (void *)driver_destroy_event;
	default:
		return NULL;
	}
}

/* ---- the rest of the library */

static struct weir_stream here, there;
static int puts_event = 1; /* what comes of it */
static CUevent put_as; /* the event, if not one by the stream */
static CUstream const beside = (CUstream)&there;
static uint64_t ns, later; /* the time, and when the device comes to all frees */
static uint64_t tick = 10000000;

uint64_t weir_now(void)
{
	ns += tick;
	if (later && ns >= later)
		stuck = false;
	return ns;
}

struct weir_stream *weir_stream_of(CUstream s, int per_thread)
{
	(void)per_thread;
	return s == beside ? &there : &here;
}

int weir_put_event(struct weir_stream *s, CUevent *e)
{
	if (puts_event != 1)
		return puts_event;
	events += !*e;
	*e = put_as ? put_as : (CUevent)s;
	return 1;
}

static bool seen; /* whether the last of what can be moved was */
void weir_movable_reached(struct weir_movable *m, bool was)
{
	(void)m;
	seen = was;
}
void weir_movables_late(bool reached) { (void)reached; }
static uint64_t due; /* of what can be moved */
uint64_t weir_movables_due(void) { return due; }
void weir_overdraw(uint64_t bytes) { weir_add(&counted, bytes); }
uint64_t weir_cap(void) { return cap; }
bool weir_would_fit(uint64_t bytes, uint64_t less) { return counted + bytes <= cap + less; }
void weir_release(uint64_t bytes) { weir_sub(&counted, bytes); }

/* What a pool does not have any more is given up before another thread can look at the pool. */
static bool late;
static void give_up(uint64_t bytes)
{
	if (bytes && !pthread_mutex_trylock(&lock)) {
		late = true;
		pthread_mutex_unlock(&lock);
	}
	weir_release(bytes);
}
int weir_attach(void) { return WEIR_ATTACHED; }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }
CUresult weir_deny(void) { return CUDA_ERROR_OUT_OF_MEMORY; }
void weir_look_again(void) {}
bool weir_shrunk_since(void) { return false; }
static uint64_t hidden;
uint64_t weir_hidden(void) { return hidden; }
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}
bool weir_capturing(CUstream s, int per_thread) { return s && per_thread; }
void weir_graphs_captured_alloc(void) {}
static unsigned refreshed; /* what counts for graphs */
void weir_graphs_refresh(void) { refreshed++; }
bool weir_device_is_ours(CUdevice dev) { return !dev; }
bool weir_pointer_take(CUdeviceptr at, struct weir_freed *f)
{
	*f = (struct weir_freed){.at = at};
	return false;
}
void weir_pointer_untake(struct weir_freed *f) { (void)f; }
void weir_pointer_reached(struct weir_freed *f) { (void)f; }

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
	if (counted + bytes > cap)
		return false;
	weir_add(&counted, bytes);
	return true;
}

static CUresult allocate_on(CUstream s, CUmemoryPool pool, uint64_t bytes)
{
	CUdeviceptr at;
	return weir_on_mem_alloc_from_pool_async(
		WEIR_cuMemAllocFromPoolAsync, &at, bytes, pool, s);
}

static CUresult allocate_from(CUmemoryPool pool, uint64_t bytes)
{
	return allocate_on(NULL, pool, bytes);
}

static CUresult allocate(uint64_t bytes)
{
	return allocate_from(only, bytes);
}

static void give_back(void)
{
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, NULL);
}

static CUresult destroy(void)
{
	return weir_on_mem_pool_destroy(WEIR_cuMemPoolDestroy, only);
}

static void anew(void)
{
	weir_pools_reset();
	weir_freeing_reset();
	stuck = false;
	alone = NULL;
	later = 0;
	counted = reserved = kept = frees = 0;
	grows = PORTION;
	cap = 8 * PORTION;
	keeps = true;
	portion = PORTION;
}

/* What a pool keeps is counted until the driver is seen to have it back, also by a pool that is
 * not destroyed; of one that is, until the last that is in use of it is freed. */
static void destroyed(void)
{
	anew();
	allocate(100);
	expect("while a pool grows", counted_then, PORTION);
	give_back();
	expect("of a pool that keeps what is freed", counted, PORTION);
	expect("is slack", weir_pools_slack(), true);
	weir_pools_refresh(false);
	expect("looked at", counted, PORTION);
	fails = CUDA_ERROR_INVALID_VALUE;
	expect("what cannot be destroyed", destroy(), CUDA_ERROR_INVALID_VALUE);
	expect("of it", counted, PORTION);
	grows = 0;
	allocate(200);
	expect("while it serves what it kept", counted_then, PORTION);
	expect("after that", counted, PORTION);
	fails = CUDA_SUCCESS;
	destroy();
	expect("of one that is destroyed, in use", counted, PORTION);
	expect("of which so much may have gone back", weir_pools_loose(), PORTION - 200);
	expect("is slack", weir_pools_slack(), false);
	give_back();
	expect("of it when all is freed", counted, 0);
	expect("of which so much may have gone back", weir_pools_loose(), 0);
	reserved = 0;
	grows = PORTION;
	allocate(100);
	expect("of another with its handle", counted, PORTION);
	give_back();
	unsigned before = refreshed;
	weir_pools_refresh(true);
	expect("of one that is trimmed", counted, 0);
	expect("looks at graphs with the pools, which the driver may have shrunk", refreshed,
		before + 1);
	before = refreshed;
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, 2 * AT, NULL);
	expect("looks at graphs after a free of what is no pool's", refreshed, before + 1);
	expect("is slack", weir_pools_slack(), false);
}

static void portions(void)
{
	anew();
	portion = 0;
	cap = UINT64_MAX;
	allocate(100);
	expect("before a portion was seen", counted_then, FIRST_PORTION);
	expect("after it", counted, PORTION);
	allocate(PORTION);
	expect("two portions", counted_then, 2 * PORTION);
}

/* The driver takes nine portions where eight fit. */
static void beyond_the_cap(void)
{
	anew();
	grows = 9 * PORTION;
	expect("beyond the cap", allocate(100), CUDA_ERROR_OUT_OF_MEMORY);
	expect("is freed", frees, 1);
	expect("and trimmed", reserved, 0);
	expect("counted then", counted, 0);
	grows = PORTION;
	allocate(100);
	give_back();
	expect("more than is left beside what is kept", allocate(8 * PORTION), CUDA_SUCCESS);
	expect("as what is kept goes back first", counted_then, 8 * PORTION);
	expect("more than the cap", allocate(8 * PORTION + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static void make_another(void) { allocate_from(second, 100); }

static void destroy_new(void)
{
	allocate(100);
	give_back();
	weir_pools_refresh(true);
	destroy();
}

/* A second pool keeps three portions: they go back where the first has no room. */
static void two_pools(void)
{
	anew();
	grows = 3 * PORTION;
	allocate_from(second, 3 * PORTION);
	give_back();
	grows = PORTION;
	allocate(PORTION);
	expect("of two pools", counted, 4 * PORTION);
	expect("is slack in one", weir_pools_slack(), true);
	grows = 6 * PORTION;
	expect("more than is left beside what is kept", allocate(6 * PORTION), CUDA_SUCCESS);
	expect("of that", counted, 7 * PORTION);
	expect("kept", kept, 0);

	anew();
	allocate_from(second, PORTION);
	allocate(100);
	expect("is slack in the other", weir_pools_slack(), true);

	anew();
	allocate(200);
	destroy();
	allocate_from(second, 100); /* which is not to have the record of the first */
	expect("of a second pool beside one that is destroyed", counted, 2 * PORTION);

	anew();
	meanwhile_destroyed = make_another;
	destroy_new();
	expect("of a pool that is made while another goes", counted, PORTION);
	expect("which has its own record", known(second) && known(second)->used == 100, true);

	anew();
	allocates = CUDA_ERROR_OUT_OF_MEMORY;
	allocate(100);
	allocates = CUDA_SUCCESS;
	expect("where the driver has no room", counted, 0);
}

static uint64_t counted_other;

static void other_allocates(void)
{
	grows = 2 * PORTION;
	allocate(2 * PORTION);
	counted_other = counted;
	grows = PORTION;
}

/* What is counted for one allocation stays while another one's ends. */
static void two_allocations(void)
{
	anew();
	meanwhile = other_allocates;
	allocate(100);
	expect("when another has ended", counted_other, 3 * PORTION);
	expect("when both have", counted, 3 * PORTION);
}

/* What is freed on a stream that has not come there is this stream's, and no other's: for the other
 * the pool may grow. */
static void elsewhere(void)
{
	anew();
	grows = 3 * PORTION;
	allocate(3 * PORTION);
	stuck = true;
	give_back();
	expect("for another stream", allocate_on(beside, only, 3 * PORTION), CUDA_SUCCESS);
	expect("counted before", counted_then, 6 * PORTION);
	expect("counted after", counted, 6 * PORTION);

	anew();
	grows = 5 * PORTION;
	allocate(5 * PORTION);
	stuck = true;
	give_back();
	uint64_t began = ns, calls = reserved;
	expect("for which there is no room", allocate_on(beside, only, 5 * PORTION),
		CUDA_ERROR_OUT_OF_MEMORY);
	expect("in half a second", ns - began >= 500000000 && ns - began < 600000000, true);
	expect("of the driver's", reserved, calls);
	grows = 0;
	expect("for the same stream", allocate(5 * PORTION), CUDA_SUCCESS);
	expect("of that", counted, 5 * PORTION);
	give_back();
	later = ns + 200000000;
	grows = 5 * PORTION; /* as what was trimmed is taken anew */
	expect("once the device has come there", allocate_on(beside, only, 5 * PORTION), CUDA_SUCCESS);
	expect("of that", counted, 5 * PORTION);

	anew();
	allocate(PORTION);
	stuck = true;
	give_back();
	here.life++; /* the record is another stream's now */
	allocate(PORTION);
	expect("for a stream with the record of one that is gone", counted_then, 2 * PORTION);
}

static void look_meanwhile(void)
{
	weir_pools_refresh(false);
	counted_other = counted;
}

/* What a stream frees, and has again, many times before the device comes there is once in the pool.
 */
static void freed_often(void)
{
	anew();
	allocate(PORTION);
	stuck = true;
	give_back();
	grows = 0;
	for (int i = 0; i < 9; i++) {
		allocate(PORTION);
		give_back();
	}
	expect("freed ten times", weir_freeing_elsewhere(known(only), &there), 10 * PORTION);
	grows = PORTION;
	meanwhile = look_meanwhile;
	expect("for another stream", allocate_on(beside, only, PORTION), CUDA_SUCCESS);
	expect("counted before", counted_then, 2 * PORTION);
	expect("and until the pool has grown", counted_other, 2 * PORTION);
	expect("counted after", counted, 2 * PORTION);
	reserved = 0; /* as trimmed once it is freed */
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, beside);
	weir_pools_refresh(false);
	expect("once all is back", counted, 0);
}

#include "frees.h"

/* A record is no other pool's while frees of the former are under way. */
static void record_kept(void)
{
	anew();
	allocate(100);
	stuck = true;
	give_back();
	reserved = 0;
	weir_pools_refresh(false);
	destroy();
	expect("of a pool that is destroyed and has nothing", counted, 0);
	allocate_from(second, 100);
	expect("frees of another", known(second)->leaving, 0);
	stuck = false;
	weir_freeing_look();
	expect("and after that", known(second)->leaving, 0);
}

/* A pool that is destroyed has what is freed until the device comes there. */
static void destroyed_early(void)
{
	anew();
	allocate(100);
	stuck = true;
	give_back();
	destroy();
	expect("of a pool whose last free has not come", counted, PORTION);
	allocate_from(second, 100);
	expect("which keeps its record", counted, 2 * PORTION);
	stuck = false;
	weir_freeing_look();
	expect("when it has", counted, PORTION);
	expect("frees under way", weir_freeing_any(), false);
}

/* The driver takes nine portions where eight fit, and cannot have them back at once. */
static void too_large_for_long(void)
{
	anew();
	grows = 9 * PORTION;
	stuck = true;
	expect("beyond the cap", allocate(100), CUDA_ERROR_OUT_OF_MEMORY);
	expect("as long as the driver has it", counted, 9 * PORTION);
	stuck = false;
	weir_freeing_look();
	weir_pools_refresh(true);
	expect("after that", counted, 0);
}

/* A free that fails is none. */
static CUresult refuse(CUdeviceptr at, CUstream s)
{
	(void)at, (void)s;
	return CUDA_ERROR_INVALID_VALUE;
}

static void failed_free(void)
{
	anew();
	allocate(100);
	give(refuse, AT, known(only), 100, NULL, &here);
	expect("frees under way after one that failed", weir_freeing_any(), false);
	expect("of the pool", known(only)->used, 100);
	expect("that leave it", known(only)->leaving, 0);
}

/* Events are used again, and go with their context. */
static void events_go(void)
{
	CUcontext context = (CUcontext)&events;
	anew();
	events = 0;
	here.home = context;
	for (int i = 0; i < 100; i++) {
		allocate(100);
		give_back();
	}
	expect("events of a hundred frees", events, 1);
	stuck = true;
	allocate(100);
	give_back();
	weir_freeing_going(context);
	weir_freeing_look();
	expect("events that are looked at no more", events, 1);
	weir_freeing_gone(context, false);
	expect("frees under way in a context that stays", weir_freeing_any(), true);
	weir_freeing_going(context);
	stuck = false; /* it would be reached */
	weir_freeing_look();
	expect("frees under way until it has", weir_freeing_any(), true);
	weir_freeing_gone(context, true);
	expect("frees under way after it", weir_freeing_any(), false);
	here.home = NULL;
}

static CUresult create(int where, int id)
{
	CUmemPoolProps of = {.location = {where, id}};
	CUmemoryPool pool;
	return weir_on_mem_pool_create(WEIR_cuMemPoolCreate, &pool, &of);
}

/* from_second is what counts once a new pool has allocated. */
static uint64_t from_second(void)
{
	CUdeviceptr at;
	grows = PORTION;
	weir_on_mem_alloc_from_pool_async(WEIR_cuMemAllocFromPoolAsync, &at, 100, second, NULL);
	uint64_t n = counted;
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, NULL);
	kept = 0;
	weir_pools_refresh(false);
	weir_on_mem_pool_destroy(WEIR_cuMemPoolDestroy, second);
	return n;
}

/* Pools on the job's device count, those of the host do not, and there are none elsewhere. */
static void created(void)
{
	anew();
	expect("elsewhere", create(CU_MEM_LOCATION_TYPE_DEVICE, 1), CUDA_ERROR_INVALID_DEVICE);
	expect("is not asked for", made, 0);
	expect("on the device", create(CU_MEM_LOCATION_TYPE_DEVICE, 0), CUDA_SUCCESS);
	expect("what it has", from_second(), PORTION);
	expect("on the host", create(CU_MEM_LOCATION_TYPE_HOST, 1), CUDA_SUCCESS);
	expect("what that has", from_second(), 0);
}

int main(void)
{
	portion = PORTION;
	allocate(100);
	if (!raced)
		return 1;
	pthread_join(other, NULL);
	expect("of an empty pool", counted, 0);
	destroyed();
	portions();
	beyond_the_cap();
	two_pools();
	two_allocations();
	elsewhere();
	freed_often();
	streams_apart();
	others_free();
	hopeless();
	last_look();
	leaving();
	trimmed_rarely();
	unseen();
	record_kept();
	destroyed_early();
	too_large_for_long();
	failed_free();
	events_go();
	created();
	expect("given up too late", late, false);
	return checked();
}
