/*
 * What the program is told of the device's memory: its cap as the total, and what of it is left.
 */
#include "weir.h"

#include <limits.h>

static uint64_t total(uint64_t real)
{
	uint64_t said = weir_get(&weir_page()->mem_total_reported), cap = weir_granted();
	uint64_t n = said && said < cap ? said : cap;
	return n < real ? n : real;
}

static uint64_t left(uint64_t total_bytes, uint64_t real_free)
{
	uint64_t used = weir_used();
	uint64_t n = used < total_bytes ? total_bytes - used : 0;
	return n < real_free ? n : real_free;
}

void weir_report(uint64_t *free_bytes, uint64_t *total_bytes);

/* weir_report replaces the device's numbers by the job's. */
void weir_report(uint64_t *free_bytes, uint64_t *total_bytes)
{
	*total_bytes = total(*total_bytes);
	*free_bytes = left(*total_bytes, *free_bytes);
}

/* look_first counts what loads have taken, which an allocation would count before it is made: a
 * program may go by what it is told to the last byte. */
static void look_first(void)
{
	if (weir_ready())
		weir_look_again();
}

CUresult weir_on_mem_get_info(enum weir_call call, size_t *free, size_t *all)
{
	weir_fn_cuMemGetInfo_v2 real = (weir_fn_cuMemGetInfo_v2)weir_real(call);
	if (!real)
		return weir_missing();
	look_first();
	CUresult r = real(free, all);
	if (r != CUDA_SUCCESS || !free || !all || !weir_ready())
		return r;
	uint64_t f = *free, t = *all;
	weir_report(&f, &t);
	*free = f;
	*all = t;
	return r;
}

CUresult weir_on_mem_get_info_v1(enum weir_call call, unsigned int *free, unsigned int *all)
{
	weir_fn_cuMemGetInfo real = (weir_fn_cuMemGetInfo)weir_real(call);
	if (!real)
		return weir_missing();
	look_first();
	CUresult r = real(free, all);
	if (r != CUDA_SUCCESS || !free || !all || !weir_ready())
		return r;
	uint64_t f = *free, t = *all;
	weir_report(&f, &t);
	*free = f > UINT_MAX ? UINT_MAX : (unsigned int)f;
	*all = t > UINT_MAX ? UINT_MAX : (unsigned int)t;
	return r;
}

CUresult weir_on_device_total_mem(enum weir_call call, size_t *bytes, CUdevice dev)
{
	weir_fn_cuDeviceTotalMem_v2 real = (weir_fn_cuDeviceTotalMem_v2)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(bytes, dev);
	if (r == CUDA_SUCCESS && bytes && weir_ready())
		*bytes = total(*bytes);
	return r;
}

CUresult weir_on_device_total_mem_v1(enum weir_call call, unsigned int *bytes, CUdevice dev)
{
	weir_fn_cuDeviceTotalMem real = (weir_fn_cuDeviceTotalMem)weir_real(call);
	if (!real)
		return weir_missing();
	CUresult r = real(bytes, dev);
	if (r == CUDA_SUCCESS && bytes && weir_ready())
		*bytes = (unsigned int)total(*bytes);
	return r;
}
