/*
 * The pace of launches, and what is measured and learned, in virtual time.
 */
#include "virtual.h"

/* ---- room.c: the pace of launches */

/* paced launches n kernels of so long, and gives the time from the first to the end of the last. */
static uint64_t paced(uint32_t n, uint64_t ns)
{
	uint64_t from = now_ns;
	next_look = now_ns;
	dry = most_flying = 0;
	for (uint32_t i = 0; i < n; i++)
		launch(A, 1, ns);
	uint64_t took = now_ns + left(A) - from;
	ends(A);
	return took;
}

static void known(void)
{
	begins(2 * MS);
	teach(1, 100 * US);
	uint64_t took = paced(400, 100 * US);
	within("in flight at most", most_flying, 1500 * US, 2 * MS + 100 * US);
	within("time", took, 40 * MS, 40 * MS + 400 * US);
	is("lost", dry, 0);
	within("charged", slot->device_ns_total, 40 * MS - 400 * US, 40 * MS + 400 * US);
	is("launches", slot->launches, 400);
	nothing_left();
}

/* One that takes nearly the bound goes as soon as it fits, or with an eighth of that left. */
static void nearly_all(void)
{
	begins(320 * US);
	teach(1, 300 * US);
	launch(A, 1, 300 * US);
	uint64_t from = now_ns;
	launch(A, 1, 300 * US);
	within("the next launch waits (us)", (now_ns - from) / US, 260, 268);
}

static void of_many(void)
{
	begins(2 * MS);
	teach(1, 5 * US);
	uint64_t took = paced(6000, 5 * US);
	within("in flight at most", most_flying, 1500 * US, 2 * MS + 250 * US);
	within("time", took, 30 * MS, 30 * MS + 600 * US);
	nothing_left();
}

/* slowly launches n short kernels with pauses, and gives how many events were put. */
static uint32_t slowly(CUstream s, uint32_t n)
{
	uint32_t put = recorded;
	for (uint32_t i = 0; i < n; i++) {
		lasts(9 * US);
		launch(s, 1, 200);
	}
	return recorded - put;
}

/* Where the device is idle when a launch comes, its marks are four times as far apart, and no
 * further: what is measured on an idle device has the program's own time in it. */
static void host_bound(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	slowly(A, 100);
	uint32_t asked = queries;
	within("events, with one in 16 batches timed by its own", slowly(A, 4000), 40, 56);
	within("questions", queries - asked, 40, 56);
	within("open at most (us)", weir_word_time(record_of(A)->word) * WEIR_UNIT_NS / US, 1, 1000);
	ends(A);
	/* another stream has shorter ones, and counts what is open here */
	slowly(A, 60);
	is("A's is longer", weir.longer == record_of(A), true);
	within("events of B", slowly(B, 400), 13, 26);
	is("A's still is", weir.longer == record_of(A) && !record_of(B)->longer, true);
	next_look = now_ns; /* from now on the watcher looks */
	ends(A);
	ends(B);
	is("no longer", weir.longer == NULL, true);
	nothing_left();
}

/* The watcher marks a batch to which the program adds hardly anything from one look to the next,
 * and leaves alone for some looks one to which it adds much. */
static void left_alone(void)
{
	begins(2 * MS);
	teach(1, US);
	launch(A, 1, US);
	uint32_t put = recorded;
	for (int i = 0; i < 8; i++) {
		watcher_looks();
		is("goes on", recorded - put, 0);
		for (int k = 0; k < 8; k++)
			launch(A, 1, US);
	}
	watcher_looks();
	is("for long", recorded - put, 1);
	launch(A, 1, US);
	watcher_looks();
	is("begun", recorded - put, 1);
	for (int k = 0; k < 7; k++)
		launch(A, 1, US);
	watcher_looks();
	is("left open", recorded - put, 2);
	ends(A);
	watcher_looks();
	nothing_left();
}

/* begun_longer has a stream's open batch be longer than an eighth of the bound. */
static void begun_longer(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	slowly(A, 100);
	for (int i = 0; i < 400 && !record_of(A)->longer; i++)
		slowly(A, 1);
	is("longer", weir.longer == record_of(A), true);
}

/* What is open and longer counts for other streams, as what is in flight does. */
static void longer_counts(void)
{
	begun_longer();
	while (weir_word_time(record_of(A)->word) * WEIR_UNIT_NS < 900 * US)
		slowly(A, 1);
	teach(2, 100 * US);
	next_look = NEVER; /* nobody marks it */
	uint64_t from = now_ns;
	for (int i = 0; i < 11; i++)
		launch(B, 2, 100 * US);
	within("as much as there is room for (us)", (now_ns - from) / US, 11, 60);
	for (int i = 0; i < 20; i++)
		launch(B, 2, 100 * US);
	within("the others wait (us)", (now_ns - from) / US, 1900, 2150);
}

/* What becomes part of a capture gets no mark, and another stream may have the longer batch. */
static void longer_dropped(void)
{
	begun_longer();
	streams[0].captured = true;
	weir_set(&header->gate, header->gate + 1);
	watcher_looks();
	is("open", weir_word_count(record_of(A)->word), 0);
	is("longer", record_of(A)->longer || weir.longer, 0);
}

/* With marks of another stream in flight none is longer. */
static void longer_alone(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	teach(2, 700 * US);
	slowly(A, 100);
	while (record_of(A)->longer)
		slowly(A, 1);
	launch(B, 2, 700 * US);
	for (int i = 0; i < 60; i++) {
		slowly(A, 1);
		is("longer", record_of(A)->longer, 0);
	}
	ends(B);
	watcher_looks();
	for (int i = 0; i < 60 && !record_of(A)->longer; i++)
		slowly(A, 1);
	is("when that is over", weir.longer == record_of(A), true);
	ends(A);
}

/* As soon as the device does not keep up, batches end at an eighth of the bound again. */
static void keeps_up_no_more(void)
{
	begun_longer();
	most_flying = 0;
	uint32_t put = recorded;
	for (int i = 0; i < 1000; i++)
		launch(A, 1, 10 * US);
	is("longer", record_of(A)->longer, 0);
	within("in flight at most (us)", most_flying / US, 1000, 2250);
	within("events", recorded - put, 1000 / 24, 1000 / 18);
	next_look = now_ns;
	ends(A);
	nothing_left();
}

