/*
 * What the device says that this process holds, against what is counted.
 *
 * Some of what the driver takes has no size that a call names: contexts, code of modules and their
 * variables, uploaded graphs. After such a call the device is asked. NVML tells, or, where it does
 * not show this process, as in a container, the agent, which asks NVML outside. What is held beyond
 * what is counted is added to the contexts' memory. What grows without a call, as code that is
 * loaded at a function's first launch, the agent finds (found_bytes), and it is not counted twice.
 *
 * Some allocations may take less than is counted for them (weir_loose), or nothing until they are
 * used. By so much the rest may be more than it looks: it is a range.
 *
 * Allocations take more than they ask for. A driver gives memory in granules (2 MiB,
 * cuMemGetAllocationGranularity) and puts allocations smaller than one into a shared one. What a
 * granule is for cuMemAlloc no document says: it is measured in the first context of a job.
 */
#include "weir.h"

#include <sys/stat.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)
#define GRANULE (2 * MIB)        /* where it could not be measured */
#define LARGEST_GRANULE (64 * MIB)
#define PROBE (4 * MIB + 1)      /* its size rounded up tells all powers of two below 4 MiB */
#define PROBES 3
/* The agent is given so long, which a busy host may keep from a processor: while a program loads
 * code it is asked again later, but a context that was just made should count from then on. */
#define ANSWER_NS UINT64_C(100000000)
#define PATIENT_NS UINT64_C(2000000000)
#define PAUSE_NS 50000
#define STILL_NS UINT64_C(1000000) /* for so long a moment is waited for in which nothing moves */
#define AGAIN_NS UINT64_C(1000000) /* after so long it is looked for what frees may have hidden */
#define LOOKS 3
#define MOVE (UINT64_C(1) << 20)

static uint64_t granule;     /* as this process goes by, 0: not asked for yet */
static uint32_t guessed;     /* which was not measured */
static uint32_t unmeasured;  /* something may have grown that has not been looked at */
static uint32_t unloaded;    /* something has shrunk that has not been looked at */
static uint64_t hidden;      /* of it, what frees in stream order may hide; atomic */
static uint64_t loaded;      /* of what contexts are counted with, what may go before they do */
static uint32_t tables;      /* of undocumented calls, which may make contexts, were asked for */
static uint32_t unsure;      /* the last look was at memory that moved, or had no answer in time */
static uint64_t look_after;  /* measuring is not to take more than a tenth of the time */
static uint64_t again_at;    /* then it is to be looked again, 0: frees have hidden nothing, */
static uint64_t again_after; /* which is so long after the last look */

/* Calls that take or give memory: in multiples of MOVE how many have begun, and how many are under
 * way. */
static uint64_t moves;
/* those of this thread, one within the other, and whether it could be cancelled before */
static __thread uint32_t moving __attribute__((tls_model("initial-exec")));
static __thread int cancel __attribute__((tls_model("initial-exec")));

void weir_measure_reset(void)
{
	granule = 0;
	guessed = unmeasured = unloaded = tables = unsure = 0;
	look_after = loaded = hidden = again_at = again_after = 0;
	moves = moving; /* a handler of this thread's has forked, amid such calls, which end here too */
}

/* What a call takes is counted before the driver takes it, and what it gives back until the driver
 * has it: meanwhile more is counted than held. weir_moves_begin comes before such a call and
 * weir_moves_end after it. A thread is not cancelled in between, where the driver may have a
 * cancellation point: what it has counted would stay so. */
