/*
 * Contexts. Before one is destroyed, weir lets go of the events it has in it.
 *
 * A primary context goes when it is released as often as it was retained. weir does not count along:
 * any release lets go of the events, and those of a context that stays are made anew.
 */
#include "weir.h"

#define DEVICES 64

static CUcontext primary[DEVICES];

static void gone(CUcontext ctx)
{
	if (ctx && weir_ready())
		weir_context_gone(ctx);
}

CUresult weir_on_ctx_create(enum weir_call call, CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v2 real = (weir_fn_cuCtxCreate_v2)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(ctx, flags, dev);
	weir_contexts_changed(r);
	return r;
}

CUresult weir_on_ctx_create_v3(enum weir_call call, CUcontext *ctx, CUexecAffinityParam *params, int n, unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v3 real = (weir_fn_cuCtxCreate_v3)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(ctx, params, n, flags, dev);
	weir_contexts_changed(r);
	return r;
}

CUresult weir_on_ctx_create_v4(enum weir_call call, CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v4 real = (weir_fn_cuCtxCreate_v4)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(ctx, params, flags, dev);
	weir_contexts_changed(r);
	return r;
}

/* active tells whether the device's primary context is there. Programs retain it again and again; only
 * its coming and going is worth a look at what it takes. */
static bool active(CUdevice dev)
{
	weir_fn_cuDevicePrimaryCtxGetState get = WEIR_DRIVER(cuDevicePrimaryCtxGetState);
	unsigned int flags;
	int is = 0;
	return get && get(dev, &flags, &is) == CUDA_SUCCESS && is;
}

CUresult weir_on_ctx_retain(enum weir_call call, CUcontext *ctx, CUdevice dev)
{
	weir_fn_cuDevicePrimaryCtxRetain real = (weir_fn_cuDevicePrimaryCtxRetain)weir_real(call);
	if (!real)
		return weir_missing();
	bool was = active(dev);
	CUresult r = real(ctx, dev);
	if (r == CUDA_SUCCESS && ctx && dev >= 0 && dev < DEVICES)
		__atomic_store_n(&primary[dev], *ctx, __ATOMIC_RELAXED);
	if (!was)
		weir_contexts_changed(r);
	return r;
}

CUresult weir_on_ctx_destroy(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxDestroy_v2 real = (weir_fn_cuCtxDestroy_v2)weir_real(call);
	if (!real)
		return weir_missing();
	gone(ctx);
	CUresult r = real(ctx);
	weir_contexts_changed(r);
	return r;
}

/* end is a release or a reset of a primary context. */
static CUresult end(CUresult (*real)(CUdevice), CUdevice dev)
{
	if (!real)
		return weir_missing();
	if (dev >= 0 && dev < DEVICES)
		gone(__atomic_load_n(&primary[dev], __ATOMIC_RELAXED));
	CUresult r = real(dev);
	if (!active(dev))
		weir_contexts_changed(r);
	return r;
}

CUresult weir_on_ctx_release(enum weir_call call, CUdevice dev)
{
	return end((weir_fn_cuDevicePrimaryCtxRelease)weir_real(call), dev);
}

CUresult weir_on_ctx_reset(enum weir_call call, CUdevice dev)
{
	return end((weir_fn_cuDevicePrimaryCtxReset)weir_real(call), dev);
}
