/*
 * Streams, captures and calls of the library's own, in virtual time.
 */
#include "virtual.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- streams.c: whose record it is, and locks */

static uint64_t inherited;

static void *on_own_stream(void *unused)
{
	struct weir_stream *s = weir_stream_of(NULL, 1);
	inherited += weir_get(&s->word) || s->head != s->tail || s->aside || weir_get(&s->origin);
	struct weir_ticket t;
	if (weir_enter(&t, KEY(1), 1, NULL, 1)) {
		device_takes(&own_default, 10 * US, 0);
		weir_leave(&t, CUDA_SUCCESS);
	}
	if (unused)
		weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2_ptsz, NULL, 0);
	return NULL;
}

/* A thread launches again after its streams have ended, as the destructor of a library's variable
 * may that runs later: that is as by another thread. */
static pthread_key_t last;
static struct weir_stream *ended_one, *after_it;

static void launches_again(void *unused)
{
	(void)unused;
	is("its stream has ended", ended_one->ended, true);
	after_it = weir_stream_of(NULL, 1);
}

static void *ends_late(void *unused)
{
	ended_one = weir_stream_of(NULL, 1);
	pthread_key_create(&last, launches_again); /* those of later keys run later */
	pthread_setspecific(last, &last);
	return unused;
}

static void after_the_end(void)
{
	pthread_t thread;
	begins(2 * MS);
	pthread_create(&thread, NULL, ends_late, NULL);
	pthread_join(thread, NULL);
	is("it launched again", after_it != NULL, true);
	is("on a record of its own", after_it != ended_one, true);
	is("of another thread", after_it->thread != ended_one->thread, true);
}

static uint32_t records(void)
{
	uint32_t n = 0;
	for (struct weir_stream *s = weir_streams_first(); s; s = s->next)
		n++;
	return n;
}

/* A thread's default stream goes with it: the next thread, which has its memory, has another. */
static void ended_threads(void)
{
	pthread_t thread;
	begins(2 * MS);
	teach(1, 10 * US);
	for (int i = 0; i < 50; i++) {
		pthread_create(&thread, NULL, on_own_stream, NULL);
		pthread_join(thread, NULL);
		uint32_t put = recorded;
		if (i % 2)
			continue;
		is("in flight", open_ns() > 0, true);
		watcher_looks();
		is("marked at once", recorded > put, true);
		lasts(MS);
		watcher_looks();
		is("over", open_ns(), 0);
	}
	pthread_create(&thread, NULL, on_own_stream, &inherited);
	pthread_join(thread, NULL);
	legacy.captured = false;
	lasts(MS);
	watcher_looks();
	is("inherited", inherited, 0);
	within("records", records(), 1, 2);
	is("threads that are captured", weir.captures, 0);
	nothing_left();
}

static struct weir_stream *asked_for;

static void look_one_up(void)
{
	in_get_context = NULL;
	asked_for = record_of(C);
}

/* Who is in the driver with one stream holds up nobody at another, nor who destroys that one. */
static void locks(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	in_get_context = look_one_up;
	launch(A, 1, 10 * US);
	is("a record is looked up within another's look-up", asked_for != NULL, true);
	launch(B, 1, 10 * US);
	struct weir_stream *a = record_of(A), *b = record_of(B);
	pthread_mutex_lock(&a->lock); /* as the watcher does, who waits in the driver */
	uint64_t from = now_ns;
	CUcontext other = (CUcontext)(contexts + 1);
	weir_context_going(other);
	weir_context_gone(other, true);
	weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, B);
	is("another stream's record is gone", b->gone, true);
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, C, 0);
	weir_on_end_capture(WEIR_cuStreamEndCapture, C, NULL);
	is("the stream itself", weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, A), CUDA_SUCCESS);
	within("time", now_ns - from, 0, US);
	is("destroyed", destroyed_streams, 0);
	watcher_looks();
	is("the other one", destroyed_streams, 1);
	is("with its last mark", b->head, 1);
	pthread_mutex_unlock(&a->lock);
	lasts(MS);
	watcher_looks();
	is("later", destroyed_streams, 2);
	is("once it has ended", b->free, true);
	watcher_looks();
	is("the record", a->free, true);
	is("once", destroyed_streams, 2);
	launch(C, 1, 10 * US);
	weir.watched = false;
	weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, C);
	is("where there is no watcher, at once", destroyed_streams, 3);
}