void weir_moves_begin(void)
{
	if (!moving++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	weir_add(&moves, MOVE + 1);
}

void weir_moves_end(void)
{
	weir_sub(&moves, 1);
	if (!--moving)
		pthread_setcancelstate(cancel, NULL);
}

/* weir_moves_pause and weir_moves_resume are for a thread amid such a call that waits for long,
 * while what it has counted is certain not to be held (weir_graphs_waiting). It is not cancelled
 * meanwhile. The first gives what the second takes: whether the thread could be cancelled before
 * the call, which a call in a signal's handler cannot see meanwhile. */
int weir_moves_pause(void)
{
	int before = cancel;
	moving--;
	weir_sub(&moves, 1);
	return before;
}

void weir_moves_resume(int before)
{
	cancel = before;
	moving++;
	weir_add(&moves, MOVE + 1);
}

/* still waits until no other thread is in such a call, and notes which ones there were. */
static bool still(uint64_t *seen)
{
	for (uint64_t began = weir_now();;) {
		*seen = weir_get(&moves);
		if (*seen % MOVE == moving)
			return true;
		if (weir_now() - began > STILL_NS)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
}

/* what came of a question */
enum said {
	UNTOLD, /* nobody can tell */
	LATE,   /* the agent may, but has not in time */
	TOLD,
};

/* agent_says asks the agent, which answers in the slot. */
static enum said agent_says(uint64_t *bytes, uint64_t patience)
{
	struct weir_slot *s = weir_slot();
	if (!weir_get(&weir.measures) || weir_get(&weir.agent_gone))
		return UNTOLD;
	uint32_t ask = weir_add(&s->ask_seq, 1);
	uint64_t began = weir_now();
	weir_send(WEIR_MSG_MEASURE, ask);
	while ((int32_t)(weir_get(&s->answer_seq) - ask) < 0) {
		if (weir_get(&weir.agent_gone))
			return UNTOLD;
		if (weir_now() - began > patience)
			return LATE;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	*bytes = weir_get(&s->measured_bytes);
	return *bytes != WEIR_NOT_MEASURED ? TOLD : UNTOLD;
}

/* apart tells whether this process is in a pid namespace of its own, where NVML may list another
 * one by its number. The first one of the machine has this inode (PROC_PID_INIT_INO in the kernel's
 * proc_ns.h). */
static bool apart(void)
{
	struct stat s;
	return stat("/proc/self/ns/pid", &s) != 0 || s.st_ino != 0xeffffffc;
}

static enum said holds(uint64_t *bytes, uint64_t patience)
{
	bool first = !apart();
	if (first && weir_nvml_holds(bytes))
		return TOLD;
	enum said is = agent_says(bytes, patience);
	return is != TOLD && !first && weir_nvml_holds(bytes) ? TOLD : is;
}

/* refreshed is what is counted as allocated, without frees that the device has come to and with
 * what pools hold as of now, but for graphs that have yet to be launched. */
static uint64_t refreshed(void)
{
	weir_freeing_look();
	weir_pools_refresh(false);
	uint64_t waiting = weir_graphs_waiting(), counted = weir_counted();
	return counted > waiting ? counted - waiting : 0;
}

/* look is at what this process holds beyond its allocations, for which reserved are not, and beyond
 * what the agent has found. */
static struct weir_look look(uint64_t reserved, uint64_t patience)
{
	struct weir_look l = {.is = WEIR_REST_LEAST};
	for (int i = 0; i < LOOKS && l.is == WEIR_REST_LEAST; i++) {
		uint64_t have = 0;
		bool known = still(&l.moves);
		uint64_t before = refreshed();
		enum said is = holds(&have, patience);
		if (is != TOLD)
			return (struct weir_look){.is = WEIR_REST_UNKNOWN, .late = is == LATE};
		/* before what is counted, of which what is seen to have gone in between is none then */
		l.leaving = weir_freeing_bytes();
		l.loose = weir_loose();
		uint64_t used = refreshed();
		if (__atomic_load_n(&guessed, __ATOMIC_RELAXED))
			l.loose = used - reserved;
		if (known && used == before && weir_get(&moves) == l.moves)
			l.is = WEIR_REST_KNOWN;
		/* what is allocated or freed meanwhile may be in either figure */
		used = (used > before ? used : before) - reserved;
		used += weir_get(&weir_slot()->found_bytes);
		l.least = (int64_t)(have - used);
	}
	return l;
}

struct weir_look weir_look(uint64_t reserved)
{
	return look(reserved, ANSWER_NS);
}

/* weir_look_patiently waits longer for the agent's answer. */
struct weir_look weir_look_patiently(uint64_t reserved)
{
	return look(reserved, PATIENT_NS);
}

uint64_t weir_at_least(const struct weir_look *l)
{
	return l->least > 0 ? (uint64_t)l->least : 0;
}

uint64_t weir_at_most(const struct weir_look *l)
{
	int64_t most = l->least + (int64_t)l->loose;
	return l->is != WEIR_REST_KNOWN ? UINT64_MAX : most > 0 ? (uint64_t)most : 0;
}

static bool due(void)
{
	return weir_now() >= __atomic_load_n(&look_after, __ATOMIC_RELAXED);
}

static void spent(uint64_t began)
{
	uint64_t now = weir_now();
	__atomic_store_n(&look_after, now + 10 * (now - began), __ATOMIC_RELAXED);
}

void weir_unmeasured(void)
{
	__atomic_store_n(&unmeasured, 1, __ATOMIC_RELAXED);
}

/* again_in has it looked again after so long, 0: not at all. */
static void again_in(uint64_t after)
{
	__atomic_store_n(&again_after, after, __ATOMIC_RELAXED);
	__atomic_store_n(&again_at, after ? weir_now() + after : 0, __ATOMIC_RELAXED);
}

/* weir_counted_by says that contexts are counted by a look, which may have been beside frees in
 * stream order. Those may have been gone already, and have hidden as much: before an allocation it
 * is looked again. A look that is not certain says nothing of what earlier ones may have missed. */
void weir_counted_by(const struct weir_look *l)
{
	if (l->leaving)
		again_in(AGAIN_NS);
	else if (l->is == WEIR_REST_KNOWN)
		again_in(0);
}

static bool hid(void)
{
	uint64_t at = __atomic_load_n(&again_at, __ATOMIC_RELAXED);
	return at && weir_now() >= at;
}

/* grown_by is how much more there is than the contexts are counted with; an allocation that comes
 * and goes while the device is asked could look like it, but not twice. Where frees in stream order
 * are always under way, it is looked again after longer each time. */
static uint64_t grown_by(void)
{
	uint64_t least = UINT64_MAX, counted = weir_contexts(), leaving = 0;
	for (int i = 0; i < 2 && least; i++) {
		struct weir_look l = weir_look(0);
		uint64_t rest = weir_at_least(&l);
		if (l.is == WEIR_REST_LEAST || l.late)
			__atomic_store_n(&unsure, 1, __ATOMIC_RELAXED);
		if (l.is == WEIR_REST_UNKNOWN)
			return 0;
		leaving |= l.leaving;
		uint64_t more = rest > counted ? rest - counted : 0;
		least = more < least ? more : least;
	}
	uint64_t after = __atomic_load_n(&again_after, __ATOMIC_RELAXED);
	again_in(!leaving ? 0 : after ? 2 * after : AGAIN_NS);
	return least;
}

/* grown looks whether more is held than counted, and counts that. False: it is more than the job
 * may hold, and is counted only if it stays. */
static bool grown(bool stays)
{
	if (!weir_turn_take()) {
		weir_unmeasured();
		return true;
	}
	bool more_came = __atomic_exchange_n(&unmeasured, 0, __ATOMIC_RELAXED) || !stays;
	__atomic_store_n(&unsure, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&again_at, 0, __ATOMIC_RELAXED);
	if (more_came) /* it may be what frees hide */
		__atomic_store_n(&again_after, 0, __ATOMIC_RELAXED);
	uint64_t began = weir_now(), more = grown_by();
	bool fits = weir_reserve(more);
	if (fits && more)
		weir_release_to_context(more, weir_contexts() + more);
	else if (!fits && stays)
		weir_contexts_are(weir_contexts() + more);
	if (fits || stays)
		weir_add(&loaded, more);
	spent(began);
	weir_turn_end();
	return fits;
}

/* weir_grown is for after a call that may have taken memory; of many calls in a row it leaves some
 * to weir_look_again. False: what there is more does not fit, and is not counted: the call is to be
 * undone. */
bool weir_grown(void)
{
	if (due())
		return grown(false);
	weir_unmeasured();
	return true;
}

void weir_tables_given(void)
{
	__atomic_store_n(&tables, 1, __ATOMIC_RELAXED);
}

/* note_context looks whether the current context is one that was not seen before. */
static void note_context(void)
{
	weir_fn_cuCtxGetCurrent get = WEIR_DRIVER(cuCtxGetCurrent);
	CUcontext ctx;
	if (!get || get(&ctx) != CUDA_SUCCESS || !ctx ||
		weir_sizes_get(WEIR_KIND_CONTEXT, (uintptr_t)ctx, NULL, NULL))
		return;
	weir_sizes_put(WEIR_KIND_CONTEXT, (uintptr_t)ctx, 0, NULL);
	weir_unmeasured();
}

/* weir_look_again counts what was left unmeasured, before something is allocated: it is there,
 * whether the cap has room for it or not. */
void weir_look_again(void)
{
	if (__atomic_load_n(&tables, __ATOMIC_RELAXED))
		note_context();
	bool look = __atomic_load_n(&unmeasured, __ATOMIC_RELAXED) || hid();
	if (weir_likely(!look && !__atomic_load_n(&unsure, __ATOMIC_RELAXED)))
		return;
	if ((look || due()) && !grown(true))
		__atomic_fetch_or(&weir_slot()->error_flags, WEIR_ERROR_OVERDRAFT, __ATOMIC_RELAXED);
}

/* shrunk counts anew what was loaded, where that is certain to be less: never less than contexts
 * take alone, of which memory that is counted with more than it takes would hide a part. */
static bool shrunk(void)
{
	uint64_t less = 0;
	if (!weir_get(&loaded))
		return false;
	if (!weir_turn_take()) {
		__atomic_store_n(&unloaded, 1, __ATOMIC_RELAXED);
		return false;
	}
	uint64_t began = weir_now();
	struct weir_look l = weir_look(0);
	uint64_t most = weir_at_most(&l), counted = weir_contexts(); /* in its turn alone it changes */
	if (most < counted)
		less = counted - most;
	less = less < weir_get(&loaded) ? less : weir_get(&loaded);
	weir_contexts_are(counted - less);
	weir_sub(&loaded, less);
	uint64_t left = counted - less, rest = most > l.leaving ? most - l.leaving : 0;
	uint64_t hides = left > rest ? left - rest : 0;
	weir_set(&hidden, hides < weir_get(&loaded) ? hides : weir_get(&loaded));
	if (l.is == WEIR_REST_LEAST || l.late || weir_get(&hidden))
		__atomic_store_n(&unloaded, 1, __ATOMIC_RELAXED);
	spent(began);
	weir_turn_end();
	return less;
}

/* weir_too_much says that of what contexts are counted with up to so much may be too much: it is
 * put right where there is no room. */
void weir_too_much(uint64_t most)
{
	if (!most)
		return;
	weir_add(&loaded, most);
	__atomic_store_n(&unloaded, 1, __ATOMIC_RELAXED);
}

/* weir_shrunk looks after a call that may have given memory back, or leaves it to the first
 * allocation that has no room. */
void weir_shrunk(void)
{
	if (due())
		shrunk();
	else
		__atomic_store_n(&unloaded, 1, __ATOMIC_RELAXED);
}

/* weir_shrunk_since looks if that was left. It reports whether there is less. */
bool weir_shrunk_since(void)
{
	return __atomic_load_n(&unloaded, __ATOMIC_RELAXED) &&
		__atomic_exchange_n(&unloaded, 0, __ATOMIC_RELAXED) && shrunk();
}

/* weir_hidden is what may be found to be unloaded once the device has come to frees in stream
 * order: what is freed may be gone already, and look like that. */
uint64_t weir_hidden(void)
{
	return weir_get(&hidden);
}

static bool sane(uint64_t g)
{
	return g && g <= LARGEST_GRANULE && !(g & (g - 1));
}

/* weir_granule is what allocations take memory in multiples of. A process goes by one figure, as
 * what it has counted is given back by the same. */
uint64_t weir_granule(void)
{
	uint64_t g = __atomic_load_n(&granule, __ATOMIC_RELAXED), none = 0;
	if (weir_likely(g))
		return g;
	g = weir_get(&weir_page()->granule_bytes);
	bool told = sane(g);
	g = told ? g : GRANULE;
	bool first = __atomic_compare_exchange_n(
		&granule, &none, g, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	if (first && !told)
		__atomic_store_n(&guessed, 1, __ATOMIC_RELAXED);
	return first ? g : none;
}

/* weir_taken is what an allocation of so many bytes takes at most. */
uint64_t weir_taken(uint64_t bytes)
{
	uint64_t g = weir_granule();
	return bytes > UINT64_MAX - g ? UINT64_MAX : (bytes + g - 1) / g * g;
}

/* device_used is what this process holds, or, if nobody tells, what all do. */
static bool device_used(uint64_t *bytes)
{
	weir_fn_cuMemGetInfo_v2 info = WEIR_DRIVER(cuMemGetInfo_v2);
	size_t left, all;
	if (holds(bytes, ANSWER_NS) == TOLD)
		return true;
	if (!info || info(&left, &all) != CUDA_SUCCESS)
		return false;
	*bytes = all - left;
	return true;
}

/* probe is what an allocation takes, 0 if that was not seen. */
static uint64_t probe(void)
{
	weir_fn_cuMemAlloc_v2 alloc = WEIR_DRIVER(cuMemAlloc_v2);
	weir_fn_cuMemFree_v2 give = WEIR_DRIVER(cuMemFree_v2);
	uint64_t before, after;
	CUdeviceptr at;
	if (!alloc || !give || !device_used(&before) || alloc(&at, PROBE) != CUDA_SUCCESS)
		return 0;
	bool told = device_used(&after);
	give(at);
	return told && after > before ? after - before : 0;
}

/* weir_granule_learn measures what allocations are multiples of, in the context that is current,
 * whose thread has counted so much room for itself. Others' allocations can only make one of
 * several probes look larger or smaller: the least that is possible is believed. */
void weir_granule_learn(uint64_t room)
{
	uint64_t *known = &weir_page()->granule_bytes, least = 0, none = 0;
	if (room < 2 * PROBE || weir_get(known))
		return;
	for (int i = 0; i < PROBES; i++) {
		uint64_t n = probe();
		if (n >= PROBE && n < PROBE + LARGEST_GRANULE && (!least || n < least))
			least = n;
	}
	uint64_t g = least == PROBE ? 1 : least & -least;
	if (least && sane(g))
		__atomic_compare_exchange_n(known, &none, g, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
