/*
 * What the device says that a process holds, while other threads take and give memory exactly when
 * it is asked.
 */
#include "../src/measure.c"

#include "expect.h"

#include <semaphore.h>

#define MS UINT64_C(1000000)
#define CAP 1000

struct weir_process weir = {.state = WEIR_ATTACHED, .measures = true};
void *weir_reals[WEIR_CALLS];

static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own;

static bool listed;            /* by NVML */
static uint64_t held;          /* by the process */
static unsigned looks;         /* at what it holds */
static void (*meanwhile)(void); /* done by others in the next look */
static void (*afterwards)(void);
static void (*always)(void); /* in each */
static uint64_t now, tick, sent, answers_after, answer, slack;

uint64_t weir_now(void)
{
	now += tick;
	if (sent && now - sent >= answers_after) {
		own->measured_bytes = answer;
		own->answer_seq = own->ask_seq;
	}
	return now;
}

void weir_send(uint32_t kind, uint32_t gate)
{
	if (kind == WEIR_MSG_MEASURE && gate == own->ask_seq)
		sent = now;
}

bool weir_nvml_holds(uint64_t *bytes)
{
	void (*f)(void) = meanwhile;
	looks++;
	meanwhile = afterwards;
	afterwards = NULL;
	if (f)
		f();
	if (always)
		always();
	*bytes = held;
	return listed;
}

static bool busy;
bool weir_turn_take(void) { return busy ? false : (busy = true); }
void weir_turn_end(void) { busy = false; }
static uint64_t loose, leaving;
static bool sees; /* as it is asked for that, another thread sees that what leaves has gone */
uint64_t weir_loose(void)
{
	if (sees)
		weir_release(leaving);
	leaving = sees ? 0 : leaving;
	return loose + leaving;
}

uint64_t weir_freeing_bytes(void) { return leaving; }

static bool reached; /* the device has come to what is freed */
static void see(void)
{
	weir_release(leaving);
	leaving = 0;
}

void weir_freeing_look(void)
{
	if (reached)
		see();
	reached = false;
}
bool weir_own_begin(void) { return true; }
void weir_own_end(void) {}

static uint64_t waiting; /* counted for graphs that wait at the gate */

uint64_t weir_graphs_waiting(void) { return waiting; }

void weir_pools_refresh(bool trim)
{
	(void)trim;
	weir_release(slack);
	slack = 0;
}

/* ---- the driver, for probes */

static uint64_t unit, noise[PROBES]; /* what others take in the time of a probe */
static unsigned probes;

static CUresult driver_alloc(CUdeviceptr *at, size_t bytes)
{
	*at = 1;
	held += (bytes + unit - 1) / unit * unit + noise[probes++ % PROBES];
	return CUDA_SUCCESS;
}

static CUresult driver_free(CUdeviceptr at)
{
	(void)at;
	held = 0;
	return CUDA_SUCCESS;
}

static CUcontext current;

static CUresult driver_current(CUcontext *ctx)
{
	*ctx = current;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	return call == WEIR_cuMemAlloc_v2  ? (void *)driver_alloc
		: call == WEIR_cuMemFree_v2    ? (void *)driver_free
		: call == WEIR_cuCtxGetCurrent ? (void *)driver_current
									   : NULL;
}

/* ---- other threads */

static void *on_thread(void *f)
{
	((void (*)(void))f)();
	return NULL;
}

static void others(void (*f)(void))
{
	pthread_t t;
	pthread_create(&t, NULL, on_thread, (void *)f);
	pthread_join(t, NULL);
}

/* One counts 50 bytes, which the driver has not given yet, */
static void count(void)
{
	weir_moves_begin();
	weir_count(50);
}

/* and now has. */
static void have(void)
{
	held += 50;
	weir_moves_end();
}

static void a_count(void) { others(count); }
static void a_have(void) { others(have); }
static void come(void) { held += 64; }
static void go(void) { held -= 64; }

static void shrink(void)
{
	slack = 20; /* the driver has taken back what a pool kept */
	held -= 20;
}

static void give_back(void) { weir_release(10); }