/* It ends at a closed gate, as any: the watcher marks it. */
static void longer_ends(void)
{
	begun_longer();
	weir_set(&header->gate, header->gate + 1);
	watcher_looks();
	is("longer", record_of(A)->longer || weir.longer, 0);
	ends(A);
	nothing_left();
}

/* Kernels that are longer than the bound follow when the device is about to run dry. Of each that
 * ends just after the next was let in a little less is predicted, up to an eighth. */
static void of_long_ones(void)
{
	begins(300 * US);
	teach(1, 5 * MS);
	paced(2, 5 * MS);
	within("in flight at most (us)", most_flying / US, 5030, 5038);
	uint64_t took = paced(20, 5 * MS);
	within("and later (us)", most_flying / US, 5030, 6700);
	within("lost (us)", dry / US, 0, 1010); /* between the two runs */
	within("time (us)", took / US, 100000, 100500);
	nothing_left();
}

/* A prediction that is far too high costs the device little: marks are looked at from when they can
 * have come. */
static void of_shorter_ones(void)
{
	begins(300 * US);
	teach(1, 5 * MS);
	function(1)->least = 100 * US / WEIR_UNIT_NS;
	launch(A, 1, 150 * US);
	uint64_t from = now_ns;
	launch(A, 1, 100 * US);
	within("seen after (us)", (now_ns - from) / US, 150, 175);
	ends(A);
	teach(2, 50 * MS);
	launch(B, 2, 30 * MS);
	from = now_ns;
	launch(B, 2, 100 * US);
	within("rarely (us)", (now_ns - from) / US, 29700, 32100);
}

/* Of launches whose time could be anything, one is in flight, on whatever stream. */
static void unknown(void)
{
	begins(300 * US);
	next_look = now_ns;
	for (uintptr_t f = 1; f <= 40; f++) {
		CUstream s = f % 3 ? A : B;
		launch(s, f, MS);
		is("uncertain", weir.uncertain, 1);
	}
	is("in flight at most", most_flying, MS);
	within("time", launch_at[40] - launch_at[1], 39 * MS, 40 * MS);
	ends(A);
	ends(B);
	is("charged", slot->device_ns_total / (100 * US), 400);
	within("the longest of the first launches (us)", weir.unknown_ns / US, 990, 1001);
	for (uintptr_t f = 101; f <= 140; f++)
		launch(A, f, 30 * US);
	within("short ones follow soon (us)", (launch_at[80] - launch_at[41]) / US, 39 * 30, 39 * 33);
	ends(A);
	nothing_left();
}

/* None waits for longer than a second to be the only one of unknown time: the mark of another may
 * be long in coming, as where there is no memory for its event. */
static void alone_at_last(void)
{
	begins(2 * MS);
	teach(1, 900 * MS);
	next_look = now_ns;
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	launch(B, 2, 10 * US);
	is("uncertain, without a mark", weir.uncertain, 1);
	record_gives = CUDA_SUCCESS;
	next_look = NEVER; /* nobody marks it */
	launch_behind(A, 1, 900 * MS, 1000);
	uint64_t from = now_ns;
	launch(C, 3, 10 * US);
	within("alone no longer (ms)", (now_ns - from) / MS, 1000, 1020);
}

/* So are launches of a function that take sometimes hundreds of times as long. */
static void now_and_then(void)
{
	begins(300 * US);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), i % 8 ? 50 * US : 10 * MS);
	next_look = now_ns;
	for (int i = 0; i < 4; i++)
		launch(A, 1, 10 * MS);
	is("in flight at most (us)", most_flying / US, 10000);
	ends(A);
	nothing_left();
}

/* Between such launches, if they are short, the device has nothing to do for as long as a look
 * takes. */
static void one_by_one(void)
{
	begins(2 * MS);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), i % 8 ? 50 * US : 200 * MS);
	next_look = now_ns;
	dry = 0;
	for (int i = 0; i < 64; i++)
		launch(A, 1, (200 + (uint64_t)i * 5) * US);
	is("in flight at most (us)", most_flying / US, 515);
	within("lost to each (ns)", dry / 63, 0, 4500);
	ends(A);
	nothing_left();
}

/* A launch that waited until the one before was over is measured from its end: the device, which
 * has nothing to do, waits for no event of its own. */
static void from_the_mark(void)
{
	begins(2 * MS);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), i % 8 ? 50 * US : 200 * MS);
	launch(A, 1, 200 * US);
	uint32_t put = recorded;
	for (int i = 0; i < 20; i++)
		launch(A, 1, 200 * US);
	is("events", recorded - put, 20);
	ends(A);
	watcher_looks();
	within("charged (us)", slot->device_ns_total / US, 21 * 200, 21 * 206);
	put = recorded;
	launch(A, 1, 200 * US);
	is("after a pause", recorded - put, 2);
	ends(A);
	watcher_looks();
	nothing_left();
}

/* If it looks late, as others have had the processor, the device has done nothing for some time,
 * which is no part of the launch's. */
static void looked_late(void)
{
	begins(2 * MS);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), i % 8 ? 50 * US : 200 * MS);
	launch(A, 1, 200 * US);
	others_ns = 3 * MS;
	for (int i = 0; i < 20; i++)
		launch(A, 1, 200 * US);
	ends(A);
	watcher_looks();
	within("charged (us)", slot->device_ns_total / US, 21 * 200, 21 * 206);
	nothing_left();
}

/* While a thread that waits for room looks at a stream the watcher does not. */
static void looked_at(void)
{
	begins(2 * MS);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), i % 8 ? 50 * US : 200 * MS);
	launch(A, 1, 300 * US);
	record_of(A)->looked_ns = now_ns;
	uint32_t before = queries;
	watcher_looks();
	is("looks", queries - before, 0);
	lasts(60 * US);
	watcher_looks();
	is("when nobody else does", queries - before, 1);
	record_of(A)->looked_ns = now_ns;
	header->gate++;
	watcher_looks();
	is("with the gate closed", queries - before, 2);
	header->gate++;
	ends(A);
	watcher_looks();
	nothing_left();
}

/* A graph that is destroyed is forgotten, with what it has in flight: another may have its place.
 */
