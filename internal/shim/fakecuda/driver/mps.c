// The process as a client of MPS, after NVIDIA's guide to the Multi-Process Service. A control
// daemon that is there when the process calls cuInit makes it a client, for good. How many
// multiprocessors its contexts may use is fixed by $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE at that
// moment too, within what the daemon says, or, with
// $CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING, when each context is made, within
// that.
#include "internal.h"

#include "../model/mps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 2 }; // multiprocessors that a limit is a multiple of

// multiprocessors is how many a percentage gives: rounded down, but at least the least.
static uint32_t multiprocessors(double percent) {
	uint32_t n = (uint32_t)(percent * FK_SMS / 100 + 1e-9) / GRAIN * GRAIN;
	return n < GRAIN ? GRAIN : n;
}

// limited is the lower of what there is and what the environment says, which counts if it is a
// percentage.
static uint32_t limited(uint32_t most) {
	const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	char *end;
	double percent = text ? strtod(text, &end) : 0;
	if (!text || end == text || *end || !(percent > 0 && percent <= 100))
		return most;
	uint32_t n = multiprocessors(percent);
	return n < most ? n : most;
}

void fk_mps_join(void) {
	char answer[FK_MPS_PACKET];
	double percent;
	const char *each = getenv("CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING");
	fk.width = FK_SMS;
	if (!fk_mps_ask("client", answer) || sscanf(answer, "%u %lf", &fk.server, &percent) != 2)
		return;
	fk.width = limited(multiprocessors(percent));
	fk.per_context = each && !strcmp(each, "1");
	for (uint32_t i = 0; i < fk.count; i++)
		fk.queues[i].device.server = fk.server;
}

uint32_t fk_mps_width(void) { return fk.per_context ? limited(fk.width) : fk.width; }

CUresult fk_mps_affinity(const CUexecAffinityParam *p, int count, uint32_t *width) {
	*width = fk_mps_width();
	if (!p != !count || count < 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < count; i++) {
		uint32_t n = (p[i].param.smCount.val + GRAIN - 1) / GRAIN * GRAIN;
		if (p[i].type != CU_EXEC_AFFINITY_TYPE_SM_COUNT || !fk.server || !n)
			return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
		*width = n < *width ? n : *width;
	}
	return CUDA_SUCCESS;
}

FK_API cuCtxGetExecAffinity(CUexecAffinityParam *p, CUexecAffinityType type) {
	CUcontext c;
	FK_TRY(fk_current(&c));
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	*p = (CUexecAffinityParam){.type = type, .param.smCount.val = c->width};
	return CUDA_SUCCESS;
}

FK_API cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice device) {
	FK_TRY(fk_device_ok(device));
	if (!value || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return CUDA_ERROR_INVALID_VALUE;
	*value = fk.server != 0;
	return CUDA_SUCCESS;
}
