/*
 * What is in flight, in time.
 *
 * Launches on a stream are grouped into batches; behind a batch an event is recorded, its mark. A batch
 * ends when its predicted time reaches an eighth of the bound, at WEIR_BATCH launches, or when the
 * watcher finds it left open. The predicted time of all marks not seen complete is what is in flight; a
 * thread whose batch would take it over the bound waits for the oldest mark.
 *
 * The time between two marks of a stream that stayed busy, or between an event before a batch and its
 * mark, is the batch's true time. It corrects the predictions, and it is what the program is accounted for.
 *
 * Everything here needs the stream's lock.
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
	/* The watcher has a per-thread stream of its own; the legacy stream waits for those of all threads. */
	CUstream on = by_watcher && s->handle == CU_STREAM_PER_THREAD ? CU_STREAM_LEGACY : s->handle;
	bool ok = (*event || create(event, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS) && put(*event, on) == CUDA_SUCCESS;
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

/* weir_close_batch ends the open batch, if any, with a mark; false: it could not be marked and stays open. */
bool weir_close_batch(struct weir_stream *s, bool by_watcher)
{
	uint64_t w = weir_get(&s->word);
	if (weir_word_count(w) == 0)
		return true;
	/* One place is left free: the mark before the oldest may be what the oldest is measured from. */
	if (s->head - s->tail >= WEIR_MARKS - 1)
		weir_reap(s);
	struct weir_mark *m = mark(s, s->head);
	if (s->head - s->tail >= WEIR_MARKS - 1 || !record(s, &m->end, by_watcher))
		return false;
	w = __atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	m->ns = weir_word_time(w) * WEIR_UNIT_NS;
	m->count = weir_word_count(w);
	m->function = __atomic_exchange_n(&s->only, NULL, __ATOMIC_SEQ_CST);
	m->from = s->from;
	s->stale = false;
	s->head++;
	weir_add(&weir.inflight_ns, m->ns);
	struct weir_slot *slot = weir_slot();
	__atomic_fetch_add(&slot->launches, m->count - 1, __ATOMIC_RELAXED); /* the first was counted as it opened the batch */
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

/* measured takes the true time of a complete mark. A batch of several functions tells nothing of each,
 * only that the predictions as a whole are off. */
static void measured(struct weir_stream *s, struct weir_mark *m)
{
	static uint32_t off;
	uint64_t ns = m->ns;
	CUevent from = m->from == WEIR_FROM_BEGIN ? m->begin : m->from == WEIR_FROM_MARK ? mark(s, s->tail - 1)->end : NULL;
	bool known = elapsed(from, m->end, &ns);
	__atomic_fetch_add(&weir_slot()->device_ns_total, ns, __ATOMIC_RELAXED);
	if (m->function && known)
		weir_function_measured(m->function, ns / m->count);
	else if (m->function)
		__atomic_store_n(&m->function->running, 0, __ATOMIC_RELAXED);
	else if (known && (ns > m->ns + m->ns / 2 || ns < m->ns / 2) && __atomic_add_fetch(&off, 1, __ATOMIC_RELAXED) % 64 == 0)
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
		s->tail++;
	}
	weir_unrelax(mode);
}

/* weir_forget_marks drops all marks without looking at their events, which are about to go. */
void weir_forget_marks(struct weir_stream *s)
{
	for (; s->tail != s->head; s->tail++)
		weir_sub(&weir.inflight_ns, mark(s, s->tail)->ns);
	for (uint32_t i = 0; i < WEIR_MARKS; i++)
		s->marks[i] = (struct weir_mark){0};
	__atomic_fetch_and(&s->word, ~(WEIR_LAUNCHING - 1), __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->only, NULL, __ATOMIC_SEQ_CST);
}

/* oldest gives the event of the oldest mark of s, or of any stream that has one. */
static CUevent oldest(struct weir_stream *s)
{
	if (s->tail != s->head)
		return mark(s, s->tail)->end;
	for (struct weir_stream *o = weir_streams_first(); o; o = o->next) {
		if (o == s || pthread_mutex_trylock(&o->lock) != 0)
			continue;
		weir_reap(o);
		CUevent e = o->tail != o->head ? mark(o, o->tail)->end : NULL;
		pthread_mutex_unlock(&o->lock);
		if (e)
			return e;
	}
	return NULL;
}

/* weir_make_room waits until ns more may be in flight, giving the lock up meanwhile; true if it had to, so
 * that the caller looks at everything again. Work longer than the bound runs alone. */
bool weir_make_room(struct weir_stream *s, uint64_t ns)
{
	weir_fn_cuEventSynchronize wait = WEIR_DRIVER(cuEventSynchronize);
	uint64_t bound = weir_bound(weir_page());
	uint64_t open = weir_word_time(weir_get(&s->word)) * WEIR_UNIT_NS;
	weir_reap(s);
	uint64_t flying = weir_get(&weir.inflight_ns);
	bool full = s->head - s->tail >= WEIR_MARKS - 2;
	if (!wait || (!full && (flying == 0 || flying + open + ns <= bound)))
		return false;
	CUevent e = oldest(s);
	if (!e)
		return false;
	pthread_mutex_unlock(&s->lock);
	int mode = weir_relax();
	CUresult r = wait(e);
	weir_unrelax(mode);
	pthread_mutex_lock(&s->lock);
	weir_reap(s);
	return r == CUDA_SUCCESS;
}
