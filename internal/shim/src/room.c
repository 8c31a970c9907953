/*
 * Room for a launch among what is in flight.
 *
 * In flight is the predicted time of all marks less what has passed since the device last came to
 * one. A launch waits until it fits below the bound. No thread waits in the driver for that: what
 * it would wait for may itself wait for what the same thread, another one or another process
 * enqueues next (a stream wait on a value, a receive before its send, a spinning kernel, a host
 * function that needs a lock of the program's). It looks at the oldest mark and sleeps for bounded
 * times in between.
 *
 * The device stalls when it has come to no mark for longer than what is oldest on any stream may
 * take (late, in inflight.c), which is WEIR_STALL_NS more than predicted, or WEIR_UNKNOWN_NS more
 * for a launch that was never measured; a stream also, if others' marks were reached all the while.
 * A stream that stalls while a launch of the job waits is set aside:
 *
 *  - What is on it holds up nobody: other streams have the whole bound again.
 *  - Launches on it are let through, though not all at once, because the kernel may just be long:
 *    of as much predicted time as it has stalled, and of those whose time could be anything one,
 *    and twice as many in all after each 80 ms. Behind an unmeasured kernel of 100 ms those are
 *    two, and a thousand behind a wait that ends only when the thread has enqueued so many take
 *    less than a second.
 *  - So it is with launches that could take any time on streams of their own, which may all wait
 *    for the one that stalls, or are just long: one is let in for each mark that the device comes
 *    to, of any stream, and twice as many after each 80 ms in which it comes to none, or three
 *    times as long as first launches take (together, in gate.c). What was set aside meanwhile
 *    counts too.
 *  - The slot says so (stalled), and the agent, when it closes the gate, does not wait for it as
 *    for what ends by itself.
 *
 * It is taken back when the device comes to its next mark. What is on it counts again then, so that
 * what was let through too much is waited for. If that was just after a launch had been let in, the
 * device had waited for that: what was measured tells nothing of the function (delayed, in
 * inflight.c), and at most how fast what is let in on other streams is to double (first_waited).
 * The next time a stream is set aside as soon, and as many launches are let through at once. If
 * not, half as many.
 */
#include "weir.h"

#include <sys/prctl.h>
#include <time.h>

#define STARVED_NS 100000000u /* others' progress explains a stream's lack of it for so long */

static struct weir_mark *first_mark(struct weir_stream *s)
{
	return s->tail != s->head ? &s->marks[s->tail % WEIR_MARKS] : NULL;
}

