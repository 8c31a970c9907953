// Streams and events.
#include "internal.h"

#include <stdlib.h>

CUstream fk_new_stream(CUcontext c, uint32_t flags, int32_t priority) {
	CUstream s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->kind = FK_STREAM, s->flags = flags, s->context = c;
	s->priority = priority > 0 ? 0 : priority < FK_URGENT ? FK_URGENT : priority;
	s->id = ++fk.stream_ids;
	s->next = c->streams;
	c->streams = s;
	return s;
}

// Per-thread default streams: one per thread and context, reused after the thread's end.
static pthread_key_t ended;
static pthread_once_t ended_once = PTHREAD_ONCE_INIT;
static _Thread_local struct {
	CUcontext context;
	uint64_t context_id;
	CUstream stream;
} own;

static void thread_ends(void *s) {
	fk_enter();
	((CUstream)s)->idle = true;
	fk_leave(0);
}
static void make_key(void) { pthread_key_create(&ended, thread_ends); }

static CUstream per_thread(CUcontext c) {
	if (own.context == c && own.context_id == c->id)
		return own.stream;
	CUstream s = c->streams;
	while (s && !(s->per_thread && s->idle))
		s = s->next;
	if (!s)
		s = fk_new_stream(c, 0, 0);
	if (!s)
		return c->legacy;
	pthread_once(&ended_once, make_key);
	pthread_setspecific(ended, s);
	s->per_thread = true, s->idle = false;
	own.context = c, own.context_id = c->id, own.stream = s;
	return s;
}

CUresult fk_stream(CUstream handle, CUstream *s) {
	CUcontext c;
	FK_TRY(fk_usable());
	if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
		*s = handle;
		if (!FK_IS(handle, FK_STREAM))
			return CUDA_ERROR_INVALID_HANDLE;
		return handle->detached ? CUDA_ERROR_STREAM_DETACHED
								: fk_ended(handle->context->device, fk_root(handle->context)->id);
	}
	FK_TRY(fk_current(&c));
	*s = handle == CU_STREAM_PER_THREAD ? per_thread(c) : c->legacy;
	return CUDA_SUCCESS;
}

FK_API cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!out || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	*out = fk_new_stream(c, flags, priority);
	return fk_leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

FK_API cuStreamCreate(CUstream *out, unsigned int flags) {
	return cuStreamCreateWithPriority(out, flags, 0);
}