static void graphs_anew(void)
{
	begins(2 * MS);
	struct weir_function *f = weir_function_of(KEY(1), 0);
	for (int i = 0; i < 4; i++)
		weir_function_measured(f, 40 * MS);
	struct weir_ticket t;
	is("enters", weir_enter(&t, KEY(1), 0, A, 0), true);
	device_takes(A, 40 * MS, 0);
	weir_leave(&t, CUDA_SUCCESS);
	weir_function_gone(KEY(1));
	is("samples", f->samples, 0);
	is("a first guess", f->guess, WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS);
	lasts(41 * MS);
	watcher_looks();
	is("what was in flight is over", open_ns(), 0);
	is("and was not learned", f->samples, 0);
	within("charged (ms)", slot->device_ns_total / MS, 40, 41);
	uint32_t firsts = weir.firsts;
	is("enters", weir_enter(&t, KEY(1), 0, A, 0), true);
	device_takes(A, 3 * MS, 0);
	weir_leave(&t, CUDA_SUCCESS);
	weir_function_gone(KEY(1));
	lasts(4 * MS);
	watcher_looks();
	is("a first one counts as such", weir.firsts, firsts + 1);
	within("and what it took (us)", weir.unknown_ns / US, 2990, 3010);
	for (uint32_t i = 1; i <= 2; i++) {
		is("enters", weir_enter(&t, KEY(1), 0, A, 0), true);
		device_takes(A, 3 * MS, 0);
		weir_leave(&t, CUDA_SUCCESS);
		lasts(4 * MS);
		watcher_looks();
		is("the one that is there now is learned", f->samples, i);
	}
	weir_function_gone(KEY(7));
	is("what was never launched", weir_function_of(KEY(7), 0)->age, 0);
	nothing_left();
}

/* So is a kernel whose module is unloaded, whatever it was launched at, and all of a context. */
static void kernels_anew(void)
{
	begins(2 * MS);
	struct weir_function *small = weir_function_of(KEY(1), 1),
						 *large = weir_function_of(KEY(1), UINT64_C(1) << 63), *other = function(2);
	for (int i = 0; i < 4; i++) {
		weir_function_measured(small, 10 * US);
		weir_function_measured(large, 40 * MS);
		weir_function_measured(other, 30 * US);
	}
	launch(A, 1, 10 * US);
	weir_kernel_gone(KEY(1));
	ends(A);
	watcher_looks();
	is("small", weir_function_of(KEY(1), 1)->samples, 0);
	is("large", weir_function_of(KEY(1), UINT64_C(1) << 63)->samples, 0);
	is("another's stays", other->samples, WEIR_SAMPLES);
	weir_functions_gone();
	is("all", other->samples, 0);
	is("a first guess", other->guess, WEIR_FIRST_GUESS_NS / WEIR_UNIT_NS);
	nothing_left();
}

/* However many come and go, there is a record for the next one, and those that stay are found. */
static void many_anew(void)
{
	enum { STAY = 1 << 20, MANY = 1000000 };
	begins(2 * MS);
	for (uintptr_t i = 0; i < 4096; i++)
		weir_function_of(KEY(STAY + i), 1)->least = (uint32_t)i;
	for (uintptr_t i = 1; i <= MANY; i++) {
		weir_function_of(KEY(3 * i % STAY), 0);
		weir_function_gone(KEY(3 * i % STAY));
	}
	is("one of its own", weir_function_of(KEY(1), 0) == weir_function_of(KEY(2), 0), false);
	is("that is found again", weir_function_of(KEY(1), 0) == weir_function_of(KEY(1), 0), true);
	uint32_t found = 0;
	for (uintptr_t i = 0; i < 4096; i++)
		found += weir_function_of(KEY(STAY + i), 1)->least == i;
	is("found", found, 4096);
}

/* One long launch does not have the thread sleep through the short ones that follow. */
static void after_a_long_one(void)
{
	begins(2 * MS);
	for (int i = 0; i < 256; i++)
		weir_function_measured(function(1), 30 * US);
	weir_function_measured(function(1), 50 * MS);
	within("at least (us)", (uint64_t)function(1)->least * WEIR_UNIT_NS / US, 30, 31);
}

/* A stream has so many marks: a launch that would need one more waits, though all are of short
 * ones. */
static void of_marks(void)
{
	begins(800 * MS);
	teach(1, 5 * US);
	struct weir_stream *r = record_of(A);
	launch_behind(A, 1, 5 * US, 100);
	for (int i = 0; i < 61; i++) {
		watcher_looks();
		watcher_looks();
		launch(A, 1, 5 * US);
	}
	watcher_looks();
	watcher_looks();
	is("marks", r->head - r->tail, WEIR_MARKS - 2);
	uint64_t from = now_ns;
	launch(A, 1, 5 * US);
	within("the next launch waits (us)", (now_ns - from) / US, 4000, 5000);
	is("until that stalls", r->aside, true);
}

/* ---- room.c: work that waits */

/* behind has a stream wait until so many more launches are made, which wait for that, and gives the
 * time that this takes. */
static uint64_t behind(uint32_t n, uintptr_t f, uint64_t ns)
{
	uint64_t from = now_ns;
	launch_behind(A, f, ns, launches + 1 + n);
	for (uint32_t i = 0; i < n; i++)
		launch(A, f, ns);
	uint64_t took = now_ns - from;
	ends(A);
	return took;
}

/* What is known joins in as much predicted time as the stream has stalled, and is let through at
 * once the next time. */
static void waits(void)
{
	begins(300 * US);
	teach(1, 50 * US);
	next_look = now_ns;
	uint64_t took = behind(400, 1, 50 * US);
	/* 4 ms and half of 37 us until it stalls, and 50 us for each that joins */
	within("the first time", took, 22 * MS, 26 * MS);
	within("let in then", weir.needed, 394, 399);
	/* the first six are in flight before it stalls */
	within("the 100th joins (us)", (launch_at[107] - launch_at[1]) / US, 8900, 10200);
	uint32_t needed = weir.needed;
	within("the next time", behind(400, 1, 50 * US), 500 * US, 6 * MS);
	within("let in then", weir.needed, needed, needed + 2);
	is("stalls", slot->stalls, 2);
	/* one more is needed than was known: it comes as if nothing were */
	uint64_t more = behind(440, 1, 50 * US);
	within("40 more", more, 19 * MS, 26 * MS);
	within("let in then", weir.needed, needed + 38, needed + 42);
	nothing_left();
	within("predicted", (uint64_t)function(1)->guess * WEIR_UNIT_NS, 10 * US, 51 * US);
}