/* The driver may have no place for an event: then none of the program's threads is to put one where
 * the program does not launch. */
static void end_others(void)
{
	in_record = NULL;
	launch(B, 1, 10 * US);
	launch(C, 1, 10 * US);
	uint32_t put = recorded;
	uint64_t from = now_ns;
	is("a stream is destroyed", weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, B), CUDA_SUCCESS);
	within("at once", now_ns - from, 0, US);
	from = now_ns;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, C, 0);
	weir_on_end_capture(WEIR_cuStreamEndCapture, C, NULL);
	within("what is captured waits for its mark (ms)", (now_ns - from) / MS, 10, 10);
	is("not yet", destroyed_streams, 0);
	weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, &streams[3]);
	is("at once one with nothing open", destroyed_streams, 1);
	is("events put meanwhile", recorded, put);
}

static void held_up(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	record_of(B);
	record_of(C);
	struct weir_stream *b = record_of(B);
	record_of(&streams[3]);
	launch(A, 1, 10 * US);
	watcher_looks();
	in_record = end_others;
	watcher_looks(); /* it waits in the driver meanwhile */
	watcher_looks();
	is("by the watcher", B->destroyed, true);
	is("with its last mark", b->head, 1);
	lasts(MS);
	watcher_looks();
	is("the record", b->free, true);
	is("destroyed", destroyed_streams, 2);
	watcher_looks();
	lasts(MS);
	watcher_looks();
	nothing_left();
}

/* A stream that the watcher is to destroy, whose context may go, or stay. */
static void late_ends(void)
{
	begins(2 * MS);
	struct weir_stream *a = record_of(A);
	a->later = true;
	watcher_looks();
	is("destroyed before it is gone", destroyed_streams, 0);
	a->gone = true;
	weir_context_going((CUcontext)(contexts + 1));
	is("with another context", destroyed_streams, 0);
	weir_context_going(A->ctx);
	is("before its context goes", destroyed_streams, 1);
	is("frees in stream order are told that it goes", freed_going == A->ctx, true);
	weir_context_gone(A->ctx, true);
	is("and that it is gone", freed_gone == A->ctx, true);
	watcher_looks();
	is("once", destroyed_streams, 1);
	struct weir_stream *legacy_one = record_of(CU_STREAM_LEGACY);
	is("of a default one the driver is told", weir_stream_gone(CU_STREAM_LEGACY), true);
	is("whose record stays", legacy_one->gone, false);
}

/* lose has a stream's context go, or stay, while the watcher is in the driver with it for long: the
 * program has destroyed it before, with a launch that has no mark and one that has. */
static struct weir_stream *lose(bool goes)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 1, 10 * US);
	watcher_looks();
	watcher_looks();
	launch(A, 1, 10 * US);
	struct weir_stream *a = record_of(A);
	is("its mark", a->head, 1);
	pthread_mutex_lock(&a->lock);
	weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, A);
	uint64_t from = now_ns;
	weir_context_going(A->ctx);
	within("is waited for (ms)", (now_ns - from) / MS, 400, 600);
	pthread_mutex_unlock(&a->lock);
	uint32_t before = queries;
	watcher_looks();
	is("looks at events that may be gone", queries, before);
	is("the record, until it is known", a->free, false);
	is("destroyed by then", destroyed_streams, 0);
	weir_context_gone((CUcontext)(contexts + 1), true);
	weir_context_gone(A->ctx, goes);
	watcher_looks();
	is("looks at events that are gone", goes && queries != before, false);
	lasts(MS);
	watcher_looks();
	is("destroyed", destroyed_streams, !goes);
	is("events destroyed", destroyed_events > 0, !goes);
	is("the record then", a->free, true);
	return a;
}

static void lost(void)
{
	struct weir_stream *a = lose(true);
	a->ended = true; /* of a thread that has had it */
	is("is another's", record_of(B) == a, true);
	launch(B, 1, 10 * US);
	lasts(MS);
	for (int i = 0; i < 4; i++)
		watcher_looks();
	is("which goes on", a->free, false);
	nothing_left();
}

