/*
 * The streams that the program launches on. A thread remembers the last few it used, so a launch
 * finds its record without a lock; the list behind is never unlinked and records are used again.
 */
#include "weir.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REMEMBERED 4
#define STREAM_NS 10000000u   /* how long a capture waits for what its stream still runs */
#define PAUSE_NS 20000
#define CONTEXT_NS 500000000u /* and the end of a context for the locks of its streams */

struct memory {
	CUstream stream;
	CUcontext ctx;
	struct weir_stream *record;
	uint32_t generation;
};

/* initial-exec: reaching it takes no call, which could allocate; it is small enough for the room
 * that the loader keeps for libraries opened late. */
static __thread struct memory memory[REMEMBERED] __attribute__((tls_model("initial-exec")));

/* Threads are numbered, as the next one may have the memory, and the system's number, of one that
 * has ended. 0: not yet. */
static __thread uint64_t me __attribute__((tls_model("initial-exec")));

__thread struct weir_stream *weir_launching_on;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_stream *first;

struct weir_stream *weir_streams_first(void)
{
	return __atomic_load_n(&first, __ATOMIC_ACQUIRE);
}

/* ended runs at the end of a thread that has launched. It ends the launch that the thread has ended
 * in, and the records of its default stream. If what runs after it launches again, that is as by
 * another thread. */
static void ended(void *unused)
{
	struct weir_stream *in = weir_launching_on;
	(void)unused;
	weir_launching_on = NULL;
	if (in)
		weir_sub(&in->word, WEIR_LAUNCHING);
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next)
		if (!weir_get(&s->free) && weir_get(&s->thread) == me) {
			weir_capture_over(s);
			weir_set(&s->ended, true);
		}
	me = 0;
	memset(memory, 0, sizeof memory);
}

static pthread_key_t ends;
static bool keyed;

static void make_key(void)
{
	keyed = pthread_key_create(&ends, ended) == 0;
}

/* thread is the number of the calling thread. */
static uint64_t thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static uint64_t last;
	if (me)
		return me;
	pthread_once(&once, make_key);
	me = weir_add(&last, 1);
	if (keyed)
		pthread_setspecific(ends, memory);
	return me;
}

/* spare gives a record that no stream has: one to be used again, or a new one that is not in the
 * list yet. */
static struct weir_stream *spare(void)
{
	for (struct weir_stream *s = first; s; s = s->next)
		if (weir_get(&s->free))
			return s;
	struct weir_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->free = true;
	return s;
}

