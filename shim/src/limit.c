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

static CUcontext current(void)
{
	weir_fn_cuCtxGetCurrent get = WEIR_DRIVER(cuCtxGetCurrent);
	CUcontext ctx = NULL;
	return get && get(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

/* note adds to what is counted for the context's limits. */
static void note(CUcontext ctx, uint64_t more)
{
	uint64_t n = 0;
	weir_sizes_take(WEIR_KIND_LIMITS, (uintptr_t)ctx, &n, NULL);
	if (n + more && !weir_sizes_put(WEIR_KIND_LIMITS, (uintptr_t)ctx, n + more, NULL))
		weir_release(n + more);
}

/* give takes back no more than is counted: what the driver's own limits take is not. */
static void give(CUcontext ctx, uint64_t less)
{
	uint64_t n = 0;
	if (!weir_sizes_take(WEIR_KIND_LIMITS, (uintptr_t)ctx, &n, NULL))
		return;
	less = less < n ? less : n;
	if (n > less && !weir_sizes_put(WEIR_KIND_LIMITS, (uintptr_t)ctx, n - less, NULL))
		less = n;
	weir_release(less);
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;
	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

CUresult weir_on_ctx_set_limit(enum weir_call call, CUlimit limit, size_t value)
{
	weir_fn_cuCtxSetLimit real = (weir_fn_cuCtxSetLimit)weir_real(call);
	weir_fn_cuCtxGetLimit get = WEIR_DRIVER(cuCtxGetLimit);
	size_t was, is;
	if (!real)
		return weir_missing();
	CUcontext ctx = weir_ready() ? current() : NULL;
	uint64_t each = ctx ? factor(limit) : 0;
	if (!each || !get || get(&was, limit) != CUDA_SUCCESS)
		return real(limit, value);
	uint64_t counted = times(value > was ? value - was : 0, each);
	if (!weir_take(counted))
		return weir_deny();
	CUresult r = real(limit, value);
	if (r != CUDA_SUCCESS) {
		weir_release(counted);
		return r;
	}
	note(ctx, counted);
	/* the driver may round the value */
	if (get(&is, limit) != CUDA_SUCCESS)
		is = value;
	uint64_t taken = times(is > was ? is - was : 0, each);
	if (taken > counted && weir_reserve(taken - counted))
		note(ctx, taken - counted);
	if (is < was)
		give(ctx, times(was - is, each));
	return r;
}

void weir_limits_gone(CUcontext ctx)
{
	give(ctx, UINT64_MAX);
}