static void come_and_go(void)
{
	weir_moves_begin();
	weir_moves_end();
}

static void a_come_and_go(void) { others(come_and_go); }

static void begin(uint64_t used, uint64_t context, uint64_t holds)
{
	weir_measure_reset();
	*own = (struct weir_slot){0};
	weir_ledger_reset();
	weir_count(used);
	weir_contexts_are(context);
	listed = true;
	held = holds;
	looks = 0;
	sent = slack = loose = leaving = 0;
	sees = reached = false;
	meanwhile = afterwards = always = NULL;
	tick = MS / 10;
	now = MS;
}

static uint64_t rest(uint64_t reserved, enum weir_rest want)
{
	struct weir_look l = weir_look(reserved);
	expect("what is known", l.is, want);
	return weir_at_least(&l);
}

static void alone(void)
{
	begin(100, 0, 900);
	own->found_bytes = 30;
	expect("the rest, less what was found", rest(10, WEIR_REST_KNOWN), 900 - 90 - 30);
	expect("looks", looks, 1);
	held = 20;
	expect("the rest of less than is counted", rest(0, WEIR_REST_KNOWN), 0);
	weir_moves_begin();
	rest(0, WEIR_REST_KNOWN); /* its own call is none of the others' */
	weir_moves_end();
}

/* In the child of a signal's handler that forks amid such a call, that ends as well. */
static void in_child(void)
{
	int before, after;
	weir_moves_begin();
	begin(100, 0, 900);
	expect("beside a thread's own call", rest(0, WEIR_REST_KNOWN), 800);
	weir_moves_end();
	expect("the rest in a child", rest(0, WEIR_REST_KNOWN), 800);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	pthread_setcancelstate(before, &after);
	expect("it can be cancelled", before, PTHREAD_CANCEL_ENABLE);
}

/* One is cancelled in such a call, where the driver has a cancellation point. */
static sem_t within, cancelled;

static void *is_cancelled(void *unused)
{
	weir_moves_begin();
	weir_moves_begin();
	weir_moves_end();
	sem_post(&within);
	sem_wait(&cancelled);
	pthread_testcancel();
	weir_moves_end();
	pthread_testcancel();
	return unused;
}

static void beside_a_cancelled_one(void)
{
	pthread_t t;
	void *end = NULL;
	begin(100, 0, 900);
	sem_init(&within, 0, 0);
	sem_init(&cancelled, 0, 0);
	pthread_create(&t, NULL, is_cancelled, NULL);
	sem_wait(&within);
	pthread_cancel(t);
	sem_post(&cancelled);
	pthread_join(t, &end);
	expect("it is cancelled", end == PTHREAD_CANCELED, true);
	expect("the rest beside a thread that was cancelled", rest(0, WEIR_REST_KNOWN), 800);
}

/* What is counted for a launch that waits is not held, and is in nobody's way; in between nobody
 * knows, and its thread is not cancelled. */
static void *waits_for_the_gate(void *unused)
{
	weir_moves_begin();
	weir_count(30);
	waiting = 30;
	int before = weir_moves_pause();
	weir_moves_begin(); /* a signal's handler does */
	weir_moves_end();
	sem_post(&within);
	sem_wait(&cancelled);
	pthread_testcancel();
	weir_moves_resume(before);
	waiting = 0;
	sem_post(&within);
	sem_wait(&cancelled);
	held += 30;
	weir_moves_end();
	pthread_testcancel();
	return unused;
}

static void beside_one_that_waits(void)
{
	pthread_t t;
	void *end = NULL;
	begin(100, 0, 900);
	sem_init(&within, 0, 0);
	sem_init(&cancelled, 0, 0);
	pthread_create(&t, NULL, waits_for_the_gate, NULL);
	sem_wait(&within);
	expect("the rest beside a launch that waits", rest(0, WEIR_REST_KNOWN), 800);
	pthread_cancel(t);
	sem_post(&cancelled);
	sem_wait(&within);
	expect("at least, once it waits no more", rest(0, WEIR_REST_LEAST), 770);
	sem_post(&cancelled);
	pthread_join(t, &end);
	expect("it is cancelled", end == PTHREAD_CANCELED, true);
	expect("the rest after it", rest(0, WEIR_REST_KNOWN), 800);
}

