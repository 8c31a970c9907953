// What calls cost beyond what a program asks for (model/knobs.h): time of the calling thread, and
// memory in blocks.
#include "memory.h"

#include <stdlib.h>

// fk_block is a part of the device's memory, of one granule, that small allocations share. It is
// filled once: what is freed in it is free again when nothing in it is left.
struct fk_block {
	CUdevice device;
	CUdeviceptr address;
	uint64_t used;
	uint32_t live;
	struct fk_block *next;
};

static struct fk_block *blocks;

void fk_spend(uint64_t ns) {
	for (uint64_t end = fk_now() + ns; ns && fk_now() < end;)
		;
}

void fk_rest(fk_queue *q, unsigned int context_flags, unsigned int event_flags) {
	uint64_t us = FK_KNOB(&q->device, wake_us);
	if (us && (context_flags & CU_CTX_SCHED_BLOCKING_SYNC || event_flags & CU_EVENT_BLOCKING_SYNC))
		fk_sleep_until(NULL, 0, fk_now() + 1000 * us);
}

uint64_t fk_rounded(CUdevice d, uint64_t bytes) {
	uint64_t granule = FK_KNOB(&fk.queues[d].device, granule);
	uint64_t rest = granule ? bytes % granule : 0;
	return rest && bytes <= UINT64_MAX - granule ? bytes - rest + granule : bytes;
}

// share finds a block with room, or takes one more.
static CUresult share(CUdevice d, uint64_t bytes, fk_hold *h) {
	uint64_t granule = FK_KNOB(&fk.queues[d].device, granule);
	struct fk_block *b = blocks;
	while (b && (b->device != d || granule - b->used < bytes))
		b = b->next;
	if (!b) {
		FK_TRY(fk_charge(d, granule));
		b = calloc(1, sizeof *b);
		if (!b) {
			fk_refund(d, granule);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		*b = (struct fk_block){
			.device = d, .address = fk_place(granule, granule), .next = blocks};
		blocks = b;
	}
	h->block = b, h->address = b->address + b->used;
	b->used += bytes, b->live++;
	return CUDA_SUCCESS;
}

CUresult fk_hold_memory(CUdevice d, uint64_t bytes, fk_hold *h) {
	enum { ALIGNMENT = 512 };
	uint64_t granule = FK_KNOB(&fk.queues[d].device, granule);
	*h = (fk_hold){0};
	if (granule > ALIGNMENT && bytes <= granule - ALIGNMENT)
		return share(d, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, h);
	FK_TRY(fk_charge(d, fk_rounded(d, bytes)));
	h->bytes = fk_rounded(d, bytes);
	h->address = fk_place(h->bytes, granule ? granule : ALIGNMENT);
	return CUDA_SUCCESS;
}

void fk_drop_memory(CUdevice d, fk_hold *h) {
	struct fk_block *b = h->block;
	if (h->bytes)
		fk_refund(d, h->bytes);
	*h = (fk_hold){0};
	if (!b || --b->live)
		return;
	for (struct fk_block **p = &blocks; *p; p = &(*p)->next)
		if (*p == b) {
			*p = b->next;
			break;
		}
	fk_refund(d, FK_KNOB(&fk.queues[d].device, granule));
	free(b);
}
