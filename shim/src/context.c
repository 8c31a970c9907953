/*
 * Contexts. A job has one GPU, and contexts are made on that one only: what is done on another
 * would be neither counted there nor its share. What a context takes is counted before it is made,
 * as far as that is known from others of the job or of the device, and corrected afterwards. Before
 * a context is destroyed, weir lets go of the events it has in it.
 *
 * A primary context goes when it is released as often as it was retained. weir does not count
 * along: any release lets go of the events, and those of a context that stays are made anew.
 */
#include "weir.h"

#include <string.h>

#define DEVICES 64

static CUcontext primary[DEVICES];
static bool told; /* of a device that is not the job's */

static void gone(CUcontext ctx)
{
	if (ctx && weir_ready())
		weir_context_gone(ctx);
}

/* weir_device_is_ours tells whether the device is the job's, by the UUID on the page; without one
 * there, or with a driver that does not tell, every device is. */
bool weir_device_is_ours(CUdevice dev)
{
	static const unsigned char none[16];
	weir_fn_cuDeviceGetUuid get = WEIR_DRIVER(cuDeviceGetUuid_v2);
	unsigned char want[16];
	unsigned char have[16];
	if (!get)
		get = WEIR_DRIVER(cuDeviceGetUuid);
	memcpy(want, weir_page()->device_uuid, sizeof want);
	if (!memcmp(want, none, sizeof want) || !get || get((CUuuid *)have, dev) != CUDA_SUCCESS)
		return true;
	return !memcmp(want, have, sizeof want);
}

/* before is what must hold for a context to be made: *reserved is counted for it. */
static CUresult before(CUdevice dev, uint64_t *reserved)
{
	*reserved = 0;
	if (!weir_ready())
		return CUDA_SUCCESS;
	if (!weir_device_is_ours(dev)) {
		if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
			weir_say("device %d is not the GPU of this job, which has one: "
				"leave CUDA_VISIBLE_DEVICES as weir exec sets it", dev);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	uint64_t bytes = weir_get(&weir_page()->context_bytes);
	if (!weir_reserve(bytes))
		return weir_deny();
	*reserved = bytes;
	return CUDA_SUCCESS;
}

/* learned notes what making a context took, for those that come after. */
static void learned(uint64_t bytes)
{
	uint64_t *most = &weir_page()->context_bytes, known = weir_get(most);
	while (bytes > known && bytes <= weir_cap() &&
		!__atomic_compare_exchange_n(
			most, &known, bytes, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/* after settles what a context takes; false: it is more than the job may hold, and was not known
 * before. */
static bool after(CUresult r, uint64_t reserved)
{
	uint64_t now = 0, was;
	if (!weir_ready())
		return true;
	was = weir_get(&weir_slot()->mem_context_bytes);
	if (r != CUDA_SUCCESS || !weir_contexts_take(reserved, &now)) {
		weir_release(reserved);
		return true;
	}
	uint64_t grown = now > was ? now - was : 0;
	learned(grown);
	if (grown > reserved && !weir_reserve(grown - reserved)) {
		weir_release(reserved);
		return false;
	}
	weir_release_to_context(grown > reserved ? grown : reserved, now);
	return true;
}

/* left counts what the contexts take after one has gone. */
static void left(CUresult r)
{
	uint64_t now;
	if (r == CUDA_SUCCESS && weir_ready() && weir_contexts_take(0, &now))
		weir_set(&weir_slot()->mem_context_bytes, now);
}

static CUresult made(CUresult r, CUcontext ctx, uint64_t reserved)
{
	weir_fn_cuCtxDestroy_v2 undo = WEIR_DRIVER(cuCtxDestroy_v2);
	if (after(r, reserved) || !undo)
		return r;
	undo(ctx);
	return weir_deny();
}

CUresult weir_on_ctx_create(enum weir_call call, CUcontext *ctx, unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v2 real = (weir_fn_cuCtxCreate_v2)weir_real(call);
	uint64_t reserved;
	if (!real)
		return weir_missing();
	CUresult r = before(dev, &reserved);
	if (r != CUDA_SUCCESS)
		return r;
	r = real(ctx, flags, dev);
	return made(r, r == CUDA_SUCCESS ? *ctx : NULL, reserved);
}

CUresult weir_on_ctx_create_v3(enum weir_call call, CUcontext *ctx, CUexecAffinityParam *params,
	int n, unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v3 real = (weir_fn_cuCtxCreate_v3)weir_real(call);
	uint64_t reserved;
	if (!real)
		return weir_missing();
	CUresult r = before(dev, &reserved);
	if (r != CUDA_SUCCESS)
		return r;
	r = real(ctx, params, n, flags, dev);
	return made(r, r == CUDA_SUCCESS ? *ctx : NULL, reserved);
}

CUresult weir_on_ctx_create_v4(enum weir_call call, CUcontext *ctx, CUctxCreateParams *params,
	unsigned int flags, CUdevice dev)
{
	weir_fn_cuCtxCreate_v4 real = (weir_fn_cuCtxCreate_v4)weir_real(call);
	uint64_t reserved;
	if (!real)
		return weir_missing();
	CUresult r = before(dev, &reserved);
	if (r != CUDA_SUCCESS)
		return r;
	r = real(ctx, params, flags, dev);
	return made(r, r == CUDA_SUCCESS ? *ctx : NULL, reserved);
}

/* active tells whether the device's primary context is there. Programs retain it again and again;
 * only its coming and going is worth a look at what it takes. */
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
	uint64_t reserved = 0;
	CUresult r = was ? CUDA_SUCCESS : before(dev, &reserved);
	if (r != CUDA_SUCCESS)
		return r;
	r = real(ctx, dev);
	if (r == CUDA_SUCCESS && ctx && dev >= 0 && dev < DEVICES)
		__atomic_store_n(&primary[dev], *ctx, __ATOMIC_RELAXED);
	if (was || after(r, reserved))
		return r;
	weir_fn_cuDevicePrimaryCtxRelease undo = WEIR_DRIVER(cuDevicePrimaryCtxRelease_v2);
	if (!undo)
		return r;
	undo(dev);
	return weir_deny();
}

CUresult weir_on_ctx_destroy(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxDestroy_v2 real = (weir_fn_cuCtxDestroy_v2)weir_real(call);
	if (!real)
		return weir_missing();
	gone(ctx);
	CUresult r = real(ctx);
	left(r);
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
		left(r);
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
