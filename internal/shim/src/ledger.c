/*
 * Device memory against the job's cap.
 *
 * Each process adds to its own slot first and then sums all slots of the job. Of several that add
 * at once, the one whose addition comes last in the order of these sequentially consistent
 * operations sees all others, so what has been admitted never exceeds the cap. A process that finds
 * the sum too high takes its own addition back; as it cannot know whether another's in the same
 * moment will be taken back too, it looks again for some milliseconds while it would fit if the
 * others were. No lock is involved: a process killed anywhere leaves only its slot, which the agent
 * clears. Without an agent others take back what it had not decided, which could be all of the cap.
 *
 * A process has another slot once an agent has returned that did not know it again, which may have
 * given the former one to another process by then, or have cleared it. So what is in a slot is
 * known here besides (own_counts), and is never read back; no thread is between two changes of it
 * while the slot becomes another one.
 */
#include "weir.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELD_NS 1000000u
#define DECIDE_NS 20000000u

/* what the process's slot is to have; all are atomic */
static struct {
	uint64_t used, pending, contexts;
	uint32_t waiting;
} own_counts;

/*
 * How many changes of those and the slot are under way, and with it whether a thread waits for the
 * last of them to end (WANTED) or has the slot become another one (TAKEN), for which there is none.
 * What begins waits for both, so that the one who waits gets his turn however many others change
 * their counts. But a signal's handler that calls the driver, of a thread that is within a change,
 * does not wait for who waits, maybe, for that change. It waits for TAKEN: then that change has yet
 * to be counted here, and nobody waits for it.
 */
#define WANTED 0x80000000u
#define TAKEN 0x40000000u

static uint32_t changing;
/* changes of this thread, from before each is counted there until after it is no more */
static __thread volatile uint32_t within __attribute__((tls_model("initial-exec")));

void weir_ledger_reset(void)
{
	changing = within = 0;
	memset(&own_counts, 0, sizeof own_counts);
}

