/*
 * Gate, watcher and contexts in error, in virtual time.
 */
#include "virtual.h"

/* ---- inflight.c: contexts in error, and records that fail */

/* fault_in opens batches on two streams of a context and one of another, with marks in flight, and
 * has the first context fail. */
static void fault_in(void)
{
	begins(2 * MS);
	C->ctx = (CUcontext)(contexts + 1);
	for (uintptr_t f = 1; f <= 2; f++)
		teach(f, 10 * US);
	launch(A, 3, 100 * US); /* unknown: with a mark */
	launch(A, 1, 10 * US);
	launch(B, 1, 10 * US);
	record_of(&streams[3]);
	current_context = C->ctx;
	launch(C, 2, 10 * US);
	is("uncertain", weir.uncertain, 1);
	fails[0] = CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void dead_context(void)
{
	fault_in();
	uint32_t closed = close_gate();
	watcher_looks();
	watcher_looks();
	is("A", record_of(A)->dead, true);
	is("B", record_of(B)->dead, true);
	is("one with nothing in flight", record_of(&streams[3])->dead, true);
	is("of another context", record_of(C)->dead, false);
	is("open batches", record_of(A)->word | record_of(B)->word, 0);
	is("drained", slot->drained_seq == closed, false); /* what the other context has is there */
	lasts(MS);
	watcher_looks();
	is("drained at last", slot->drained_seq, closed);
	nothing_left();
	struct weir_ticket t;
	is("a launch there waits for no gate", weir_enter(&t, KEY(1), 1, A, 0), false);
	fails[0] = CUDA_SUCCESS; /* the program has made the context anew */
	open_gate();
	is("one in a new context is metered", weir_enter(&t, KEY(1), 1, A, 0), true);
	weir_leave(&t, CUDA_SUCCESS);
	is("not dead", record_of(A)->dead, false);
	is("its events are new", record_of(A)->marks[0].end == NULL, true);
}

/* So is one of which marks alone are looked at. */
static void dead_in_flight(void)
{
	begins(2 * MS);
	launch(A, 3, 100 * US);
	fails[0] = CUDA_ERROR_ILLEGAL_ADDRESS;
	watcher_looks();
	is("dead", record_of(A)->dead, true);
	is("charged", slot->device_ns_total, 0);
	nothing_left();
}

/* By what is put on it alone a context is found in an error, too. */
static void record_fails(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 1, 10 * US);
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	uint32_t closed = close_gate();
	watcher_looks();
	is("without memory for it: perhaps later", open_ns() > 0, true);
	is("drained", slot->drained_seq == closed, false);
	record_gives = CUDA_ERROR_INVALID_VALUE;
	watcher_looks();
	is("for another reason: it is over", open_ns(), 0);
	is("dead", record_of(A)->dead, false);
	watcher_looks();
	is("drained then", slot->drained_seq, closed);
	open_gate();
	record_gives = CUDA_ERROR_HARDWARE_STACK_ERROR;
	launch(A, 1, 10 * US);
	close_gate();
	watcher_looks();
	is("fatal", record_of(A)->dead, true);
	nothing_left();
}

/* ---- gate.c */

static void pass_is_void(void)
{
	header->gate += 2; /* closed as before, and the pass that was offered is none any more */
	in_record = NULL;
}

/* A pass that has been taken is void when the gate's value changes until the launch is entered. */
static void void_pass(void)
{
	begins(2 * MS);
	teach(1, MS);
	next_look = now_ns;
	launch(A, 2, 10 * US);
	ends(A);
	header->gate_pass = close_gate();
	in_record = pass_is_void;
	agent = open_gate;
	agent_at = now_ns + 7 * MS;
	uint32_t before = recorded;
	uint64_t from = now_ns, charged = slot->device_ns_total;
	launch(A, 1, MS);
	within("launched after (us)", (launch_at[2] - from) / US, 7000, 7100);
	is("when the gate is open", header->gate & 1, 1);
	is("an event was put", recorded > before, true);
	is("waiting", slot->waiting, 0);
	ends(A);
	is("under way", weir_word_launching(record_of(A)->word), 0);
	within("charged (us)", (slot->device_ns_total - charged) / US, 1990, 2001);
	within("predicted (us)", (uint64_t)function(1)->guess * WEIR_UNIT_NS / US, 900, 1100);
	nothing_left();
}

static void other_value(void)
{
	header->gate += 2;
	agent = open_gate;
	agent_at = now_ns + MS;
}

