// Stream capture, by the rules of the CUDA programming guide's chapter on graphs and of
// cuThreadExchangeStreamCaptureMode: what is captured becomes nodes, events carry a capture from
// stream to stream, and calls that could synchronise are errors that end it.
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct fk_capture {
	struct fk_capture *next;
	uint64_t id;
	CUstreamCaptureMode mode;
	pthread_t thread;
	CUgraph graph;
	CUstream origin;
	bool invalid, given; // given: the graph belongs to the program
};

static _Thread_local CUstreamCaptureMode thread_mode;

CUresult fk_capture_break(struct fk_capture *c, CUresult error) {
	c->invalid = true;
	return error;
}

CUresult fk_unsafe(void) {
	if (!atomic_load_explicit(&fk.capturing, memory_order_acquire) ||
		thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	CUresult r = CUDA_SUCCESS;
	fk_enter();
	for (struct fk_capture *c = fk.captures; c; c = c->next) {
		bool own =
			pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		if (own ||
			(c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
				thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL))
			r = fk_capture_break(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	return fk_leave(r);
}

// implicit is the capture that work in the stream would depend on: the legacy default stream would
// have to follow a blocking stream that is captured, which has nothing to follow. NULL: none.
static struct fk_capture *implicit(CUstream s) {
	if (s != s->context->legacy || !atomic_load(&fk.capturing))
		return NULL;
	for (CUstream o = s->context->streams; o; o = o->next)
		if (o->capture && !(o->flags & CU_STREAM_NON_BLOCKING))
			return o->capture;
	return NULL;
}

CUresult fk_capture_conflict(CUstream s) {
	struct fk_capture *c = implicit(s);
	return c ? fk_capture_break(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) : CUDA_SUCCESS;
}

// put makes a copy of a front; with more, it joins the two.
static bool put(
	CUgraphNode **front, size_t *fronts, const CUgraphNode *more, size_t count, bool join) {
	size_t kept = join ? *fronts : 0;
	CUgraphNode *all = malloc((kept + count + 1) * sizeof *all);
	if (!all)
		return false;
	if (kept)
		memcpy(all, *front, kept * sizeof *all);
	if (count)
		memcpy(all + kept, more, count * sizeof *all);
	free(*front);
	*front = all, *fronts = kept + count;
	return true;
}

CUresult fk_capture_add(CUstream s, const fk_task *task, CUgraphNode *out) {
	CUgraphNode node;
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	FK_TRY(fk_add(s->capture->graph, s->front, s->fronts, task, &node));
	if (out)
		*out = node;
	return put(&s->front, &s->fronts, &node, 1, false) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fk_capture_record(CUstream s, CUevent e, unsigned int flags) {
	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (flags) // CU_EVENT_RECORD_EXTERNAL
		return fk_capture_add(
			s, &(fk_task){.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event = e}, NULL);
	fk_forget(e);
	e->seq = 0, e->captured = s->capture;
	return put(&e->front, &e->fronts, s->front, s->fronts, false) ? CUDA_SUCCESS
																  : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fk_capture_wait(CUstream s, CUevent e) {
	struct fk_capture *c = s->capture ? s->capture : e->captured;
	if (c->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!e->captured)
		return fk_capture_break(c, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (e->captured != c)
		return fk_capture_break(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	bool inside = s->capture != NULL; // what the stream captured in an earlier one does not count
	s->capture = c;
	return put(&s->front, &s->fronts, e->front, e->fronts, inside) ? CUDA_SUCCESS
																   : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult begin(
	CUstream handle, CUgraph g, const CUgraphNode *from, size_t count, CUstreamCaptureMode mode) {
	CUstream s;
	FK_TRY(fk_usable());
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (g && !FK_IS(g, FK_GRAPH)))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (r)
		return fk_leave(r);
	if (s->capture || s == s->context->legacy)
		return fk_leave(
			s->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	struct fk_capture *c = calloc(1, sizeof *c);
	if (!c)
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	static uint64_t ids;
	*c = (struct fk_capture){.next = fk.captures,
		.id = ++ids,
		.mode = mode,
		.thread = pthread_self(),
		.origin = s,
		.graph = g ? g : fk_new_graph(),
		.given = g != NULL};
	if (!c->graph || !put(&s->front, &s->fronts, from, count, false)) {
		free(c);
		return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	s->capture = fk.captures = c;
	atomic_fetch_add(&fk.capturing, 1);
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
	return begin(s, NULL, NULL, 0, mode);
}
FK_API cuStreamBeginCapture_v2_ptsz(CUstream s, CUstreamCaptureMode mode) {
	return begin(fk_ptsz(s), NULL, NULL, 0, mode);
}
FK_API cuStreamBeginCapture(CUstream s) {
	return begin(s, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
FK_API cuStreamBeginCapture_ptsz(CUstream s) {
	return begin(fk_ptsz(s), NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

FK_API cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *from,
	const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
	(void)edges;
	return g ? begin(s, g, from, count, mode) : CUDA_ERROR_INVALID_VALUE;
}

FK_API cuStreamBeginCaptureToGraph_ptsz(CUstream s, CUgraph g, const CUgraphNode *from,
	const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
	return cuStreamBeginCaptureToGraph(fk_ptsz(s), g, from, edges, count, mode);
}

// covered reports whether every node at the ends of the joined streams is behind the origin's
// front, that is, whether all streams have been joined back.
static bool covered(const struct fk_capture *c, const CUstream s) {
	for (size_t i = 0; i < s->fronts; i++) {
		bool found = s == c->origin;
		for (size_t j = 0; j < c->origin->fronts && !found; j++)
			found = fk_behind(c->origin->front[j], s->front[i]);
		if (!found)
			return false;
	}
	return true;
}

FK_API cuStreamEndCapture(CUstream handle, CUgraph *out) {
	CUstream s;
	FK_TRY(fk_usable());
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	struct fk_capture *c = r ? NULL : s->capture;
	if (!c)
		return fk_leave(r ? r : CUDA_ERROR_ILLEGAL_STATE);
	if (c->origin != s)
		return fk_leave(fk_capture_break(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
		return fk_leave(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
	for (CUstream o = s->context->streams; o; o = o->next)
		if (o->capture == c) {
			if (!r && !covered(c, o))
				r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
			o->capture = NULL;
		}
	*out = r ? NULL : c->graph;
	if (r && !c->given)
		fk_free_graph(c->graph);
	for (struct fk_capture **p = &fk.captures; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	atomic_fetch_sub(&fk.capturing, 1);
	c->graph = NULL, c->invalid = true, c->next = fk.ended; // events may still name it
	fk.ended = c;
	return fk_leave(r);
}

FK_API cuStreamEndCapture_ptsz(CUstream s, CUgraph *out) {
	return cuStreamEndCapture(fk_ptsz(s), out);
}

FK_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
	FK_TRY(fk_usable());
	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode old = thread_mode;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

FK_API cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, size_t *count) {
	CUstream s;
	FK_TRY(fk_usable());
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (r)
		return fk_leave(r);
	// to ask is no use: "The blocking stream capture is not invalidated" (cuStreamIsCapturing)
	if (implicit(s))
		return fk_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	struct fk_capture *c = s->capture;
	*status = !c     ? CU_STREAM_CAPTURE_STATUS_NONE
		: c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (c && !c->invalid) {
		if (id)
			*id = c->id;
		if (graph)
			*graph = c->graph;
		if (from)
			*from = s->front;
		if (count)
			*count = s->fronts;
	}
	return fk_leave(CUDA_SUCCESS);
}

FK_API cuStreamGetCaptureInfo_v2_ptsz(CUstream s, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, size_t *count) {
	return cuStreamGetCaptureInfo_v2(fk_ptsz(s), status, id, graph, from, count);
}

FK_API cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, const CUgraphEdgeData **edges, size_t *count) {
	if (edges)
		*edges = NULL;
	return cuStreamGetCaptureInfo_v2(s, status, id, graph, from, count);
}

FK_API cuStreamGetCaptureInfo_v3_ptsz(CUstream s, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **from, const CUgraphEdgeData **edges, size_t *count) {
	return cuStreamGetCaptureInfo_v3(fk_ptsz(s), status, id, graph, from, edges, count);
}

FK_API cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *status, uint64_t *id) {
	return cuStreamGetCaptureInfo_v2(s, status, id, NULL, NULL, NULL);
}

FK_API cuStreamGetCaptureInfo_ptsz(CUstream s, CUstreamCaptureStatus *status, uint64_t *id) {
	return cuStreamGetCaptureInfo_v2(fk_ptsz(s), status, id, NULL, NULL, NULL);
}

FK_API cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
	return cuStreamGetCaptureInfo_v2(s, status, NULL, NULL, NULL, NULL);
}

FK_API cuStreamIsCapturing_ptsz(CUstream s, CUstreamCaptureStatus *status) {
	return cuStreamGetCaptureInfo_v2(fk_ptsz(s), status, NULL, NULL, NULL, NULL);
}

// flags: 0 adds to what the next node depends on, 1 replaces it.
FK_API cuStreamUpdateCaptureDependencies(
	CUstream handle, CUgraphNode *from, size_t count, unsigned int flags) {
	CUstream s;
	FK_TRY(fk_usable());
	if (flags > 1 || (count && !from))
		return CUDA_ERROR_INVALID_VALUE;
	fk_enter();
	CUresult r = fk_stream(handle, &s);
	if (!r && (!s->capture || s->capture->invalid))
		r = CUDA_ERROR_ILLEGAL_STATE;
	if (!r && !put(&s->front, &s->fronts, from, count, !flags))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return fk_leave(r);
}

FK_API cuStreamUpdateCaptureDependencies_ptsz(
	CUstream s, CUgraphNode *from, size_t count, unsigned int flags) {
	return cuStreamUpdateCaptureDependencies(fk_ptsz(s), from, count, flags);
}
