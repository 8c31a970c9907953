/*
 * What becomes of frees in stream order: a part of pools.c.
 */

/* A stream that does not get on keeps no other's frees from being seen. */
static void streams_apart(void)
{
	anew();
	stuck = true;
	alone = &here;
	allocate(PORTION);
	give_back();
	allocate_on(beside, only, PORTION);
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, beside);
	expect("freed elsewhere", weir_freeing_elsewhere(known(only), &there), PORTION);
	weir_freeing_look();
	expect("freed on the stream that gets on", weir_freeing_elsewhere(known(only), &here), 0);
	expect("on the other", weir_freeing_elsewhere(known(only), &there), PORTION);

	anew();
	stuck = true;
	alone = &here;
	allocate(PORTION);
	give_back();
	here.life++;
	put_as = (CUevent)&there;
	allocate(PORTION);
	give_back();
	put_as = NULL;
	weir_freeing_look();
	expect("of a stream with the record of one that does not",
		weir_freeing_elsewhere(known(only), &there), PORTION);
}

/* An allocation waits no longer where others free, and are seen to have, all the while. */
static void others_free(void)
{
	anew();
	int n = 0;
	struct weir_patience p = {.given = weir_freeing_given()};
	do {
		allocate(100);
		grows = 0;
		stuck = true;
		give_back();
		stuck = false;
	} while (weir_freeing_wait(&p, 0) && ++n < 1000);
	expect("frees waited for in half a second", n > 40 && n < 60, true);
}

/* waits_for tells whether so much is waited for beside a free that is under way. */
static bool waits_for(const struct weir_freed_to *to, uint64_t lacks)
{
	struct weir_patience p = {.given = weir_freeing_given()};
	stuck = true;
	weir_freeing_called(weir_freeing_begin(to, &here), CUDA_SUCCESS);
	bool yes = weir_freeing_wait(&p, lacks);
	stuck = false;
	weir_freeing_look();
	return yes;
}

/* What all frees together would not give is not waited for, nor looked for again. */
static void hopeless(void)
{
	struct weir_movable m = {.bytes = 4 * PORTION};
	const struct weir_freed_to moves = {.movable = &m}, nothing = {0};
	const struct weir_freed_to pointer = {.pointer = {.size = 4 * PORTION}};
	anew();
	counted = 6 * PORTION;
	expect("under way at first", weir_freeing_bytes(), 0);
	stuck = true;
	weir_freeing_called(weir_freeing_begin(&pointer, &here), CUDA_SUCCESS);
	due = PORTION;
	expect("under way", weir_freeing_bytes(), 5 * PORTION);
	due = 0;
	stuck = false;
	weir_freeing_look();
	expect("under way once the stream has come there", weir_freeing_bytes(), 0);
	expect("waits for a pointer's bytes", waits_for(&pointer, 6 * PORTION), true);
	expect("waits for more", waits_for(&pointer, 6 * PORTION + 1), false);
	hidden = PORTION;
	expect("waits for more, which they hide", waits_for(&pointer, 7 * PORTION), true);
	expect("waits for more than that", waits_for(&pointer, 7 * PORTION + 1), false);
	hidden = 0;
	expect("waits for what can be moved", waits_for(&moves, 6 * PORTION), true);
	expect("waits for more", waits_for(&moves, 6 * PORTION + 1), false);
	due = PORTION;
	expect("waits for what is late besides", waits_for(&moves, 7 * PORTION), true);
	expect("waits for more", waits_for(&moves, 7 * PORTION + 1), false);
	due = 0;
	struct weir_patience p = {.given = weir_freeing_given()};
	expect("waits where nothing is freed", weir_freeing_wait(&p, 0), false);
	weir_freeing_gave();
	expect("looks again where that has just been", weir_freeing_wait(&p, UINT64_MAX), true);
	expect("and waits then", weir_freeing_wait(&p, UINT64_MAX), false);

	weir_freeing_called(weir_freeing_begin(&pointer, &here), CUDA_ERROR_INVALID_VALUE);
	expect("waits for what was not freed", waits_for(&nothing, 3 * PORTION), false);
	stuck = true;
	weir_freeing_called(weir_freeing_begin(&pointer, &here), CUDA_SUCCESS);
	weir_freeing_reset();
	expect("waits for what a parent frees", waits_for(&nothing, 3 * PORTION), false);

	anew();
	grows = 3 * PORTION;
	allocate_from(second, 3 * PORTION);
	grows = 5 * PORTION;
	allocate(5 * PORTION);
	stuck = true;
	give_back();
	trims = 0;
	uint64_t began = ns;
	expect("more than frees would give", allocate_on(beside, only, 6 * PORTION),
		CUDA_ERROR_OUT_OF_MEMORY);
	expect("looks at the clock meanwhile", ns - began <= 2 * tick, true);
	expect("trims of pools", trims, 1);
}

