/*
 * What is in flight, in time.
 *
 * Launches on a stream are grouped into batches; behind a batch an event is recorded, its mark. A
 * batch ends when its predicted time reaches an eighth of the bound, at WEIR_BATCH launches, or
 * when the watcher finds it left open. The predicted time of all marks not seen complete is what is
 * in flight; a thread whose batch would take it over the bound waits for the oldest mark.
 *
 * The time between two marks of a stream that stayed busy, or between an event before a batch and
 * its mark, is the batch's true time. It corrects the predictions, and it is what the program is
 * accounted for.
 *
 * Everything here needs the stream's lock.
 */
#include "weir.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

static void *push(CUcontext ctx)
{
	weir_fn_cuCtxPushCurrent_v2 f = WEIR_DRIVER(cuCtxPushCurrent_v2);
	return f && ctx && f(ctx) == CUDA_SUCCESS ? ctx : NULL;
}

static void pop(const void *pushed)
{
	weir_fn_cuCtxPopCurrent_v2 f = WEIR_DRIVER(cuCtxPopCurrent_v2);
	CUcontext ctx;
	if (pushed && f)
		f(&ctx);
}

/* record puts *event, made if need be, on the stream. Waiting for it sleeps. */
static bool record(struct weir_stream *s, CUevent *event, bool by_watcher)
{
	weir_fn_cuEventCreate create = WEIR_DRIVER(cuEventCreate);
	weir_fn_cuEventRecord put = WEIR_DRIVER(cuEventRecord);
	if (!create || !put)
		return false;
	bool shared = s->handle == CU_STREAM_LEGACY || s->handle == CU_STREAM_PER_THREAD;
	if (shared && weir_peek(&weir.captures))
		return false;
	int mode = weir_relax();
	void *pushed = by_watcher || !*event ? push(s->ctx) : NULL;
	/* The watcher has a per-thread stream of its own; the legacy stream waits for those of all
	 * threads. */
	CUstream on = by_watcher && s->handle == CU_STREAM_PER_THREAD ? CU_STREAM_LEGACY : s->handle;
	bool ok = (*event || create(event, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS) &&
		put(*event, on) == CUDA_SUCCESS;
	pop(pushed);
	weir_unrelax(mode);
	return ok;
}

static struct weir_mark *mark(struct weir_stream *s, uint32_t i)
{
	return &s->marks[i % WEIR_MARKS];
}

/* weir_begin_batch decides what the time of the batch that is about to open is measured from. */
void weir_begin_batch(struct weir_stream *s, bool measure)
{
	s->from = s->head != s->tail ? WEIR_FROM_MARK : WEIR_FROM_NOWHERE;
	if (measure && record(s, &mark(s, s->head)->begin, false))
		s->from = WEIR_FROM_BEGIN;
}

/* weir_close_batch ends the open batch, if any, with a mark; false: it could not be marked and
 * stays open. */
bool weir_close_batch(struct weir_stream *s, bool by_watcher)
{
	uint64_t w = weir_get(&s->word);
	if (weir_word_count(w) == 0)
		return true;
	/* One place is left free: the mark before the oldest may be what the oldest is measured from.
	 * */
	if (s->head - s->tail >= WEIR_MARKS - 1)
		weir_reap(s);
	struct weir_mark *m = mark(s, s->head);
	if (s->head - s->tail >= WEIR_MARKS - 1 || !record(s, &m->end, by_watcher))
		return false;
	w = __atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	m->ns = weir_word_time(w) * WEIR_UNIT_NS;
	m->count = weir_word_count(w);
	m->function = __atomic_exchange_n(&s->only, NULL, __ATOMIC_SEQ_CST);
	m->least_ns =
		m->function ? (uint64_t)weir_peek(&m->function->least) * WEIR_UNIT_NS * m->count : 0;
	m->from = s->from;
	m->uncertain = s->uncertain;
	s->stale = s->uncertain = false;
	s->head++;
	if (weir_add(&weir.inflight_ns, m->ns) == m->ns)
		weir_set(&weir.progress_ns, weir_now());
	struct weir_slot *slot = weir_slot();
	/* the first was counted as it opened the batch */
	__atomic_fetch_add(&slot->launches, m->count - 1, __ATOMIC_RELAXED);
	weir_set(&slot->inflight_ns, weir_get(&weir.inflight_ns));
	return true;
}

static bool elapsed(CUevent from, CUevent to, uint64_t *ns)
{
	weir_fn_cuEventElapsedTime f = WEIR_DRIVER(cuEventElapsedTime_v2);
	float ms = 0;
	if (!f)
		f = WEIR_DRIVER(cuEventElapsedTime);
	if (!f || !from || !to || f(&ms, from, to) != CUDA_SUCCESS || !(ms >= 0))
		return false;
	*ns = (uint64_t)((double)ms * 1e6);
	return true;
}

/* measured takes the true time of a complete mark. A batch of several functions tells nothing of
 * each, only that the predictions as a whole are off. */
static void measured(struct weir_stream *s, struct weir_mark *m)
{
	static uint32_t off;
	uint64_t ns = m->ns;
	CUevent from = m->from == WEIR_FROM_BEGIN ? m->begin
		: m->from == WEIR_FROM_MARK           ? mark(s, s->tail - 1)->end
											  : NULL;
	bool known = elapsed(from, m->end, &ns);
	__atomic_fetch_add(&weir_slot()->device_ns_total, ns, __ATOMIC_RELAXED);
	if (m->function && known)
		weir_function_measured(m->function, ns / m->count);
	else if (!m->function && known && (ns > m->ns + m->ns / 2 || ns < m->ns / 2) &&
		__atomic_add_fetch(&off, 1, __ATOMIC_RELAXED) % 64 == 0)
		weir_functions_distrust();
}

/* weir_reap takes off the marks that the device has reached. */
void weir_reap(struct weir_stream *s)
{
	weir_fn_cuEventQuery query = WEIR_DRIVER(cuEventQuery);
	if (s->head == s->tail || !query)
		return;
	int mode = weir_relax();
	while (s->tail != s->head) {
		struct weir_mark *m = mark(s, s->tail);
		CUresult r = query(m->end);
		if (r == CUDA_ERROR_NOT_READY)
			break;
		if (r == CUDA_SUCCESS)
			measured(s, m);
		weir_sub(&weir.inflight_ns, m->ns);
		weir_sub(&weir.uncertain, m->uncertain);
		weir_set(&weir.progress_ns, weir_now());
		s->tail++;
	}
	weir_unrelax(mode);
}

/* weir_forget_marks drops all marks without looking at their events, which are about to go. */
void weir_forget_marks(struct weir_stream *s)
{
	for (; s->tail != s->head; s->tail++) {
		weir_sub(&weir.inflight_ns, mark(s, s->tail)->ns);
		weir_sub(&weir.uncertain, mark(s, s->tail)->uncertain);
	}
	weir_sub(&weir.uncertain, s->uncertain);
	s->uncertain = false;
	for (uint32_t i = 0; i < WEIR_MARKS; i++)
		s->marks[i] = (struct weir_mark){0};
	__atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->only, NULL, __ATOMIC_SEQ_CST);
}