static void other_pass(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	uint32_t closed = close_gate();
	header->gate_pass = closed + 64;
	agent = open_gate;
	agent_at = now_ns + 3 * MS;
	uint64_t from = now_ns;
	launch(A, 1, 10 * US);
	within("a pass of another time is none (us)", (launch_at[1] - from) / US, 3000, 3100);
	is("wanted once", slot->want_seq, 1);
	is("and told", sent[WEIR_MSG_WANT], closed);
	header->gate_pass = close_gate();
	from = now_ns;
	agent_at = now_ns + 3 * MS;
	launch(A, 1, 10 * US);
	is("one of this time is taken", header->gate_pass, 0);
	within("at once (us)", (launch_at[2] - from) / US, 0, 10);
	launch(A, 1, 10 * US);
	within("by one (us)", (launch_at[3] - from) / US, 3000, 3100);
	closed = close_gate();
	uint32_t wanted = slot->want_seq;
	agent = other_value;
	agent_at = now_ns + MS;
	launch(A, 1, 10 * US);
	is("it says so again at another value", slot->want_seq, wanted + 2);
	is("with that", sent[WEIR_MSG_WANT], closed + 2);
}

static void fails_now(void)
{
	fails[0] = CUDA_ERROR_ILLEGAL_ADDRESS;
	watcher_looks();
	agent = open_gate;
	agent_at = now_ns + 1000 * MS;
}

/* A launch that waits sees that its context fails, whoever finds that: the gate may stay closed. */
static void dead_at_the_gate(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 3, 50 * MS);
	uint32_t closed = close_gate();
	agent = fails_now;
	agent_at = now_ns + 5 * MS;
	uint64_t from = now_ns;
	struct weir_ticket t;
	is("a launch that waits", weir_enter(&t, KEY(1), 1, B, 0), false);
	is("at the gate, which is closed", header->gate, closed);
	within("for (ms)", (now_ns - from) / MS, 5, 150);
	is("waiting", slot->waiting, 0);
	nothing_left();
}

/* A lease that is over closes the gate, if the agent lives and leaves it open. */
static void lease_is_over(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	header->agent_beat_ns = now_ns;
	header->lease_until_ns = now_ns + 5 * MS;
	next_look = now_ns;
	launch(A, 1, 10 * US);
	lasts(5900 * US);
	launch(A, 1, 10 * US);
	is("open for a while", weir.expired, 0);
	lasts(400 * US);
	is("closed", weir.expired, header->gate);
	agent = open_gate;
	agent_at = now_ns + 20 * MS;
	header->agent_beat_ns = now_ns;
	uint64_t from = now_ns;
	launch(A, 1, 10 * US);
	within("waits (us)", (launch_at[3] - from) / US, 20000, 20300);
	header->lease_until_ns = now_ns;
	header->agent_beat_ns = now_ns - WEIR_DEAD_NS;
	lasts(10 * MS);
	is("no agent, no end", weir.expired, 0);
}

/* A dead agent closes no gate for ever, though the watcher is held up in the driver. */
static void silent_agent(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	header->agent_beat_ns = now_ns;
	close_gate();
	socket_open = false;
	uint64_t from = now_ns;
	launch(A, 1, 10 * US);
	within("gone (ms)", (now_ns - from) / MS, 1000, 1200);
	weir.agent_gone = false;
	header->agent_beat_ns = now_ns;
	socket_open = true;
	from = now_ns;
	launch(A, 1, 10 * US);
	within("hung (ms)", (now_ns - from) / MS, 3000, 3200);
	is("waiting", slot->waiting, 0);
}

/* ---- watcher.c */

static void change_gate(void)
{
	in_query = NULL;
	header->gate += 2;
}

static void open_batches(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 1, 10 * US);
	uint32_t put = recorded;
	current_context = (CUcontext)(contexts + 1); /* the watcher makes the stream's current */
	watcher_looks();
	is("left open at first", recorded, put);
	watcher_looks();
	is("marked at the second look", recorded, put + 1);
	is("calls that a driver would take amiss", broken, 0);
	current_context = (CUcontext)contexts;
	lasts(MS);
	watcher_looks();
	lasts(WEIR_IDLE_NS);
	watcher_looks();
	launch(A, 1, 10 * US);
	sent[WEIR_MSG_IDLE] = 0;
	watcher_looks();
	watcher_looks();
	lasts(WEIR_IDLE_NS - 10 * US);
	watcher_looks();
	is("idle at once", sent[WEIR_MSG_IDLE], 0);
	lasts(20 * US);
	watcher_looks();
	is("idle", sent[WEIR_MSG_IDLE], header->gate);
	launch(A, 1, 10 * US);
	put = recorded;
	uint32_t closed = close_gate();
	watcher_looks();
	is("marked at once at a closed gate", recorded, put + 1);
	is("in flight", slot->drained_seq == closed, false);
	lasts(MS);
	watcher_looks();
	is("drained", slot->drained_seq, closed);
	is("and told", sent[WEIR_MSG_DRAINED], closed);
	open_gate();
	struct weir_ticket t;
	is("enters", weir_enter(&t, KEY(1), 1, A, 0), true);
	closed = close_gate();
	put = recorded;
	watcher_looks();
	is("who launches is waited for", recorded, put);
	is("and in flight", slot->drained_seq == closed, false);
	device_takes(A, 10 * US, 0);
	weir_leave(&t, CUDA_SUCCESS);
	watcher_looks();
	lasts(MS);
	watcher_looks();
	is("drained again", slot->drained_seq, closed);
	/* another thread's launch that is measured ends the batch of one that is still under way */
	open_gate();
	struct weir_ticket other;
	is("enters", weir_enter(&t, KEY(1), 1, A, 0), true);
	is("another enters", weir_enter(&other, KEY(2), 1, A, 0), true);
	weir_leave(&other, CUDA_SUCCESS);
	lasts(MS);
	closed = close_gate();
	watcher_looks();
	is("nothing is open", weir_word_count(record_of(A)->word), 0);
	is("it is waited for", slot->drained_seq == closed, false);
	weir_leave(&t, CUDA_SUCCESS);
	/* the gate changes while it looks */
	open_gate();
	launch(A, 1, 10 * US);
	closed = close_gate();
	watcher_looks();
	lasts(MS);
	in_query = change_gate;
	watcher_looks();
	is("not at that value any more", slot->drained_seq == closed, false);
	watcher_looks();
	is("at the new one", slot->drained_seq, closed + 2);
	/* from one closed value to another the agent is told again only if a thread waits for it */
	for (uint32_t waiting = 0; waiting < 2; waiting++) {
		slot->waiting = waiting;
		sent[WEIR_MSG_DRAINED] = 0;
		header->gate += 2;
		watcher_looks();
		is("drained at yet another", slot->drained_seq, header->gate);
		is("and told", sent[WEIR_MSG_DRAINED], waiting ? header->gate : 0);
	}
}

