/*
 * The table of sizes against an array, over puts, takes and looks in random order.
 */
#include "../src/weir.h"

#include <stdlib.h>

#include "expect.h"

#define KEYS 5000

static uint64_t sizes[KEYS]; /* 0: not in the table */

static uint64_t key_of(unsigned i)
{
	return UINT64_C(0x200000000000) + (uint64_t)i * 512;
}

int main(void)
{
	uint32_t random = 1;
	unsigned wrong = 0, there = 0;
	for (int n = 0; n < 100000; n++) {
		random = random * 1664525u + 1013904223u; /* Knuth and Lewis */
		unsigned i = (random >> 8) % KEYS;
		uint64_t size = 0;
		if (sizes[i] && random >> 31)
			wrong += !weir_sizes_take(WEIR_KIND_ARRAY, key_of(i), &size, NULL) ||
				size != sizes[i];
		else
			weir_sizes_put(WEIR_KIND_ARRAY, key_of(i), random | 1u, NULL);
		sizes[i] = sizes[i] && random >> 31 ? 0 : random | 1u;
	}
	for (unsigned i = 0; i < KEYS; i++) {
		uint64_t size = 0;
		bool found = weir_sizes_get(WEIR_KIND_ARRAY, key_of(i), &size, NULL);
		wrong += found != (sizes[i] != 0) || size != sizes[i];
		there += sizes[i] != 0;
	}
	size_t keys = 0;
	free(weir_sizes_keys(WEIR_KIND_ARRAY, &keys));
	expect("wrong", wrong, 0);
	expect("keys", keys, there);
	expect("of another kind", weir_sizes_get(WEIR_KIND_MIPMAP, key_of(0), NULL, NULL), false);
	expect("used twice", weir_sizes_count(WEIR_KIND_BLOCK, 1, 1), 1);
	expect("used twice", weir_sizes_count(WEIR_KIND_BLOCK, 1, 1), 2);
	expect("used once", weir_sizes_count(WEIR_KIND_BLOCK, 1, -1), 1);
	expect("used no more", weir_sizes_count(WEIR_KIND_BLOCK, 1, -1), 0);
	expect("known then", weir_sizes_get(WEIR_KIND_BLOCK, 1, NULL, NULL), false);
	int one, two;
	uint64_t size = 0;
	weir_sizes_put(WEIR_KIND_POINTER, 1, 7, &one);
	expect("another's", weir_sizes_take_same(WEIR_KIND_POINTER, 1, &size, &two), false);
	expect("the same", weir_sizes_take_same(WEIR_KIND_POINTER, 1, &size, &one), true);
	expect("its size", size, 7);
	return checked();
}
