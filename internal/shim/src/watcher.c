/*
 * The watcher: one thread in each attached process, with all signals blocked. It closes batches
 * that the program left open, takes off marks that the device has reached, tells the agent what it
 * must know (drained, idle), and notices when the agent goes and comes back. With nothing in flight
 * it sleeps, and wakes ten times a second to look after the agent. When the process exits it leaves
 * the driver, for which exit waits (own.c), and speaks with the agent until the process is gone:
 * other handlers of exit may take long, and nobody is to wait for what was in flight before them.
 */
#include "weir.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK_NS 100000000u
#define BUSY_NS 200000u  /* how often it looks while work is in flight */
#define SOON_NS 2000u    /* the same in the time in which a turn usually drains, */
#define USUAL_NS 2000000u
#define DRAIN_NS 20000u  /* and while the gate is closed for longer */
#define PASS_NS 500000u  /* and while launches pass it */
#define FREED_NS 1000000u /* how often it looks after frees in stream order */
#define LATE_NS 1000000u /* after the end of a lease that the agent left open */

struct watch {
	uint64_t last_busy, next_check;
	uint64_t next_freed; /* when it looks next after frees in stream order */
	uint64_t launched; /* launches, and the gate's value, at the last look */
	uint32_t gate;
	uint64_t gate_ns;  /* when that value was seen first */
	uint32_t drained;  /* the gate value last reported as drained */
	uint64_t launches; /* launches when that was */
	uint64_t left;     /* when what the process had in flight as it exited is over; 0: it goes on */
	bool idle_said, drained_said;
};

void weir_watcher_wake(void)
{
	if (__atomic_exchange_n(&weir.asleep, 0, __ATOMIC_SEQ_CST))
		weir_futex_wake(&weir.asleep);
}

/* weir_agent_silent tells whether the agent has given no sign of life for too long, whose socket is
 * open. */
bool weir_agent_silent(struct weir_header *h, bool open, uint64_t now)
{
	return now > weir_get(&h->agent_beat_ns) + (open ? WEIR_HUNG_NS : WEIR_DEAD_NS);
}

/* check_agent finds out whether the agent is alive, and joins one that has come back. */
static void check_agent(uint64_t now)
{
	bool open = weir_socket_open() || weir_reconnect();
	struct weir_header *h = weir_page(); /* perhaps another one */
	bool gone = weir_agent_silent(h, open, now);
	/* One whose socket is closed says nothing more, though its last beat be young. */
	if (gone == weir_get(&weir.agent_gone) || (!open && !gone))
		return;
	weir_set(&weir.agent_gone, gone);
	if (gone)
		weir_futex_wake(&h->gate);
}

/* check_lease closes the gate for this process when its lease is over and the agent, though alive,
 * has left it open. */
static void check_lease(struct weir_header *h, uint32_t gate, uint64_t now)
{
	uint64_t until = weir_get(&h->lease_until_ns);
	bool alive = now < weir_get(&h->agent_beat_ns) + WEIR_DEAD_NS;
	bool over =
		(gate & 1) && alive && until && until != UINT64_MAX && now > until && now - until > LATE_NS;
	if (over && !weir_get(&weir.expired)) {
		weir_set(&weir.expired, gate);
	} else if (!over && weir_get(&weir.expired)) {
		weir_set(&weir.expired, 0);
		weir_futex_wake(&h->gate);
	}
}

/* watched tells whether a thread that waits for room looks at the stream all the time: with the
 * gate open that is enough, and it would wait for the lock, asleep, for longer than a look takes.
 */
static bool watched(struct weir_stream *s, bool closed, uint64_t now)
{
	enum { JUST_NS = 50000 };
	return !closed && weir_get(&s->looked_ns) + JUST_NS > now;
}

/* left_open tells whether the open batch is to be marked, because hardly anything was launched on
 * the stream since the last look, or it has been open for long. A program that goes on marks it
 * itself, and would wait meanwhile for the lock, and for the driver's. */
static bool left_open(struct weir_stream *s, uint64_t w)
{
	enum { MANY = 8, LONG = 8 }; /* launches between two looks, and looks */
	uint32_t before = s->seen;
	s->seen = weir_word_count(w);
	s->looks = s->stale ? s->looks + 1 : 0;
	return s->stale && (s->seen < before + MANY || s->looks >= LONG);
}

