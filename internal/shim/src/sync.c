/*
 * Calls that wait for the device. A pool gives memory back to the device as the program waits, so
 * what it keeps is counted anew there. And what the program launches next comes after a pause.
 */
#include "weir.h"

static CUresult waited(CUresult r, CUstream stream)
{
	if (__atomic_load_n(&weir.state, __ATOMIC_ACQUIRE) != WEIR_ATTACHED)
		return r;
	weir_waits(stream);
	if (weir_pools_slack())
		weir_pools_refresh(false);
	return r;
}

CUresult weir_on_stream_synchronize(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamSynchronize real = (weir_fn_cuStreamSynchronize)weir_real(call);
	CUstream own = call == WEIR_cuStreamSynchronize_ptsz ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	return real ? waited(real(hStream), hStream ? hStream : own) : weir_missing();
}

CUresult weir_on_event_synchronize(enum weir_call call, CUevent hEvent)
{
	weir_fn_cuEventSynchronize real = (weir_fn_cuEventSynchronize)weir_real(call);
	return real ? waited(real(hEvent), NULL) : weir_missing();
}

CUresult weir_on_ctx_synchronize(enum weir_call call)
{
	weir_fn_cuCtxSynchronize real = (weir_fn_cuCtxSynchronize)weir_real(call);
	return real ? waited(real(), NULL) : weir_missing();
}

CUresult weir_on_ctx_synchronize_v2(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxSynchronize_v2 real = (weir_fn_cuCtxSynchronize_v2)weir_real(call);
	return real ? waited(real(ctx), NULL) : weir_missing();
}