static void stays(void)
{
	lose(false);
	nothing_left();
}

/* What stalls gets no mark when it is captured: the queue may be full. */
static void stalled_end(void)
{
	begins(2 * MS);
	teach(1, 100 * US);
	for (int i = 0; i < 4; i++)
		launch_behind(A, 1, 100 * US, 1000);
	lasts(50 * MS);
	uint32_t put = recorded;
	uint64_t from = now_ns;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, A, 0);
	within("time", now_ns - from, 0, US);
	is("events put", recorded, put);
}

/* The watcher puts no event on a default stream of a green context, which it cannot name: what the
 * program's own thread could not mark gets no mark. */
static void of_a_green_one(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	struct weir_stream *s = record_of(NULL);
	s->green = (CUgreenCtx)contexts;
	record_gives = CUDA_ERROR_OUT_OF_MEMORY;
	launch(NULL, 1, 10 * US);
	record_gives = CUDA_SUCCESS;
	uint32_t put = recorded;
	is("open", weir_word_count(s->word), 1);
	watcher_looks();
	is("perhaps the program marks it", weir_word_count(s->word), 1);
	watcher_looks();
	is("nobody does", weir_word_count(s->word), 0);
	is("events of the watcher's", recorded - put, 0);
	launch(NULL, 1, 10 * US);
	is("the program's, before and behind", recorded - put, 2);
	lasts(MS);
	watcher_looks();
	nothing_left();
}

/* Records of a stream, a context and a green context end with it, and are used again. */
static void endings(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	C->ctx = (CUcontext)(contexts + 1);
	launch(A, 1, 10 * US);
	current_context = C->ctx;
	launch(C, 2, 10 * US);
	launch(C, 1, 10 * US);
	current_context = (CUcontext)contexts;
	struct weir_stream *a = record_of(A), *c = record_of(C);
	weir_on_stream_destroy(WEIR_cuStreamDestroy_v2, A);
	is("a new one of that name", record_of(A) != a, true);
	is("others stay", record_of(C) == c, true);
	weir_context_going(C->ctx);
	weir_context_gone(C->ctx, true);
	is("its events", destroyed_events, 2);
	is("a new one there", record_of(C) != c, true);
	is("what it had open", weir_word_count(c->word), 0);
	watcher_looks();
	lasts(MS);
	watcher_looks();
	is("to be used again", a->free && c->free, true);
	current_context = (CUcontext)contexts;
	struct weir_stream *one = record_of(NULL);
	current_context = (CUcontext)(contexts + 1);
	is("of another context", record_of(NULL) != one, true);
	is("a thread's own", weir_stream_of(NULL, 1) != record_of(NULL), true);
	nothing_left();
}

/* ---- capture.c and own.c */

static void capture_a(void) { A->captured = true; }

/* A capture that begins while the stream is asked, or when the event is on it already. */
static void capture_between(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(A, 1, 10 * US);
	in_asking = capture_a; /* after it has answered that it is not captured */
	uint32_t closed = close_gate();
	watcher_looks();
	in_asking = NULL;
	lasts(MS);
	watcher_looks();
	is("events of a capture that were looked at", broken, 0);
	is("what was open is over", slot->drained_seq, closed);
	uint32_t put = recorded;
	open_gate();
	A->captured = false;
	launch(A, 1, 10 * US);
	A->captured = true;
	put = recorded;
	close_gate();
	watcher_looks();
	is("put on a stream that is captured", recorded, put);
	is("nobody waits for it", open_ns(), 0);
	nothing_left();
}

static uint32_t put_in_begin;

static void look_in_begin(void)
{
	uint32_t put = recorded;
	struct weir_ticket t;
	watcher_looks();
	watcher_looks();
	put_in_begin = recorded - put;
	is("counted before it begins", weir.captures, 1);
	is("a launch elsewhere enters", weir_enter(&t, KEY(1), 1, B, 0), true);
	weir_leave(&t, CUDA_SUCCESS);
}

static uint64_t asked;

static void count_asked(void) { asked++; }