/* What comes with the last look is found, and there is no other after that. */
static void last_look(void)
{
	const struct weir_freed_to pointer = {.pointer = {.size = PORTION}};
	anew();
	struct weir_patience p = {.given = weir_freeing_given()};
	stuck = true;
	weir_freeing_called(weir_freeing_begin(&pointer, &here), CUDA_SUCCESS);
	expect("waits", weir_freeing_wait(&p, 0), true);
	ns += 600000000;
	stuck = false;
	expect("finds what came at last", weir_freeing_wait(&p, 0), true);
	weir_freeing_gave();
	expect("looks on", weir_freeing_wait(&p, 0), false);
}

/* Of what a pool keeps only what is freed and not seen to be leaves it, of which an allocation of
 * its own needs less. */
static void leaving(void)
{
	anew();
	grows = 2 * PORTION;
	allocate(2 * PORTION);
	grows = PORTION;
	allocate(100);
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, AT, NULL);
	expect("leave a pool that only keeps", weir_pools_leaving(), 0);

	anew();
	grows = 4 * PORTION;
	allocate(4 * PORTION);
	give_back();
	expect("leave a pool that keeps all", weir_pools_leaving(), 0);
	stuck = true;
	allocate_from(second, 4 * PORTION);
	expect("leave while all is used", weir_pools_leaving(), 0);
	give_back();
	expect("leave another", weir_pools_leaving(), 4 * PORTION);
	expect("leave", weir_freeing_bytes(), 4 * PORTION);
	later = ns + 200000000;
	grows = 2 * PORTION;
	expect("more than leaves, for a pool that keeps some", allocate(6 * PORTION), CUDA_SUCCESS);

	anew();
	grows = 2 * PORTION;
	allocate(2 * PORTION);
	stuck = true;
	grows = PORTION;
	known(only)->used += 100;
	known(only)->charged += PORTION;
	weir_sizes_put(WEIR_KIND_POOLED, 2 * AT, 100, known(only));
	weir_on_mem_free_async(WEIR_cuMemFreeAsync, 2 * AT, NULL);
	expect("leave one of which some is used", weir_pools_leaving(), PORTION);
}

/* Pools are trimmed when something is given back, and now and then, but not at each look. */
static void trimmed_rarely(void)
{
	anew();
	grows = 5 * PORTION;
	allocate(5 * PORTION);
	stuck = true;
	give_back();
	trims = 0;
	tick = 1000000;
	expect("with a stream that does not get on", allocate_on(beside, only, 5 * PORTION),
		CUDA_ERROR_OUT_OF_MEMORY);
	tick = 10000000;
	expect("trims in half a second", trims > 20 && trims < 60, true);
}

/* What can be moved is given back by who saw the device come there, and else is waited for. */
static void unseen(void)
{
	struct weir_freed_to to = {.movable = (struct weir_movable *)&events};
	anew();
	weir_freeing_called(weir_freeing_begin(&to, &here), CUDA_SUCCESS);
	expect("what was seen", seen, true);
	puts_event = 0;
	weir_freeing_called(weir_freeing_begin(&to, &here), CUDA_SUCCESS);
	expect("what could not be", seen, false);
	puts_event = 1;
	expect("frees under way", weir_freeing_any(), false);
}
