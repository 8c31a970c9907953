/*
 * The gate: every launch passes here.
 *
 * The agent opens and closes a word on the shared page. A thread first says that it is launching,
 * then looks at the word again; the watcher, when the gate closes, first sees the word, then looks
 * who is launching. So after a close either the thread turns back or the watcher waits for its
 * launch.
 */
#include "weir.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 100000000u

void weir_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

/* weir_futex_wake wakes all who wait, and tells whether there was one. */
bool weir_futex_wake(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0) > 0;
}

/* bound is the predicted time that may be in flight. */
uint64_t weir_bound(struct weir_header *h)
{
	uint64_t ns = weir_peek(&h->inflight_bound_ns);
	return weir_likely(ns) ? ns : 2000000u;
}

static inline bool open_at(uint32_t gate)
{
	return (gate & 1) && gate != weir_peek(&weir.expired);
}

/* weir_gate_open tells whether a launch may pass: also when there is no agent left to open the
 * gate. */
bool weir_gate_open(struct weir_header *h)
{
	return open_at(weir_get(&h->gate)) || weir_get(&weir.agent_gone) || weir_get(&weir.stopping);
}

/*
 * take_pass takes the one launch that the agent lets through the gate closed at this value, because
 * what is in flight waits for it; it gives the value, or 0. Unlike what passes by itself it is in
 * flight like any other, and it is void as soon as the gate has another value.
 */