static uint64_t ago(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* set_aside does so with a stream whose lock is held. */
static void set_aside(struct weir_stream *s, uint64_t now)
{
	s->aside = true;
	s->aside_since = now;
	s->joined = s->joined_unknown = 0;
	s->joined_ns = 0;
	for (uint32_t i = s->tail; i != s->head; i++) {
		const struct weir_mark *m = &s->marks[i % WEIR_MARKS];
		weir_sub(&weir.inflight_ns, m->ns);
		weir_add(&weir.aside_ns, m->ns);
		weir_certain(m->uncertain);
	}
	weir_certain(s->uncertain);
	weir_add(&weir_slot()->stalls, 1);
	uint32_t all = weir_add(&weir.aside, 1);
	if (all == 1) {
		weir_set(&weir.stuck_since, now);
		weir_set(&weir.strangers, 0);
	}
	weir_set(&weir_slot()->stalled, all);
}

/* weir_released tells whether the device came to the next mark of a stream that was set aside, as
 * it has now, because of what was let in, and bears in mind how much that was. */
bool weir_released(const struct weir_stream *s, uint64_t now)
{
	uint64_t let = weir_get(&weir.let_ns);
	uint32_t needed = weir_get(&weir.needed);
	bool yes = let >= s->aside_since && let + ago(s->progress_ns, now) / 8 >= now;
	if (!yes) {
		weir_set(&weir.needed, needed / 2);
		return false;
	}
	if (needed <= s->joined)
		weir_set(&weir.needed, s->joined + 1);
	weir_set(&weir.unknown_ns, weir_get(&weir.unknown_ns) / 2);
	weir_set(&weir.waited_ns, weir_get(&weir.waited_ns) / 2);
	return true;
}

/* weir_take_back counts a stream again that was set aside. Its lock is held. */
void weir_take_back(struct weir_stream *s)
{
	if (!s->aside)
		return;
	s->aside = false;
	for (uint32_t i = s->tail; i != s->head; i++) {
		const struct weir_mark *m = &s->marks[i % WEIR_MARKS];
		weir_sub(&weir.aside_ns, m->ns);
		weir_add(&weir.inflight_ns, m->ns);
		weir_add(&weir.uncertain, m->uncertain);
	}
	weir_add(&weir.uncertain, s->uncertain);
	weir_set(&weir_slot()->stalled, weir_sub(&weir.aside, 1));
}

/* weir_stalls tells whether the device has not got on with a stream, whose lock is held, for longer
 * than it may take. */
bool weir_stalls(struct weir_stream *s, uint64_t now)
{
	const struct weir_mark *m = first_mark(s);
	return s->aside || (m && ago(s->progress_ns, now) > m->late_ns);
}

#define DOUBLE_NS 80000000u

static uint32_t doubled(uint64_t since, uint64_t now, uint64_t after)
{
	enum { ALL = 20 };
	uint64_t n = ago(since, now) / after;
	return n < ALL ? (uint32_t)n : ALL;
}

/* weir_doubled is how often what is let in on other streams has doubled since the device came to
 * nothing. What may just be long does not have others let in as it ends, each time. */
uint32_t weir_doubled(uint64_t now)
{
	enum { TIMES = 3, MOST_NS = 3 * DOUBLE_NS };
	uint64_t known = weir_get(&weir.unknown_ns), waited = weir_get(&weir.waited_ns);
	uint64_t after = TIMES * (known > waited ? known : waited);
	after = after < DOUBLE_NS ? DOUBLE_NS : after > MOST_NS ? MOST_NS : after;
	return doubled(weir_get(&weir.stuck_since), now, after);
}

/* joins tells whether one more launch, of ns, may go to a stream that is set aside. */
static bool joins(struct weir_stream *s, uint64_t ns, bool unknown, uint64_t now)
{
	uint64_t since = ago(s->aside_since, now);
	bool yes = s->joined_unknown >> doubled(s->aside_since, now, DOUBLE_NS) == 0;
	if (!unknown)
		yes = s->joined_ns <= since;
	if (!yes && s->joined >= weir_get(&weir.needed))
		return false;
	s->joined++;
	s->joined_unknown += unknown;
	s->joined_ns += ns;
	weir_set(&weir.let_ns, now);
	return true;
}

/* hold locks a stream to look at it, unless its lock is held already: that of mine is. */
static bool hold(struct weir_stream *s, const struct weir_stream *mine)
{
	if (s != mine && pthread_mutex_trylock(&s->lock) != 0)
		return false;
	weir_reap(s);
	return true;
}

static void let_go(struct weir_stream *s, const struct weir_stream *mine)
{
	if (s != mine)
		pthread_mutex_unlock(&s->lock);
}

/* weir_set_aside sets all streams aside that stall, and reports whether there was one. The lock of
 * mine, which may be NULL, is held. All threads that wait call it, and one at a time looks. */
bool weir_set_aside(struct weir_stream *mine, uint64_t now)
{
	enum { LOOK_NS = 500000 };
	uint64_t late = 0, last = weir_get(&weir.looked_ns), unseen = 0;
	bool found = false;
	if (ago(last, now) < LOOK_NS ||
		!__atomic_compare_exchange_n(
			&weir.looked_ns, &last, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (!hold(s, mine)) {
			unseen = weir_get(&weir.unseen_since) ? weir_get(&weir.unseen_since) : now;
			continue;
		}
		const struct weir_mark *m = first_mark(s);
		if (m && !s->aside && m->late_ns > late)
			late = m->late_ns;
		let_go(s, mine);
	}
	weir_set(&weir.unseen_since, unseen);
	if (unseen && ago(unseen, now) < WEIR_STALL_NS)
		return false;
	bool still = late && ago(weir_get(&weir.progress_ns), now) > late;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (!hold(s, mine))
			continue;
		uint64_t own = ago(s->progress_ns, now);
		if (first_mark(s) && !s->aside &&
			((still && own > late) || own > 2 * late + STARVED_NS)) {
			set_aside(s, now);
			found = true;
		}
		let_go(s, mine);
	}
	return found;
}

/* oldest gives the oldest mark of s, or of any stream that has one and is not set aside. *unseen:
 * another thread has a stream that may have one, and was not waited for in vain before. */
static struct weir_mark oldest(struct weir_stream *s, bool *unseen)
{
	const struct weir_mark *m = first_mark(s);
	struct weir_mark found = m ? *m : (struct weir_mark){0};
	for (struct weir_stream *o = weir_streams_first(); o && !found.end; o = o->next) {
		if (o == s)
			continue;
		if (!hold(o, s)) {
			*unseen |= !weir_get(&o->overlooked);
			continue;
		}
		weir_set(&o->overlooked, false);
		if (!o->aside && (m = first_mark(o)))
			found = *m;
		let_go(o, s);
	}
	return found;
}

/* open_elsewhere is the predicted time of another stream's open batch that is longer than others
 * may be. */
static uint64_t open_elsewhere(const struct weir_stream *s)
{
	struct weir_stream *o = weir_get(&weir.longer);
	return o && o != s ? weir_word_time(weir_get(&o->word)) * WEIR_UNIT_NS : 0;
}

/* doze sleeps for so long, without the 50 us by which the kernel may let an ordinary thread sleep
 * longer. */
static void doze(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	if (!ns)
		return;
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
	nanosleep(&t, NULL);
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
}

#define SHORT_NS 512000u /* a batch that runs for less is looked at as often as can be, */
#define LOOK_NS 20000u   /* in place of sleeps so short: */
#define WAKE_NS 10000u   /* waking takes as long again */

/*
 * nap is how long to sleep when the batch that runs has done so for since, and part of it, excess,
 * has to pass; all of it where excess is UINT64_MAX. Predictions are means: a batch may end long
 * before, and the device would run dry, soon if there is nothing else in flight (last). So the
 * thread looks at the event from when it can have come, rarely enough that it costs little, and
 * often enough that little time is lost.
 */
static uint64_t nap(uint64_t least, uint64_t since, uint64_t excess, bool last)
{
	/* the longest time between two looks */
	enum { LONG_NS = 2000000, PART = 8, FINE = 256 };
	uint64_t part = last || excess == UINT64_MAX ? FINE : PART;
	uint64_t ns = least > since ? least - since : since / part;
	if (ns < LOOK_NS)
		ns = LOOK_NS;
	if (ns > LONG_NS)
		ns = LONG_NS;
	if (ns < excess)
		return ns;
	return excess > WAKE_NS ? excess - WAKE_NS : 0;
}

/*
 * weir_glance lets some time pass until what has run since then is looked at again, behind which
 * the device may have nothing to do: so that is a small part of its time. It sleeps however short
 * that is. A thread that yields leaves what it had left of its slice to others, for which a busy
 * machine makes it wait, though it holds what the gate's closing waits for.
 */
void weir_glance(uint64_t since)
{
	enum { LEAST_NS = 2000, PART = 256 };
	doze(since / PART > WAKE_NS + LEAST_NS ? since / PART - WAKE_NS : LEAST_NS);
}

/* glance is weir_glance without the stream's lock. */
static void glance(struct weir_stream *s, uint64_t since, uint64_t now)
{
	weir_set(&s->looked_ns, now);
	pthread_mutex_unlock(&s->lock);
	weir_glance(since);
	pthread_mutex_lock(&s->lock);
	weir_reap(s);
}

/* pause_for lets go of the stream for a time that is bounded. */
static void pause_for(struct weir_stream *s, uint64_t ns)
{
	pthread_mutex_unlock(&s->lock);
	doze(ns);
	pthread_mutex_lock(&s->lock);
	weir_reap(s);
}

/* overlook has no launch wait any more for a look at streams that others have now, until those were
 * seen, nor for marks of what is of unknown time now, until so much of that is over. */
static void overlook(const struct weir_stream *mine)
{
	weir_set(&weir.overlooked, weir_get(&weir.uncertain));
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (s == mine)
			continue;
		if (pthread_mutex_trylock(&s->lock) != 0)
			weir_set(&s->overlooked, true);
		else
			pthread_mutex_unlock(&s->lock);
	}
}