/* await waits while changing has this value; it is no cancellation point. */
static void await(uint32_t value)
{
	syscall(SYS_futex, &changing, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(void)
{
	syscall(SYS_futex, &changing, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

/* change gives the slot, which stays the process's until changed. */
static struct weir_slot *change(void)
{
	uint32_t closed = within ? TAKEN : TAKEN | WANTED, n = weir_get(&changing);
	within++;
	do
		for (; n & closed; n = weir_get(&changing))
			await(n);
	while (!__atomic_compare_exchange_n(
		&changing, &n, n + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return weir_slot();
}

static void changed(void)
{
	if (!within)
		return; /* in the child of a handler's fork, where it is under way no more */
	if (__atomic_sub_fetch(&changing, 1, __ATOMIC_SEQ_CST) == WANTED)
		wake();
	within--;
}

/* take waits until no change is under way, and keeps others from beginning until taken. */
static void take(void)
{
	uint32_t n = __atomic_or_fetch(&changing, WANTED, __ATOMIC_SEQ_CST), none = WANTED;
	while (!__atomic_compare_exchange_n(
		&changing, &none, TAKEN, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		if (n != WANTED)
			await(n);
		n = __atomic_or_fetch(&changing, WANTED, __ATOMIC_SEQ_CST);
		none = WANTED;
	}
}

static void taken(void)
{
	__atomic_and_fetch(&changing, ~TAKEN, __ATOMIC_SEQ_CST);
	wake();
}

/* MORE and LESS change one of the counts, in the slot and here. */
#define MORE(slot, field, count, n) \
	(weir_add(&own_counts.count, n), weir_add(&(slot)->field, n))
#define LESS(slot, field, count, n) \
	(weir_sub(&own_counts.count, n), weir_sub(&(slot)->field, n))

static struct weir_slot *slots(struct weir_header *h)
{
	return (struct weir_slot *)((char *)h + WEIR_SLOTS_OFFSET);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* sum adds up all slots; *undecided is what slots other than own have added and may take back. Of a
 * slot, what it uses is read before its contexts: bytes that weir_release_to_context moves
 * meanwhile are then seen twice, where the other order would miss them. */
static uint64_t sum(
	struct weir_header *h, struct weir_slot *own, uint64_t asked, uint64_t *undecided)
{
	uint64_t total = 0;
	*undecided = 0;
	for (uint32_t i = 0; i < WEIR_SLOT_COUNT; i++) {
		struct weir_slot *s = &slots(h)[i];
		uint64_t used = weir_get(&s->mem_used_bytes);
		total = plus(total, plus(used, weir_get(&s->mem_context_bytes)));
		total = plus(total, weir_get(&s->found_bytes));
		uint64_t pending = weir_get(&s->mem_pending_bytes), mine = s == own ? asked : 0;
		*undecided = plus(*undecided, pending > mine ? pending - mine : 0);
	}
	return total;
}

/* weir_granted is the cap that the job was given, of which others are promised a part while memory
 * is away. */
uint64_t weir_granted(void)
{
	struct weir_header *h = weir_page();
	uint64_t cap = weir_get(&h->mem_cap_bytes), said = weir_get(&h->mem_total_reported);
	return weir_get(&h->movable) && said > cap ? said : cap;
}

/* weir_cap is what the job may hold. Without an agent nothing stays away, and nobody is left who
 * would raise the cap again. */
uint64_t weir_cap(void)
{
	return weir_get(&weir.agent_gone) ? weir_granted() : weir_get(&weir_page()->mem_cap_bytes);
}

uint64_t weir_used(void)
{
	uint64_t undecided;
	return sum(weir_page(), NULL, 0, &undecided);
}

/* here tells whether processes have the same numbers for the agent, which writes them into slots,
 * as for this one. */
static bool here(void)
{
	return weir_get(&weir_slot()->owner_pid) == (uint32_t)getpid();
}

/* weir_take_over takes back what processes that have ended were deciding on, while there is no
 * agent to clear their slots. True: there was something. */
bool weir_take_over(void)
{
	bool any = false;
	if (!weir_get(&weir.agent_gone) || !here())
		return false;
	for (uint32_t i = 0; i < WEIR_SLOT_COUNT; i++) {
		struct weir_slot *s = &slots(weir_page())[i];
		uint32_t pid = weir_get(&s->owner_pid);
		if (!pid || pid == WEIR_FOREIGN_PID || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
			continue;
		uint64_t left = __atomic_exchange_n(&s->mem_pending_bytes, 0, __ATOMIC_SEQ_CST);
		uint64_t used = weir_get(&s->mem_used_bytes), less;
		do
			less = used > left ? used - left : 0;
		while (!__atomic_compare_exchange_n(
			&s->mem_used_bytes, &used, less, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
		any |= left > 0;
	}
	return any;
}

/* attempt counts bytes if they fit; *could: they may, once others have decided. */
static bool attempt(uint64_t bytes, bool *could)
{
	uint64_t cap = weir_cap(), undecided;
	*could = false;
	if (bytes > cap) /* also keeps the sums below from wrapping */
		return false;
	struct weir_slot *own = change();
	MORE(own, mem_pending_bytes, pending, bytes);
	MORE(own, mem_used_bytes, used, bytes);
	uint64_t total = sum(weir_page(), own, bytes, &undecided);
	bool fits = total <= weir_cap();
	if (!fits)
		LESS(own, mem_used_bytes, used, bytes);
	LESS(own, mem_pending_bytes, pending, bytes);
	changed();
	*could = total - (undecided < total ? undecided : total) <= cap;
	return fits;
}

/* weir_reserve counts bytes; false: they do not fit, and nothing was counted. */
bool weir_reserve(uint64_t bytes)
{
	bool could;
	for (uint64_t began = 0; bytes && !attempt(bytes, &could);) {
		if (!could)
			return false;
		uint64_t now = weir_now();
		if (!began)
			began = now;
		if (now - began >= DECIDE_NS && !weir_take_over())
			return false;
		if (now - began < YIELD_NS)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return true;
}

/* weir_reserve_at_once does not wait for others to decide. */
bool weir_reserve_at_once(uint64_t bytes)
{
	bool could;
	return !bytes || attempt(bytes, &could);
}

/* weir_would_fit tells whether bytes may fit with so much less counted, if others take back what
 * they have not decided on. */
bool weir_would_fit(uint64_t bytes, uint64_t less)
{
	uint64_t undecided, total = sum(weir_page(), NULL, 0, &undecided);
	total = plus(total - (undecided < total ? undecided : total), bytes);
	return total - (less < total ? less : total) <= weir_cap();
}

/* weir_reserve_rest counts all that is left of the cap and gives how much that is, 0 if nothing is
 * or another decides; it is undecided until weir_decided. */
uint64_t weir_reserve_rest(void)
{
	uint64_t cap = weir_cap(), used = weir_used(), undecided;
	uint64_t rest = used < cap ? cap - used : 0;
	struct weir_slot *own = change();
	MORE(own, mem_pending_bytes, pending, rest);
	MORE(own, mem_used_bytes, used, rest);
	bool all = sum(weir_page(), own, rest, &undecided) <= cap && !undecided;
	if (!all) {
		LESS(own, mem_used_bytes, used, rest);
		LESS(own, mem_pending_bytes, pending, rest);
	}
	changed();
	return all ? rest : 0;
}

void weir_decided(uint64_t bytes)
{
	struct weir_slot *own = change();
	LESS(own, mem_pending_bytes, pending, bytes);
	changed();
}

/* weir_count counts bytes whether they fit or not. */
void weir_count(uint64_t bytes)
{
	struct weir_slot *own = change();
	MORE(own, mem_used_bytes, used, bytes);
	changed();
}

/* weir_overdraw counts bytes that the device has already given, though they be too many. */
void weir_overdraw(uint64_t bytes)
{
	if (weir_reserve(bytes))
		return;
	weir_count(bytes);
	__atomic_fetch_or(&weir_slot()->error_flags, WEIR_ERROR_OVERDRAFT, __ATOMIC_RELAXED);
}

void weir_release(uint64_t bytes)
{
	struct weir_slot *own = change();
	LESS(own, mem_used_bytes, used, bytes);
	changed();
}

/* weir_contexts is what contexts are counted with, and weir_contexts_are says how much that is. */
uint64_t weir_contexts(void)
{
	return weir_get(&own_counts.contexts);
}

void weir_contexts_are(uint64_t bytes)
{
	struct weir_slot *own = change();
	weir_set(&own_counts.contexts, bytes);
	weir_set(&own->mem_context_bytes, bytes);
	changed();
}

/* weir_release_to_context gives up counted bytes, of which or of more a context takes so many. Who
 * looks meanwhile sees that something is being decided, and looks again. */
void weir_release_to_context(uint64_t bytes, uint64_t context)
{
	struct weir_slot *own = change();
	MORE(own, mem_pending_bytes, pending, bytes);
	weir_set(&own_counts.contexts, context);
	weir_set(&own->mem_context_bytes, context);
	LESS(own, mem_used_bytes, used, bytes);
	LESS(own, mem_pending_bytes, pending, bytes);
	changed();
}

/* weir_counted is what is counted for allocations of this process. */
uint64_t weir_counted(void)
{
	return weir_get(&own_counts.used);
}

/* weir_waits_begin counts a thread that waits until its process may go on, and tells whether it is
 * the only one; weir_waits_end takes it back. */
bool weir_waits_begin(void)
{
	struct weir_slot *own = change();
	MORE(own, waiting, waiting, 1);
	bool only = weir_get(&own->waiting) == 1;
	changed();
	return only;
}

void weir_waits_end(void)
{
	struct weir_slot *own = change();
	LESS(own, waiting, waiting, 1);
	changed();
}

/* still_own tells whether the slot that the process had before this one still is its. Where the
 * agent cannot tell processes apart, it is if it has what this one counts. */
static bool still_own(const struct weir_slot *old, const struct weir_slot *now)
{
	uint32_t pid = weir_get(&now->owner_pid);
	uint64_t start = weir_get(&now->owner_start);
	if (weir_get(&old->owner_pid) != pid || weir_get(&old->owner_start) != start)
		return false;
	return pid != WEIR_FOREIGN_PID || start ||
		(weir_get(&old->mem_used_bytes) == weir_get(&own_counts.used) &&
			weir_get(&old->mem_context_bytes) == weir_get(&own_counts.contexts));
}

/* weir_ledger_adopt makes a slot, of this page, the process's own, and has all that it counts be
 * there and no more in the one that it had, if that still is its. No signal's handler runs in
 * between, which would wait for its own thread. */
void weir_ledger_adopt(struct weir_header *h, struct weir_slot *slot)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	take();
	struct weir_slot *old = weir_slot();
	if (old && old != slot && still_own(old, slot)) {
		weir_set(&old->mem_used_bytes, 0);
		weir_set(&old->mem_pending_bytes, 0);
		weir_set(&old->mem_context_bytes, 0);
		weir_set(&old->waiting, 0);
	}
	weir_set(&slot->mem_pending_bytes, weir_get(&own_counts.pending));
	weir_set(&slot->mem_used_bytes, weir_get(&own_counts.used));
	weir_set(&slot->mem_context_bytes, weir_get(&own_counts.contexts));
	weir_set(&slot->waiting, weir_get(&own_counts.waiting));
	__atomic_store_n(&weir.slot, slot, __ATOMIC_SEQ_CST);
	__atomic_store_n(&weir.page, h, __ATOMIC_SEQ_CST);
	taken();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

CUresult weir_deny(void)
{
	weir_add(&weir_page()->denied_allocs, 1);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