/* A kernel that is just long, and did not end because of what was let in, halves what is let in. */
static void waits_for_nothing(void)
{
	begins(300 * US);
	teach(1, 50 * US);
	next_look = now_ns;
	behind(100, 1, 50 * US);
	uint32_t needed = weir.needed;
	within("let in", needed, 90, 99);
	launch(A, 1, 100 * MS);
	for (int i = 0; i < 20; i++)
		launch(A, 1, 50 * US);
	ends(A);
	is("then", weir.needed, needed / 2);
	nothing_left();
}

/* What is unknown joins by one, two after 80 ms, four after 160 ms. */
static void unknown_waits(void)
{
	static const uint64_t ms[] = {20, 100, 180, 180, 260, 260, 260, 260, 340};
	begins(300 * US);
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, 10);
	uint64_t from = now_ns;
	for (uint32_t i = 0; i < 9; i++) {
		launch(A, 2 + i, 10 * US);
		within("joins after (us)", (launch_at[2 + i] - from) / US, 1000 * ms[i] - 1200,
			1000 * ms[i] + 3000);
	}
	within("stalled", slot->stalled, 1, 1);
	is("uncertain, with one aside", weir.uncertain, 0);
	ends(A);
	is("let in", weir.needed, 10);
	nothing_left();
}

/* What is needed is let in at once, and no more. */
static void needed_unknown(void)
{
	begins(300 * US);
	weir.needed = 3;
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, 5);
	uint64_t from = now_ns;
	for (uint32_t i = 0; i < 4; i++)
		launch(A, 2 + i, 10 * US);
	within("three (us)", (launch_at[4] - from) / US, 16500, 18000);
	within("the fourth (us)", (launch_at[5] - from) / US, 176500, 180000);
}

static void unlocks_a(void) { pthread_mutex_unlock(&record_of(A)->lock); }

/* Where another thread has a stream, as who looks at it has, a launch of unknown time waits to see
 * what is there, and so does one that may not fit; one that fits in any case does not. */
static void unseen(void)
{
	begins(300 * US);
	launch(A, 1, 10 * MS);
	pthread_mutex_lock(&record_of(A)->lock);
	agent = unlocks_a;
	agent_at = now_ns + MS;
	uint64_t from = now_ns;
	launch(B, 2, 10 * US);
	within("behind the other (us)", (now_ns - from) / US, 9900, 10300);
	ends(B);
	next_look = now_ns;
	ends(B);
	teach(3, 250 * US);
	teach(4, 10 * US);
	next_look = NEVER;
	launch(A, 3, 250 * US);
	pthread_mutex_lock(&record_of(A)->lock);
	from = now_ns;
	launch(B, 4, 10 * US);
	within("what fits (us)", (now_ns - from) / US, 1, 5);
	agent_at = now_ns + 100 * US;
	launch(B, 3, 250 * US);
	within("what does not (us)", (now_ns - from) / US, 180, 280);
}

static struct weir_ticket amid;

static void launches_c(void)
{
	device_takes(C, 5 * MS, 0);
	weir_leave(&amid, CUDA_SUCCESS);
}

/* So does one beside another thread that is amid its launch, of which there is no mark yet. */
static void unmarked(void)
{
	begins(300 * US);
	next_look = now_ns;
	is("enters", weir_enter(&amid, KEY(1), 1, C, 0), true);
	agent = launches_c;
	agent_at = now_ns + 3 * MS;
	uint64_t from = now_ns;
	launch(B, 2, 10 * US);
	within("behind it (us)", (now_ns - from) / US, 7900, 8300);
	ends(B);
	nothing_left();
}

/* That may be for long, and no launch waits for it, but for the first. */
static void never_seen(void)
{
	begins(300 * US);
	launch(A, 1, 2000 * MS);
	pthread_mutex_lock(&record_of(A)->lock);
	uint64_t from = now_ns;
	launch(B, 2, 10 * US);
	within("the first (us)", (now_ns - from) / US, 16000, 16200);
	ends(B);
	weir_reap(record_of(B));
	from = now_ns;
	launch(B, 3, 10 * US);
	within("the next (us)", (now_ns - from) / US, 1, 20);
	/* and it counts anew once something was seen */
	unlocks_a();
	lasts(2100 * MS);
	weir_reap(record_of(A));
	launch(B, 4, 10 * US);
	ends(B);
	weir_reap(record_of(B));
	launch(A, 5, 2000 * MS);
	pthread_mutex_lock(&record_of(A)->lock);
	from = now_ns;
	launch(B, 6, 10 * US);
	within("at another time (us)", (now_ns - from) / US, 16000, 16200);
}

/* Nothing is set aside before what another thread has is seen, which may take longer; but after
 * 4 ms, as that may be for long. */
static void unseen_stalls(void)
{
	begins(2 * MS);
	teach(1, MS);
	launch_behind(B, 1, 10 * US, NEVER >> 40);
	weir.uncertain = 0;
	launch_behind(A, 2, 10 * US, NEVER >> 40);
	lasts(10 * MS);
	is("A may take longer", weir_set_aside(NULL, now_ns), false);
	pthread_mutex_lock(&record_of(A)->lock);
	lasts(MS);
	is("A may, which is not seen", weir_set_aside(NULL, now_ns), false);
	lasts(3 * MS);
	is("for a short time", weir_set_aside(NULL, now_ns), false);
	lasts(1500 * US);
	is("for long", weir_set_aside(NULL, now_ns), true);
	is("B", record_of(B)->aside, true);
	unlocks_a();
	lasts(MS);
	weir_set_aside(NULL, now_ns);
	pthread_mutex_lock(&record_of(A)->lock);
	lasts(MS);
	record_of(B)->aside = false;
	is("at another time", weir_set_aside(NULL, now_ns), false);
}

/* A launch that gets no mark for now is waited for by the first alone, until it is over: not by
 * those after it, on whatever stream. */
