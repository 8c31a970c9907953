/*
 * Frees in stream order (cuMemFreeAsync). The driver has such memory back once the stream comes to
 * the free, and not before: until then it is the job's. Behind each free an event is put on the
 * stream, and what is freed counts until the device has come to that. What a pool has so on another
 * stream it may not give to this one (cuMemPoolSetAttribute names what it may), and grows instead.
 *
 * The event is put by the thread that frees, which waits no longer than for the free itself if the
 * device's queue is full. It is looked at, and never waited for.
 */
#include "weir.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_NS UINT64_C(500000000) /* for frees, before an allocation fails */
#define PAUSE_NS 50000
#define TRIM_NS 10000000
#define TRIES 1000 /* to put an event, while a capture is about to begin */
#define SPARES 64

/* a free under way */
struct weir_freeing {
	struct weir_freeing *next;
	struct weir_freed_to to;
	struct weir_stream *stream;
	uint32_t life; /* which of those that had the record */
	CUcontext home;
	CUevent event; /* NULL: its context goes */
	bool calling;  /* the call has not returned, and there is no event yet */
	uint32_t going; /* by how many calls its context may go at any time, and the event with it */
	bool over;     /* the device has come to it, or never will, */
	bool unseen;   /* or there is nothing to see it by */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_freeing *first, **last = &first; /* in the order of their calls */
static uint64_t count; /* atomic: of all that is not given back, */
static uint64_t bytes; /* atomic: what that is beside pools' */
static uint64_t given; /* atomic: of all that were, and of what could be moved when it was freed */

/* events to be used again */
static struct spare {
	CUevent event;
	CUcontext home;
} spares[SPARES];

void weir_freeing_reset(void)
{
	pthread_mutex_init(&lock, NULL);
	first = NULL;
	last = &first;
	count = bytes = 0;
	for (int i = 0; i < SPARES; i++)
		spares[i].event = NULL;
}

/* gives is what a free gives back, but for a pool's: how much that gives only the pool knows. */
static uint64_t gives(const struct weir_freeing *f)
{
	return f->to.movable ? f->to.movable->bytes : f->to.pool ? 0 : f->to.pointer.size;
}

/* weir_freeing_begin comes before a free in stream order, and weir_freeing_called after it. The
 * bytes go back to a pool's record, or are freed as what can be moved, or else are what the free
 * gives up. NULL: there is no memory to note it. */
struct weir_freeing *weir_freeing_begin(const struct weir_freed_to *to, struct weir_stream *s)
{
	struct weir_freeing *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->to = *to;
	f->stream = s;
	f->life = s ? weir_get(&s->life) : 0;
	f->home = s ? weir_get(&s->home) : NULL;
	f->calling = true;
	pthread_mutex_lock(&lock);
	*last = f;
	last = &f->next;
	weir_add(&count, 1);
	weir_add(&bytes, gives(f));
	pthread_mutex_unlock(&lock);
	return f;
}

/* spare gives an event of the context, NULL: a new one is to be made. */
static CUevent spare(CUcontext home)
{
	CUevent e = NULL;
	pthread_mutex_lock(&lock);
	for (int i = 0; home && !e && i < SPARES; i++)
		if (spares[i].event && spares[i].home == home) {
			e = spares[i].event;
			spares[i].event = NULL;
		}
	pthread_mutex_unlock(&lock);
	return e;
}

/* keep keeps the event of a free that is over; false: there is no place. The lock is held. */
static bool keep(struct weir_freeing *f)
{
	for (int i = 0; f->home && i < SPARES; i++)
		if (!spares[i].event) {
			spares[i] = (struct spare){f->event, f->home};
			f->event = NULL;
			return true;
		}
	return false;
}

static void destroy(CUevent e)
{
	weir_fn_cuEventDestroy_v2 real = WEIR_DRIVER(cuEventDestroy_v2);
	if (e && real)
		real(e);
}

/* end gives back what a free that is out of the list gave. What can be moved has no memory any more
 * then, so that for what was not seen the device is waited for. */
static void end(struct weir_freeing *f)
{
	if (f->to.movable)
		weir_movable_reached(f->to.movable, !f->unseen);
	else if (f->to.pool)
		weir_pool_reached(f->to.pool);
	else
		weir_pointer_reached(&f->to.pointer);
	free(f);
}

/* over looks whether the device has come to a free, and is done with the event then: later it could
 * be gone with its context. The lock is held. */
static bool over(struct weir_freeing *f)
{
	weir_fn_cuEventQuery query = WEIR_DRIVER(cuEventQuery);
	if (f->going)
		return false;
	f->over |= f->event && query && query(f->event) != CUDA_ERROR_NOT_READY;
	if (f->over && f->event && (f->unseen || !keep(f))) {
		destroy(f->event);
		f->event = NULL;
	}
	return f->over;
}

/* same tells whether both are of one stream. */
static bool same(const struct weir_freeing *a, const struct weir_freeing *b)
{
	return a->stream && a->stream == b->stream && a->life == b->life;
}

/* take takes those that are over out of the list; all: not only those before the first that is not.
 * Of a stream the device has come to none after one that it has not come to. */
static struct weir_freeing *take(bool all)
{
	enum { SEEN = 16 };
	const struct weir_freeing *busy[SEEN];
	size_t n = 0;
	struct weir_freeing *out = NULL, **at = &first;
	pthread_mutex_lock(&lock);
	for (struct weir_freeing *f; (f = *at);) {
		size_t i = 0;
		while (i < n && !same(busy[i], f))
			i++;
		if (i == n && over(f)) {
			*at = f->next;
			f->next = out;
			out = f;
			continue;
		}
		if (!all)
			break;
		if (i == n && n < SEEN && f->event)
			busy[n++] = f;
		at = &f->next;
	}
	if (all || !first)
		last = at;
	pthread_mutex_unlock(&lock);
	return out;
}

/* look ends what is over. */
static void look(bool all)
{
	if (!weir_get(&count) || !weir_own_begin())
		return;
	struct weir_freeing *f = take(all), *next;
	for (; f; f = next) {
		uint64_t n = gives(f);
		next = f->next;
		end(f);
		weir_freeing_gave();
		weir_sub(&bytes, n); /* at last: who waits is to find what was given back */
		weir_sub(&count, 1);
	}
	weir_own_end();
}

/* weir_freeing_any tells whether there are frees that the device was not seen to have come to, and
 * weir_freeing_look looks for them. */
bool weir_freeing_any(void)
{
	return weir_get(&count);
}

void weir_freeing_look(void)
{
	look(true);
}

/* place puts the event behind the free. Where that cannot be it is over. */
static void place(struct weir_freeing *f, struct weir_stream *s)
{
	CUevent e = spare(f->home);
	int r = -1;
	for (int i = 0; s && i < TRIES && !weir_get(&weir.stopping); i++) {
		r = weir_put_event(s, &e);
		if (r >= 0)
			break;
		sched_yield();
	}
	pthread_mutex_lock(&lock);
	f->event = e;
	f->over = f->unseen = r <= 0;
	f->calling = false;
	pthread_mutex_unlock(&lock);
}

/* weir_freeing_called says what came of the call. A free behind which there can be no event, as in
 * a stream that has just begun to be captured or whose context is in error, is over at once. */
void weir_freeing_called(struct weir_freeing *f, CUresult r)
{
	if (!f)
		return;
	if (r == CUDA_SUCCESS) {
		place(f, f->stream);
		look(false);
		return;
	}
	pthread_mutex_lock(&lock);
	for (struct weir_freeing **at = &first; *at; at = &(*at)->next)
		if (*at == f) {
			*at = f->next;
			if (last == &f->next)
				last = at;
			weir_sub(&bytes, gives(f));
			weir_sub(&count, 1);
			break;
		}
	pthread_mutex_unlock(&lock);
	if (f->to.pool)
		weir_pool_reached(f->to.pool);
	free(f);
}

/* weir_freeing_elsewhere is how much of a pool is on its way back to it on other streams. */
uint64_t weir_freeing_elsewhere(const void *pool, const struct weir_stream *s)
{
	uint64_t bytes = 0;
	if (!weir_get(&count))
		return 0;
	pthread_mutex_lock(&lock);
	for (const struct weir_freeing *f = first; f; f = f->next)
		if (f->to.pool == pool && !f->over &&
			(f->stream != s || !s || f->life != weir_get(&s->life)))
			bytes += f->to.bytes;
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* weir_freeing_gave says that something is given back, and weir_freeing_given how often that was
 * said. */
void weir_freeing_gave(void)
{
	weir_add(&given, 1);
}

uint64_t weir_freeing_given(void)
{
	return weir_get(&given);
}

/* weir_freeing_bytes is what all that is freed and not given back may come to. */
uint64_t weir_freeing_bytes(void)
{
	return weir_get(&bytes) + weir_pools_leaving() + weir_movables_due();
}

/* worth_it tells whether there are frees to wait for which together would give enough, or with what
 * they hide. */
static bool worth_it(uint64_t lacks)
{
	return (weir_get(&count) || weir_movables_due()) &&
		weir_would_fit(lacks, weir_freeing_bytes() + weir_hidden());
}

/* weir_freeing_wait is for an allocation that has found no room for so many bytes. It looks what
 * the device has come to, and pauses if that is nothing; false: there is nothing to wait for, or it
 * has been waited for long enough, also where others free all the while. */
bool weir_freeing_wait(struct weir_patience *p, uint64_t lacks)
{
	uint64_t now = weir_now();
	bool worth = worth_it(lacks); /* looked at first: what is given back since then is enough */
	if (p->over || (!worth && weir_get(&given) == p->given))
		return false;
	p->since = p->since ? p->since : now;
	p->over = now - p->since > WAIT_NS || weir_get(&weir.stopping);
	look(true);
	weir_movables_late(true);
	uint64_t before = p->given;
	p->given = weir_get(&given);
	if (p->given == before && p->over)
		return false;
	if (p->given == before)
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	/* The driver may have back a little later what the device has come to. */
	p->trim = p->given != before || now - p->trimmed > TRIM_NS;
	if (p->trim)
		p->trimmed = now;
	return true;
}

/* weir_freeing_going is called before a context is destroyed, which may stay: its events are not
 * looked at until weir_freeing_gone says what became of it. */
void weir_freeing_going(CUcontext ctx)
{
	if (!weir_own_begin())
		return;
	pthread_mutex_lock(&lock);
	for (struct weir_freeing *f = first; f; f = f->next)
		f->going += f->event && f->home == ctx;
	for (int i = 0; i < SPARES; i++)
		if (spares[i].event && spares[i].home == ctx) {
			destroy(spares[i].event);
			spares[i].event = NULL;
		}
	pthread_mutex_unlock(&lock);
	weir_own_end();
}

/* weir_freeing_gone is called after that: what a context that went had in flight is over. */
void weir_freeing_gone(CUcontext ctx, bool went)
{
	pthread_mutex_lock(&lock);
	for (struct weir_freeing *f = first; f; f = f->next) {
		if (!f->going || f->home != ctx)
			continue;
		f->going = went ? 0 : f->going - 1;
		f->over |= went;
		if (went)
			f->event = NULL;
	}
	pthread_mutex_unlock(&lock);
	look(true);
}