/* A process is idle once it has had nothing to do for so long: not because nothing is in flight
 * whenever the watcher looks, nor since its last turn. */
static void busy_between_looks(void)
{
	begins(2 * MS);
	teach(1, 300 * US);
	launch(A, 1, 300 * US);
	ends(A);
	close_gate();
	watcher_looks();
	lasts(50 * MS);
	open_gate();
	sent[WEIR_MSG_IDLE] = 0;
	for (int i = 0; i < 8; i++) {
		watcher_looks();
		launch(A, 1, 300 * US);
		lasts(310 * US);
	}
	watcher_looks();
	is("said to be idle", sent[WEIR_MSG_IDLE], 0);
	lasts(WEIR_IDLE_NS - 10 * US);
	watcher_looks();
	is("too soon", sent[WEIR_MSG_IDLE], 0);
	lasts(20 * US);
	watcher_looks();
	is("idle", sent[WEIR_MSG_IDLE], header->gate);
}

/* slept is how long the watcher sleeps when it has found work in flight. */
static uint64_t slept(void)
{
	uint64_t from = now_ns;
	sleep_until_needed(&watching, header, header->gate, true);
	return (now_ns - from) / US;
}

/* Once the gate is closed others wait for what is in flight, which ends soon at first. */
static void looks_often(void)
{
	begins(2 * MS);
	teach(1, MS);
	launch(A, 1, MS);
	watcher_looks();
	is("while the gate is open (us)", slept(), BUSY_NS / US);
	close_gate();
	watcher_looks();
	is("as it is closed (us)", slept(), SOON_NS / US);
	lasts(USUAL_NS);
	is("later (us)", slept(), DRAIN_NS / US);
	header->gate += 2; /* a pass */
	watcher_looks();
	is("at another value (us)", slept(), SOON_NS / US);
}

/* At the closed gate what stalls is set aside if somebody waits there, in whatever process. */
static void stalls_at_the_gate(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch_behind(A, 1, 10 * US, 1000);
	close_gate();
	next_look = now_ns;
	lasts(50 * MS);
	is("nobody waits", slot->stalled, 0);
	slot[3].owner_pid = slot[3].waiting = 1;
	lasts(2 * MS);
	is("somebody waits", slot->stalled, 1);
	uint32_t put = recorded;
	open_gate();
	struct weir_ticket t;
	is("enters", weir_enter(&t, KEY(1), 1, A, 0), true);
	weir_leave(&t, CUDA_SUCCESS);
	lasts(5 * MS);
	is("marks behind it", recorded, put);
}

static void exits(void)
{
	begins(2 * MS);
	teach(1, 200 * US);
	launch(A, 1, 200 * US);
	uint64_t from = now_ns;
	weir.stopping = true;
	uint32_t closed = close_gate(), put = recorded;
	while (slot->drained_seq != closed && now_ns - from < 10 * MS) {
		watcher_looks();
		lasts(10 * US);
	}
	within("drained (us)", (now_ns - from) / US, 390, 430);
	is("events put meanwhile", recorded, put);
	struct weir_ticket t;
	is("a launch is not metered", weir_enter(&t, KEY(1), 1, A, 0), false);
}

#define CASES(X) \
	X(dead_context) X(dead_in_flight) X(record_fails) X(void_pass) X(other_pass) \
	X(dead_at_the_gate) X(lease_is_over) X(silent_agent) X(open_batches) \
	X(busy_between_looks) X(looks_often) X(stalls_at_the_gate) X(exits)

int main(int n, char **names)
{
	static const struct one cases[] = {CASES(CASE)};
	return all(cases, sizeof cases / sizeof *cases, n > 1 ? names[1] : NULL);
}