static void unmarked_for_long(void)
{
	begins(300 * US);
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	launch(C, 1, 10 * US);
	record_gives = CUDA_SUCCESS;
	is("of unknown time", weir.uncertain, 1);
	uint64_t from = now_ns;
	launch(B, 2, 10 * US);
	within("the first (us)", (now_ns - from) / US, 16000, 16200);
	from = now_ns;
	for (uint32_t i = 0; i < 20; i++)
		launch(B, 3 + i, 10 * US);
	ends(B);
	weir_reap(record_of(B));
	launch(A, 30, 10 * US);
	within("21 more (us)", (now_ns - from) / US, 1000, 1400);
	ends(A);
	weir_reap(record_of(A));
	weir.overlooked++; /* one more, */
	weir.uncertain++;
	weir_certain(1); /* that is over */
	is("still not waited for", weir.overlooked, 1);
	pthread_mutex_lock(&record_of(C)->lock);
	is("marked", weir_close_batch(record_of(C), false), true);
	pthread_mutex_unlock(&record_of(C)->lock);
	ends(C);
	weir_reap(record_of(C));
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	launch(C, 31, 10 * US);
	record_gives = CUDA_SUCCESS;
	from = now_ns;
	launch(B, 32, 10 * US);
	within("beside another (us)", (now_ns - from) / US, 16000, 16200);
}

/* So it is with a stream that another thread has for long, for launches of known time. */
static void had_for_long(void)
{
	begins(300 * US);
	teach(1, 250 * US);
	for (uint32_t turn = 0; turn < 2; turn++) {
		launch(A, 1, 250 * US);
		pthread_mutex_lock(&record_of(A)->lock);
		uint64_t from = now_ns;
		launch(B, 1, 250 * US);
		within("the first (us)", (now_ns - from) / US, 16000, 16200);
		from = now_ns;
		for (uint32_t i = 0; i < 20; i++)
			launch(B, 1, 250 * US);
		within("20 more (us)", (now_ns - from) / US, 4000, 5500);
		unlocks_a();
		ends(A);
		ends(B);
		weir_reap(record_of(A));
		weir_reap(record_of(B));
	}
}

static void locks_a(void) { pthread_mutex_lock(&record_of(A)->lock); }

/* Once that was seen, it is waited for anew. */
static void had_again(void)
{
	begins(300 * US);
	teach(1, 250 * US);
	teach(2, 100 * MS);
	launch(A, 2, 100 * MS);
	locks_a();
	launch(B, 1, 250 * US);
	ends(B);
	weir_reap(record_of(B));
	unlocks_a();
	agent = locks_a;
	agent_at = now_ns + MS;
	uint64_t from = now_ns;
	launch(B, 1, 250 * US);
	within("which is seen at first (us)", (now_ns - from) / US, 16500, 19500);
}

/* Launches of unknown time on streams of their own, behind one that stalls, are one, and twice as
 * many after each 80 ms, whether or not they were set aside meanwhile. */
static void strangers(void)
{
	static const uint64_t ms[] = {0, 20, 100, 180, 180, 260, 260, 260};
	begins(300 * US);
	next_look = now_ns;
	uint64_t from = now_ns;
	for (uint32_t i = 0; i < 8; i++) {
		launch_behind(&streams[i], 1 + i, 10 * US, NEVER >> 40);
		within("joins after (us)", (launch_at[1 + i] - from) / US, 1000 * ms[i],
			1000 * ms[i] + 3500);
	}
}

/* one_for_each has one let in for each that the device comes to, where it gets on. */
static void one_for_each(void)
{
	uint64_t from = now_ns;
	launch_behind(A, 1, 10 * US, NEVER >> 40);
	launch(B, 2, 60 * MS);
	for (uint32_t i = 2; i < 8; i++) {
		uint64_t before = now_ns;
		launch(&streams[i], 1 + i, 60 * MS);
		within("behind the one before (us)", (now_ns - before) / US, 59000, 61500);
	}
	within("all (us)", (now_ns - from) / US, 380000, 390000);
}

static void strangers_that_end(void)
{
	begins(300 * US);
	next_look = now_ns;
	one_for_each();
}

/* Who waits sees that by himself, too. */
static void strangers_unwatched(void)
{
	begins(300 * US);
	one_for_each();
}

/* What is let in on other streams doubles after three times what first launches take, between 80 ms
 * and 240 ms. */
static void doubles(void)
{
	weir.stuck_since = now_ns - 500 * MS;
	is("nothing known", weir_doubled(now_ns), 6);
	weir.unknown_ns = 40 * MS;
	is("40 ms", weir_doubled(now_ns), 4);
	weir.unknown_ns = 400 * MS;
	is("400 ms", weir_doubled(now_ns), 2);
	weir.unknown_ns = 10 * MS;
	weir.waited_ns = 40 * MS;
	is("40 ms of what waited", weir_doubled(now_ns), 4);
	weir.waited_ns = 5 * MS;
	is("10 ms", weir_doubled(now_ns), 6);
}

/* A first launch that seems to have waited for what was let in may have been as long. */
static void first_that_waited(void)
{
	begins(300 * US);
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, 2);
	launch(B, 2, 10 * US);
	ends(A);
	is("needed", weir.needed, 1);
	within("it counts for half (us)", weir.waited_ns / US, 9900, 10500);
	weir.waited_ns = 30 * MS;
	launch_behind(A, 3, 10 * US, 4);
	launch(B, 4, 10 * US);
	ends(A);
	within("with others that waited longer (us)", weir.waited_ns / US, 14900, 15000);
	nothing_left();
}

/* A launch that was waited for and came late by any time has others stall no later, and what is let
 * in grow not much more slowly. */
static void waited_for_the_host(void)
{
	begins(300 * US);
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, 2);
	lasts(1000 * MS); /* the host compiles */
	launch(B, 2, 10 * US);
	ends(A);
	ends(B);
	is("it counts for (us)", weir.waited_ns / US, 40000);
	within("how long others take (us)", weir.unknown_ns / US, 0, 10);
	for (uint32_t i = 0; i < 8; i++) {
		uint64_t from = now_ns;
		launch_behind(A, 10 + 2 * i, 10 * US, launches + 2);
		launch(B, 11 + 2 * i, 10 * US);
		within("its peer is let in after (us)", (now_ns - from) / US, 16000, 18000);
		ends(A);
		ends(B);
		lasts(MS);
	}
	within("and that is forgotten (us)", weir.waited_ns / US, 0, 10000);
	nothing_left();
}

