/*
 * The ledger as several processes change it, exactly between two reads that one makes of another's
 * slot, and as one leaves it that was killed.
 */
#include "../src/weir.h"

static void seen(const void *p);

#undef weir_get
#define weir_get(p) \
	__extension__({ \
		__typeof__(*(p)) v = __atomic_load_n(p, __ATOMIC_SEQ_CST); \
		seen(p); \
		v; \
	})

/* The mover's writes, after each of which another may look. */
static void wrote(void);

#undef weir_set
#define weir_set(p, v) (__atomic_store_n(p, v, __ATOMIC_SEQ_CST), wrote())
#undef weir_sub
#define weir_sub(p, v) (__atomic_sub_fetch(p, v, __ATOMIC_SEQ_CST), wrote())

#include "../src/ledger.c"

#include <sys/wait.h>

#include "expect.h"

#define SOME 16

struct weir_process weir;
static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_slot *own, *other;
static uint32_t reads, after;  /* of the other's slot; after so many of them, */
static void (*meanwhile)(void); /* the other process does this */
static uint64_t now;

/* seen is told of each read. */
static void seen(const void *p)
{
	const char *at = p, *from = (const char *)other;
	if (at >= from && at < from + sizeof *other && ++reads == after && meanwhile) {
		weir.slot = other;
		meanwhile();
		weir.slot = weir.slot == other ? own : weir.slot;
	}
}

static bool moves;
static uint64_t least;
static uint32_t writes, interrupted; /* writes that a signal's handler may come between */

static void wrote(void)
{
	sigset_t now_blocked;
	pthread_sigmask(SIG_BLOCK, NULL, &now_blocked);
	writes++;
	interrupted += !sigismember(&now_blocked, SIGUSR1);
	if (!moves)
		return;
	uint64_t used = weir_used();
	least = used < least ? used : least;
}

static void (*soon)(void); /* done by others when the clock is looked at next */

uint64_t weir_now(void)
{
	void (*f)(void) = soon;
	soon = NULL;
	if (f)
		f();
	return now += 100000;
}

static void begin(uint64_t used, uint64_t pending)
{
	weir_ledger_reset();
	weir.slot = own;
	*own = (struct weir_slot){.owner_pid = (uint32_t)getpid()};
	*other = (struct weir_slot){.mem_used_bytes = used, .mem_pending_bytes = pending};
	reads = after = 0;
	meanwhile = NULL;
}

static void to_context(void)
{
	weir_release_to_context(SOME, SOME);
}

static void take_back(void)
{
	weir_sub(&other->mem_used_bytes, SOME);
	weir_sub(&other->mem_pending_bytes, SOME);
}

static void decide(void)
{
	weir_decided(SOME);
}

/* Bytes that move from allocations to contexts are never missed. */
static void moving(void)
{
	for (uint32_t i = 1; i <= 3; i++) {
		begin(SOME, 0);
		after = i;
		meanwhile = to_context;
		expect("all seen of bytes that move", weir_used() >= SOME, true);
		expect("undecided of them at the end", other->mem_pending_bytes, 0);
	}
	begin(0, 0);
	own->mem_used_bytes = SOME;
	least = SOME;
	moves = true;
	to_context();
	moves = false;
	expect("seen at least while bytes move", least, SOME);
	begin(SOME, 0);
	other->found_bytes = 3;
	expect("with what the agent found", weir_used(), SOME + 3);
}

/* What another has added and takes back, or keeps. */
static void deciding(void)
{
	begin(SOME, SOME);
	after = 4;
	meanwhile = take_back;
	expect("taken once the other has taken back", weir_reserve(SOME), true);
	expect("counted of it", own->mem_used_bytes, SOME);
	expect("undecided of it", own->mem_pending_bytes, 0);

	begin(SOME, SOME);
	after = 4;
	meanwhile = decide;
	uint64_t from = now;
	expect("taken once the other has kept its", weir_reserve(SOME), false);
	expect("counted then", own->mem_used_bytes, 0);
	expect("looked on for longer than it was undecided", now - from > DECIDE_NS / 2, false);

	begin(SOME, SOME);
	from = now;
	expect("taken while the other never decides", weir_reserve(SOME), false);
	expect("given up before its time", now - from < DECIDE_NS, false);
	expect("given up after its time", now - from > DECIDE_NS + 1000000, false);

	begin(SOME / 2, SOME / 2);
	expect("what fits beside what is undecided", weir_reserve(SOME / 2), true);
	begin(SOME, SOME / 2);
	from = now;
	expect("what would fit for no decision", weir_reserve(SOME), false);
	expect("is waited for", now - from > DECIDE_NS / 2, false);
	begin(0, 0);
	own->mem_used_bytes = own->mem_pending_bytes = SOME; /* of another thread */
	from = now;
	expect("beside another thread that decides", weir_reserve(1), false);
	expect("not waited for", now - from < DECIDE_NS, false);
}