static uint32_t take_pass(struct weir_header *h, uint32_t gate)
{
	uint32_t offered = gate;
	bool taken = gate && weir_peek(&h->gate_pass) == gate &&
		__atomic_compare_exchange_n(
			&h->gate_pass, &offered, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return taken ? gate : 0;
}

/* lets_through tells whether a launch may go on: the gate is open, or it has a pass. */
static inline bool lets_through(struct weir_header *h, struct weir_ticket *t)
{
	return weir_gate_open(h) || (t->pass && weir_get(&h->gate) == t->pass);
}

/* gate_wait returns once the gate is open, *pass lets a launch through, a launch of f may pass it
 * closed or the context of the stream is found in an error, with which a launch fails at once; f is
 * NULL for what may not pass, and s for a stream that is not known. The agent is told once for each
 * time that the process begins to wait or the gate's value changes. */
static void gate_wait(
	struct weir_header *h, struct weir_stream *s, struct weir_function *f, uint32_t *pass)
{
	uint32_t told = 0, held = weir_hold_pause();
	weir_pass_unwanted();
	bool first = weir_waits_begin();
	for (;;) {
		uint32_t gate = weir_get(&h->gate);
		*pass = take_pass(h, gate);
		if (*pass || weir_gate_open(h) || (s && weir_get(&s->dead)))
			break;
		/* the watcher, which sees to that, may be held up in the driver */
		if (told && weir_agent_silent(h, weir_socket_open(), weir_now()))
			weir_set(&weir.agent_gone, true);
		if (first || (told && told != gate + 1)) {
			weir_add(&weir_slot()->want_seq, 1);
			weir_send(WEIR_MSG_WANT, gate);
			first = false;
		}
		told = gate + 1;
		if (weir_get(&weir.asleep)) /* the agent may wait to hear that nothing is in flight */
			weir_watcher_wake();
		/* The gate's value does not change with what may pass it, and the agent, which was just
		 * told, may have let that pass by now. */
		if (!f || !weir_passes(h, f))
			weir_futex_wait(&h->gate, gate, WAIT_NS);
		if (weir_page() != h)
			break; /* an agent that came back gave another page */
		if (f && weir_passes(h, f))
			break;
	}
	weir_waits_end();
	weir_hold_resume(held);
}

/* opened tells the agent of the first launch of a batch at once: it goes by these numbers to see
 * whether the process has work. */
static void opened(uint64_t ns)
{
	struct weir_slot *slot = weir_slot();
	__atomic_fetch_add(&slot->launches, 1, __ATOMIC_RELAXED);
	weir_set(&slot->inflight_ns, weir_in_flight() + ns);
}

/*
 * uncertain tells whether the next launch of f could take many times the bound although few do: f
 * has not been measured yet, or its launches differ so much that their mean deviation is above
 * their mean, and some are long. Where the mean is short, waiting for each would cost more than it
 * is worth.
 */
static bool uncertain(const struct weir_function *f, uint64_t quantum)
{
	enum { LONG = 128 }; /* quanta: 16 times the bound */
	uint32_t mean = weir_peek(&f->slow);
	return weir_peek(&f->samples) == 0 ||
		(mean > quantum && weir_peek(&f->spread) > mean && weir_peek(&f->most) > LONG * quantum);
}

/*
 * together is how many launches of unknown time may be in flight at once. A program that makes its
 * graphs anew for each launch, or compiles as it goes, launches what was never measured all the
 * time; if many such took little lately, and none much more than the bound, it is some of them, so
 * that the device does not wait for the host after each. They are ever more while streams stall and
 * the device comes to nothing: each may wait for what the program launches after it.
 */
static uint32_t together(const struct weir_function *f, uint64_t quantum)
{
	enum { MANY = 64, SOME = 4, SHORT = 16 }; /* quanta: twice the bound */
	bool known = weir_peek(&weir.firsts) >= MANY &&
		weir_get(&weir.unknown_ns) <= SHORT * quantum * WEIR_UNIT_NS;
	uint32_t n = weir_peek(&f->samples) == 0 && known ? SOME : 1;
	return weir_get(&weir.aside) ? n << weir_doubled(weir_now()) : n;
}

/* has_room tells whether a launch of f may join what is in flight; *since is when it was first told
 * that it may not, 0: never. A mark may be long in coming for reasons of the program's own, such as
 * a capture, so that no launch waits for ever to be the only one of unknown time. */
static bool has_room(
	struct weir_stream *s, const struct weir_function *f, uint64_t quantum, uint64_t *since)
{
	enum { ALONE_NS = 1000000000 };
	bool unknown = uncertain(f, quantum);
	bool few = unknown && (!*since || weir_now() - *since < ALONE_NS);
	uint32_t most = few ? together(f, quantum) : 0;
	if (few && weir_get(&weir.uncertain) < most && !s->aside && weir_get(&weir.aside) &&
		weir_get(&weir.strangers) >= most)
		weir_rest_beside(s);
	else if (!weir_make_room(s, (uint64_t)weir_peek(&f->guess) * WEIR_UNIT_NS, unknown, most))
		return true;
	if (!*since)
		*since = weir_now();
	return false;
}

/* follows tells whether the launch, which waited for room, comes as the device has just come to the
 * last mark of the stream, as it had not when that was looked at just before: its time is then
 * measured from that. An event of its own would keep the device, which has nothing to do, waiting
 * for longer. */
static bool follows(const struct weir_stream *s, bool waited)
{
	enum { JUST_NS = 20000 };
	uint64_t looked = weir_get(&s->looked_ns), seen = s->progress_ns;
	return waited && s->head == s->tail && weir_now() - seen < JUST_NS && looked <= seen &&
		seen - looked < JUST_NS;
}

/* join puts the launch on the stream's open batch, or begins one. False: the gate is closed. */
static bool join(struct weir_ticket *t, struct weir_function *f, struct weir_header *h,
	uint64_t quantum, bool waited)
{
	struct weir_stream *s = t->stream;
	uint64_t guess = weir_peek(&f->guess), w = weir_get(&s->word);
	/* What is long by itself is marked at once, so that its time is known and not that until
	 * somebody looked; and so is, now and then, any, behind an event of its own: each batch may
	 * have pauses in it. Behind what stalls nothing is measured. */
	bool sample = weir_peek(&f->samples) < WEIR_SAMPLES && !s->aside;
	bool single = sample || (guess > quantum && !s->aside) || weir_stream_by_program(s);
	if (weir_word_count(w) == 0) {
		bool idle = s->head == s->tail;
		bool now_and_then = s->head % 16 == 8 && !s->aside;
		single = single || now_and_then;
		if (follows(s, waited))
			s->from = WEIR_FROM_MARK;
		else
			weir_begin_batch(
				s, sample || now_and_then || (idle && (single || s->head % 16 == 0)));
	}
	w = __atomic_fetch_add(&s->word,
		WEIR_LAUNCHING + (weir_word_count(w) < UINT16_MAX / 2 ? WEIR_COUNT + guess : 0),
		__ATOMIC_SEQ_CST);
	if (!lets_through(h, t)) {
		/* its share of the batch stays: harmless, and safe from a close in between */
		weir_sub(&s->word, WEIR_LAUNCHING);
		s->from = WEIR_FROM_NOWHERE;
		return false;
	}
	bool first = weir_word_count(w) == 0;
	__atomic_store_n(&s->only, first ? f : NULL, __ATOMIC_RELAXED);
	if (first) {
		s->age = weir_peek(&f->age);
		opened(guess * WEIR_UNIT_NS);
	}
	t->sample = single && first;
	if ((first || s->aside) && !s->uncertain && uncertain(f, quantum)) {
		s->uncertain = true;
		weir_add(&weir.uncertain, !s->aside);
		weir_add(&weir.strangers, !s->aside);
	}
	return true;
}

/* try_slow does what a launch needs beyond the fast path; false: look again. The stream's lock is
 * held. A batch on a stream that is set aside ends only when it is full, so that little of weir's
 * own is put behind what the program may have filled the driver's queue for. */
static bool try_slow(
	struct weir_ticket *t, struct weir_function *f, struct weir_header *h, uint64_t *since)
{
	struct weir_stream *s = t->stream;
	uint64_t w = weir_get(&s->word), quantum = weir_bound(h) / 8 / WEIR_UNIT_NS;
	uint64_t guess = weir_peek(&f->guess), time = weir_word_time(w) + guess;
	bool sample = weir_peek(&f->samples) < WEIR_SAMPLES, many = weir_word_count(w) >= WEIR_BATCH;
	bool over = time > quantum << s->longer;
	if (over && !sample && !many && guess <= quantum && weir_lengthen(s))
		over = false;
	bool marked = true, ends = many || ((over || sample) && !s->aside);
	if (ends)
		marked = weir_close_batch(s, false);
	if ((marked || s->aside) && !has_room(s, f, quantum, since))
		return false;
	if (ends)
		s->keeps_up = s->head == s->tail;
	return join(t, f, h, quantum, *since);
}

/* wait_for_turn returns false for a launch that fails. */
static bool wait_for_turn(struct weir_ticket *t)
{
	struct weir_function *f = t->function;
	uint64_t since = 0;
	bool waited = false;
	for (;;) {
		struct weir_header *h = weir_page();
		if (weir_unlikely(weir_dead(t->stream)))
			return false;
		if (!lets_through(h, t)) {
			waited = true;
			if (!weir_passes(h, f))
				gate_wait(h, t->stream, f, &t->pass);
			else if ((t->passes = weir_begin_pass(h)))
				return true;
			else /* what passed last may be behind what waits for this one */
				t->pass = take_pass(h, weir_get(&h->gate));
			continue;
		}
		pthread_mutex_lock(&t->stream->lock);
		bool through = try_slow(t, f, h, &since);
		pthread_mutex_unlock(&t->stream->lock);
		if (through)
			break;
	}
	if (waited || since)
		weir_set(&weir.let_ns, weir_now());
	weir_pass_unwanted();
	if (weir_unlikely(weir_get(&weir.asleep)))
		weir_watcher_wake();
	return true;
}

/* enter_slow is wait_for_turn by a thread that cannot be cancelled meanwhile: a cancelled one would
 * keep a lock, and be counted among those who wait. */
static __attribute__((noinline)) bool enter_slow(struct weir_ticket *t)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	bool enters = wait_for_turn(t);
	pthread_setcancelstate(before, NULL);
	return enters;
}