/* Strangers hold up no launch on a stream that is aside, nor any where none is. */
static void strangers_elsewhere(void)
{
	begins(300 * US);
	next_look = now_ns;
	record_gives = CUDA_ERROR_INVALID_VALUE;
	launch(C, 9, 10 * US); /* gets no mark */
	record_gives = CUDA_SUCCESS;
	uint64_t from = now_ns;
	launch_behind(A, 1, 10 * US, NEVER >> 40);
	within("where no stream is aside (us)", (now_ns - from) / US, 1, 20);
	launch_behind(B, 2, 10 * US, NEVER >> 40);
	lasts(25 * MS);
	is("B stalls", weir_set_aside(NULL, now_ns), true);
	from = now_ns;
	launch(A, 3, 10 * US);
	within("where that is aside (us)", (now_ns - from) / US, 1, 20);
}

/* What a stream may take that is aside has no other wait for it. */
static void late_aside(void)
{
	begins(2 * MS);
	teach(2, MS);
	weir.unknown_ns = 1000 * MS;
	launch_behind(A, 1, 10 * US, NEVER >> 40);
	lasts(260 * MS);
	is("the first", weir_set_aside(NULL, now_ns), true);
	launch_behind(B, 2, 10 * US, NEVER >> 40);
	lasts(7 * MS);
	is("the second", weir_set_aside(NULL, now_ns), true);
	is("aside", weir.aside, 2);
	weir_set(&record_of(B)->progress_ns, now_ns);
	is("stalls as long as it is", weir_stalls(record_of(B), now_ns), true);
}

/* Who was let in before a stream was set aside did not release it; who was since did, if that was
 * just before. */
static void releases(void)
{
	begins(300 * US);
	struct weir_stream s = {
		.progress_ns = now_ns - 16 * MS, .aside_since = now_ns - MS, .joined = 8};
	weir.needed = 4;
	weir.unknown_ns = 100 * MS;
	weir.waited_ns = 20 * MS;
	weir.let_ns = now_ns - 1500 * US;
	is("before", weir_released(&s, now_ns), false);
	is("needed", weir.needed, 2);
	weir.let_ns = now_ns - 900 * US;
	is("since", weir_released(&s, now_ns), true);
	is("needed then", weir.needed, 9);
	is("first launches are not as long then", weir.unknown_ns, 50 * MS);
	is("nor those that waited", weir.waited_ns, 10 * MS);
	s.aside_since -= 10 * MS;
	weir.let_ns = now_ns - 2100 * US;
	is("long before", weir_released(&s, now_ns), false);
}

/* stalls_after is how long after its launch a stream is set aside behind which another waits. */
static uint64_t stalls_after(void)
{
	static uint32_t slow[] = {0};
	(void)slow;
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, NEVER >> 40);
	uint64_t from = now_ns;
	pthread_mutex_t *lock = &record_of(A)->lock;
	while (!slot->stalls && now_ns - from < 2000 * MS) {
		lasts(100 * US);
		if (pthread_mutex_trylock(lock) == 0) {
			weir_set_aside(record_of(A), now_ns);
			pthread_mutex_unlock(lock);
		}
	}
	return (now_ns - from) / US;
}

static void late_known(void)
{
	begins(2 * MS);
	teach(1, MS);
	within("1 ms (us)", stalls_after(), 5500, 6200);
}

static void late_as_before(void)
{
	begins(2 * MS);
	teach(1, MS);
	weir_function_measured(function(1), 30 * MS);
	for (int i = 0; i < 30; i++)
		weir_function_measured(function(1), MS);
	within("30 ms once (us)", stalls_after(), 37500, 38500);
}

static void late_unknown(void)
{
	begins(2 * MS);
	within("unknown (us)", stalls_after(), 20000, 20700);
}

static void late_as_others(void)
{
	begins(2 * MS);
	weir.unknown_ns = 40 * MS;
	within("others took 40 ms (us)", stalls_after(), 64000, 64700);
}

static void late_in_reason(void)
{
	begins(2 * MS);
	weir.unknown_ns = 1000 * MS;
	within("others took 1 s (us)", stalls_after(), 254000, 254700);
}

static void late_expected(void)
{
	begins(2 * MS);
	teach(1, MS);
	weir.needed = 1;
	within("waits are known (us)", stalls_after(), 2000, 2700);
}

/* Others' progress explains for a while that a stream makes none. */
static void starved(void)
{
	begins(2 * MS);
	teach(1, MS);
	teach(2, MS);
	next_look = now_ns;
	launch_behind(A, 1, 10 * US, NEVER >> 40);
	uint64_t from = now_ns;
	while (!slot->stalls && now_ns - from < 2000 * MS)
		launch(B, 2, MS);
	within("aside after (us)", (now_ns - from) / US, 110000, 113000);
	is("the other one", record_of(B)->aside, false);
}

/* Only what is itself late is set aside when the device stands still. */
static void late_itself(void)
{
	begins(2 * MS);
	teach(1, 1900 * US);
	teach(2, 300 * US);
	launch_behind(A, 1, 10 * US, 1000);
	lasts(6700 * US);
	launch(B, 2, 50 * MS);
	lasts(300 * US);
	is("found", weir_set_aside(NULL, now_ns), true);
	is("A", record_of(A)->aside, true);
	is("B", record_of(B)->aside, false);
}

/* A stream gets on when the device comes to a mark of it. */
static void gets_on(void)
{
	begins(20 * MS);
	teach(1, 5 * MS);
	next_look = now_ns;
	launch(A, 1, 5 * MS);
	launch(A, 1, 20 * MS);
	lasts(14 * MS);
	is("9 ms after a mark", weir_stalls(record_of(A), now_ns), false);
	lasts(3 * MS);
	is("12 ms after it", weir_stalls(record_of(A), now_ns), true);
}

