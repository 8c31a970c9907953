/*
 * Short launches at the closed gate, in virtual time.
 */
#include "virtual.h"

/* at_closed_gate has kernels of 10 us known, as function 1, and lets those of up to 20 us pass. */
static uint32_t at_closed_gate(void)
{
	begins(MS);
	teach(1, 10 * US);
	header->free_ns = 20 * US + WEIR_UNIT_NS;
	next_look = now_ns;
	return close_gate();
}

/* They pass one by one, on whatever stream, and are counted; the agent hears once that the process
 * waits, and that nothing is in flight. */
static void one_by_one(void)
{
	uint32_t closed = at_closed_gate();
	for (int i = 0; i < 50; i++)
		launch(i % 3 ? A : B, 1, 10 * US);
	is("on the device at most (us)", most_flying / US, 10);
	within("all (us)", (launch_at[50] - launch_at[1]) / US, 490, 49 * 14);
	is("passed (us)", slot->passed_ns / US, 500);
	is("launches", slot->launches, 50);
	is("charged", slot->device_ns_total, 0);
	is("waiting", slot->waiting, 1);
	is("said so", slot->want_seq, 1);
	is("and told", sent[WEIR_MSG_WANT], closed);
	is("drained", slot->drained_seq, closed);
	nothing_left();
}

static uint32_t before, waiting;

static void counts(void)
{
	before = launches;
	waiting = slot->waiting;
}

/* Behind another job's kernel there is one: the others would be run after it, when that job wants
 * to go on. Prediction does not tell: it is of 10 us. */
static void behind_a_kernel(void)
{
	at_closed_gate();
	agent = counts;
	agent_at = now_ns + 4900 * US;
	launch(A, 1, 5 * MS); /* with the time for which it waits for the other */
	launch(A, 1, 10 * US);
	launch(B, 1, 10 * US);
	is("launched until its end", before, 1);
	is("waiting until its end", waiting, 1);
	within("then (us)", (launch_at[2] - launch_at[1]) / US, 5000, 5060);
	within("and one more (us)", (launch_at[3] - launch_at[2]) / US, 10, 14);
	is("passed (us)", slot->passed_ns / US, 30);
	is("said that it waits", slot->want_seq, 1);
	is("predicted (us)", (uint64_t)function(1)->guess * WEIR_UNIT_NS / US, 10);
	lasts(MS);
	nothing_left();
}

static void counts_first(void)
{
	counts();
	agent = open_gate;
	agent_at = now_ns + 4900 * US;
}

/* waits_for_gate launches f, which waits until the gate is open. */
static void waits_for_gate(const char *what, uintptr_t f)
{
	uint64_t passed = slot->passed_ns, from = now_ns;
	close_gate();
	agent = counts_first;
	agent_at = now_ns + 100 * US;
	launch(A, f, 10 * US);
	is(what, waiting, 1);
	within(what, (launch_at[launches] - from) / US, 5000, 5100);
	is(what, slot->passed_ns, passed);
	ends(A);
}

static void longer_ones(void)
{
	at_closed_gate();
	teach(2, 20 * US);
	teach(3, 21 * US);
	launch(A, 2, 20 * US);
	is("passed (us)", slot->passed_ns / US, 20);
	waits_for_gate("a longer one", 3);
	waits_for_gate("an unknown one", 4);
	function(1)->slow = 30 * US / WEIR_UNIT_NS;
	waits_for_gate("one that was longer", 1);
	function(1)->slow = 10 * US / WEIR_UNIT_NS;
	function(1)->guess = 30 * US / WEIR_UNIT_NS;
	waits_for_gate("one that may be longer", 1);
	header->inflight_bound_ns = 19 * US;
	waits_for_gate("one that is longer than what may be in flight", 2);
	is("waiting", slot->waiting, 0);
	nothing_left();
}

static void lets_pass(void)
{
	in_send = NULL;
	header->free_ns = 20 * US + WEIR_UNIT_NS;
}

/* What the agent lets pass at once, when it hears of who waits, waits no longer for that. */
static void let_pass_at_once(void)
{
	at_closed_gate();
	header->free_ns = 0;
	in_send = lets_pass;
	uint64_t from = now_ns;
	launch(A, 1, 10 * US);
	within("launched after (us)", (launch_at[1] - from) / US, 0, 5);
	is("passed (us)", slot->passed_ns / US, 10);
	lasts(5 * MS);
	nothing_left();
}

static void offer(void) { header->gate_pass = header->gate; }