FK_API cuStreamDestroy_v2(CUstream s) {
	FK_TRY(fk_usable());
	if (!FK_IS(s, FK_STREAM) || s == s->context->legacy || s->per_thread)
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	for (CUstream *p = &s->context->streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	CUresult r = s->capture ? fk_capture_break(s->capture, CUDA_SUCCESS) : CUDA_SUCCESS;
	s->kind = 0;
	free(s->front);
	free(s); // its operations go on
	return fk_leave(r);
}

FK_API cuStreamDestroy(CUstream s) { return cuStreamDestroy_v2(s); }

// ANSWER makes a query of a stream, which does not sleep.
#define ANSWER(name, type, expression) \
	FK_API name(CUstream handle, type *out) { \
		CUstream s; \
		if (!out) \
			return CUDA_ERROR_INVALID_VALUE; \
		fk_enter(); \
		CUresult r = fk_stream(handle, &s); \
		if (!r) \
			*out = (expression); \
		return fk_leave(r); \
	} \
	FK_API name##_ptsz(CUstream handle, type *out) { return name(fk_ptsz(handle), out); }

ANSWER(cuStreamGetPriority, int, s->priority)
ANSWER(cuStreamGetFlags, unsigned int, s->flags)
ANSWER(cuStreamGetId, unsigned long long, s->id)
ANSWER(cuStreamGetDevice, CUdevice, s->context->device)
ANSWER(cuStreamGetCtx, CUcontext, s->context)

// idle reports whether all work is done that synchronising with the stream waits for: for the
// legacy default stream, also that of all blocking streams.
static bool idle(CUstream s) {
	if (!fk_poll(fk_queue_of(s), s->seq))
		return false;
	for (CUstream o = s == s->context->legacy ? s->context->streams : NULL; o; o = o->next)
		if (!(o->flags & CU_STREAM_NON_BLOCKING) && !fk_poll(fk_queue_of(o), o->seq))
			return false;
	return true;
}

// quiet resolves the handle for a call that a capture on the stream forbids.
static CUresult quiet(CUstream handle, CUstream *s) {
	FK_TRY(fk_stream(handle, s));
	return (*s)->capture ? fk_capture_break((*s)->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
						 : fk_capture_conflict(*s);
}

FK_API cuStreamQuery(CUstream handle) {
	CUstream s;
	FK_TRY(fk_unsafe());
	fk_enter();
	CUresult r = quiet(handle, &s);
	return fk_leave(r ? r : idle(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

FK_API cuStreamQuery_ptsz(CUstream s) { return cuStreamQuery(fk_ptsz(s)); }

FK_API cuStreamSynchronize(CUstream handle) {
	CUstream s;
	FK_TRY(fk_unsafe());
	fk_enter();
	CUresult r = quiet(handle, &s);
	if (r)
		return fk_leave(r);
	fk_queue *q = fk_queue_of(s);
	if (!idle(s) && s == s->context->legacy)
		fk_push(s, (fk_item){.kind = FK_MARK}, NULL);
	uint64_t last = s->seq;
	struct CUctx_st was = *fk_root(s->context);
	fk_leave(0);
	fk_wait(q, last);
	fk_rest(q, was.flags, 0);
	fk_pools_settle(q);
	return fk_ended(was.device, was.id);
}

FK_API cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(fk_ptsz(s)); }

FK_API cuStreamWaitEvent(CUstream handle, CUevent e, unsigned int flags) {
	CUstream s;
	FK_TRY(fk_usable());
	if (!FK_IS(e, FK_EVENT) || flags > 1)
		return FK_IS(e, FK_EVENT) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r && (s->capture || e->captured))
		return fk_leave(fk_capture_wait(s, e));
	if (!r)
		r = fk_capture_conflict(s);
	if (!r && e->foreign)
		return fk_leave(fk_wait_foreign(s, e));
	if (!r && e->seq && !e->done) {
		if (e->device == s->context->device)
			fk_push(s, (fk_item){.kind = FK_MARK, .after = e->seq}, NULL);
		else
			r = fk_wait_other(s, e);
	}
	return fk_leave(r);
}

FK_API cuStreamWaitEvent_ptsz(CUstream s, CUevent e, unsigned int flags) {
	return cuStreamWaitEvent(fk_ptsz(s), e, flags);
}

FK_API cuEventCreate(CUevent *out, unsigned int flags) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!out || flags > 7 || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	CUevent e = calloc(1, sizeof *e);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->kind = FK_EVENT, e->flags = flags, e->device = c->device, e->context = fk_root(c)->id;
	*out = e;
	return CUDA_SUCCESS;
}

// event_ok checks an event, and that its context is in no error.
static CUresult event_ok(CUevent e) {
	FK_TRY(fk_usable());
	return FK_IS(e, FK_EVENT) ? fk_ended(e->device, e->context) : CUDA_ERROR_INVALID_HANDLE;
}

FK_API cuEventDestroy_v2(CUevent e) {
	FK_TRY(fk_usable());
	if (!FK_IS(e, FK_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	fk_enter();
	fk_forget(e);
	fk_unexport(&fk.queues[e->device].device, e->export);
	e->kind = 0;
	free(e->front);
	free(e);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuEventDestroy(CUevent e) { return cuEventDestroy_v2(e); }

FK_API cuEventRecordWithFlags(CUevent e, CUstream handle, unsigned int flags) {
	CUstream s;
	FK_TRY(fk_usable());
	if (!FK_IS(e, FK_EVENT) || flags > 1)
		return FK_IS(e, FK_EVENT) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	fk_spend(FK_KNOB(&fk.queues[e->device].device, event_ns));
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (r)
		return fk_leave(r);
	if (s->capture)
		return fk_leave(fk_capture_record(s, e, flags));
	if ((r = fk_capture_conflict(s)))
		return fk_leave(r);
	if (e->foreign || e->context != fk_root(s->context)->id)
		return fk_leave(CUDA_ERROR_INVALID_HANDLE);
	fk_push_record(s, e);
	fk_export_record(e);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuEventRecordWithFlags_ptsz(CUevent e, CUstream s, unsigned int f) {
	return cuEventRecordWithFlags(e, fk_ptsz(s), f);
}
FK_API cuEventRecord(CUevent e, CUstream s) { return cuEventRecordWithFlags(e, s, 0); }
FK_API cuEventRecord_ptsz(CUevent e, CUstream s) {
	return cuEventRecordWithFlags(e, fk_ptsz(s), 0);
}

FK_API cuEventQuery(CUevent e) {
	FK_TRY(event_ok(e));
	FK_TRY(fk_unsafe());
	fk_spend(FK_KNOB(&fk.queues[e->device].device, event_ns));
	fk_enter();
	if (e->captured)
		return fk_leave(fk_capture_break(e->captured, CUDA_ERROR_CAPTURED_EVENT));
	bool done = e->foreign ? fk_foreign_done(e) : fk_settle(e);
	return fk_leave(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

FK_API cuEventSynchronize(CUevent e) {
	FK_TRY(event_ok(e));
	FK_TRY(fk_unsafe());
	fk_enter();
	if (e->captured)
		return fk_leave(fk_capture_break(e->captured, CUDA_ERROR_CAPTURED_EVENT));
	if (e->foreign) {
		while (!fk_foreign_done(e)) {
			fk_leave(0);
			fk_sleep_until(NULL, 0, fk_now() + 100000);
			fk_enter();
		}
		return fk_leave(CUDA_SUCCESS);
	}
	uint64_t seq = e->seq;
	fk_queue *q = &fk.queues[e->device];
	if (fk_settle(e))
		return fk_leave(CUDA_SUCCESS);
	struct CUevent_st was = *e;
	fk_leave(0);
	fk_wait(q, seq);
	fk_rest(q, 0, was.flags);
	return fk_ended(was.device, was.context);
}

FK_API cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	FK_TRY(fk_usable());
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!FK_IS(a, FK_EVENT) || !FK_IS(b, FK_EVENT) ||
		(a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	FK_TRY(fk_ended(a->device, a->context));
	fk_spend(FK_KNOB(&fk.queues[a->device].device, event_ns));
	fk_enter();
	if (!a->seq || !b->seq || a->device != b->device)
		return fk_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!fk_settle(a) || !fk_settle(b))
		return fk_leave(CUDA_ERROR_NOT_READY);
	*ms = (float)((double)(int64_t)(b->end_ns - a->end_ns) / 1e6);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) {
	return cuEventElapsedTime(ms, a, b);
}