/* weir_enter waits until the launch may go to the device; false: it is not metered, and weir_leave
 * is not to be called. Key and size name what is launched, for the prediction of its time. */
bool weir_enter(
	struct weir_ticket *t, uintptr_t key, uint64_t size, CUstream stream, int per_thread)
{
	if (weir_unlikely(!weir_ready()) || weir_unlikely(weir_peek(&weir.stopping)))
		return false;
	if (weir_unlikely(weir_peek(&weir.captures)) && weir_capturing(stream, per_thread))
		return false;
	struct weir_header *h = weir_page();
	struct weir_stream *s = weir_stream_of(stream, per_thread);
	t->pass = 0;
	if (weir_unlikely(!s)) {
		if (!weir_gate_open(h))
			gate_wait(h, NULL, NULL, &t->pass);
		return false;
	}
	struct weir_function *f = weir_function_of(key, size);
	t->stream = s;
	t->function = f;
	t->sample = t->passes = false;
	uint32_t gate = weir_get(&h->gate);
	uint64_t w = weir_peek(&s->word), guess = weir_peek(&f->guess), n = weir_word_count(w);
	if (weir_likely(open_at(gate) && n - 1 < WEIR_BATCH - 1 &&
			weir_peek(&f->samples) == WEIR_SAMPLES &&
			weir_word_time(w) + guess <=
				(weir_bound(h) / (8 * WEIR_UNIT_NS)) << weir_peek(&s->longer))) {
		__atomic_fetch_add(&s->word, WEIR_LAUNCHING + WEIR_COUNT + guess, __ATOMIC_SEQ_CST);
		if (weir_likely(weir_get(&h->gate) == gate)) {
			if (__atomic_load_n(&s->only, __ATOMIC_RELAXED) != f)
				__atomic_store_n(&s->only, NULL, __ATOMIC_RELAXED);
			return true;
		}
		weir_sub(&s->word, WEIR_LAUNCHING);
	}
	return enter_slow(t);
}