/* look at one stream; true: it has work that is not known complete. */
static bool look(struct weir_stream *s, bool closed, uint64_t now)
{
	if (watched(s, closed, now))
		return true;
	if (weir_get(&s->free) || pthread_mutex_trylock(&s->lock) != 0)
		return !weir_get(&s->free);
	weir_reap(s);
	uint64_t w = weir_get(&s->word);
	/* Whoever says that it is gone has said before whether it is to be destroyed later, and whether
	 * its context may be gone. */
	bool ended = weir_get(&s->ended), gone = weir_get(&s->gone), unsure = weir_get(&s->unsure);
	bool later = gone && !unsure && __atomic_exchange_n(&s->later, false, __ATOMIC_SEQ_CST);
	bool last = __atomic_exchange_n(&s->last, false, __ATOMIC_SEQ_CST), left = left_open(s, w);
	/* Behind what stalls another mark tells nothing. */
	if (weir_word_count(w) > 0 && (left || closed || ended || later || last) &&
		weir_word_launching(w) == 0 && (later || !gone) && !s->aside) {
		weir_close_batch(s, true);
		weir_reap(s);
		w = weir_get(&s->word);
	}
	if (later)
		weir_destroy_late(s);
	s->stale = weir_word_count(w) > 0;
	bool busy = s->head != s->tail || weir_word_count(w) > 0 || weir_word_launching(w) > 0;
	bool over = gone || (ended && weir_word_count(w) == 0);
	bool none = s->head == s->tail || (gone && weir_get(&s->dead)); /* reached, or never */
	if (over && none && !unsure && weir_word_launching(w) == 0) {
		weir_forget_marks(s, !weir_get(&s->dead));
		weir_set(&s->free, true);
		busy = false;
	}
	pthread_mutex_unlock(&s->lock);
	return busy;
}

/* somebody_waits tells whether a launch of this job waits at the gate, here or elsewhere. */
static bool somebody_waits(struct weir_header *h)
{
	struct weir_slot *slots = (struct weir_slot *)((char *)h + WEIR_SLOTS_OFFSET);
	for (uint32_t i = 0; i < WEIR_SLOT_COUNT; i++)
		if (weir_peek(&slots[i].owner_pid) && weir_peek(&slots[i].waiting))
			return true;
	return false;
}

/* look_all looks at all streams. What is in flight at a closed gate may wait for what waits there:
 * then the agent has to know. */
static bool look_all(bool closed, uint64_t now)
{
	bool busy = false;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next)
		busy |= look(s, closed, now);
	if (busy && closed && now - weir_get(&weir.progress_ns) > WEIR_STALL_NS &&
		somebody_waits(weir_page()))
		weir_set_aside(NULL, now);
	return busy;
}

static uint64_t open_ns(void)
{
	uint64_t total = weir_in_flight();
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next)
		total += weir_word_time(weir_get(&s->word)) * WEIR_UNIT_NS;
	return total;
}

/* begun tells whether the process has launched since the last look, or the gate has taken another
 * value: it is not idle then, though nothing is in flight at the two looks. */
static bool begun(struct watch *k, uint32_t gate, uint64_t launches, uint64_t now)
{
	bool changed = k->gate != gate, yes = k->launched != launches || changed;
	k->launched = launches;
	k->gate = gate;
	if (changed)
		k->gate_ns = now;
	return yes;
}

static void report(struct watch *k, struct weir_header *h, uint32_t gate, bool busy, uint64_t now)
{
	struct weir_slot *slot = weir_slot();
	uint64_t launches = weir_get(&slot->launches) + weir_get(&slot->graph_launches);
	weir_set(&slot->inflight_ns, busy ? open_ns() : 0);
	if (begun(k, gate, launches, now) || busy) {
		k->last_busy = now;
		k->idle_said = false;
	}
	if (busy) {
		k->drained_said = false;
		weir_set(&slot->last_launch_ns, now);
		return;
	}
	bool closed = !(gate & 1) || gate == weir_get(&weir.expired);
	if (closed && weir_get(&h->gate) == gate && (k->drained != gate || !k->drained_said)) {
		weir_set(&slot->drained_seq, gate);
		bool heard = weir_futex_wake(&slot->drained_seq); /* by an agent that waits for just this */
		/* with a thread at the gate the agent may have changed it from one closed value to another,
		 * and waits to hear that it has drained at that one too */
		if (!heard && (launches != k->launches || !k->drained_said || weir_get(&slot->waiting)))
			weir_send(WEIR_MSG_DRAINED, gate);
		k->launches = launches;
		k->drained = gate;
		k->drained_said = true;
	}
	if (!closed && !k->idle_said && weir_get(&slot->waiting) == 0 &&
		now - k->last_busy >= WEIR_IDLE_NS) {
		weir_set(&slot->last_idle_ns, now);
		weir_send(WEIR_MSG_IDLE, gate);
		k->idle_said = true;
	}
}

