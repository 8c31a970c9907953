/*
 * Stream capture. Between begin and end, launches on a stream become nodes of a graph. weir must
 * not put events on such a stream, and in the stricter modes even a look at an unrelated event
 * would spoil the capture; so weir's own calls are made with the calling thread's mode relaxed, and
 * nothing is put on default streams, which other captures may depend on.
 *
 * Most programs never capture: a count of captures under way keeps the question off the launch
 * path.
 */
#include "weir.h"

void weir_capture_reset(void)
{
	weir.captures = 0;
}

/* weir_capturing tells whether the stream is being captured. */
bool weir_capturing(CUstream stream, int per_thread)
{
	if (weir_likely(!weir_peek(&weir.captures)))
		return false;
	weir_fn_cuStreamIsCapturing ask =
		per_thread ? WEIR_DRIVER(cuStreamIsCapturing_ptsz) : WEIR_DRIVER(cuStreamIsCapturing);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	return ask && ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* weir_relax sets the thread's capture mode for calls of weir's own; weir_unrelax puts the former
 * back. */
int weir_relax(void)
{
	weir_fn_cuThreadExchangeStreamCaptureMode exchange =
		WEIR_DRIVER(cuThreadExchangeStreamCaptureMode);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!weir_peek(&weir.captures) || !exchange || exchange(&mode) != CUDA_SUCCESS)
		return -1;
	return (int)mode;
}

void weir_unrelax(int mode)
{
	weir_fn_cuThreadExchangeStreamCaptureMode exchange =
		WEIR_DRIVER(cuThreadExchangeStreamCaptureMode);
	CUstreamCaptureMode back = (CUstreamCaptureMode)mode;
	if (mode >= 0 && exchange)
		exchange(&back);
}

/* The count is raised before the capture begins, so that no launch on the stream can miss it, and
 * the stream gets its mark while it still can. */
static void beginning(CUstream stream, int per_thread)
{
	if (!weir_ready())
		return;
	struct weir_stream *s = weir_stream_of(stream, per_thread);
	if (s) {
		pthread_mutex_lock(&s->lock);
		weir_close_batch(s, false);
		weir_add(&weir.captures, 1);
		pthread_mutex_unlock(&s->lock);
	} else {
		weir_add(&weir.captures, 1);
	}
}

static void ended(void)
{
	uint32_t n = weir_get(&weir.captures);
	while (n &&
		!__atomic_compare_exchange_n(
			&weir.captures, &n, n - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static CUresult began(CUresult r)
{
	if (r != CUDA_SUCCESS)
		ended();
	return r;
}

CUresult weir_on_begin_capture(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamBeginCapture real = (weir_fn_cuStreamBeginCapture)weir_real(call);
	if (!real)
		return weir_missing();
	beginning(hStream, call == WEIR_cuStreamBeginCapture_ptsz);
	return began(real(hStream));
}

CUresult weir_on_begin_capture_v2(enum weir_call call, CUstream hStream, CUstreamCaptureMode mode)
{
	weir_fn_cuStreamBeginCapture_v2 real = (weir_fn_cuStreamBeginCapture_v2)weir_real(call);
	if (!real)
		return weir_missing();
	beginning(hStream, call == WEIR_cuStreamBeginCapture_v2_ptsz);
	return began(real(hStream, mode));
}

CUresult weir_on_begin_capture_to_graph(enum weir_call call, CUstream hStream, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
	CUstreamCaptureMode mode)
{
	weir_fn_cuStreamBeginCaptureToGraph real = (weir_fn_cuStreamBeginCaptureToGraph)weir_real(call);
	if (!real)
		return weir_missing();
	beginning(hStream, call == WEIR_cuStreamBeginCaptureToGraph_ptsz);
	return began(real(hStream, hGraph, dependencies, data, n, mode));
}

CUresult weir_on_begin_recapture(enum weir_call call, CUstream hStream, CUstreamCaptureMode mode,
	CUgraph hGraph, CUgraphRecaptureCallback callback, void *data)
{
	weir_fn_cuStreamBeginRecaptureToGraph real =
		(weir_fn_cuStreamBeginRecaptureToGraph)weir_real(call);
	if (!real)
		return weir_missing();
	beginning(hStream, call == WEIR_cuStreamBeginRecaptureToGraph_ptsz);
	return began(real(hStream, mode, hGraph, callback, data));
}

CUresult weir_on_begin_capture_cig(
	enum weir_call call, CUstream hStream, CUstreamCigCaptureParams *params)
{
	weir_fn_cuStreamBeginCaptureToCig real = (weir_fn_cuStreamBeginCaptureToCig)weir_real(call);
	if (!real)
		return weir_missing();
	beginning(hStream, call == WEIR_cuStreamBeginCaptureToCig_ptsz);
	return began(real(hStream, params));
}

CUresult weir_on_end_capture(enum weir_call call, CUstream hStream, CUgraph *graph)
{
	weir_fn_cuStreamEndCapture real = (weir_fn_cuStreamEndCapture)weir_real(call);
	if (!real)
		return weir_missing();
	bool was = weir_capturing(hStream, call == WEIR_cuStreamEndCapture_ptsz);
	CUresult r = real(hStream, graph);
	if (was)
		ended();
	return r;
}

CUresult weir_on_end_capture_cig(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamEndCaptureToCig real = (weir_fn_cuStreamEndCaptureToCig)weir_real(call);
	if (!real)
		return weir_missing();
	bool was = weir_capturing(hStream, call == WEIR_cuStreamEndCaptureToCig_ptsz);
	CUresult r = real(hStream);
	if (was)
		ended();
	return r;
}

CUresult weir_on_stream_destroy(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamDestroy_v2 real = (weir_fn_cuStreamDestroy_v2)weir_real(call);
	if (!real)
		return weir_missing();
	if (weir_ready()) {
		bool was = weir_capturing(hStream, 0);
		weir_stream_gone(hStream);
		if (was)
			ended();
	}
	return real(hStream);
}
