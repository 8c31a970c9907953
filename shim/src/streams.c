/*
 * The streams that the program launches on. A thread remembers the last few it used, so a launch
 * finds its record without a lock; the list behind is never unlinked and records are used again.
 */
#include "weir.h"

#include <stdlib.h>

#define REMEMBERED 4

struct memory {
	CUstream stream;
	CUcontext ctx;
	struct weir_stream *record;
	uint32_t generation;
};

/* initial-exec: reaching it takes no call, which could allocate; it is small enough for the room
 * that the loader keeps for libraries opened late. */
static __thread struct memory memory[REMEMBERED] __attribute__((tls_model("initial-exec")));

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_stream *first;

struct weir_stream *weir_streams_first(void)
{
	return __atomic_load_n(&first, __ATOMIC_ACQUIRE);
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

/* assign gives a spare record to a stream. Whoever ends a stream walks the list under the records'
 * locks only, so what a record says is written under its own as well. */
static void assign(struct weir_stream *s, CUstream stream, CUcontext ctx, uintptr_t thread)
{
	bool shared = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	CUgreenCtx green;
	CUcontext home = contexts_of(shared ? CU_STREAM_LEGACY : stream, &green);
	pthread_mutex_lock(&s->lock);
	bool linked = s->handle != NULL;
	s->handle = stream;
	s->thread = thread;
	s->ctx = ctx;
	weir_set(&s->home, home);
	s->green = green;
	s->stale = false;
	weir_set(&s->dead, false);
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

static struct weir_stream *find(CUstream stream, CUcontext ctx, uintptr_t thread)
{
	bool shared = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	pthread_mutex_lock(&list_lock);
	struct weir_stream *s = first;
	while (s &&
		(weir_get(&s->free) || weir_get(&s->gone) || s->handle != stream || s->thread != thread ||
			(shared && s->ctx != ctx)))
		s = s->next;
	if (!s && (s = spare()))
		assign(s, stream, ctx, thread);
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
	if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		ctx = current();
	struct memory *m =
		&memory[((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 10 ^ (uintptr_t)stream) %
			REMEMBERED];
	uint32_t generation = weir_peek(&weir.streams_generation);
	if (weir_likely(
			m->stream == stream && m->ctx == ctx && m->record && m->generation == generation))
		return m->record;
	struct weir_stream *s =
		find(stream, ctx, stream == CU_STREAM_PER_THREAD ? (uintptr_t)memory : 0);
	*m = (struct memory){stream, ctx, s, generation};
	return s;
}

/* end_those ends the records of a stream or, if given, of all streams of a green context: what they
 * still run gets its last mark. */
static void end_those(CUstream stream, CUgreenCtx green)
{
	if (weir_get(&weir.stopping))
		return; /* a thread may be stuck with a lock */
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		if (!weir_get(&s->free) && !weir_get(&s->gone) &&
			(green ? s->green == green : s->handle == stream)) {
			weir_close_batch(s, false);
			weir_capture_over(s);
			weir_set(&s->gone, true);
		}
		pthread_mutex_unlock(&s->lock);
	}
	weir_add(&weir.streams_generation, 1);
}

/* weir_stream_gone is called before a stream is destroyed. */
void weir_stream_gone(CUstream stream)
{
	end_those(stream, NULL);
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

/* weir_context_gone is called before a context is destroyed: its streams and events go with it. */
void weir_context_gone(CUcontext ctx)
{
	if (weir_get(&weir.stopping))
		return;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		if (!weir_get(&s->free) && (s->home == ctx || s->ctx == ctx)) {
			weir_forget_marks(s, true);
			weir_capture_over(s);
			weir_set(&s->gone, true);
		}
		pthread_mutex_unlock(&s->lock);
	}
	weir_add(&weir.streams_generation, 1);
}

void weir_streams_reset(void)
{
	static uint32_t children;
	pthread_mutex_init(&list_lock, NULL);
	first = NULL;
	weir.streams_generation = ++children << 24; /* no thread's memory is of this generation */
}
