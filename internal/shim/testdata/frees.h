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
	uint64_t since = 0;
	do {
		allocate(100);
		grows = 0;
		stuck = true;
		give_back();
		stuck = false;
	} while (weir_freeing_wait(&since) && ++n < 1000);
	expect("frees waited for in half a second", n > 40 && n < 60, true);
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