/* leaving tells of a process that exits, whose events nobody looks at any more, whether work is in
 * flight: for twice as long as predicted. */
static bool leaving(struct watch *k, uint64_t now)
{
	if (!k->left)
		k->left = now + 2 * open_ns();
	return now < k->left;
}

/* sleep_while_busy sleeps hardly at all while others wait for what is in flight. It does not yield
 * in place of a sleep so short: on a busy machine the kernel has who yields wait for its slice's
 * length. */
static void sleep_while_busy(const struct watch *k, struct weir_header *h, uint32_t gate)
{
	if ((gate & 1) || weir_get(&weir.aside))
		weir_futex_wait(&h->gate, gate, BUSY_NS);
	else
		weir_futex_wait(
			&h->gate, gate, weir_now() - k->gate_ns < USUAL_NS ? SOON_NS : DRAIN_NS);
}

static void sleep_until_needed(struct watch *k, struct weir_header *h, uint32_t gate, bool busy)
{
	if (busy) {
		sleep_while_busy(k, h, gate);
		return;
	}
	if (weir_get(&weir.wants) && !weir_get(&weir.stopping)) {
		weir_futex_wait(&h->gate, gate, PASS_NS);
		return;
	}
	if (k->left) {
		weir_futex_wait(&h->gate, gate, TICK_NS);
		return;
	}
	if ((gate & 1) && !k->idle_said) {
		weir_futex_wait(&h->gate, gate, WEIR_IDLE_NS);
		return;
	}
	if (weir_pools_slack())
		weir_pools_refresh(false);
	weir_set(&weir.asleep, 1);
	/* A launch adds to its stream's word first and looks at asleep then, and so does a thread that
	 * waits at the gate with the gate's value. */
	if (open_ns() == 0 && weir_get(&h->gate) == gate && !weir_get(&weir.stopping))
		weir_futex_wait(&weir.asleep, 1, weir_freeing_any() ? FREED_NS : TICK_NS);
	weir_set(&weir.asleep, 0);
}

/* prompt has the thread run as soon as it wakes, also beside threads that always run: others wait
 * for what it sees, and the kernel's 50 us of slack add up. It asks for the shortest slices, whose
 * end Linux from 6.12 on goes by in saying who is next ("EEVDF Scheduler" in its documentation);
 * before, this does nothing. */
static void prompt(void)
{
	enum { SLICE_NS = 100000 };
	struct { /* of sched_setattr(2) */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} how = {0};
	prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
	if (syscall(SYS_sched_getattr, 0, &how, sizeof how, 0) == 0 && how.policy == SCHED_OTHER) {
		how.size = sizeof how;
		how.runtime = SLICE_NS;
		syscall(SYS_sched_setattr, 0, &how, 0);
	}
}

static void *watch(void *unused)
{
	(void)unused;
	struct watch k = {.drained_said = true};
	weir_own_thread();
	prompt();
	for (;;) {
		uint64_t now = weir_now();
		struct weir_header *h = weir_page();
		if (now >= k.next_check) {
			check_agent(now);
			weir_tell_unknown();
			k.next_check = now + TICK_NS;
			h = weir_page();
		}
		uint32_t gate = weir_get(&h->gate);
		check_lease(h, gate, now);
		weir_pass_unused(now);
		if (now >= k.next_freed) {
			weir_freeing_look();
			k.next_freed = now + FREED_NS;
		}
		bool busy = weir_get(&weir.stopping)
			? leaving(&k, now)
			: look_all(!(gate & 1) || weir_get(&weir.expired), now);
		report(&k, h, gate, busy, now);
		sleep_until_needed(&k, h, gate, busy);
	}
	return unused;
}

void weir_watcher_start(void)
{
	pthread_attr_t how;
	pthread_t thread;
	sigset_t all, before;
	sigfillset(&all);
	pthread_attr_init(&how);
	/* Its stack has the usual size: the driver's calls run on it, and the C library puts the
	 * thread-local variables of the program and of all its libraries there (glibc bug 11787). */
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	weir_set(&weir.watched, pthread_create(&thread, &how, watch, NULL) == 0);
	if (!weir_get(&weir.watched))
		weir_say("no thread to watch the device with: launches are gated, and not bounded");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
}
