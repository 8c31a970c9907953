// The process on the device: attaching, the queue's tail, waiting, and the service thread, which
// sees to host operations in stream order and whose robust mutex tells the other processes that
// this one lives.
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

fk_process fk = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t fk_thread(void) { return (uint32_t)syscall(SYS_gettid); }

// exiting is the answer to calls once the driver is taken down.
static CUresult exiting(void) {
	static const char line[] = "weir fake GPU: a call while the driver is taken down\n";
	if (atomic_load(&fk.exiting) == fk_thread())
		return CUDA_ERROR_DEINITIALIZED;
	if (write(STDERR_FILENO, line, sizeof line - 1) > 0)
		raise(SIGSEGV);
	_exit(128 + SIGSEGV);
}

CUresult fk_usable(void) {
	if (atomic_load(&fk.exiting))
		return exiting();
	if (atomic_load_explicit(&fk.forked, memory_order_relaxed) ||
		!atomic_load_explicit(&fk.ready, memory_order_acquire))
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

CUresult fk_device_ok(CUdevice d) {
	FK_TRY(fk_usable());
	return d >= 0 && (uint32_t)d < fk.count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static void thread(void *(*run)(void *), fk_queue *q, bool *ok);

// finish ends a host operation.
static void finish(fk_queue *q, uint64_t seq) {
	fk_lock(&q->device);
	fk_finish_host(&q->device, seq);
	fk_unlock(&q->device);
	atomic_fetch_sub(&q->host_waiting, 1);
	fk_wake(&fk.kick);
}

// call is the thread that calls the program's functions, one after the other, so that one which
// waits keeps no stream from what the service thread does.
static void *call(void *arg) {
	for (fk_queue *q = arg;;) {
		uint32_t word = atomic_load(&q->calls);
		uint64_t seq = atomic_load(&q->calling);
		if (!seq) {
			fk_sleep_until(&q->calls, word, FK_NEVER);
			continue;
		}
		fk_enter();
		CUhostFn f = q->host[seq % FK_RING].call;
		void *data = q->host[seq % FK_RING].data;
		fk_leave(0);
		f(data);
		finish(q, seq);
		atomic_store(&q->calling, 0);
		fk_wake(&q->work);
	}
	return NULL;
}

// begin has a function called, if none is. Called with fk.lock held.
static void begin(fk_queue *q, uint64_t seq) {
	if (atomic_load(&q->calling) || fk_poll(q, seq))
		return;
	if (!q->caller)
		thread(call, q, &q->caller);
	atomic_store(&q->calling, seq);
	fk_wake(&q->calls);
}

// step does what can be done for a host operation whose turn has come, and reports whether it is
// over. Called with fk.lock held.
static bool step(fk_queue *q, uint64_t seq) {
	typeof(q->host[0]) *h = &q->host[seq % FK_RING];
	if (h->until)
		return h->until(h->data);
	begin(q, seq);
	return false;
}

enum {
	TURNS = 64,       // host operations looked at in one go
	LOOK_NS = 50000,  // from one look at what ends a host operation to the next
	CLOSED_NS = 1000000, // the same at descriptors that may have been closed
};

// soon copies the numbers of pending operations whose end the service thread has to be in time for.
static uint32_t soon(fk_queue *q, uint64_t out[FK_GOALS]) {
	uint32_t n = 0;
	bool all = atomic_load(&q->shared);
	for (uint32_t i = 0; i < q->pendings && n < FK_GOALS; i++)
		if (all || q->pending[i].seen)
			out[n++] = q->pending[i].seq;
	return n;
}

// lingered gives back memory whose descriptors have been closed, or whose stream has come to its
// free, and returns when to look again.
static uint64_t lingered(fk_queue *q) {
	if (!atomic_load(&q->lingering) && !atomic_load(&q->leaving))
		return FK_NEVER;
	fk_enter();
	fk_backings_settle((CUdevice)(q - fk.queues));
	fk_frees_settle();
	fk_leave(0);
	return atomic_load(&q->lingering) || atomic_load(&q->leaving) ? fk_now() + CLOSED_NS
																 : FK_NEVER;
}

// serve performs effects in time, ends the host operations that can end, or sleeps until it may
// have to.
static void serve(fk_queue *q) {
	uint32_t word = atomic_load(&q->work), turns = 0;
	bool hosts = atomic_load(&q->host_waiting), ended = false, looks = false,
		 others = atomic_load(&q->shared) && atomic_load(&q->pendings);
	uint64_t turn[TURNS], goals[FK_GOALS], when = FK_NEVER, other = lingered(q);
	if (!hosts && !others && !atomic_load(&q->seen)) {
		fk_sleep_until(&q->work, word, other);
		return;
	}
	fk_enter();
	fk_perform(q);
	uint32_t n = soon(q, goals);
	fk_leave(0);
	fk_lock(&q->device);
	fk_advance(&q->device);
	if (hosts)
		turns = fk_host_turns(&q->device, turn, TURNS, &when);
	if (n) {
		uint64_t first = fk_forecast(&q->device, goals, n);
		other = first < other ? first : other;
	}
	fk_unlock(&q->device);
	for (uint32_t i = 0; i < turns; i++) {
		fk_enter();
		fk_perform(q);
		looks |= q->host[turn[i] % FK_RING].until != NULL;
		bool over = step(q, turn[i]);
		fk_leave(0);
		if (over)
			finish(q, turn[i]);
		ended |= over;
	}
	when = looks ? fk_now() + LOOK_NS : turns ? FK_NEVER : when;
	if (!ended)
		fk_sleep_until(&q->work, word, other < when ? other : when);
}

static void *service(void *arg) {
	fk_queue *q = arg;
	bool ok = fk_attach(&q->device);
	fk_wake(&q->attached);
	while (ok)
		serve(q);
	return NULL;
}

// thread runs one that takes no signals: they belong to the program.
static void thread(void *(*run)(void *), fk_queue *q, bool *ok) {
	sigset_t all, old;
	pthread_t id;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	*ok = !pthread_create(&id, NULL, run, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (*ok)
		pthread_detach(id);
}

CUresult fk_join(CUdevice d) {
	fk_queue *q = &fk.queues[d];
	if (q->device.slot != FK_NONE)
		return CUDA_SUCCESS;
	uint32_t word = atomic_load(&q->attached);
	bool ok;
	thread(service, q, &ok);
	if (!ok)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (atomic_load(&q->attached) == word)
		fk_sleep_until(&q->attached, word, FK_NEVER);
	if (q->device.slot == FK_NONE)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	q->next = atomic_load(&q->device.file->slots[q->device.slot].tail);
	q->head = q->solo_from = q->next;
	q->stream = FK_NONE;
	return CUDA_SUCCESS;
}

bool fk_settle(CUevent e) {
	if (e->done || !e->seq)
		return true;
	fk_queue *q = &fk.queues[e->device];
	if (!fk_poll(q, e->seq))
		return false;
	e->end_ns = q->device.file->slots[q->device.slot].ring[e->seq % FK_RING].end_ns;
	e->done = true;
	return true;
}

void fk_forget(CUevent e) {
	fk_queue *q = &fk.queues[e->device];
	if (e->seq && q->marks[e->seq % FK_RING] == e)
		q->marks[e->seq % FK_RING] = NULL;
}

// finished is an operation with an effect that has ended.
typedef struct {
	uint64_t end_ns;
	fk_effect *effect;
	bool lost;
} finished;

// collect takes what has ended from the pending operations, in the order in which it did: what ends
// at the same time, in the order of numbers, by which operations depend on each other.
static uint32_t collect(fk_queue *q, finished *out) {
	const fk_slot *slot = &q->device.file->slots[q->device.slot];
	uint32_t n = 0, kept = 0, seen = 0;
	for (uint32_t i = 0; i < q->pendings; i++) {
		uint64_t seq = q->pending[i].seq;
		if (!fk_done(&q->device, q->device.slot, seq)) {
			seen += q->pending[i].seen;
			q->pending[kept++] = q->pending[i];
			continue;
		}
		uint32_t at = n++;
		const fk_op *op = &slot->ring[seq % FK_RING];
		finished f = {op->end_ns, q->pending[i].effect, op->flags & FK_LOST};
		for (; at && out[at - 1].end_ns > f.end_ns; at--)
			out[at] = out[at - 1];
		out[at] = f;
	}
	atomic_store(&q->seen, seen);
	return n;
}

// look reports whether an operation is done, after the effects of all that is.
static bool look(fk_queue *q, uint64_t seq) {
	finished all[FK_RING];
	fk_slot *slot = &q->device.file->slots[q->device.slot];
	fk_lock(&q->device);
	fk_advance(&q->device);
	uint64_t head = fk_head(&q->device), now = q->device.file->clock.now_ns;
	bool done = fk_done(&q->device, q->device.slot, seq);
	uint32_t before = q->pendings, n = before ? collect(q, all) : 0;
	fk_unlock(&q->device);
	q->head = head;
	for (uint32_t i = 0; i < n; i++) {
		if (!all[i].lost)
			fk_effect_do(all[i].effect);
		fk_effect_free(all[i].effect);
	}
	if (before) {
		atomic_store(&slot->settled_ns, before > n ? now : FK_NEVER);
		atomic_store(&q->pendings, before - n);
	}
	if (atomic_load(&q->leaving))
		fk_frees_seen();
	return done;
}

void fk_perform(fk_queue *q) {
	if (q->pendings)
		look(q, q->head);
}

void fk_share(fk_queue *q) {
	atomic_store(&q->shared, 1);
	fk_wake(&q->work);
}

bool fk_seen(fk_queue *q, uint64_t seq) {
	if (seq < q->head)
		return true;
	fk_lock(&q->device);
	bool done = fk_done(&q->device, q->device.slot, seq);
	fk_unlock(&q->device);
	return done;
}

bool fk_poll(fk_queue *q, uint64_t seq) { return seq < q->head || look(q, seq); }

void fk_wait(fk_queue *q, uint64_t seq) {
	for (;;) {
		uint32_t kick = atomic_load(&fk.kick);
		fk_lock(&q->device);
		fk_advance(&q->device);
		bool done = fk_done(&q->device, q->device.slot, seq);
		uint64_t when = done ? 0 : fk_forecast(&q->device, &seq, 1);
		fk_unlock(&q->device);
		if (!done) {
			fk_sleep_until(&fk.kick, kick, when);
			continue;
		}
		if (atomic_load(&q->pendings)) {
			fk_enter();
			fk_perform(q);
			fk_leave(0);
		}
		return;
	}
}

void fk_wait_all(fk_queue *q) {
	fk_enter();
	for (uint64_t last = q->next - 1; q->head <= last;) {
		if (fk_poll(q, q->head))
			continue;
		uint64_t oldest = q->head;
		fk_leave(0);
		fk_wait(q, oldest);
		fk_enter();
	}
	fk_leave(0);
}

static _Atomic uint32_t rooms; // threads in room

// room sleeps until the queue can take one more operation.
static void room(fk_queue *q) {
	while (q->next - q->head >= FK_RING && !fk_poll(q, q->next - FK_RING)) {
		uint64_t oldest = q->next - FK_RING;
		fk_leave(0);
		atomic_fetch_add(&rooms, 1);
		fk_wait(q, oldest);
		atomic_fetch_sub(&rooms, 1);
		fk_enter();
	}
}

FK_API cuWeirFakeRooms(uint32_t *threads) {
	*threads = atomic_load(&rooms);
	return CUDA_SUCCESS;
}

// pend notes an operation that is about to be queued and has an effect.
static void pend(fk_queue *q, uint64_t seq, const fk_item *item) {
	bool seen = !item->waited && fk_effect_seen(item->effect);
	if (!q->pendings)
		atomic_store(&q->device.file->slots[q->device.slot].settled_ns, fk_now());
	q->pending[q->pendings].seq = seq;
	q->pending[q->pendings].effect = item->effect;
	q->pending[q->pendings].seen = seen;
	atomic_fetch_add(&q->pendings, 1);
	atomic_fetch_add(&q->seen, seen);
}

void fk_push_record(CUstream s, CUevent e) {
	uint64_t ns = FK_KNOB(&fk_queue_of(s)->device, record_ns);
	fk_push(s,
		(fk_item){
			.kind = ns ? FK_WORK : FK_MARK, .duration_ns = ns, .copy = true, .mark = e},
		NULL);
}

void fk_push(CUstream s, fk_item item, uint64_t *number) {
	fk_queue *q = fk_queue_of(s);
	room(q);
	uint64_t seq = q->next;
	uint32_t i = seq % FK_RING;
	if (q->marks[i]) {
		fk_settle(q->marks[i]);
		q->marks[i] = NULL;
	}
	bool legacy = s == s->context->legacy,
		 blocking = !legacy && !(s->flags & CU_STREAM_NON_BLOCKING);
	if (q->stream != s->id)
		q->stream = s->id, q->solo_from = seq;
	q->device.file->slots[q->device.slot].ring[i] = (fk_op){
		.enqueued_ns = fk_now(),
		.duration_ns = item.duration_ns ? item.duration_ns : 1,
		.prev = s->seq,
		.after = item.after,
		.barrier = blocking ? s->context->legacy_seq : 0,
		.solo_from = q->solo_from,
		.kind = item.kind,
		.flags = (legacy ? FK_LEGACY : 0) | (blocking ? FK_BLOCKING : 0) |
			(item.faults ? FK_FAULT : 0),
		.priority = s->priority,
		.stream = s->id,
		.width = item.copy ? 0 : s->context->width,
		.context = (uint32_t)fk_root(s->context)->id,
	};
	if (item.faults)
		atomic_fetch_add(&fk.faults, 1);
	q->host[i] = (typeof(q->host[i])){item.call, item.until, item.data};
	if (item.effect)
		pend(q, seq, &item);
	s->seq = seq;
	if (legacy)
		s->context->legacy_seq = seq;
	if (item.mark) {
		fk_forget(item.mark);
		item.mark->seq = seq, item.mark->done = false, item.mark->captured = NULL,
		item.mark->device = s->context->device;
		q->marks[i] = item.mark;
	}
	q->next = seq + 1;
	atomic_store_explicit(
		&q->device.file->slots[q->device.slot].tail, seq + 1, memory_order_release);
	if (item.kind == FK_HOST) {
		atomic_fetch_add(&q->host_waiting, 1);
		fk_wake(&q->work);
	} else if (item.effect && (atomic_load(&q->seen) || atomic_load(&q->shared))) {
		fk_wake(&q->work);
	}
	if (number)
		*number = seq;
}
