/*
 * Limits of a context that take device memory: a stack for each thread that can be resident, the
 * buffer of printf and the heap of malloc in kernels. A limit of 64 KiB on the stack is 17 GB on a
 * device of 132 multiprocessors with 2048 threads each.
 *
 * cuCtxSetLimit may take the memory at once or at the next launch that needs it, so it is counted
 * by formula before the call. What the driver's own limits take is part of what the context was
 * found to take.
 */
#include "weir.h"

#include <stdlib.h>

/* times what a limit counts in bytes: 0 is none that takes memory by a formula. */
static uint64_t factor(CUlimit limit)
{
	weir_fn_cuCtxGetDevice device = WEIR_DRIVER(cuCtxGetDevice);
	weir_fn_cuDeviceGetAttribute get = WEIR_DRIVER(cuDeviceGetAttribute);
	CUdevice d;
	int units, threads;
	if (limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		return 1;
	if (limit != CU_LIMIT_STACK_SIZE || !device || !get || device(&d) != CUDA_SUCCESS ||
		get(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d) != CUDA_SUCCESS ||
		get(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, d) != CUDA_SUCCESS)
		return 0;
	return (uint64_t)units * (uint64_t)threads;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;
	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* limited is one limit of a context. */
struct limited {
	struct limited *next;
	void *context; /* by weir_context_id; NULL: free */
	CUlimit limit;
	uint64_t base;    /* what it took before it was first set */
	uint64_t counted; /* for what it takes beyond that, */
	uint64_t making;  /* and of that at least for calls under way */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct limited *all; /* records are used again, and never freed */

void weir_limits_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	all = NULL;
}

/* find gives the record of a limit, which takes so much as yet; NULL: no memory for one. */
static struct limited *find(void *context, CUlimit limit, uint64_t takes)
{
	struct limited *unused = NULL, *x;
	pthread_mutex_lock(&lock);
	for (x = all; x && (x->context != context || x->limit != limit); x = x->next)
		if (!x->context && !x->making)
			unused = x;
	if (!x && !unused && (unused = calloc(1, sizeof *unused))) {
		unused->next = all;
		all = unused;
	}
	if (!x && (x = unused)) {
		x->context = context;
		x->limit = limit;
		x->base = takes;
	}
	pthread_mutex_unlock(&lock);
	return x;
}

/* a call under way */
struct setting {
	struct weir_want want;
	struct limited *of;
};

/* claim counts what a call may bring a limit to, beside what others under way may. */
static bool claim(struct weir_want *w)
{
	struct limited *x = ((struct setting *)w)->of;
	pthread_mutex_lock(&lock);
	uint64_t most = x->making + w->bytes, more = most > x->counted ? most - x->counted : 0;
	bool ok = w->bytes <= weir_cap() && weir_reserve(more);
	if (ok) {
		x->making = most;
		x->counted += more;
	}
	pthread_mutex_unlock(&lock);
	w->lacks = more;
	return ok;
}

static bool begin(struct limited *x, uint64_t bytes)
{
	struct setting s = {{.claim = claim, .bytes = bytes}, x};
	return weir_find_room(&s.want);
}

/* ended brings the count to what the driver says that the limit is, or may become. */
static void ended(struct limited *x, uint64_t bytes, uint64_t each)
{
	weir_fn_cuCtxGetLimit get = WEIR_DRIVER(cuCtxGetLimit);
	size_t is;
	pthread_mutex_lock(&lock); /* an old figure must not lower what has been counted since */
	x->making -= bytes;
	uint64_t want = x->counted;
	if (x->context && get(&is, x->limit) == CUDA_SUCCESS) {
		uint64_t takes = times(is, each);
		want = takes > x->base ? takes - x->base : 0;
		want = want > x->making ? want : x->making;
	}
	uint64_t over = x->counted > want ? x->counted - want : 0,
			 under = want > x->counted ? want - x->counted : 0;
	x->counted = want;
	pthread_mutex_unlock(&lock);
	weir_release(over);
	weir_overdraw(under);
}

CUresult weir_on_ctx_set_limit(enum weir_call call, CUlimit limit, size_t value)
{
	weir_fn_cuCtxSetLimit real = (weir_fn_cuCtxSetLimit)weir_real(call);
	weir_fn_cuCtxGetLimit get = WEIR_DRIVER(cuCtxGetLimit);
	size_t was;
	if (!real)
		return weir_missing();
	void *context = weir_ready() ? weir_context_id(NULL) : NULL;
	uint64_t each = context ? factor(limit) : 0;
	if (!each || !get || get(&was, limit) != CUDA_SUCCESS)
		return real(limit, value);
	struct limited *x = find(context, limit, times(was, each));
	uint64_t takes = times(value, each), bytes = x && takes > x->base ? takes - x->base : 0;
	weir_moves_begin();
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	if (x && begin(x, bytes)) {
		r = real(limit, value);
		ended(x, bytes, each);
	} else {
		weir_deny();
	}
	weir_moves_end();
	return r;
}

/* weir_limits_counted is what counts for all of them. */
uint64_t weir_limits_counted(void)
{
	uint64_t bytes = 0;
	pthread_mutex_lock(&lock);
	for (struct limited *x = all; x; x = x->next)
		bytes += x->counted;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* weir_limits_gone gives back what was counted for a context that is gone. */
void weir_limits_gone(const void *context)
{
	uint64_t bytes = 0;
	pthread_mutex_lock(&lock);
	for (struct limited *x = all; x; x = x->next)
		if (x->context == context) {
			bytes += x->counted;
			x->context = NULL;
			x->counted = 0;
		}
	pthread_mutex_unlock(&lock);
	weir_release(bytes);
}
