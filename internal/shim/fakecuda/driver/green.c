// Green contexts: parts of the primary context with multiprocessors of their own, as NVIDIA's
// manual has them (group CUDA_GREEN_CONTEXTS). Memory and events are the primary context's. Kernels
// take as long as elsewhere: the parts are kept, and cost nothing.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { SM = 1, LEAST = 8, ALIGN = 8 }; // of compute capability 9.0, in multiprocessors

struct CUdevResourceDesc_st {
	uint32_t sms;
};

static CUresult resource(CUdevResource *out, int type, uint32_t sms) {
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*out = (CUdevResource){.type = SM, .sm = {sms}};
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetDevResource(CUdevice d, CUdevResource *out, int type) {
	FK_TRY(fk_device_ok(d));
	return resource(out, type, FK_SMS);
}

FK_API cuCtxGetDevResource(CUcontext c, CUdevResource *out, int type) {
	FK_TRY(fk_usable());
	return FK_IS(c, FK_CONTEXT) ? resource(out, type, c->width) : CUDA_ERROR_INVALID_CONTEXT;
}

// A green context's two handles are one: NVIDIA says only that the one is made from the other.
FK_API cuGreenCtxGetDevResource(CUgreenCtx g, CUdevResource *out, int type) {
	return cuCtxGetDevResource((CUcontext)g, out, type);
}

FK_API cuDevSmResourceSplitByCount(CUdevResource *out, unsigned int *groups,
	const CUdevResource *from, CUdevResource *rest, unsigned int flags, unsigned int least) {
	FK_TRY(fk_usable());
	if (!groups || !from || flags > 3 || least > from->sm.smCount)
		return CUDA_ERROR_INVALID_VALUE;
	if (from->type != SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	unsigned int each = ((least < LEAST ? LEAST : least) + ALIGN - 1) / ALIGN * ALIGN;
	unsigned int can = from->sm.smCount / each, want = out ? *groups : can;
	*groups = can < want ? can : want;
	if (!*groups)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	for (unsigned int i = 0; out && i < *groups; i++)
		resource(&out[i], SM, each);
	if (rest)
		resource(rest, SM, from->sm.smCount - each * *groups);
	return CUDA_SUCCESS;
}

FK_API cuDevResourceGenerateDesc(
	CUdevResourceDesc *out, CUdevResource *resources, unsigned int count) {
	FK_TRY(fk_usable());
	if (!out || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	uint32_t sms = 0;
	for (unsigned int i = 0; i < count; i++) {
		if (resources[i].type != SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		sms += resources[i].sm.smCount;
	}
	// NVIDIA names no call that frees a descriptor. So there is one for each size.
	static struct CUdevResourceDesc_st all[FK_SMS + 1];
	if (!sms || sms > FK_SMS)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	all[sms].sms = sms;
	*out = &all[sms];
	return CUDA_SUCCESS;
}

FK_API cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc parts, CUdevice d, unsigned int flags) {
	FK_TRY(fk_device_ok(d));
	if (!out || !parts || flags > CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	CUcontext primary, g = calloc(1, sizeof *g);
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = cuDevicePrimaryCtxRetain(&primary, d);
	if (r) {
		free(g);
		return r;
	}
	fk_enter();
	*g = (struct CUctx_st){.kind = FK_CONTEXT,
		.flags = primary->flags,
		.device = d,
		.width = parts->sms,
		.id = ++fk.context_ids,
		.of = primary,
		.next = primary->greens};
	memcpy(g->limits, primary->limits, sizeof g->limits);
	g->legacy = fk_new_stream(g, 0, 0);
	primary->greens = g;
	*out = (CUgreenCtx)g;
	return fk_leave(CUDA_SUCCESS);
}

static bool green(const void *g) { return FK_IS(g, FK_CONTEXT) && ((CUcontext)g)->of; }

// The context's memory goes with the primary context: streams and allocations may name it.
FK_API cuGreenCtxDestroy(CUgreenCtx handle) {
	CUcontext g = (CUcontext)handle;
	FK_TRY(fk_usable());
	if (!green(g))
		return CUDA_ERROR_INVALID_CONTEXT;
	fk_enter();
	for (CUstream s = g->streams; s; s = s->next) {
		s->detached = true;
		if (s->capture)
			fk_capture_break(s->capture, CUDA_SUCCESS);
	}
	g->kind = 0;
	fk_leave(0);
	return cuDevicePrimaryCtxRelease_v2(g->device);
}

FK_API cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx g) {
	FK_TRY(fk_usable());
	if (!out || !green(g))
		return out ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	*out = (CUcontext)g;
	return CUDA_SUCCESS;
}

FK_API cuGreenCtxGetId(CUgreenCtx g, unsigned long long *id) {
	FK_TRY(fk_usable());
	if (!id || !green(g))
		return CUDA_ERROR_INVALID_VALUE;
	*id = ((CUcontext)g)->id;
	return CUDA_SUCCESS;
}

FK_API cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx g, unsigned int flags, int priority) {
	FK_TRY(fk_usable());
	if (!green(g))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = fk_new_stream((CUcontext)g, flags, priority);
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

// begin checks a green context and an event. The lock is held if, and only if, the result is good.
static CUresult begin(CUgreenCtx g, CUevent e) {
	FK_TRY(fk_sound());
	if (!green(g))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!FK_IS(e, FK_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	CUresult r = CUDA_SUCCESS;
	for (CUstream s = ((CUcontext)g)->streams; s; s = s->next)
		if (s->capture)
			r = fk_capture_break(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return r ? fk_leave(r) : CUDA_SUCCESS;
}

// The default stream follows the others for it, which no work of a program's does.
FK_API cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent e) {
	CUcontext g = (CUcontext)handle;
	FK_TRY(begin(handle, e));
	if (e->foreign || e->context != fk_root(g)->id)
		return fk_leave(CUDA_ERROR_INVALID_HANDLE);
	for (CUstream s = g->streams; s; s = s->next)
		if (s != g->legacy && s->seq)
			fk_push(g->legacy, (fk_item){.kind = FK_MARK, .after = s->seq}, NULL);
	fk_push(g->legacy, (fk_item){.kind = FK_MARK, .mark = e}, NULL);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent e) {
	CUcontext g = (CUcontext)handle;
	FK_TRY(begin(handle, e));
	if (e->captured)
		return fk_leave(fk_capture_break(e->captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
	CUresult r = e->foreign || e->device != g->device ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	for (CUstream s = g->streams; !r && e->seq && !e->done && s; s = s->next)
		fk_push(s, (fk_item){.kind = FK_MARK, .after = e->seq}, NULL);
	return fk_leave(r);
}

// of_stream gives the contexts of a stream, as cuStreamGetCtx_v2 has them.
static CUresult of_stream(CUstream handle, CUcontext *c, CUgreenCtx *g) {
	CUstream s;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r && handle == CU_STREAM_PER_THREAD && s->context->of)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r)
		return fk_leave(r);
	*c = fk_root(s->context);
	*g = s->context->of ? (CUgreenCtx)s->context : NULL;
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuStreamGetCtx_v2(CUstream s, CUcontext *c, CUgreenCtx *g) {
	return c && g ? of_stream(s, c, g) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuStreamGetCtx_v2_ptsz(CUstream s, CUcontext *c, CUgreenCtx *g) {
	return cuStreamGetCtx_v2(fk_ptsz(s), c, g);
}

FK_API cuStreamGetGreenCtx(CUstream s, CUgreenCtx *g) {
	CUcontext c;
	return g ? of_stream(s, &c, g) : CUDA_ERROR_INVALID_VALUE;
}