/* weir_certain is for launches that could take any time and are seen complete, or not to be waited
 * for any more. */
void weir_certain(uint32_t n)
{
	uint32_t left = weir_sub(&weir.uncertain, n);
	if (weir_get(&weir.overlooked) > left)
		weir_set(&weir.overlooked, left);
}

/* blind waits for a look at what a launch may not join, if not for long: who has a stream may be in
 * the driver with it for any time, and so may who makes the launch that is to be marked. */
static bool blind(struct weir_stream *s)
{
	uint64_t now = weir_now();
	if (!s->blind_since)
		s->blind_since = now;
	uint64_t since = ago(s->blind_since, now);
	if (since >= WEIR_UNKNOWN_NS) {
		overlook(s);
		return false;
	}
	glance(s, since, now);
	return true;
}

/* weir_rest_beside waits for a bounded time, without the stream's lock, for the device to come to a
 * mark of any stream, or for one to stall. */
void weir_rest_beside(struct weir_stream *s)
{
	enum { LONG_NS = 250000000 };
	uint64_t now = weir_now(), since = ago(weir_get(&weir.stuck_since), now);
	weir_set_aside(s, now);
	glance(s, since < LONG_NS ? since : LONG_NS, now);
}

/*
 * weir_make_room waits for a bounded time if a launch of ns may not join what is in flight, giving
 * the lock up meanwhile; true if it had to, so that the caller looks at everything again. A launch
 * that is longer than the bound by itself goes when the device is about to run dry; one whose time
 * is unknown, as it could be anything, does not join so many other such, where that is not 0.
 */