/* Who is in the gate waits for nobody, and what would fit is said as if others take back. */
static void at_once(void)
{
	begin(SOME, SOME);
	uint64_t from = now;
	expect("at once beside one that decides", weir_reserve_at_once(1), false);
	expect("looks at the clock", now, from);
	expect("counted then", own->mem_used_bytes + own->mem_pending_bytes, 0);
	begin(SOME - 1, 0);
	expect("at once what fits", weir_reserve_at_once(1), true);
	expect("counted then", own->mem_used_bytes, 1);
	expect("at once nothing", weir_reserve_at_once(0), true);
	expect("at once more", weir_reserve_at_once(1), false);
	expect("would fit", weir_would_fit(1, 0), false);
	expect("would fit with as much less", weir_would_fit(1, 1), true);
	expect("would fit with more than all less", weir_would_fit(SOME, UINT64_MAX), true);
	expect("would fit of what is more", weir_would_fit(UINT64_MAX, SOME), false);
	begin(SOME, 3);
	expect("would fit if that is taken back", weir_would_fit(3, 0), true);
	expect("would fit of more", weir_would_fit(4, 0), false);
}

static void bounds(void)
{
	begin(0, 0);
	expect("nothing", weir_reserve(0), true);
	expect("more than the cap", weir_reserve(SOME + 1), false);
	expect("all there is", weir_reserve(UINT64_MAX), false);
	own->mem_used_bytes = 5;
	expect("what would wrap", weir_reserve(UINT64_MAX - 2), false);
	own->mem_used_bytes = 0;
	other->mem_used_bytes = UINT64_MAX;
	other->mem_context_bytes = 2;
	expect("beside a slot that was written over", weir_reserve(1), false);
	other->mem_used_bytes = other->mem_context_bytes = 0;
	expect("the cap", weir_reserve(SOME), true);
	expect("one more", weir_reserve(1), false);
	weir_release(SOME);
	expect("counted at the end", own->mem_used_bytes, 0);
	other->mem_context_bytes = 1;
	expect("the cap beside a context", weir_reserve(SOME), false);
	expect("flagged so far", own->error_flags & WEIR_ERROR_OVERDRAFT, 0);
	weir_overdraw(SOME);
	expect("what is there all the same", own->mem_used_bytes, SOME);
	expect("which is flagged", own->error_flags & WEIR_ERROR_OVERDRAFT, WEIR_ERROR_OVERDRAFT);
	begin(0, 0);
	weir_overdraw(SOME);
	expect("what is there and fits is no overdraft", own->error_flags, 0);
}

static void rest(void)
{
	begin(SOME - 5, 0);
	expect("the rest", weir_reserve_rest(), 5);
	expect("counted of it", own->mem_used_bytes, 5);
	expect("undecided of it", own->mem_pending_bytes, 5);
	weir_decided(5);
	expect("undecided once it is decided", own->mem_pending_bytes, 0);
	begin(SOME - 5, 1);
	expect("the rest while another decides", weir_reserve_rest(), 0);
	expect("counted then", own->mem_used_bytes + own->mem_pending_bytes, 0);
	begin(SOME, 0);
	expect("the rest of nothing", weir_reserve_rest(), 0);
}

