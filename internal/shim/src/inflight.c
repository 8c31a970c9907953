/*
 * What is in flight, in time.
 *
 * Launches on a stream are grouped into batches; behind a batch an event is recorded, its mark. A
 * batch ends when its predicted time reaches an eighth of the bound, at WEIR_BATCH launches, or
 * when the watcher finds it left open. The predicted time of all marks not seen complete is what is
 * in flight; a thread whose batch would take it over the bound waits (room.c). Where the device
 * keeps up with the program, so that it is idle when a launch comes, batches are longer
 * (weir_lengthen).
 *
 * The time between two marks of a stream that stayed busy, or between an event before a batch and
 * its mark, is the batch's true time. It corrects the predictions, and it is what the program is
 * accounted for.
 *
 * Everything here needs the stream's lock, unless it says that it does not.
 */
#include "weir.h"

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

/*
 * fatal tells whether the result is one that all calls give from then on, until the context goes or
 * the process ends: "any further CUDA work will return the same error" (cuda.h, CUresult). What
 * such a context has in flight does not run.
 */
static bool fatal(CUresult r)
{
	switch (r) {
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_RPC_FAILURE:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
		return true;
	default: /* also illegal instructions and addresses of some kinds, between these two */
		return r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* died marks all streams of the context as having ended with it. */
static void died(const struct weir_stream *s)
{
	CUcontext home = weir_get(&s->home);
	for (struct weir_stream *o = weir_streams_first(); o; o = o->next)
		if (o == s || (home && weir_get(&o->home) == home))
			weir_set(&o->dead, true);
}

/* what comes of an attempt to put an event on a stream */
enum put {
	PUT,
	LATER, /* perhaps at another time */
	NEVER, /* the stream is captured, in error or gone: what is open on it gets no mark */
};

/* put creates the event if need be. An event that is on a stream which turns out to be captured is
 * not looked at: the next attempt records it anew. */
static enum put put(const struct weir_stream *s, CUevent *event, CUstream on)
{
	weir_fn_cuEventCreate create = WEIR_DRIVER(cuEventCreate);
	weir_fn_cuEventRecord record = WEIR_DRIVER(cuEventRecord);
	if (!create || !record)
		return LATER;
	if (weir_captured(on))
		return NEVER;
	CUresult r = *event ? CUDA_SUCCESS : create(event, CU_EVENT_DEFAULT);
	if (r == CUDA_SUCCESS)
		r = record(*event, on);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return LATER;
	if (fatal(r))
		died(s);
	return r != CUDA_SUCCESS || weir_captured(on) ? NEVER : PUT;
}

/* record puts *event on the stream. */
static enum put record(struct weir_stream *s, CUevent *event, bool by_watcher)
{
	/* The watcher has a per-thread stream of its own; the legacy stream waits for those of all
	 * threads. */
	CUstream on = by_watcher && s->handle == CU_STREAM_PER_THREAD ? CU_STREAM_LEGACY : s->handle;
	bool shared = on == CU_STREAM_LEGACY || on == CU_STREAM_PER_THREAD;
	enum put r = LATER;
	if (by_watcher && weir_stream_by_program(s))
		return s->stale ? NEVER : LATER; /* its launches are marked one by one */
	if (!weir_own_begin())
		return r;
	/* a default stream that a thread of the program uses is that of its current context */
	void *pushed = by_watcher || (!*event && !shared) ? push(s->home) : NULL;
	if (!shared || weir_default_begin()) {
		r = put(s, event, on);
		if (shared)
			weir_default_end();
	}
	pop(pushed);
	weir_own_end();
	return r;
}

/* weir_put_event puts *event on the stream, and makes it first if it is NULL, from a thread of the
 * program that has just put something there itself. It needs no lock. 1: it is there; 0: it never
 * can be, as the stream is captured or its context in error; -1: perhaps at another time. */
int weir_put_event(struct weir_stream *s, CUevent *event)
{
	enum put r = record(s, event, false);
	return r == PUT ? 1 : r == NEVER ? 0 : -1;
}

/* weir_mark_pass puts the event behind a launch that passed the closed gate; false: it cannot. The
 * time of a batch that is open is not known then: another job's may be a part of it. */
bool weir_mark_pass(struct weir_stream *s)
{
	s->from = WEIR_FROM_NOWHERE;
	return record(s, &s->passed, false) == PUT;
}

static struct weir_mark *mark(struct weir_stream *s, uint32_t i)
{
	return &s->marks[i % WEIR_MARKS];
}

/* weir_begin_batch decides what the time of the batch that is about to open is measured from. */
void weir_begin_batch(struct weir_stream *s, bool measure)
{
	s->from = s->head != s->tail ? WEIR_FROM_MARK : WEIR_FROM_NOWHERE;
	if (measure && record(s, &mark(s, s->head)->begin, false) == PUT)
		s->from = WEIR_FROM_BEGIN;
}

/* late is what a batch may take: half as much again as predicted, or an eighth more than one of its
 * launches has taken before, if that was in reason, since what differs has no last word; where that
 * is not known, half as much again as others took at first. */
static uint64_t late(const struct weir_mark *m)
{
	enum { REASON_NS = 250000000, SOON_NS = 500000 };
	uint64_t ns = m->ns + m->ns / 2, most = 0, firsts = weir_get(&weir.unknown_ns),
			 peak = m->function ? (uint64_t)weir_peek(&m->function->peak) * WEIR_UNIT_NS : 0;
	if (m->function && weir_peek(&m->function->samples) > 0)
		most = peak + peak / 8;
	else if (m->uncertain)
		most = firsts + firsts / 2 > WEIR_UNKNOWN_NS ? firsts + firsts / 2 : WEIR_UNKNOWN_NS;
	if (most > REASON_NS)
		most = REASON_NS;
	return (ns > most ? ns : most) + (weir_get(&weir.needed) ? SOON_NS : WEIR_STALL_NS);
}

/*
 * weir_lengthen lets the open batch go on to half of the bound; false: it is to end at an eighth.
 * The marks of a program that launches more slowly than the device runs are most of what weir takes
 * of its time: what is measured on an idle device has the launch's own time in it, and is
 * predicted, so that a few short kernels seem to reach an eighth.
 * So that no more is in flight than the bound, the device must have come to all marks, to the last
 * one as soon as it was put, and one stream at a time has such a batch: others count it (room.c).
 */
bool weir_lengthen(struct weir_stream *s)
{
	enum { FOURFOLD = 2 };
	struct weir_stream *none = NULL;
	if (!s->keeps_up || s->longer || s->aside || s->uncertain || s->head != s->tail ||
		weir_stream_by_program(s) || weir_in_flight() ||
		!__atomic_compare_exchange_n(
			&weir.longer, &none, s, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	weir_set(&s->longer, FOURFOLD);
	return true;
}

/* shorten takes that back. */
static void shorten(struct weir_stream *s)
{
	if (!s->longer)
		return;
	weir_set(&s->longer, 0);
	weir_set(&weir.longer, NULL);
}

/* drop forgets the open batch. */
static void drop(struct weir_stream *s)
{
	shorten(s);
	__atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->only, NULL, __ATOMIC_SEQ_CST);
	weir_certain(s->uncertain && !s->aside);
	s->stale = s->uncertain = false;
}

/* weir_close_batch ends the open batch, if any, with a mark; false: it could not be marked and
 * stays open. One that can have no mark is over: what it holds is part of a capture or will not
 * run, but for an eighth of the bound at most, and nobody is to wait for it. */
bool weir_close_batch(struct weir_stream *s, bool by_watcher)
{
	uint64_t w = weir_get(&s->word);
	if (weir_word_count(w) == 0)
		return true;
	/* One place is left free: the mark before the oldest may be what the oldest is measured from.
	 * */
	if (s->head - s->tail >= WEIR_MARKS - 1)
		weir_reap(s);
	if (s->head - s->tail >= WEIR_MARKS - 1)
		return false;
	struct weir_mark *m = mark(s, s->head);
	enum put r = record(s, &m->end, by_watcher);
	if (r == NEVER)
		drop(s);
	if (r != PUT)
		return r == NEVER;
	w = __atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	shorten(s);
	m->ns = weir_word_time(w) * WEIR_UNIT_NS;
	m->count = weir_word_count(w);
	m->age = s->age;
	m->function = __atomic_exchange_n(&s->only, NULL, __ATOMIC_SEQ_CST);
	m->least_ns =
		m->function ? (uint64_t)weir_peek(&m->function->least) * WEIR_UNIT_NS * m->count : 0;
	m->from = s->from;
	m->uncertain = s->uncertain;
	m->late_ns = late(m);
	s->stale = s->uncertain = false;
	if (s->head++ == s->tail)
		s->progress_ns = weir_now();
	if (s->aside)
		weir_add(&weir.aside_ns, m->ns);
	else if (weir_add(&weir.inflight_ns, m->ns) == m->ns)
		weir_set(&weir.progress_ns, weir_now());
	struct weir_slot *slot = weir_slot();
	/* the first was counted as it opened the batch */
	__atomic_fetch_add(&slot->launches, m->count - 1, __ATOMIC_RELAXED);
	weir_set(&slot->inflight_ns, weir_in_flight());
	return true;
}

/* weir_count_open counts the launches of batches that get no mark any more, because the process
 * exits. */
void weir_count_open(void)
{
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (pthread_mutex_trylock(&s->lock) != 0)
			continue; /* whoever has it may be marking them */
		uint32_t n = weir_word_count(weir_get(&s->word));
		if (n > 1) /* the first was counted as it opened the batch */
			__atomic_fetch_add(&weir_slot()->launches, n - 1, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&s->lock);
	}
}

/* weir_in_flight is the predicted time of all marks not seen complete. */
uint64_t weir_in_flight(void)
{
	return weir_get(&weir.inflight_ns) + weir_get(&weir.aside_ns);
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

/*
 * delayed tells whether a batch took so long because it waited for this process: it stalled, until
 * a launch was let in (released), or a launch had just been let in because the predicted time of
 * the batch was over. The second would confirm every prediction of a kernel that waits for its
 * peer, whose launch waits for that prediction to pass; only functions whose times hardly differ
 * are suspected, as such a kernel's then do, and only long ones, for which a wait matters.
 */
static bool delayed(const struct weir_mark *m, uint64_t ns, bool released)
{
	enum { LONG_NS = 1000000 };
	const struct weir_function *f = m->function;
	uint64_t off = ns > m->ns ? ns - m->ns : m->ns - ns;
	if (released)
		return ns > m->ns;
	return ns >= LONG_NS && weir_get(&weir.let_ns) + ns / 8 >= weir_now() &&
		m->ns > weir_bound(weir_page()) && off <= m->ns / 8 &&
		weir_peek(&f->spread) <= weir_peek(&f->slow) / 4;
}

/* first takes the time of a launch that was never measured before. */
static void first(uint64_t ns)
{
	uint64_t most = weir_get(&weir.unknown_ns), faded = most - most / 4096;
	uint64_t waited = weir_get(&weir.waited_ns);
	weir_set(&weir.unknown_ns, ns > faded ? ns : faded);
	weir_set(&weir.waited_ns, waited - waited / 4096);
	weir_add(&weir.firsts, 1);
}

/* first_waited takes the time of one that seems to have waited for a launch that was let in: half
 * of it, and no more than is needed to see that others may be as long (weir_doubled), since the
 * launch that it waited for may have been late by any time. A long one looks the same that ends
 * just after a launch was let in: were all taken for what had waited, ever more would be let in. */
static void first_waited(uint64_t ns)
{
	enum { MOST_NS = 40000000 };
	ns /= 2;
	if (ns > MOST_NS)
		ns = MOST_NS;
	if (ns > weir_get(&weir.waited_ns))
		weir_set(&weir.waited_ns, ns);
}

/* learn takes the true time of one launch of the mark's function, which may have gone meanwhile. */
static void learn(const struct weir_mark *m, uint64_t ns, bool released)
{
	struct weir_function *f = m->function;
	bool gone = m->age != weir_peek(&f->age), waited = delayed(m, ns, released);
	if (gone ? m->uncertain : weir_peek(&f->samples) == 0)
		(waited ? first_waited : first)(ns / m->count);
	if (!gone && waited)
		weir_function_delayed(f, released);
	else if (!gone)
		weir_function_measured(f, ns / m->count);
}

/* measured takes the true time of a complete mark. A batch of several functions tells nothing of
 * each, only that the predictions as a whole are off. With no agent others may have had the device
 * meanwhile. */
static void measured(struct weir_stream *s, struct weir_mark *m, bool released)
{
	static uint32_t off;
	uint64_t ns = m->ns;
	CUevent from = m->from == WEIR_FROM_BEGIN ? m->begin
		: m->from == WEIR_FROM_MARK           ? mark(s, s->tail - 1)->end
											  : NULL;
	bool known = elapsed(from, m->end, &ns);
	__atomic_fetch_add(&weir_slot()->device_ns_total, ns, __ATOMIC_RELAXED);
	if (!known || (weir_get(&weir.agent_gone) && m->function &&
					  weir_peek(&m->function->samples) == WEIR_SAMPLES))
		return;
	if (m->function)
		learn(m, ns, released);
	else if (!released && (ns > m->ns + m->ns / 2 || ns < m->ns / 2) &&
		__atomic_add_fetch(&off, 1, __ATOMIC_RELAXED) % 64 == 0)
		weir_functions_distrust();
}

/* weir_reap takes off the marks that the device has reached, and all once it will reach none. It
 * looks at no event that may have gone with its context. */
void weir_reap(struct weir_stream *s)
{
	weir_fn_cuEventQuery query = WEIR_DRIVER(cuEventQuery);
	CUresult r = CUDA_SUCCESS;
	if (s->head == s->tail || !query ||
		(weir_get(&s->gone) && (weir_get(&s->unsure) || weir_get(&s->dead))) || !weir_own_begin())
		return;
	while (s->tail != s->head) {
		struct weir_mark *m = mark(s, s->tail);
		r = query(m->end);
		if (r == CUDA_ERROR_NOT_READY)
			break;
		uint64_t now = weir_now();
		bool released = s->aside && weir_released(s, now);
		weir_take_back(s);
		if (r == CUDA_SUCCESS)
			measured(s, m, released);
		weir_sub(&weir.inflight_ns, m->ns);
		weir_certain(m->uncertain);
		s->progress_ns = now;
		weir_set(&weir.progress_ns, now);
		weir_set(&weir.stuck_since, now);
		weir_set(&weir.strangers, 0);
		s->tail++;
	}
	weir_own_end();
	if (fatal(r)) {
		died(s);
		drop(s);
	}
}

/* weir_dead tells, without the lock, of a stream whose context was found in an error whether it
 * still is: the program may have made the context anew without weir's seeing it. */
bool weir_dead(struct weir_stream *s)
{
	weir_fn_cuStreamIsCapturing ask = WEIR_DRIVER(cuStreamIsCapturing);
	CUstreamCaptureStatus status;
	if (!weir_get(&s->dead))
		return false;
	if (ask && fatal(ask(s->handle, &status)))
		return true;
	pthread_mutex_lock(&s->lock);
	weir_forget_marks(s, false); /* their events went with the former one */
	weir_set(&s->dead, false);
	pthread_mutex_unlock(&s->lock);
	return false;
}

static bool has_events(const struct weir_stream *s)
{
	bool any = s->passed;
	for (uint32_t i = 0; i < WEIR_MARKS; i++)
		any |= s->marks[i].begin || s->marks[i].end;
	return any;
}

/* destroy_events gives the events back, of which the driver needs none to have been reached
 * (cuEventDestroy). Where there is none the context may be gone, and is not made current. */
static void destroy_events(const struct weir_stream *s)
{
	weir_fn_cuEventDestroy_v2 destroy = WEIR_DRIVER(cuEventDestroy_v2);
	if (!destroy || !has_events(s) || !weir_own_begin())
		return;
	void *pushed = push(weir_get(&s->home));
	for (uint32_t i = 0; i < WEIR_MARKS; i++) {
		const struct weir_mark *m = &s->marks[i];
		if (m->begin)
			destroy(m->begin);
		if (m->end)
			destroy(m->end);
	}
	if (s->passed)
		destroy(s->passed);
	pop(pushed);
	weir_own_end();
}

/* weir_forget_marks drops all marks, with their events unless those went with their context. */
void weir_forget_marks(struct weir_stream *s, bool there)
{
	weir_take_back(s);
	if (there)
		destroy_events(s);
	for (; s->tail != s->head; s->tail++) {
		weir_sub(&weir.inflight_ns, mark(s, s->tail)->ns);
		weir_certain(mark(s, s->tail)->uncertain);
	}
	for (uint32_t i = 0; i < WEIR_MARKS; i++)
		s->marks[i] = (struct weir_mark){0};
	s->passed = NULL;
	drop(s);
}
