/*
 * Device memory against the job's cap.
 *
 * Each process adds to its own slot first and then sums all slots of the job. Of several that add at
 * once, the one whose addition comes last in the order of these sequentially consistent operations sees
 * all others, so what has been admitted never exceeds the cap. A process that finds the sum too high
 * takes its own addition back; as it cannot know whether another's in the same moment will be taken
 * back too, it looks again for up to a millisecond while another is undecided. No lock is involved: a
 * process killed anywhere leaves only its slot, which the agent clears.
 */
#include "weir.h"

#include <sched.h>

#define DECIDE_NS 1000000u

static struct weir_slot *slots(struct weir_header *h)
{
	return (struct weir_slot *)((char *)h + WEIR_SLOTS_OFFSET);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* sum adds up all slots; *pending tells whether a slot other than own is between adding and deciding. */
static uint64_t sum(struct weir_header *h, struct weir_slot *own, uint64_t asked, bool *pending)
{
	uint64_t total = 0;
	*pending = false;
	for (uint32_t i = 0; i < WEIR_SLOT_COUNT; i++) {
		struct weir_slot *s = &slots(h)[i];
		total = plus(total, plus(weir_get(&s->mem_used_bytes), weir_get(&s->mem_context_bytes)));
		if (weir_get(&s->mem_pending_bytes) > (s == own ? asked : 0))
			*pending = true;
	}
	return total;
}

uint64_t weir_cap(void)
{
	return weir_get(&weir_page()->mem_cap_bytes);
}

uint64_t weir_used(void)
{
	bool pending;
	return sum(weir_page(), NULL, 0, &pending);
}

/* weir_reserve counts bytes; false: they do not fit, and nothing was counted. */
bool weir_reserve(uint64_t bytes)
{
	struct weir_header *h = weir_page();
	struct weir_slot *own = weir_slot();
	if (bytes > weir_cap()) /* also keeps the sums below from wrapping */
		return false;
	uint64_t give_up = 0;
	for (;;) {
		bool pending;
		weir_add(&own->mem_pending_bytes, bytes);
		weir_add(&own->mem_used_bytes, bytes);
		bool fits = sum(h, own, bytes, &pending) <= weir_cap();
		if (!fits)
			weir_sub(&own->mem_used_bytes, bytes);
		weir_sub(&own->mem_pending_bytes, bytes);
		if (fits || !pending)
			return fits;
		uint64_t now = weir_now();
		if (!give_up)
			give_up = now + DECIDE_NS;
		if (now >= give_up)
			return false;
		sched_yield();
	}
}

void weir_release(uint64_t bytes)
{
	weir_sub(&weir_slot()->mem_used_bytes, bytes);
}

CUresult weir_deny(void)
{
	weir_add(&weir_page()->denied_allocs, 1);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