/* Copies are told apart by their size alone. A copy's first prediction is right for most buses
 * within a factor of two, and corrected like any other. */
bool weir_enter_copy(struct weir_ticket *t, uint64_t bytes, CUstream stream, int per_thread)
{
	static char key; /* an address that no function has */
	if (weir_likely(bytes < WEIR_LARGE_COPY) ||
		!weir_enter(t, (uintptr_t)&key, bytes, stream, per_thread))
		return false;
	__atomic_fetch_add(&weir_slot()->copies_bytes, bytes, __ATOMIC_RELAXED);
	return true;
}

/* What is fetched before it is used may be there already, and takes no time then: it tells nothing
 * of copies. */
bool weir_enter_prefetch(struct weir_ticket *t, uint64_t bytes, CUstream stream, int per_thread)
{
	static char key;
	return bytes >= WEIR_LARGE_COPY && weir_enter(t, (uintptr_t)&key, bytes, stream, per_thread);
}

/* weir_leave ends what weir_enter began. */
void weir_leave(struct weir_ticket *t, CUresult result)
{
	struct weir_stream *s = t->stream;
	if (weir_unlikely(t->passes)) {
		weir_end_pass(s, t->function, result == CUDA_SUCCESS);
		return;
	}
	weir_sub(&s->word, WEIR_LAUNCHING);
	if (weir_likely(!t->sample))
		return;
	pthread_mutex_lock(&s->lock);
	if (result != CUDA_SUCCESS)
		__atomic_store_n(&s->only, NULL, __ATOMIC_RELAXED);
	weir_close_batch(s, false);
	pthread_mutex_unlock(&s->lock);
}