bool weir_make_room(struct weir_stream *s, uint64_t ns, bool unknown, uint32_t others)
{
	enum { BESIDE_NS = 1000000 };
	uint64_t bound = weir_bound(weir_page()), lead = bound / 8;
	uint64_t limit = ns + lead > bound ? lead : bound - ns;
	weir_reap(s);
	weir_set(&s->overlooked, false);
	if (s->aside) {
		if (joins(s, ns, unknown, weir_now()))
			return false;
		pause_for(s, BESIDE_NS);
		return true;
	}
	uint64_t total = weir_get(&weir.inflight_ns),
			 open = weir_word_time(weir_get(&s->word)) * WEIR_UNIT_NS + open_elsewhere(s);
	bool full = s->head - s->tail >= WEIR_MARKS - 2;
	uint32_t unknowns = weir_get(&weir.uncertain);
	bool alone = others && unknowns >= others,
		 unseen = alone && unknowns > weir_get(&weir.overlooked);
	struct weir_mark m = total || full ? oldest(s, &unseen) : (struct weir_mark){0};
	if (!m.end && unseen && (alone || total + open > limit))
		return blind(s);
	s->blind_since = 0;
	if (!m.end)
		return false;
	uint64_t now = weir_now(), since = ago(weir_get(&weir.progress_ns), now);
	uint64_t passed = since < m.ns ? since : m.ns;
	uint64_t flying = (total > passed ? total - passed : 0) + open;
	if (!full && !alone && flying <= limit)
		return false;
	if (weir_set_aside(s, now))
		return true;
	bool whole = full || flying - limit >= m.ns - passed;
	uint64_t pause = nap(m.least_ns, since, whole ? UINT64_MAX : flying - limit, total <= m.ns);
	if ((alone && !full) || (pause <= LOOK_NS && since < SHORT_NS))
		glance(s, since, now);
	else
		pause_for(s, pause);
	return true;
}