static void beside_others(void)
{
	beside_one_that_waits();
	begin(100, 0, 900);
	meanwhile = a_count;
	afterwards = a_have;
	expect("the rest beside a thread that allocates", rest(0, WEIR_REST_KNOWN), 800);
	expect("looks", looks, 3);

	begin(100, 0, 900);
	meanwhile = a_come_and_go;
	expect("the rest beside one that was quick", rest(0, WEIR_REST_KNOWN), 800);
	expect("looks", looks, 2);

	begin(100, 0, 900);
	meanwhile = shrink;
	expect("the rest beside a pool that shrinks", rest(0, WEIR_REST_KNOWN), 800);
	expect("looks", looks, 2);

	begin(120, 0, 900);
	slack = 20; /* that the driver has had back for long */
	expect("the rest beside a pool that has shrunk", rest(0, WEIR_REST_KNOWN), 800);

	begin(100, 0, 900);
	a_count();
	expect("at least, beside a thread that does not return", rest(0, WEIR_REST_LEAST), 750);
	always = give_back; /* of 150 the third look finds 130 before and 120 after */
	expect("at least, beside one that frees", rest(0, WEIR_REST_LEAST), 900 - 130);
}

/* What contexts take is not lowered by a figure that may be low, and not for good left low. */
static void unsure_figures(void)
{
	begin(100, 700, 900);
	weir_grown();
	expect("contexts, with what was loaded", own->mem_context_bytes, 800);
	now += 1000 * MS;
	a_count();
	weir_shrunk();
	expect("contexts, beside a thread that does not return", own->mem_context_bytes, 800);
	a_have();
	weir_contexts_are(810);
	expect("less, once it has", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, 800);
	expect("less, a second time", weir_shrunk_since(), false);

	begin(100, 700, 900);
	a_count();
	weir_unmeasured();
	weir_look_again();
	expect("contexts at least", own->mem_context_bytes, 750);
	a_have();
	now += 1000 * MS;
	weir_look_again();
	expect("contexts when looked at again", own->mem_context_bytes, 800);
	unsigned before = looks;
	now += 1000 * MS;
	weir_look_again();
	expect("looks once all is known", looks, before);
}

static void growing(void)
{
	begin(100, 700, 864);
	expect("a load that takes 64", weir_grown(), true);
	expect("contexts", own->mem_context_bytes, 764);
	expect("allocations", own->mem_used_bytes, 100);
	held += 10;
	unsigned before = looks;
	expect("another at once", weir_grown(), true);
	expect("is looked at later", looks, before);
	weir_look_again();
	expect("contexts before the next allocation", own->mem_context_bytes, 774);

	begin(100, 700, 800);
	weir_unmeasured();
	meanwhile = come;
	afterwards = go;
	weir_look_again();
	expect("contexts beside what comes and goes", own->mem_context_bytes, 700);

	begin(100, 700, CAP + 1);
	expect("a load that does not fit", weir_grown(), false);
	expect("is not counted", own->mem_context_bytes, 700);
	weir_unmeasured();
	weir_look_again();
	expect("what is not undone counts", own->mem_context_bytes, CAP + 1 - 100);
	expect("and is flagged", own->error_flags & WEIR_ERROR_OVERDRAFT, WEIR_ERROR_OVERDRAFT);

	begin(100, 600, 750);
	held = 700;
	weir_shrunk();
	expect("looks after an unload of what took nothing", looks, 0);
	held = 750;
	weir_grown();
	expect("contexts, with what was loaded", own->mem_context_bytes, 650);
	held = 650;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts, when more has gone than was loaded", own->mem_context_bytes, 600);

	begin(100, 600, 800);
	weir_grown();
	held = 750;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts after an unload", own->mem_context_bytes, 650);
	held = 740;
	weir_shrunk();
	expect("contexts after another at once", own->mem_context_bytes, 650);
	expect("less, where there is no room", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, 640);
	busy = true;
	held = 700;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts while another thread makes one", own->mem_context_bytes, 640);
	busy = false;
	expect("less, after that", weir_shrunk_since(), true);
}