/* A process that has ended was deciding on all of the cap. */
static void abandoned(uint32_t dead)
{
	const struct {
		const char *what;
		uint32_t pid, self;
		bool gone, taken;
	} cases[] = {
		{"of one that has ended", dead, (uint32_t)getpid(), true, true},
		{"while there is an agent", dead, (uint32_t)getpid(), false, false},
		{"of one that lives", (uint32_t)getppid(), (uint32_t)getpid(), true, false},
		{"of one with no number", WEIR_FOREIGN_PID, (uint32_t)getpid(), true, false},
		{"of nobody", 0, (uint32_t)getpid(), true, false},
		{"with numbers of another namespace", dead, (uint32_t)getpid() + 1, true, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(SOME, SOME - 4);
		other->owner_pid = cases[i].pid;
		own->owner_pid = cases[i].self;
		weir.agent_gone = cases[i].gone;
		expect(cases[i].what, weir_reserve(SOME - 4), cases[i].taken);
		expect("left of its", other->mem_used_bytes, cases[i].taken ? 4 : SOME);
		expect("undecided of its", other->mem_pending_bytes, cases[i].taken ? 0 : SOME - 4);
		expect("a second time", weir_take_over(), false);
	}
	begin(3, SOME); /* killed where it gave its bytes up */
	other->owner_pid = dead;
	weir.agent_gone = true;
	expect("more undecided than counted", weir_take_over(), true);
	expect("left of that", other->mem_used_bytes, 0);
	other->mem_pending_bytes = other->mem_used_bytes = 3;
	other[1] = (struct weir_slot){.owner_pid = dead, .mem_used_bytes = 4};
	expect("beside one that was not deciding", weir_take_over(), true);
	expect("left of that", other[1].mem_used_bytes, 4);
}

/* ---- the slot becomes another one */

static struct weir_slot *next;

static void adopt(void)
{
	weir_ledger_adopt(weir.page, next);
}

static void give_another(void)
{
	take_back();
	adopt();
}

static pthread_t adopter;

static void *adopt_beside(void *unused)
{
	adopt();
	return unused;
}

/* begin_adopting lasts until the other thread has come as far as it can. */
static void begin_adopting(void)
{
	pthread_create(&adopter, NULL, adopt_beside, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	expect("the slot amid a change of it", weir.slot == other, true); /* as meanwhile sets it */
	weir.slot = own;
}

/* interrupt does what a signal's handler may, of a thread amid a change while another waits to have
 * the slot become another one: it calls the driver. */
static void interrupt(void)
{
	begin_adopting();
	weir_count(2);
}

static void interrupted_amid(void)
{
	after = 1;
	meanwhile = interrupt;
	alarm(20); /* it would wait for itself */
	expect("amid it, by a handler as well", weir_reserve(3), true);
	pthread_join(adopter, NULL);
	alarm(0);
	expect("counted", next->mem_used_bytes, 5);
}

static uint32_t other_counts, counted_amid; /* changes of another thread, and those amid one */
static pthread_t counter;

static void *count_beside(void *unused)
{
	weir_count(4);
	weir_add(&other_counts, 1);
	return unused;
}

/* A thread that is within no change waits for who waits to have the slot become another one: or as
 * many threads as change their counts would keep him waiting. */
static void count_amid(void)
{
	begin_adopting();
	pthread_create(&counter, NULL, count_beside, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	counted_amid = weir_get(&other_counts);
}

static void others_wait(void)
{
	after = 1;
	meanwhile = count_amid;
	alarm(20);
	expect("amid it, beside others", weir_reserve(3), true);
	pthread_join(adopter, NULL);
	pthread_join(counter, NULL);
	alarm(0);
	expect("counted by another before the slot is another one", counted_amid, 0);
	expect("counted by another at the end", other_counts, 1);
	expect("counted", next->mem_used_bytes, 7);
	expect("in the former one", own->mem_used_bytes, 0);
}

static void *count_within(void *unused)
{
	within = 1; /* a handler of a thread that waits to begin */
	weir_count(4);
	weir_add(&other_counts, 1);
	return unused;
}

/* While the slot becomes another one nobody writes to it, not even within a change, which has yet
 * to begin then; and two who have it become another one do so one after the other. */
static void nobody_meanwhile(void)
{
	take();
	pthread_create(&counter, NULL, count_within, NULL);
	pthread_create(&adopter, NULL, adopt_beside, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	expect("counted meanwhile", weir_get(&other_counts), 0);
	expect("adopted meanwhile", weir_slot() == own, true);
	alarm(20);
	taken();
	pthread_join(counter, NULL);
	pthread_join(adopter, NULL);
	alarm(0);
	expect("counted then", other_counts, 1);
	expect("where", next->mem_used_bytes, 4);
	expect("under way", changing | within, 0);
}

/* A handler that forks amid a change has the child begin with none. */
static void forks_amid(void)
{
	int status = -1;
	change();
	pid_t child = fork();
	if (!child) {
		weir_ledger_reset();
		weir_count(2);
		changed();
		_exit(changing || within || own->mem_used_bytes != 2);
	}
	waitpid(child, &status, 0);
	changed();
	expect("under way in a child", (uint64_t)status, 0);
	expect("under way", changing | within, 0);
}

static void begin_next(uint32_t pid)
{
	begin(0, 0);
	*next = (struct weir_slot){.owner_pid = pid};
}

/* All that is counted goes along, and nothing is taken from a slot that another process has. */
static void another_slot(void)
{
	uint32_t self = (uint32_t)getpid();
	next = other + 1;
	begin_next(self);
	weir_count(5);
	weir_contexts_are(4);
	uint64_t rest = weir_reserve_rest();
	expect("the only one that waits", weir_waits_begin(), true);
	expect("a second one", weir_waits_begin(), false);
	weir_waits_end();
	writes = interrupted = 0;
	adopt();
	expect("writes meanwhile", writes > 0, true);
	expect("that a handler may come between", interrupted, 0);
	weir_decided(0);
	expect("as others may", interrupted, 2);
	expect("counted there", next->mem_used_bytes, 5 + rest);
	expect("undecided there", next->mem_pending_bytes, rest);
	expect("of contexts there", next->mem_context_bytes, 4);
	expect("waits there", next->waiting, 1);
	expect("left", own->mem_used_bytes + own->mem_context_bytes + own->waiting, 0);
	expect("left undecided", own->mem_pending_bytes, 0);
	weir_decided(rest);
	weir_release(5 + rest);
	weir_waits_end();
	expect("of allocations at the end", next->mem_used_bytes + next->mem_pending_bytes, 0);
	expect("which this knows", weir_counted(), 0);
	expect("of contexts at the end", weir_contexts(), 4);
	expect("waits at the end", next->waiting, 0);

	begin_next(self);
	*other = (struct weir_slot){.mem_used_bytes = SOME, .mem_pending_bytes = SOME};
	soon = give_another;
	expect("once another slot was given", weir_reserve(SOME), true);
	expect("counted there", next->mem_used_bytes, SOME);
	expect("in the former one", own->mem_used_bytes + own->mem_pending_bytes, 0);

	begin_next(self);
	weir_count(7);
	*own = (struct weir_slot){.owner_pid = self + 1, .mem_used_bytes = 9};
	adopt();
	expect("of another process's", own->mem_used_bytes, 9);
	expect("counted", next->mem_used_bytes, 7);
	begin_next(WEIR_FOREIGN_PID);
	*own = (struct weir_slot){.owner_pid = WEIR_FOREIGN_PID, .mem_used_bytes = 9};
	adopt();
	expect("of what may be another process's", own->mem_used_bytes, 9);
	begin_next(WEIR_FOREIGN_PID);
	own->owner_pid = WEIR_FOREIGN_PID;
	weir_count(9);
	weir_contexts_are(2);
	own->mem_context_bytes = 1;
	adopt();
	expect("of what is another process's in part", own->mem_used_bytes, 9);
	begin_next(WEIR_FOREIGN_PID);
	own->owner_pid = WEIR_FOREIGN_PID;
	weir_count(9);
	adopt();
	expect("of what must be its own", own->mem_used_bytes, 0);
	expect("counted", next->mem_used_bytes, 9);
	begin_next(self);
	*own = (struct weir_slot){.owner_pid = self, .owner_start = 1, .mem_used_bytes = 9};
	adopt();
	expect("of one with that number before", own->mem_used_bytes, 9);

	begin(0, 0);
	next = own;
	weir_count(7);
	*own = (struct weir_slot){.owner_pid = self}; /* the agent had given the process up */
	adopt();
	expect("counted in a slot that was cleared", own->mem_used_bytes, 7);
	weir_release(7);
	expect("and at the end", own->mem_used_bytes, 0);

	next = other + 1;
	begin_next(self);
	after = 1;
	meanwhile = begin_adopting;
	expect("amid it", weir_reserve(3), true);
	pthread_join(adopter, NULL);
	expect("counted", next->mem_used_bytes, 3);
	expect("in the former one", own->mem_used_bytes + own->mem_pending_bytes, 0);

	begin_next(self);
	interrupted_amid();
	begin_next(self);
	others_wait();
	begin_next(self);
	other_counts = 0;
	nobody_meanwhile();
	begin(0, 0);
	forks_amid();
}

int main(void)
{
	weir.page = (struct weir_header *)page;
	weir.page->mem_cap_bytes = SOME;
	weir.slot = own = slots(weir.page);
	other = own + 1;
	next = other + 1;
	interrupted_amid(); /* before anything is set anew, as in a process that has not forked */
	*next = (struct weir_slot){0};
	moving();
	deciding();
	at_once();
	another_slot();
	begin(0, 0);
	other[1] = (struct weir_slot){0};
	bounds();
	rest();
	pid_t child = fork();
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	abandoned((uint32_t)child);
	return checked();
}
