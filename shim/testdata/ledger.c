/*
 * The ledger read by one process while another moves what it has counted from its allocations to its
 * contexts, exactly between two reads of its slot. It prints the least that the reader found.
 */
#include "../src/weir.h"

#undef weir_get
#define weir_get(p) get(p)

static uint64_t get(uint64_t *p);

#include "../src/ledger.c"

#include <stdio.h>

#define MOVED 16

struct weir_process weir;
static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *other;
static uint32_t reads, moves_after;

/* get reads a word; after so many reads of the other's slot, the other process moves. */
static uint64_t get(uint64_t *p)
{
	uint64_t v = __atomic_load_n(p, __ATOMIC_SEQ_CST);
	if (p >= (uint64_t *)other && p < (uint64_t *)(other + 1) && ++reads == moves_after) {
		struct weir_slot *own = weir.slot;
		weir.slot = other;
		weir_release_to_context(MOVED, MOVED);
		weir.slot = own;
	}
	return v;
}

uint64_t weir_now(void)
{
	return 0;
}

int main(void)
{
	uint64_t least = UINT64_MAX;
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = MOVED;
	weir.slot = slots(weir.page);
	other = weir.slot + 1;
	for (moves_after = 1; moves_after <= 3; moves_after++) {
		*other = (struct weir_slot){.mem_used_bytes = MOVED};
		reads = 0;
		uint64_t found = weir_used();
		least = found < least ? found : least;
	}
	printf("%llu\n", (unsigned long long)least);
	return 0;
}