/* what is waited for: an event, the predicted time of its batch and what that has always taken; no
 * event: nothing. */
struct target {
	CUevent end;
	uint64_t ns, least_ns;
};

static struct target first_mark(struct weir_stream *s)
{
	struct weir_mark *m = mark(s, s->tail);
	return s->tail != s->head ? (struct target){m->end, m->ns, m->least_ns} : (struct target){0};
}

/* oldest gives the oldest mark of s, or of any stream that has one. */
static struct target oldest(struct weir_stream *s)
{
	struct target t = first_mark(s);
	for (struct weir_stream *o = weir_streams_first(); o && !t.end; o = o->next) {
		if (o == s || pthread_mutex_trylock(&o->lock) != 0)
			continue;
		weir_reap(o);
		t = first_mark(o);
		pthread_mutex_unlock(&o->lock);
	}
	return t;
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

/*
 * nap is how long to sleep when the batch that runs has done so for since, and part of it, excess,
 * has to pass. Predictions are means: a batch may end long before, and the device would run dry. So
 * the thread looks at the event from when it can have come, rarely enough that it costs little, and
 * often enough that little time is lost.
 */
static uint64_t nap(uint64_t least, uint64_t since, uint64_t excess)
{
	/* what waking takes; the shortest time between two looks */
	enum { WAKE_NS = 10000, LOOK_NS = 20000 };
	uint64_t ns = least > since ? least - since : since / 8;
	if (ns < LOOK_NS)
		ns = LOOK_NS;
	if (ns < excess)
		return ns;
	return excess > WAKE_NS ? excess - WAKE_NS : 0;
}

static void wait_for(CUevent e)
{
	weir_fn_cuEventSynchronize wait = WEIR_DRIVER(cuEventSynchronize);
	int mode = weir_relax();
	if (wait)
		wait(e);
	weir_unrelax(mode);
}

/*
 * glance lets some time pass until a launch that has run since then, and that others must not join,
 * is looked at again. The device has nothing to do from its end until then, so that is a small part
 * of its time. Waking from an event would take longer than most such launches last.
 */
static void glance(uint64_t since)
{
	enum { SPIN_NS = 64000, LEAST_NS = 10000, PART = 128 };
	if (since < SPIN_NS)
		sched_yield();
	else
		doze(since / PART > LEAST_NS ? since / PART : LEAST_NS);
}

/*
 * weir_make_room waits until a launch of ns may join what is in flight, giving the lock up
 * meanwhile; true if it had to, so that the caller looks at everything again.
 *
 * In flight is the predicted time of all marks less what has passed since the device last came to
 * one. A launch that is longer than the bound by itself goes when the device is about to run dry;
 * one whose time could be anything does not join another such (alone), unless the device has come
 * to no mark for so long that what runs may be waiting for this very launch.
 */
bool weir_make_room(struct weir_stream *s, uint64_t ns, bool alone)
{
	uint64_t bound = weir_bound(weir_page()), lead = bound / 8;
	uint64_t limit = ns + lead > bound ? lead : bound - ns;
	weir_reap(s);
	uint64_t total = weir_get(&weir.inflight_ns);
	bool full = s->head - s->tail >= WEIR_MARKS - 2;
	struct target t = total || full ? oldest(s) : (struct target){0};
	if (!t.end)
		return false;
	uint64_t since = weir_now() - weir_get(&weir.progress_ns), passed = since < t.ns ? since : t.ns;
	alone = alone && since < WEIR_FOREVER_NS;
	uint64_t flying =
		(total > passed ? total - passed : 0) + weir_word_time(weir_get(&s->word)) * WEIR_UNIT_NS;
	if (!full && !alone && flying <= limit)
		return false;
	pthread_mutex_unlock(&s->lock);
	if (alone && !full)
		glance(since);
	else if (full || flying - limit >= t.ns - passed)
		wait_for(t.end);
	else
		doze(nap(t.least_ns, since, flying - limit));
	pthread_mutex_lock(&s->lock);
	weir_reap(s);
	return true;
}