/* What is aside holds up nobody, and counts again when it gets on. */
static void aside(void)
{
	begins(300 * US);
	teach(1, 50 * US);
	teach(2, 50 * US);
	next_look = now_ns;
	for (int i = 0; i < 6; i++)
		launch_behind(A, 1, 50 * US, 502);
	launch(B, 2, 50 * US);
	is("aside", record_of(A)->aside, true);
	within("of which (us)", weir.aside_ns / US, 300, 301);
	is("the slot says so", slot->stalled, 1);
	uint64_t from = now_ns;
	for (int i = 0; i < 490; i++)
		launch(B, 2, 50 * US);
	within("490 of 50 us beside it (us)", (now_ns - from) / US, 24200, 24600);
	is("in flight", weir_in_flight(), weir.inflight_ns + weir.aside_ns);
	for (int i = 0; i < 10; i++)
		launch(B, 2, 50 * US);
	ends(B);
	ends(A);
	nothing_left();
}

/* ---- inflight.c and predict.c: what is measured, and learned */

/* The time of a batch is measured from the mark before it, or from an event of its own. */
static void measured_times(void)
{
	begins(2 * MS);
	teach(1, 300 * US);
	next_look = now_ns;
	launch(A, 1, 200 * US);
	launch(A, 1, 500 * US);
	launch(A, 1, 100 * US);
	ends(A);
	within("three at once", slot->device_ns_total, 799 * US, 801 * US);
	lasts(50 * MS);
	launch(A, 1, 400 * US);
	ends(A);
	within("one after a pause", slot->device_ns_total, 1199 * US, 1201 * US);
	is("least of a batch", function(1)->least < 200 * US / WEIR_UNIT_NS, true);
	/* most short batches on an idle stream have no event before them */
	uint64_t before = slot->device_ns_total;
	teach(2, 10 * US);
	for (int i = 0; i < 12; i++) {
		lasts(3 * MS);
		launch(A, 2, 10 * US);
	}
	ends(A);
	within("short ones", slot->device_ns_total - before, 110 * US, 130 * US);
	struct weir_ticket t;
	is("enters", weir_enter(&t, KEY(3), 1, A, 0), true);
	weir_leave(&t, CUDA_ERROR_INVALID_VALUE);
	ends(A);
	is("of a launch that failed nothing is learned", function(3)->samples, 0);
}

CUresult weir_on_stream_synchronize(enum weir_call call, CUstream s);

/* paused launches n kernels of function f, waits for them, and pauses. */
static void paused(int n, uintptr_t f, uint64_t ns, uint64_t pause)
{
	for (int k = 0; k < n; k++)
		launch(A, f, ns);
	weir_on_stream_synchronize(WEIR_cuStreamSynchronize, A);
	lasts(pause);
}

/* Pauses of the host are not taken for time of the device, in which the program waits for each
 * kernel or for several, nor for what the kernels take. */
static void pauses(void)
{
	begins(2 * MS);
	teach(1, 100 * US);
	next_look = now_ns;
	uint64_t most = 0;
	for (int i = 0; i < 600; i++) {
		paused(1 + i % 6, 1, 100 * US, 200 * US);
		most = function(1)->guess > most ? function(1)->guess : most;
	}
	ends(A);
	within("charged (us a launch)", slot->device_ns_total / US / launches, 99, 104);
	within("predicted (us)", most * WEIR_UNIT_NS / US, 99, 104);
	for (int i = 0; i < 3000; i++)
		paused(1, 1, 60 * US, 200 * US);
	within("and when it takes less", function(1)->guess * WEIR_UNIT_NS / US, 58, 85);
	uint64_t before = slot->device_ns_total;
	teach(2, 300 * US);
	for (int i = 0; i < 100; i++)
		paused(1, 2, 300 * US, 50 * US);
	ends(A);
	within("of long ones", (slot->device_ns_total - before) / US / 100, 299, 304);
	nothing_left();
}

/* Who waits for one stream while another stays busy has no pause there: what its kernels take is
 * found out all the same, so that no more is in flight than may be. */
static void waits_for_another(void)
{
	begins(2 * MS);
	teach(1, 20 * US);
	teach(2, 5 * US);
	next_look = now_ns;
	for (int i = 0; i < 1000; i++) {
		launch(A, 1, 200 * US);
		launch(B, 2, 5 * US);
		weir_on_stream_synchronize(WEIR_cuStreamSynchronize, B);
	}
	within("predicted (us)", function(1)->guess * WEIR_UNIT_NS / US, 190, 210);
	most_flying = 0;
	for (int i = 0; i < 100; i++) {
		launch(A, 1, 200 * US);
		weir_on_stream_synchronize(WEIR_cuStreamSynchronize, B);
	}
	within("in flight at most (us)", most_flying / US, 0, 2500);
	ends(A);
	ends(B);
	within("charged (us)", slot->device_ns_total / US, 200000, 235000);
	/* an event does not say what it is on */
	teach(3, 20 * US);
	for (int i = 0; i < 3000; i++) {
		launch(C, 3, 200 * US);
		weir_waits(NULL);
	}
	within("predicted after waits for events (us)", function(3)->guess * WEIR_UNIT_NS / US, 190,
		220);
	ends(C);
	nothing_left();
}

/* A batch is looked at from when all of it can have ended. */
static void few_looks(void)
{
	begins(2 * MS);
	teach(1, 20 * US);
	for (int i = 0; i < 110; i++)
		launch(A, 1, 20 * US);
	uint32_t before = queries;
	for (int i = 0; i < 100; i++)
		launch(A, 1, 20 * US);
	within("looks for 100 more", queries - before, 0, 150);
}

/* While no agent sees to it that others do not have the device, nothing is learned. */
static void alone_for_sure(void)
{
	begins(2 * MS);
	teach(1, 300 * US);
	next_look = now_ns;
	uint32_t guess = function(1)->guess;
	weir.agent_gone = true;
	launch(A, 1, 5 * MS);
	ends(A);
	is("with no agent", function(1)->guess, guess);
	weir.agent_gone = false;
	launch(A, 1, 5 * MS);
	ends(A);
	is("with an agent", function(1)->guess > guess, true);
}

/* Batches of several functions say only that the predictions as a whole are off: 64 that are, that
 * all are to be measured again. */