static void capture_begins(void)
{
	begins(2 * MS);
	teach(1, 10 * US);
	launch(NULL, 1, 10 * US);
	launch(A, 1, 10 * US);
	launch(B, 1, 10 * US);
	struct weir_stream *a = record_of(A);
	in_begin = look_in_begin;
	uint32_t put = recorded;
	next_look = now_ns;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, A, 0);
	in_begin = NULL;
	is("its last mark comes before", weir_word_count(a->word), 0);
	is("of three, the default stream gets none", put_in_begin, 1);
	within("marks", recorded - put, 2, 4);
	struct weir_ticket t;
	is("a captured launch", weir_enter(&t, KEY(1), 1, A, 0), false);
	end_gives = CUDA_ERROR_INVALID_VALUE;
	weir_on_end_capture(WEIR_cuStreamEndCapture, A, NULL);
	is("one that is not ended", weir.captures, 1);
	is("a launch that would end it", weir_enter(&t, KEY(1), 1, NULL, 0), false);
	end_gives = CUDA_SUCCESS;
	weir_on_end_capture(WEIR_cuStreamEndCapture, A, NULL);
	is("over", weir.captures, 0);
	begin_gives = CUDA_ERROR_INVALID_VALUE;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, A, 0);
	is("one that does not begin", weir.captures, 0);
	begin_gives = CUDA_SUCCESS;
	uint64_t from = now_ns;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, A, 0);
	within("waits for nobody", now_ns - from, 0, US);
	begin_gives = CUDA_ERROR_INVALID_VALUE;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, A, 0);
	is("one stream, one capture", weir.captures, 1);
	A->captured = false;
	weir_stream_gone(A);
	is("gone", weir.captures, 0);
	begin_gives = CUDA_SUCCESS;
	is("a mark is about to be put", weir_default_begin(), true);
	yield_ns = US;
	from = now_ns;
	weir_on_begin_capture_v2(WEIR_cuStreamBeginCapture_v2, C, 0);
	within("is waited for (ms)", (now_ns - from) / MS, 10, 10);
	weir_default_end();
	weir_on_end_capture(WEIR_cuStreamEndCapture, C, NULL);
	in_asking = count_asked;
	weir_enter(&t, KEY(1), 1, B, 0);
	weir_leave(&t, CUDA_SUCCESS);
	is("with no capture under way nobody asks", asked, 0);
	in_asking = NULL;
	lasts(MS);
	watcher_looks();
	watcher_looks();
	lasts(MS);
	watcher_looks();
	is("the default stream's mark comes later", open_ns(), 0);
	is("broken", broken, 0);
}

static void modes(void)
{
	begins(2 * MS);
	mode = 1;
	is("begins", weir_own_begin(), true);
	is("relaxed", mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	is("within", weir_own_begin(), true);
	weir_own_end();
	is("still relaxed", mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	weir_own_end();
	is("as before", mode, 1);
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
	is("to be cancelled", (uint64_t)cancel, PTHREAD_CANCEL_ENABLE);
	weir.stopping = true;
	is("at exit", weir_own_begin(), false);
	is("not relaxed then", mode, 1);
}

static uint64_t exits_at;

static void exited(void) { _exit(now_ns - exits_at > 100 * MS); }

/* In the child of a signal's handler that forks amid such a call, that ends as well: its exit waits
 * for none. */
static void in_child(void)
{
	int status = -1;
	begins(2 * MS);
	pid_t child = fork();
	if (!child) {
		atexit(exited);
		weir_at_exit();
		weir_own_begin();
		weir_own_reset();
		weir_own_end();
		exits_at = now_ns;
		exit(1);
	}
	waitpid(child, &status, 0);
	is("waits at its exit", (uint64_t)status, 0);
}

#define CASES(X) \
	X(ended_threads) X(after_the_end) X(locks) X(held_up) X(late_ends) X(lost) X(stays) \
	X(stalled_end) X(of_a_green_one) X(endings) \
	X(capture_between) X(capture_begins) X(modes) X(in_child)

int main(int n, char **names)
{
	static const struct one cases[] = {CASES(CASE)};
	return all(cases, sizeof cases / sizeof *cases, n > 1 ? names[1] : NULL);
}