/* Of 100 that are counted 80 are freed in stream order and gone: they hide what has grown. */
static void beside_frees(void)
{
	begin(100, 700, 770);
	leaving = 80;
	expect("a load of 50 beside a free", weir_grown(), true);
	expect("contexts, of which no more is seen", own->mem_context_bytes, 700);
	weir_release(leaving);
	leaving = 0;
	weir_look_again();
	expect("contexts at once", own->mem_context_bytes, 700);
	now += AGAIN_NS;
	weir_look_again();
	expect("contexts, when looked at again", own->mem_context_bytes, 750);
	unsigned before = looks;
	now += 1000 * MS;
	weir_look_again();
	expect("looks once all is known", looks, before);

	begin(100, 700, 770);
	tick = 0;
	leaving = 80;
	weir_grown();
	before = looks;
	for (int i = 0; i < 1000; i++, now += MS)
		weir_look_again();
	expect("looks in a second beside frees that never end", looks - before, 9);
	now += 1000 * MS;
	weir_grown();
	listed = weir.measures = false;
	before = looks;
	for (int i = 0; i < 10; i++, now += 1000 * MS)
		weir_look_again();
	expect("looks where nobody tells any more", looks - before, 1);
	listed = weir.measures = true;
	weir_grown();
	weir_release(leaving);
	leaving = 0;
	now += AGAIN_NS;
	weir_look_again();
	expect("contexts, soon after another load", own->mem_context_bytes, 750);

	/* what may have grown by a call that nobody looked at */
	begin(100, 700, 770);
	tick = 0;
	leaving = 80;
	weir_grown();
	for (int i = 0; i < 1000; i++, now += MS)
		weir_look_again();
	weir_unmeasured();
	weir_look_again();
	weir_release(leaving);
	leaving = 0;
	now += AGAIN_NS;
	weir_look_again();
	expect("contexts, soon after a call that may have taken memory", own->mem_context_bytes, 750);
	before = looks;
	weir_too_much(0);
	weir_shrunk_since();
	expect("looks where nothing is too much", looks, before);

	begin(100, 700, 850);
	weir_grown();
	weir_count(80);
	leaving = 80;
	sees = true;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts, by a look in which a free is seen to be over", own->mem_context_bytes, 750);

	begin(100, 700, 770);
	leaving = 80;
	reached = true;
	weir_grown();
	expect("contexts beside a free that is over", own->mem_context_bytes, 750);

	begin(100, 700, 820);
	leaving = 80;
	afterwards = see;
	weir_grown();
	expect("contexts, by two looks between which it is", own->mem_context_bytes, 720);
	now += AGAIN_NS;
	weir_look_again();
	expect("contexts, looked at again", own->mem_context_bytes, 800);
}

/* Of 100 that are counted 60 may not be there: what is seen of the contexts is too little by that.
 */
static void loose_memory(void)
{
	begin(100, 700, 800);
	weir_grown();
	held = 850;
	now += 1000 * MS;
	weir_grown();
	expect("contexts, with what was loaded", own->mem_context_bytes, 750);
	loose = 60;
	held = 800; /* without what was not there */
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts, where nothing may have been unloaded", own->mem_context_bytes, 750);
	held = 770;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts, where some was", own->mem_context_bytes, 730);

	/* Frees under way hide what was unloaded only until the device has come to them. */
	begin(100, 700, 850);
	weir_grown();
	leaving = 60;
	held = 780;
	now += 1000 * MS;
	weir_shrunk();
	expect("contexts beside frees", own->mem_context_bytes, 740);
	expect("what they may hide", weir_hidden(), 40);
	leaving = 0;
	expect("less, once the device has come to them", weir_shrunk_since(), true);
	expect("contexts then", own->mem_context_bytes, 700);
	expect("nothing is hidden", weir_hidden(), 0);
	expect("nothing to look for", weir_shrunk_since(), false);

	begin(500, 200, 400);
	loose = 400;
	struct weir_look l = weir_look(0);
	expect("the least of less than is counted", weir_at_least(&l), 0);
	expect("the most", weir_at_most(&l), 300);
	loose = 0;
	l = weir_look(0);
	expect("the most of less than is counted", weir_at_most(&l), 0);

	begin(500, 200, 400);
	weir.page->granule_bytes = 0;
	weir_granule();
	l = weir_look(100);
	expect("the most, where granules are guessed", weir_at_most(&l), 400);
}