static void distrusted(void)
{
	begins(80 * MS);
	teach(1, 10 * US);
	teach(2, 10 * US);
	teach(3, 10 * US);
	launch(A, 1, 100 * US);
	for (int i = 0; i < 64; i++) {
		watcher_looks();
		watcher_looks();
		is("believed", function(1)->samples, WEIR_SAMPLES);
		if (record_of(A)->head % 16 == 8) /* is marked by itself */
			launch(A, 3, 10 * US);
		launch(A, 1, 100 * US);
		launch(A, 2, 100 * US);
		lasts(190 * US);
	}
	watcher_looks();
	ends(A);
	watcher_looks();
	is("not believed", function(1)->samples, WEIR_SAMPLES - 1);
	is("the guess stays", (uint64_t)function(1)->guess * WEIR_UNIT_NS / US < 30, true);
}

/* A kernel that ends just after a launch that waited for its prediction to pass may have waited for
 * that launch: what it took is not believed, and the prediction decays. */
static void lock_in(void)
{
	begins(300 * US);
	teach(1, 8 * MS);
	teach(2, 10 * US);
	next_look = now_ns;
	for (int i = 0; i < 12; i++) {
		launch_behind(A, 1, 10 * US, launches + 2); /* the receive, and its send */
		launch(B, 2, 10 * US);
		ends(A);
		ends(B);
	}
	within("predicted (us)", (uint64_t)function(1)->guess * WEIR_UNIT_NS / US, 0, 2500);
	/* one that took twice as long as predicted was not let end by that */
	teach(3, 8 * MS);
	launch(A, 3, 16 * MS);
	lasts(15900 * US);
	weir.let_ns = now_ns;
	ends(A);
	within("twice as long (us)", (uint64_t)function(3)->guess * WEIR_UNIT_NS / US, 9000, 10000);
	/* nor was one that took as long as predicted, with nothing let in just before it ended */
	teach(4, 8 * MS);
	launch(A, 4, 8 * MS);
	weir.let_ns = now_ns;
	ends(A);
	within("as long (us)", (uint64_t)function(4)->guess * WEIR_UNIT_NS / US, 8000, 8100);
}

/* How long first launches take is forgotten by and by. */
static void firsts_fade(void)
{
	begins(2 * MS);
	next_look = now_ns;
	weir.unknown_ns = 40960 * US;
	weir.waited_ns = 20480 * US;
	launch(A, 1, 10 * US);
	ends(A);
	is("after one that was short (us)", weir.unknown_ns / US, 40950);
	is("of what waited", weir.waited_ns / US, 20475);
}

/* What is open when the context has failed is over as well. */
static void open_at_a_fault(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 2, 5 * MS);
	launch(A, 1, 10 * US);
	is("open", weir_word_count(record_of(A)->word), 1);
	fails[0] = CUDA_ERROR_ILLEGAL_ADDRESS;
	weir_reap(record_of(A));
	is("open then", weir_word_count(record_of(A)->word), 0);
	is("in error", record_of(A)->dead, true);
}

static void means(void)
{
	struct weir_function *f = function(1);
	begins(2 * MS);
	teach(1, 1600 * US);
	is("alike", f->guess, 100001);
	weir_function_measured(f, 3200 * US);
	within("it rises by an eighth of what was longer", f->fast, 112500, 112502);
	within("slowly", f->slow, 101563, 101565);
	within("they differ", f->spread, 1538, 1540);
	is("predicted", f->guess, f->fast + f->spread);
	is("at most", f->most, 200001);
	weir_function_measured(f, 160 * US);
	is("at least", f->least, 10001);
	within("falls slowly", f->guess, 102900, 103200);
	weir_function_measured(f, 1600 * US);
	is("at least, later", f->least, 10158);
	within("at most, later", f->most, 198440, 198450);
	within("of all", f->peak, 199970, 199980);
	struct weir_function was = *f;
	weir_function_delayed(f, true);
	is("delayed: guess", f->guess, was.guess - was.guess / 2);
	is("slow", f->slow, was.slow - was.slow / 2);
	is("fast", f->fast, was.fast - was.fast / 2);
	is("spread", f->spread, was.spread - was.spread / 2);
	is("most", f->most, was.most - was.most / 2);
	is("peak", f->peak, was.peak - was.peak / 2);
	weir_function_delayed(function(9), true);
	is("a first one that was delayed", function(9)->samples, 1);
	for (int i = 0; i < 3; i++)
		weir_function_measured(function(8), i < 2 ? (2 - i) * 5 * MS : 20 * US);
	is("loaded at the second, too", (uint64_t)function(8)->guess * WEIR_UNIT_NS / US, 20);
	is("of another size", weir_function_of(KEY(1), 2) == f, false);
	is("of the same magnitude", weir_function_of(KEY(1), 3) == weir_function_of(KEY(1), 2), true);
}

#define CASES(X) \
	X(known) X(nearly_all) X(of_many) X(host_bound) X(left_alone) X(longer_counts) X(longer_alone) \
	X(longer_dropped) X(keeps_up_no_more) X(longer_ends) X(of_long_ones) X(of_shorter_ones) \
	X(unknown) X(now_and_then) X(one_by_one) X(from_the_mark) X(looked_late) \
	X(looked_at) X(graphs_anew) \
	X(kernels_anew) X(many_anew) X(after_a_long_one) \
	X(of_marks) X(alone_at_last) X(waits) X(waits_for_nothing) X(unknown_waits) \
	X(needed_unknown) X(releases) \
	X(unseen) X(unmarked) X(never_seen) X(unmarked_for_long) X(had_for_long) X(had_again) \
	X(unseen_stalls) X(strangers) \
	X(strangers_that_end) X(strangers_unwatched) \
	X(doubles) X(first_that_waited) \
	X(waited_for_the_host) X(strangers_elsewhere) X(late_aside) \
	X(late_known) X(late_as_before) X(late_unknown) X(late_as_others) X(late_in_reason) \
	X(late_expected) X(starved) X(late_itself) X(gets_on) X(aside) X(measured_times) \
	X(pauses) X(waits_for_another) X(few_looks) X(alone_for_sure) X(distrusted) X(lock_in) \
	X(firsts_fade) X(open_at_a_fault) X(means)

int main(int n, char **names)
{
	static const struct one cases[] = {CASES(CASE)};
	return all(cases, sizeof cases / sizeof *cases, n > 1 ? names[1] : NULL);
}
