// The process on the device: attaching, the queue's tail, waiting, and the service thread, which
// runs host functions in stream order and whose robust mutex tells the other processes that this
// one lives.
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

// serve runs the host operation whose turn has come, or sleeps until one may have.
static void serve(fk_queue *q) {
	uint32_t word = atomic_load(&q->work);
	if (!atomic_load(&q->host_waiting)) {
		fk_sleep_until(&q->work, word, FK_NEVER);
		return;
	}
	uint64_t when;
	fk_lock(&q->device);
	fk_advance(&q->device);
	uint64_t seq = fk_host_ready(&q->device, &when);
	fk_unlock(&q->device);
	if (!seq) {
		fk_sleep_until(&q->work, word, when);
		return;
	}
	fk_enter();
	CUhostFn call = q->host[seq % FK_RING].call;
	void *data = q->host[seq % FK_RING].data;
	fk_leave(0);
	call(data);
	fk_lock(&q->device);
	fk_finish_host(&q->device, seq);
	fk_unlock(&q->device);
	atomic_fetch_sub(&q->host_waiting, 1);
	fk_wake(&fk.kick);
}

static void *service(void *arg) {
	fk_queue *q = arg;
	bool ok = fk_attach(&q->device);
	fk_wake(&q->attached);
	while (ok)
		serve(q);
	return NULL;
}

// start runs the service thread, which takes no signals: they belong to the program.
static bool start(fk_queue *q) {
	sigset_t all, old;
	pthread_t thread;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool ok = !pthread_create(&thread, NULL, service, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ok)
		pthread_detach(thread);
	return ok;
}

CUresult fk_join(CUdevice d) {
	fk_queue *q = &fk.queues[d];
	if (q->device.slot != FK_NONE)
		return CUDA_SUCCESS;
	uint32_t word = atomic_load(&q->attached);
	if (!start(q))
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

bool fk_poll(fk_queue *q, uint64_t seq) {
	if (seq < q->head)
		return true;
	fk_lock(&q->device);
	fk_advance(&q->device);
	q->head = fk_head(&q->device);
	bool done = fk_done(&q->device, q->device.slot, seq);
	fk_unlock(&q->device);
	return done;
}

void fk_wait(fk_queue *q, uint64_t seq) {
	for (;;) {
		uint32_t kick = atomic_load(&fk.kick);
		fk_lock(&q->device);
		fk_advance(&q->device);
		bool done = fk_done(&q->device, q->device.slot, seq);
		uint64_t when = done ? 0 : fk_forecast(&q->device, seq);
		fk_unlock(&q->device);
		if (done)
			return;
		fk_sleep_until(&fk.kick, kick, when);
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

// room sleeps until the queue can take one more operation.
static void room(fk_queue *q) {
	while (q->next - q->head >= FK_RING && !fk_poll(q, q->next - FK_RING)) {
		uint64_t oldest = q->next - FK_RING;
		fk_leave(0);
		fk_wait(q, oldest);
		fk_enter();
	}
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
	q->host[i].call = item.call, q->host[i].data = item.data;
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
	}
	if (number)
		*number = seq;
}
