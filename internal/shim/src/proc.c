/*
 * cuInit and the driver's own look-up. The CUDA runtime takes most functions from cuGetProcAddress,
 * which chooses among the versions and default-stream flavours of one name.
 */
#include "weir.h"

#include <string.h>

/* cuInit is every program's first call, and so the place to tell it that it has no share. */
CUresult weir_on_init(enum weir_call call, unsigned int Flags)
{
	weir_fn_cuInit real = (weir_fn_cuInit)weir_real(call);
	if (!real)
		return weir_missing();
	if (!weir_job_named())
		return real(Flags);
	return weir_ready() ? weir_init(real, Flags) : CUDA_ERROR_SYSTEM_NOT_READY;
}

static bool per_thread(cuuint64_t flags)
{
	return flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

CUresult weir_on_get_proc_address(
	enum weir_call call, const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	weir_fn_cuGetProcAddress real = (weir_fn_cuGetProcAddress)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(symbol, pfn, version, flags);
	if (r != CUDA_SUCCESS || !symbol || !pfn || !*pfn || !weir_job_named())
		return r;
	void *newest = NULL;
	if (version > WEIR_NEWEST)
		real(symbol, &newest, WEIR_NEWEST, flags);
	*pfn = weir_choose(symbol, *pfn, newest, version, per_thread(flags));
	return r;
}

CUresult weir_on_get_proc_address_v2(enum weir_call call, const char *symbol, void **pfn,
	int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	weir_fn_cuGetProcAddress_v2 real = (weir_fn_cuGetProcAddress_v2)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(symbol, pfn, version, flags, status);
	if (r != CUDA_SUCCESS || !symbol || !pfn || !*pfn || !weir_job_named())
		return r;
	void *newest = NULL;
	if (version > WEIR_NEWEST)
		real(symbol, &newest, WEIR_NEWEST, flags, NULL);
	*pfn = weir_choose(symbol, *pfn, newest, version, per_thread(flags));
	return r;
}
