/*
 * The process as a client of MPS, NVIDIA's Multi-Process Service.
 *
 * Under a policy that lets programs run beside each other the page says what percentage of the
 * device's threads a process may use. The driver takes it from the environment when the process
 * becomes a client, which is at cuInit, and not again (the guide to MPS, "Client Process Level").
 * weir exec sets it; what a launcher or the program has made of it since is put right here, and so
 * is what the agent has changed since. A process that finds no control daemon runs without MPS, as
 * the driver has it: in turns with all others, on the whole device. It has no share then, and is
 * refused.
 */
#include "weir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERCENTAGE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define MPS_ENABLED 133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */

static bool told;

/* begin sets the percentage for a process that is not a client yet, and returns it; 0: it need not
 * be one. Nothing is written to the environment, which other threads may read, if it is there. */
static uint32_t begin(void)
{
	uint32_t percent = weir_get(&weir_page()->thread_percent);
	const char *have = getenv(PERCENTAGE);
	char want[16];
	if (!percent || percent > 100)
		return 0;
	snprintf(want, sizeof want, "%u", percent);
	if (!have || strcmp(have, want) != 0)
		setenv(PERCENTAGE, want, 1);
	return percent;
}

/* client tells whether contexts on the job's device are shared by MPS; -1: the driver, an older
 * one, cannot tell. */
static int client(void)
{
	weir_fn_cuDeviceGetCount count = WEIR_DRIVER(cuDeviceGetCount);
	weir_fn_cuDeviceGetAttribute get = WEIR_DRIVER(cuDeviceGetAttribute);
	int n = 0, enabled;
	if (!count || !get || count(&n) != CUDA_SUCCESS)
		return -1;
	for (CUdevice dev = 0; dev < n; dev++)
		if (weir_device_is_ours(dev))
			return get(&enabled, MPS_ENABLED, dev) == CUDA_SUCCESS ? enabled != 0 : -1;
	return -1;
}

/* weir_init initialises the driver for a process of the job. */
CUresult weir_init(weir_fn_cuInit real, unsigned int flags)
{
	if (weir_get(&weir.begun))
		return real(flags);
	uint32_t percent = begin();
	CUresult r = real(flags);
	if (r != CUDA_SUCCESS)
		return r;
	weir_at_exit(); /* after the driver's own */
	int is = client();
	bool outside = percent && is == 0;
	weir_set(&weir.outside, outside);
	if (outside) {
		if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
			weir_say("no share of the GPU for this program: its policy needs MPS, and no control "
				"daemon answers it: leave CUDA_MPS_PIPE_DIRECTORY as weir exec sets it, and see "
				"whether nvidia-cuda-mps-control runs");
		return CUDA_ERROR_SYSTEM_NOT_READY;
	}
	weir_set(&weir.threads, percent ? percent : is == 1 ? 100 : 0);
	weir_set(&weir_slot()->thread_percent, weir.threads);
	weir_set(&weir.begun, true);
	return r;
}
