/*
 * Calls that wait for the device. A pool gives memory back to the device as the program waits, so
 * what it keeps is counted anew there.
 */
#include "weir.h"

static CUresult waited(CUresult r)
{
	if (__atomic_load_n(&weir.state, __ATOMIC_ACQUIRE) == WEIR_ATTACHED && weir_pools_slack())
		weir_pools_refresh(false);
	return r;
}

CUresult weir_on_stream_synchronize(enum weir_call call, CUstream hStream)
{
	weir_fn_cuStreamSynchronize real = (weir_fn_cuStreamSynchronize)weir_real(call);
	return real ? waited(real(hStream)) : weir_missing();
}

CUresult weir_on_event_synchronize(enum weir_call call, CUevent hEvent)
{
	weir_fn_cuEventSynchronize real = (weir_fn_cuEventSynchronize)weir_real(call);
	return real ? waited(real(hEvent)) : weir_missing();
}

CUresult weir_on_ctx_synchronize(enum weir_call call)
{
	weir_fn_cuCtxSynchronize real = (weir_fn_cuCtxSynchronize)weir_real(call);
	return real ? waited(real()) : weir_missing();
}

CUresult weir_on_ctx_synchronize_v2(enum weir_call call, CUcontext ctx)
{
	weir_fn_cuCtxSynchronize_v2 real = (weir_fn_cuCtxSynchronize_v2)weir_real(call);
	return real ? waited(real(ctx)) : weir_missing();
}