static bool asked(uint64_t ms, uint64_t says)
{
	begin(0, 0, 0);
	listed = false;
	tick = MS;
	answers_after = ms * MS;
	answer = says;
	struct weir_look l = weir_look(0);
	return l.is == WEIR_REST_KNOWN && weir_at_least(&l) == says;
}

static void agent(void)
{
	expect("an answer in time", asked(95, 777), true);
	expect("an answer too late", asked(110, 777), false);
	expect("waited for", now < 120 * MS, true);
	expect("the answer that nobody knows", asked(1, WEIR_NOT_MEASURED), false);
	weir.agent_gone = true;
	expect("no agent", asked(1, 777), false);
	expect("is not asked", sent, 0);
	weir.agent_gone = false;
	weir.measures = false;
	expect("an agent that does not measure", asked(1, 777), false);
	weir.measures = true;
}

/* next_allocation is what contexts count once something is about to be allocated. */
static uint64_t next_allocation(void)
{
	weir_look_again();
	return own->mem_context_bytes;
}

/* Where tables of undocumented calls were given, a context that was not seen before is looked at
 * before something is allocated in it, once. */
static void tables_of_calls(void)
{
	static int one, two;
	begin(100, 700, 900);
	current = (CUcontext)&one;
	expect("a context without tables", next_allocation(), 700);
	weir_tables_given();
	expect("a context that was not seen", next_allocation(), 800);
	held += 10;
	now += 1000 * MS;
	expect("one that was", next_allocation(), 800);
	current = NULL;
	expect("none", next_allocation(), 800);
	current = (CUcontext)&two;
	expect("another", next_allocation(), 810);
}

static uint64_t learned(uint64_t of, uint64_t room)
{
	begin(0, 0, 0);
	unit = of;
	weir.page->granule_bytes = 0;
	weir_granule_learn(room);
	return weir.page->granule_bytes;
}

static void granules(void)
{
	expect("a granule of 2 MiB", learned(2 * MIB, 64 * MIB), 2 * MIB);
	expect("a granule of 64 MiB", learned(64 * MIB, 128 * MIB), 64 * MIB);
	expect("a granule of a byte", learned(1, 64 * MIB), 1);
	noise[1] = 2 * MIB;
	noise[2] = 6 * MIB;
	expect("of 4 MiB, beside others", learned(4 * MIB, 64 * MIB), 8 * MIB);
	noise[1] = noise[2] = 0;
	expect("without room", learned(2 * MIB, 2 * PROBE - 1), 0);
	expect("one too large", learned(128 * MIB, 256 * MIB), 0);
	weir_measure_reset();
	weir.page->granule_bytes = 3 * MIB;
	expect("one that cannot be", weir_granule(), 2 * MIB);
	weir_measure_reset();
	weir.page->granule_bytes = MIB;
	expect("one that was learned", weir_granule(), MIB);
	weir.page->granule_bytes = 4 * MIB;
	expect("stays this process's", weir_granule(), MIB);
	expect("of nothing", weir_taken(0), 0);
	expect("of a byte", weir_taken(1), MIB);
	expect("of a granule", weir_taken(MIB), MIB);
	expect("of one more", weir_taken(MIB + 1), 2 * MIB);
	expect("of all there is", weir_taken(UINT64_MAX), UINT64_MAX);
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = CAP;
	weir.slot = own = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
	alone();
	in_child();
	beside_a_cancelled_one();
	beside_others();
	unsure_figures();
	growing();
	beside_frees();
	loose_memory();
	agent();
	granules();
	tables_of_calls();
	return checked();
}
