/*
 * Calls that need the program's memory on the device, or its room there, against moving it away
 * (move.c).
 *
 * In a job whose memory can be moved each such call (launches, copies, allocations, contexts,
 * questions about an address) is held: while one is, the memory stays where it is. Who moves it
 * closes the barrier first, waits until nobody is held and the device is done with what was
 * launched, and then says that the memory is away. Calls that come meanwhile wait.
 *
 * What the device is to finish may itself wait for what a thread launches that waits here. So until
 * the memory is away nobody waits for long: who has waited for PATIENCE_NS opens the barrier again,
 * and the move is tried another time.
 */
#include "weir.h"

#include <sched.h>
#include <time.h>

#define PATIENCE_NS UINT64_C(50000000)
#define LOOK_NS 20000000u
#define LEAVE_NS UINT64_C(1000000000) /* how long calls under way are waited for */

enum { OPEN, CLOSING, AWAY };

static uint32_t barrier; /* futex */
static uint64_t inside;  /* threads that are held */
static uint64_t touched; /* how often the memory may have been changed */

/* initial-exec, as in streams.c: calls of this thread, one within the other */
static __thread uint32_t depth __attribute__((tls_model("initial-exec")));
/* whether it could be cancelled before: one that ended in the driver would be held for ever */
static __thread int cancel __attribute__((tls_model("initial-exec")));

void weir_hold_reset(void)
{
	barrier = OPEN;
	inside = 0;
	depth = 0;
}

uint64_t weir_touches(void)
{
	return weir_get(&touched);
}

static void open_from(uint32_t state)
{
	if (__atomic_compare_exchange_n(
			&barrier, &state, OPEN, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		weir_futex_wake(&barrier);
}

/* wait_at_barrier tells the agent, once, that a thread needs memory that is away. */
static void wait_at_barrier(void)
{
	uint64_t began = weir_now();
	bool told = false;
	weir_waits_begin();
	for (uint32_t now; (now = weir_get(&barrier)) != OPEN && !weir_get(&weir.stopping);) {
		if (now == AWAY && !told) {
			weir_add(&weir_slot()->want_seq, 1);
			weir_send(WEIR_MSG_WANT, weir_get(&weir_page()->gate));
			told = true;
		}
		if (now == CLOSING && weir_now() - began > PATIENCE_NS)
			open_from(CLOSING);
		else
			weir_futex_wait(&barrier, now, LOOK_NS);
	}
	weir_waits_end();
}

/* weir_hold_on is weir_hold where memory can be moved. Within a call that is held, as a tool that
 * is called back may, nobody waits; nor does what is left of a program that exits. */
bool weir_hold_on(bool touches)
{
	if (!depth)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (!depth) {
		weir_add(&inside, 1);
		if (weir_likely(weir_get(&barrier) == OPEN) || weir_get(&weir.stopping))
			break;
		weir_sub(&inside, 1);
		wait_at_barrier();
	}
	depth++;
	if (touches)
		weir_add(&touched, 1);
	return true;
}

void weir_hold_off(void)
{
	if (--depth)
		return;
	weir_sub(&inside, 1);
	pthread_setcancelstate(cancel, NULL);
}

/* weir_hold_pause lets go of what this thread holds, while it waits at the gate; it gives how often
 * it was held, for weir_hold_resume. */
uint32_t weir_hold_pause(void)
{
	uint32_t had = depth;
	if (had)
		weir_sub(&inside, 1);
	depth = 0;
	return had;
}

/* weir_hold_resume holds the call again. The memory may have been away and back meanwhile, and what
 * the call is about to change is then not among what was changed until it came back. */
void weir_hold_resume(uint32_t had)
{
	int before = cancel; /* it cannot be, all the while */
	if (!had)
		return;
	weir_hold_on(true);
	cancel = before;
	depth = had;
}

/* weir_barrier_close waits until no thread is held; false: one stays so, or does not want to wait,
 * and the barrier is open. */
bool weir_barrier_close(void)
{
	uint64_t began = weir_now();
	weir_set(&barrier, CLOSING);
	while (weir_get(&inside)) {
		if (weir_get(&barrier) != CLOSING)
			return false;
		if (weir_now() - began > LEAVE_NS || weir_get(&weir.stopping)) {
			open_from(CLOSING);
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	return true;
}

/* weir_barrier_away says that the memory is about to go; false: somebody did not want to wait until
 * the device was done with it. */
bool weir_barrier_away(void)
{
	uint32_t closing = CLOSING;
	return __atomic_compare_exchange_n(
		&barrier, &closing, AWAY, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* weir_barrier_shut says that it is to be taken for away before there is any. */
void weir_barrier_shut(void)
{
	weir_set(&barrier, AWAY);
}

void weir_barrier_open(void)
{
	weir_set(&barrier, OPEN);
	weir_futex_wake(&barrier);
}