static CUcontext current(void)
{
	weir_fn_cuCtxGetCurrent get = WEIR_DRIVER(cuCtxGetCurrent);
	CUcontext ctx = NULL;
	return get && get(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

/* contexts_of gives the context of a stream and the green one. The context's default streams are
 * asked for by the legacy one: it is an error to ask for the other if a green context is current.
 */
static CUcontext contexts_of(CUstream stream, CUgreenCtx *green)
{
	weir_fn_cuStreamGetCtx_v2 both = WEIR_DRIVER(cuStreamGetCtx_v2);
	weir_fn_cuStreamGetGreenCtx of = WEIR_DRIVER(cuStreamGetGreenCtx);
	weir_fn_cuStreamGetCtx get = WEIR_DRIVER(cuStreamGetCtx);
	CUcontext ctx = NULL;
	*green = NULL;
	if (!weir_own_begin())
		return NULL;
	if (both && both(stream, &ctx, green) == CUDA_SUCCESS)
		;
	else if (of && of(stream, green) == CUDA_SUCCESS && *green)
		ctx = NULL;
	else if (!get || get(stream, &ctx) != CUDA_SUCCESS || !ctx)
		ctx = current();
	weir_own_end();
	return ctx;
}

/* whose says whose stream it is. */
struct whose {
	CUcontext ctx, home;
	CUgreenCtx green;
	uint64_t thread;
};

/* assign gives a spare record to a stream. Whoever ends a stream walks the list without a lock. */
static void assign(struct weir_stream *s, CUstream stream, const struct whose *w)
{
	pthread_mutex_lock(&s->lock);
	bool linked = s->handle != NULL;
	weir_set(&s->handle, stream);
	weir_set(&s->thread, w->thread);
	weir_add(&s->life, 1);
	weir_set(&s->ctx, w->ctx);
	weir_set(&s->home, w->home);
	weir_set(&s->green, w->green);
	s->stale = s->keeps_up = false;
	weir_set(&s->last, false);
	weir_set(&s->dead, false);
	weir_set(&s->unsure, 0); /* weir_context_gone passes over what is free */
	weir_set(&s->ended, false);
	weir_set(&s->gone, false);
	weir_set(&s->free, false);
	pthread_mutex_unlock(&s->lock);
	if (!linked) {
		if (!first)
			weir_at_exit(); /* contexts are there by now */
		s->next = first;
		__atomic_store_n(&first, s, __ATOMIC_RELEASE);
	}
}

static bool is_default(CUstream stream)
{
	return stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static struct weir_stream *known(CUstream stream, const struct whose *w)
{
	struct weir_stream *s = weir_streams_first();
	while (s &&
		(weir_get(&s->free) || weir_get(&s->gone) || s->handle != stream ||
			s->thread != w->thread || (is_default(stream) && s->ctx != w->ctx)))
		s = s->next;
	return s;
}

/* find gives the record of a stream, a spare one if it has none. The driver is asked whose stream
 * it is with no lock held. */
static struct weir_stream *find(CUstream stream, struct whose w)
{
	pthread_mutex_lock(&list_lock);
	struct weir_stream *s = known(stream, &w);
	pthread_mutex_unlock(&list_lock);
	if (s)
		return s;
	w.home = contexts_of(is_default(stream) ? CU_STREAM_LEGACY : stream, &w.green);
	pthread_mutex_lock(&list_lock);
	s = known(stream, &w);
	if (!s && (s = spare()))
		assign(s, stream, &w);
	pthread_mutex_unlock(&list_lock);
	return s;
}

/* weir_stream_of gives the record of a stream as a launch names it; NULL: there is no memory for
 * one. */
struct weir_stream *weir_stream_of(CUstream stream, int per_thread)
{
	CUcontext ctx = NULL;
	if (!stream)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (is_default(stream))
		ctx = current();
	struct memory *m =
		&memory[((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 10 ^ (uintptr_t)stream) %
			REMEMBERED];
	uint32_t generation = weir_peek(&weir.streams_generation);
	if (weir_likely(
			m->stream == stream && m->ctx == ctx && m->record && m->generation == generation))
		return m->record;
	uint64_t number = thread();
	struct weir_stream *s = find(stream,
		(struct whose){.ctx = ctx, .thread = stream == CU_STREAM_PER_THREAD ? number : 0});
	*m = (struct memory){stream, ctx, s, generation};
	return s;
}

/* weir_waits takes note that the thread has waited for a stream, or NULL for any. Where it has left
 * a batch open there, that goes on after a pause, which is not to be taken for the batch's time.
 * Other streams may have been busy all the while, but for those that the legacy one waits for. */
void weir_waits(CUstream stream)
{
	uint32_t generation = weir_get(&weir.streams_generation);
	bool any = !stream || stream == CU_STREAM_LEGACY;
	for (int i = 0; i < REMEMBERED; i++) {
		struct weir_stream *s = memory[i].record;
		if (!s || memory[i].generation != generation || (!any && memory[i].stream != stream) ||
			pthread_mutex_trylock(&s->lock) != 0)
			continue;
		s->from = WEIR_FROM_NOWHERE;
		pthread_mutex_unlock(&s->lock);
	}
}

/* lock_within locks a record within so many nanoseconds. The watcher may be in the driver with
 * it for long, where it waits with an event for the device's queue, that is full, to get on. */
static bool lock_within(struct weir_stream *s, uint64_t ns)
{
	uint64_t from = weir_now();
	while (pthread_mutex_trylock(&s->lock) != 0) {
		if (weir_now() - from > ns)
			return false;
		sched_yield();
	}
	return true;
}

static bool is_open(const struct weir_stream *s)
{
	return weir_word_count(weir_get(&s->word)) > 0;
}

/* weir_last_mark has the watcher mark what a stream still runs, before that is captured, and waits
 * for it for a bounded time: the driver may have no place for the event, which the caller alone
 * might then make. What stalls gets no mark. */
void weir_last_mark(struct weir_stream *s)
{
	uint64_t from = weir_now();
	if (!weir_get(&weir.watched) || weir_stream_by_program(s) || !is_open(s) ||
		!lock_within(s, STREAM_NS))
		return;
	bool stalls = weir_stalls(s, from);
	pthread_mutex_unlock(&s->lock);
	weir_set(&s->last, !stalls);
	while (!stalls && is_open(s) && weir_now() - from < STREAM_NS)
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* end_those ends the records of a stream or, if given, of all streams of a green context. False:
 * one is to be marked and destroyed by the watcher. Once it is gone the record may be another
 * stream's at any time. */
static bool end_those(CUstream stream, CUgreenCtx green)
{
	bool all = true;
	if (weir_get(&weir.stopping))
		return true; /* nobody marks it any more */
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (weir_get(&s->free) || weir_get(&s->gone) ||
			(green ? weir_get(&s->green) != green : weir_get(&s->handle) != stream))
			continue;
		if (green) {
			weir_last_mark(s);
		} else if (is_open(s) && weir_get(&weir.watched)) {
			weir_set(&s->later, true);
			all = false;
		}
		weir_capture_over(s);
		weir_set(&s->gone, true);
	}
	weir_add(&weir.streams_generation, 1);
	return all;
}

/* weir_stream_gone is called before a stream is destroyed, which default ones cannot be. False: the
 * watcher destroys it once it has marked what the stream still runs, as the driver destroys one
 * that has work when that is done (cuStreamDestroy). */
bool weir_stream_gone(CUstream stream)
{
	return is_default(stream) || end_those(stream, NULL);
}

/* weir_destroy_late destroys a stream in place of the program, which did not wait for the watcher.
 */
void weir_destroy_late(struct weir_stream *s)
{
	weir_fn_cuStreamDestroy_v2 destroy = WEIR_DRIVER(cuStreamDestroy_v2);
	if (destroy && weir_own_begin()) {
		destroy(s->handle);
		weir_own_end();
	}
}

/* weir_green_gone is called before a green context is destroyed. Its events are of the primary one,
 * and stay; its streams cannot be used any more. */
void weir_green_gone(CUgreenCtx green)
{
	if (green)
		end_those(NULL, green);
}

/* weir_stream_by_program tells of a stream that the watcher cannot mark: a green context can be
 * current to one thread only (cuGreenCtxCreate), so the watcher never makes one current, and
 * without that its default streams cannot be named. */
bool weir_stream_by_program(const struct weir_stream *s)
{
	return s->green && (s->handle == CU_STREAM_LEGACY || s->handle == CU_STREAM_PER_THREAD);
}

static bool is_of(const struct weir_stream *s, CUcontext ctx)
{
	return !weir_get(&s->free) && (weir_get(&s->home) == ctx || weir_get(&s->ctx) == ctx);
}

/* weir_context_going is called before a context is destroyed: its streams and events go with it,
 * and all that is waited for there. As it may stay (context.c), what the program has destroyed goes
 * before. What the watcher is in the driver with waits for weir_context_gone, as events and streams
 * of a context that is gone may be others' by their handles. */
void weir_context_going(CUcontext ctx)
{
	if (weir_get(&weir.stopping))
		return;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (!is_of(s, ctx))
			continue;
		bool locked = lock_within(s, CONTEXT_NS);
		if (locked && !is_of(s, ctx)) { /* the watcher has let it go */
			pthread_mutex_unlock(&s->lock);
			continue;
		}
		if (locked) {
			if (__atomic_exchange_n(&s->later, false, __ATOMIC_SEQ_CST))
				weir_destroy_late(s);
			weir_forget_marks(s, true);
		} else {
			weir_add(&s->unsure, 1);
		}
		weir_capture_over(s);
		weir_set(&s->gone, true); /* before the watcher may take it, which marks no such one */
		if (locked)
			pthread_mutex_unlock(&s->lock);
	}
	weir_add(&weir.streams_generation, 1);
	weir_freeing_going(ctx);
}

/* weir_context_gone is called after that, and says whether the context went. */
void weir_context_gone(CUcontext ctx, bool went)
{
	weir_freeing_gone(ctx, went);
	pthread_mutex_lock(&list_lock);
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		if (!weir_get(&s->unsure) || !is_of(s, ctx))
			continue;
		if (went) {
			weir_set(&s->later, false);
			weir_set(&s->dead, true);
		}
		weir_sub(&s->unsure, 1);
	}
	pthread_mutex_unlock(&list_lock);
}

void weir_streams_reset(void)
{
	static uint32_t children;
	pthread_mutex_init(&list_lock, NULL);
	first = NULL;
	weir_launching_on = NULL;
	weir.longer = NULL;
	weir.streams_generation = ++children << 24; /* no thread's memory is of this generation */
}
