/*
 * Stream capture. Between begin and end, launches on a stream become nodes of a graph. weir does
 * not put events on such a stream: one that was recorded in a capture must not be queried, in any
 * mode (cuThreadExchangeStreamCaptureMode). So a stream is asked before an event is put on it, and
 * again after, as other streams join a capture by waiting for its events, and as there are captures
 * that weir does not see begin. In the legacy default stream an event ends the capture of a
 * blocking stream of the context; asking does not (cuStreamIsCapturing).
 *
 * Most programs never capture: a count of captures under way keeps the question off the launch
 * path.
 */
#include "weir.h"

#include <sched.h>

static uint32_t beginning; /* captures that are about to begin */
static uint32_t marking;   /* threads that put an event on a default stream */

void weir_capture_reset(void)
{
	weir.captures = beginning = marking = 0;
}

static bool captured(weir_fn_cuStreamIsCapturing ask, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = ask ? ask(stream, &status) : CUDA_SUCCESS;
	return r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
		(r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* weir_captured tells whether work that is put on the stream now would be part of a capture, or end
 * one. */
bool weir_captured(CUstream stream)
{
	return captured(WEIR_DRIVER(cuStreamIsCapturing), stream);
}

/* weir_capturing tells the same of a stream as a launch names it, with all captures seen. */
bool weir_capturing(CUstream stream, int per_thread)
{
	if (weir_likely(!weir_peek(&weir.captures)))
		return false;
	return captured(per_thread ? (weir_fn_cuStreamIsCapturing)WEIR_DRIVER(cuStreamIsCapturing_ptsz)
							   : WEIR_DRIVER(cuStreamIsCapturing),
		stream);
}

/* weir_default_begin comes before a default stream is asked and an event put on it; false: a
 * capture that the event could end is just about to begin. weir_default_end comes after. */
bool weir_default_begin(void)
{
	weir_add(&marking, 1);
	if (!weir_get(&beginning))
		return true;
	weir_sub(&marking, 1);
	return false;
}

void weir_default_end(void)
{
	weir_sub(&marking, 1);
}

/* begin counts the capture before it begins, so that no launch on the stream can miss it. The
 * stream gets its last mark while it still can. Events that are being put on default streams are
 * waited for: they take microseconds, unless the device's queue is full. */
static struct weir_stream *begin(CUstream stream, int per_thread)
{
	enum { PATIENCE_NS = 10000000 };
	struct weir_stream *s = weir_ready() ? weir_stream_of(stream, per_thread) : NULL;
	if (!s)
		return NULL;
	weir_last_mark(s);
	if (!__atomic_exchange_n(&s->origin, true, __ATOMIC_SEQ_CST))
		weir_add(&weir.captures, 1);
	weir_add(&beginning, 1);
	uint64_t from = weir_get(&marking) ? weir_now() : 0;
	while (weir_get(&marking) && weir_now() - from < PATIENCE_NS)
		sched_yield();
	return s;
}

static CUresult began(CUresult r, struct weir_stream *s)
{
	if (!s)
		return r;
	weir_sub(&beginning, 1);
	if (r != CUDA_SUCCESS && !weir_captured(s->handle))
		weir_capture_over(s);
	return r;
}

/* weir_capture_over takes the capture that was begun on the stream, if any, off the count. */
void weir_capture_over(struct weir_stream *s)
{
	if (__atomic_exchange_n(&s->origin, false, __ATOMIC_SEQ_CST))
		weir_sub(&weir.captures, 1);
}

/* ended follows a call that ends the capture of a stream, unless it is refused. */
static CUresult ended(CUresult r, CUstream stream, int per_thread)
{
	if (weir_peek(&weir.captures) && !weir_capturing(stream, per_thread)) {
		struct weir_stream *s = weir_stream_of(stream, per_thread);
		if (s)
			weir_capture_over(s);
	}
	return r;
}

CUresult weir_on_begin_capture(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamBeginCapture real = (weir_fn_cuStreamBeginCapture)weir_real(call);
	if (!real)
		return weir_missing();
	struct weir_stream *s = begin(hStream, call == WEIR_cuStreamBeginCapture_ptsz);
	return began(real(hStream), s);
}

CUresult weir_on_begin_capture_v2(enum weir_call call, CUstream hStream, CUstreamCaptureMode mode)
{
	weir_fn_cuStreamBeginCapture_v2 real = (weir_fn_cuStreamBeginCapture_v2)weir_real(call);
	if (!real)
		return weir_missing();
	struct weir_stream *s = begin(hStream, call == WEIR_cuStreamBeginCapture_v2_ptsz);
	return began(real(hStream, mode), s);
}

CUresult weir_on_begin_capture_to_graph(enum weir_call call, CUstream hStream, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
	CUstreamCaptureMode mode)
{
	weir_fn_cuStreamBeginCaptureToGraph real = (weir_fn_cuStreamBeginCaptureToGraph)weir_real(call);
	if (!real)
		return weir_missing();
	struct weir_stream *s = begin(hStream, call == WEIR_cuStreamBeginCaptureToGraph_ptsz);
	return began(real(hStream, hGraph, dependencies, data, n, mode), s);
}

CUresult weir_on_begin_recapture(enum weir_call call, CUstream hStream, CUstreamCaptureMode mode,
	CUgraph hGraph, CUgraphRecaptureCallback callback, void *data)
{
	weir_fn_cuStreamBeginRecaptureToGraph real =
		(weir_fn_cuStreamBeginRecaptureToGraph)weir_real(call);
	if (!real)
		return weir_missing();
	struct weir_stream *s = begin(hStream, call == WEIR_cuStreamBeginRecaptureToGraph_ptsz);
	return began(real(hStream, mode, hGraph, callback, data), s);
}

CUresult weir_on_begin_capture_cig(
	enum weir_call call, CUstream hStream, CUstreamCigCaptureParams *params)
{
	weir_fn_cuStreamBeginCaptureToCig real = (weir_fn_cuStreamBeginCaptureToCig)weir_real(call);
	if (!real)
		return weir_missing();
	struct weir_stream *s = begin(hStream, call == WEIR_cuStreamBeginCaptureToCig_ptsz);
	return began(real(hStream, params), s);
}

CUresult weir_on_end_capture(enum weir_call call, CUstream hStream, CUgraph *graph)
{
	weir_fn_cuStreamEndCapture real = (weir_fn_cuStreamEndCapture)weir_real(call);
	if (!real)
		return weir_missing();
	return ended(real(hStream, graph), hStream, call == WEIR_cuStreamEndCapture_ptsz);
}

CUresult weir_on_end_capture_cig(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamEndCaptureToCig real = (weir_fn_cuStreamEndCaptureToCig)weir_real(call);
	if (!real)
		return weir_missing();
	return ended(real(hStream), hStream, call == WEIR_cuStreamEndCaptureToCig_ptsz);
}

CUresult weir_on_stream_destroy(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamDestroy_v2 real = (weir_fn_cuStreamDestroy_v2)weir_real(call);
	if (!real)
		return weir_missing();
	if (weir_ready() && !weir_stream_gone(hStream))
		return CUDA_SUCCESS;
	return real(hStream);
}
