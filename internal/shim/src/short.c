/*
 * Short launches, which pass the closed gate while the policy says so (free_ns): beside another
 * job, in the gaps that it leaves, or because to take turns for them would cost more.
 *
 * Of each process one is on the device at a time, and the next passes when the device has come to
 * its end. Predictions do not tell that: while another job's kernel runs, or in its time slice,
 * what has passed waits, and what was launched meanwhile would all be run when that job wants to go
 * on. For the same reason what they take is not measured: the time to their end is the other's too.
 * They are counted by prediction (passed_ns), and are not in flight for anybody who waits for that.
 *
 * What has passed may itself wait for the next launch of its program, and a thread may have ended
 * within a launch: after STUCK_NS another one passes all the same.
 *
 * While launches pass, the slot counts one thread as waiting, since the process wants its turn all
 * the same: launches that come one after another would otherwise say so anew each time.
 */
#include "weir.h"

#define CLAIMED ((struct weir_stream *)1) /* a launch is about to pass */
#define STUCK_NS 20000000u
#define UNUSED_NS 1000000u /* a process of which nothing has come here for so long wants nothing */

/* weir_passes tells whether a launch of f may pass the closed gate: it is known to be short, and
 * could be in flight. */
bool weir_passes(struct weir_header *h, struct weir_function *f)
{
	uint64_t most = weir_peek(&h->free_ns), bound = weir_bound(h);
	if (weir_likely(!most) || weir_peek(&f->samples) < WEIR_SAMPLES)
		return false;
	most = most < bound ? most : bound;
	return (uint64_t)weir_peek(&f->guess) * WEIR_UNIT_NS <= most &&
		(uint64_t)weir_peek(&f->slow) * WEIR_UNIT_NS <= most;
}

/* wanted has the slot say that the process wants its turn, and the agent told once for each value
 * of the gate. The watcher, if asleep, is to see what the agent waits to hear. */
static void wanted(const struct weir_header *h, uint64_t now)
{
	uint32_t gate = weir_get(&h->gate);
	weir_set(&weir.wanted_ns, now);
	bool first =
		!weir_get(&weir.wants) && !__atomic_exchange_n(&weir.wants, 1, __ATOMIC_SEQ_CST);
	if (first)
		weir_waits_begin();
	if (__atomic_exchange_n(&weir.wanted_at, gate, __ATOMIC_SEQ_CST) == gate && !first)
		return;
	weir_add(&weir_slot()->want_seq, 1);
	weir_send(WEIR_MSG_WANT, gate);
	if (weir_get(&weir.asleep))
		weir_watcher_wake();
}

/* weir_pass_unwanted ends that. */
void weir_pass_unwanted(void)
{
	if (weir_unlikely(weir_get(&weir.wants)) &&
		__atomic_exchange_n(&weir.wants, 0, __ATOMIC_SEQ_CST))
		weir_waits_end();
}

/* over tells whether the device has come to the end of what passed on s, or never will. */
static bool over(struct weir_stream *s)
{
	weir_fn_cuEventQuery query = WEIR_DRIVER(cuEventQuery);
	bool yes = false;
	if (weir_get(&s->dead))
		return true; /* the event may have gone with the context */
	if (!query || pthread_mutex_trylock(&s->lock) != 0)
		return false;
	if (weir_own_begin()) {
		yes = !s->passed || query(s->passed) != CUDA_ERROR_NOT_READY;
		weir_own_end();
	}
	pthread_mutex_unlock(&s->lock);
	return yes;
}

/* weir_begin_pass claims the one place; false, after a moment: another launch has it. */
bool weir_begin_pass(const struct weir_header *h)
{
	uint64_t since = weir_get(&weir.passing_ns), now = weir_now();
	struct weir_stream *s = weir_get(&weir.passing);
	wanted(h, now);
	bool ended = !s || (s != CLAIMED && over(s));
	if (ended) /* before the claim, which would look stuck to others until then */
		weir_set(&weir.passing_ns, now);
	bool mine = ended || (now > since + STUCK_NS &&
		__atomic_compare_exchange_n(
			&weir.passing_ns, &since, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	if (mine &&
		__atomic_compare_exchange_n(
			&weir.passing, &s, CLAIMED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true;
	weir_glance(now > since ? now - since : 0);
	return false;
}

/* weir_end_pass says that the launch of f on s is made, or has failed. What cannot be marked, as in
 * a capture, is taken to be over. */
void weir_end_pass(struct weir_stream *s, struct weir_function *f, bool launched)
{
	pthread_mutex_lock(&s->lock);
	bool marked = launched && weir_mark_pass(s);
	pthread_mutex_unlock(&s->lock);
	weir_set(&weir.passing, marked ? s : NULL);
	if (!launched)
		return;
	__atomic_fetch_add(&weir_slot()->launches, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&weir_slot()->passed_ns, (uint64_t)weir_peek(&f->guess) * WEIR_UNIT_NS,
		__ATOMIC_RELAXED);
}

/* weir_pass_unused takes note that nothing wants to pass any more. The watcher calls it. */
void weir_pass_unused(uint64_t now)
{
	if (now > weir_get(&weir.wanted_ns) + UNUSED_NS)
		weir_pass_unwanted();
}