/* What has passed may wait for the next launch: that goes at last, or with the agent's pass. */
static void waits_for_its_program(void)
{
	at_closed_gate();
	launch_behind(A, 1, 10 * US, 2);
	launch(B, 1, 10 * US);
	within("the next goes after (us)", (launch_at[2] - launch_at[1]) / US, 20000, 20200);
	launch_behind(A, 1, 10 * US, 4);
	agent = offer;
	agent_at = now_ns + 3 * MS;
	uint64_t from = now_ns;
	launch(B, 1, 10 * US);
	within("or with a pass (us)", (launch_at[4] - from) / US, 3000, 3050);
	is("which is taken", header->gate_pass, 0);
	is("passed (us)", slot->passed_ns / US, 30);
	within("in flight (us)", open_ns() / US, 10, 10);
	lasts(5 * MS);
	within("charged (us)", slot->device_ns_total / US, 10, 210);
	nothing_left();
}

/* A thread may end within a launch. */
static void ended_within(void)
{
	struct weir_ticket t;
	at_closed_gate();
	is("enters", weir_enter(&t, KEY(1), 1, A, 0), true);
	uint64_t from = now_ns;
	launch(B, 1, 10 * US);
	within("the next goes after (us)", (launch_at[1] - from) / US, 20000, 20200);
	launch(B, 1, 10 * US);
	within("and one more (us)", (launch_at[2] - launch_at[1]) / US, 10, 14);
	is("passed (us)", slot->passed_ns / US, 20);
	weir_leave(&t, CUDA_ERROR_OUT_OF_MEMORY);
	is("one that failed does not count", slot->passed_ns / US, 20);
	is("launches", slot->launches, 2);
}

/* Of what gets no event behind it nobody knows the end, and none in a capture is looked at. */
static void without_event(void)
{
	at_closed_gate();
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	launch(A, 1, 5 * MS);
	record_gives = CUDA_SUCCESS;
	A->captured = true;
	launch(A, 1, 10 * US);
	launch(B, 1, 10 * US);
	within("all at once (us)", (launch_at[3] - launch_at[1]) / US, 2, 5);
	A->captured = false;
	nothing_left();
}

/* What a context in error had on the device is over; one that is gone took its events along. */
static void in_error(void)
{
	at_closed_gate();
	current_context = C->ctx = (CUcontext)(contexts + 1);
	launch(C, 1, 5 * MS);
	fails[1] = CUDA_ERROR_ILLEGAL_ADDRESS;
	current_context = (CUcontext)contexts;
	launch(A, 1, 5 * MS);
	within("the next goes at once (us)", (launch_at[2] - launch_at[1]) / US, 1, 5);
	record_of(A)->dead = true;
	uint32_t asked = queries;
	next_look = NEVER;
	launch(B, 1, 10 * US);
	within("and after one that is gone (us)", (launch_at[3] - launch_at[2]) / US, 1, 5);
	is("of which nothing is asked", queries, asked);
}

/* That it waits is said again at another value of the gate, and no more when it does not. */
static void wanted_again(void)
{
	at_closed_gate();
	launch(A, 1, 10 * US);
	lasts(900 * US);
	is("waiting for a while", slot->waiting, 1);
	lasts(400 * US);
	is("and no longer", slot->waiting, 0);
	launch(A, 1, 10 * US);
	is("waiting again", slot->waiting, 1);
	is("said again", slot->want_seq, 2);
	uint32_t closed = close_gate();
	launch(A, 1, 10 * US);
	is("waiting once", slot->waiting, 1);
	is("said at another value", slot->want_seq, 3);
	is("with that", sent[WEIR_MSG_WANT], closed);
	open_gate();
	launch(B, 1, 200 * US);
	is("at the open gate", slot->waiting, 0);
	ends(B);
	nothing_left();
}

/* A batch that was open at the close has its mark behind what passes: its time is not known. */
static void open_batch(void)
{
	begins(MS);
	teach(1, 10 * US);
	header->free_ns = 20 * US + WEIR_UNIT_NS;
	launch(A, 1, 10 * US);
	close_gate();
	launch(A, 1, 5 * MS);
	next_look = now_ns;
	lasts(10 * MS);
	is("charged (us)", slot->device_ns_total / US, 10);
	is("passed (us)", slot->passed_ns / US, 10);
	is("predicted (us)", (uint64_t)function(1)->guess * WEIR_UNIT_NS / US, 10);
	nothing_left();
}

#define CASES(X) \
	X(one_by_one) X(behind_a_kernel) X(longer_ones) X(let_pass_at_once) X(waits_for_its_program) \
	X(ended_within) X(without_event) X(in_error) X(wanted_again) X(open_batch)

int main(int n, char **names)
{
	static const struct one cases[] = {CASES(CASE)};
	return all(cases, sizeof cases / sizeof *cases, n > 1 ? names[1] : NULL);
}
