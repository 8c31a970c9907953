/*
 * Launches whose stream is inside a structure.
 */
#include "weir.h"

CUresult weir_on_launch_ex(
	enum weir_call call, const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	weir_fn_cuLaunchKernelEx real = (weir_fn_cuLaunchKernelEx)weir_real(call);
	struct weir_ticket t;
	if (weir_unlikely(!real))
		return weir_missing();
	if (!config ||
		!weir_enter(&t, (uintptr_t)f,
			(uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ, config->hStream,
			call == WEIR_cuLaunchKernelEx_ptsz))
		return real(config, f, params, extra);
	weir_launches(&t);
	CUresult r = real(config, f, params, extra);
	weir_launched(&t, r);
	return r;
}

/* The parts run at once on several devices; the first one's stream stands for all. */
CUresult weir_on_launch_multi(
	enum weir_call call, CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags)
{
	weir_fn_cuLaunchCooperativeKernelMultiDevice real =
		(weir_fn_cuLaunchCooperativeKernelMultiDevice)weir_real(call);
	struct weir_ticket t;
	if (!real)
		return weir_missing();
	if (!list || !n ||
		!weir_enter(&t, (uintptr_t)list->function,
			(uint64_t)list->gridDimX * list->gridDimY * list->gridDimZ, list->hStream, 0))
		return real(list, n, flags);
	weir_launches(&t);
	CUresult r = real(list, n, flags);
	weir_launched(&t, r);
	return r;
}
