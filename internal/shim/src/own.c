/*
 * Calls of weir's own to the driver, from threads of the program and from the watcher.
 *
 * In the thread's ordinary capture mode many calls end a capture that another thread has begun: a
 * look at an event ended graphs of PyTorch's in the same way, from its watchdog
 * (pytorch/pytorch#104555, #148594). To ask first whether anybody captures is of no use, as a
 * capture may begin in between, or where weir does not see it. So each of weir's own calls is made
 * in relaxed mode, which is the thread's own affair (cuThreadExchangeStreamCaptureMode).
 *
 * When the process exits, the driver takes down what it has in a handler that it registers with
 * atexit, and a thread that is in one of its calls then may crash: rapidsai/rmm#2366 crashed in
 * four of five runs, in cuEventQuery too. Handlers run in the reverse order of their registration,
 * so weir registers its own after cuInit, and again when the first stream is used, in case the
 * driver does so with the first context. It forbids all own calls and waits for those under way.
 * _exit and quick_exit take down nothing.
 */
#include "weir.h"

#include <stdlib.h>
#include <time.h>

/* how long exit waits for calls under way: they end in microseconds, unless a kernel without end
 * runs or the caller of exit holds a lock of the driver's */
#define PATIENCE_NS UINT64_C(500000000)

/* initial-exec, as in streams.c */
static __thread struct {
	uint32_t depth; /* own calls of this thread, one within the other */
	bool keep;      /* the thread is weir's: it stays relaxed */
	bool relaxed;
	int cancel; /* whether the thread could be cancelled before */
	CUstreamCaptureMode before;
} own __attribute__((tls_model("initial-exec")));

static uint32_t calling; /* threads with own calls under way */

static bool exchange(CUstreamCaptureMode *mode)
{
	weir_fn_cuThreadExchangeStreamCaptureMode f = WEIR_DRIVER(cuThreadExchangeStreamCaptureMode);
	return f && f(mode) == CUDA_SUCCESS;
}

/* weir_own_begin comes before calls of weir's own, and weir_own_end after them; false: the process
 * is exiting, and there are to be none. */
bool weir_own_begin(void)
{
	if (own.depth++)
		return true;
	weir_add(&calling, 1);
	if (weir_get(&weir.stopping)) {
		own.depth = 0;
		weir_sub(&calling, 1);
		return false;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &own.cancel);
	if (!own.relaxed) {
		own.before = CU_STREAM_CAPTURE_MODE_RELAXED;
		own.relaxed = exchange(&own.before);
	}
	return true;
}

void weir_own_end(void)
{
	if (--own.depth)
		return;
	if (own.relaxed && !own.keep) {
		CUstreamCaptureMode mode = own.before;
		own.relaxed = false;
		if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
			exchange(&mode);
	}
	pthread_setcancelstate(own.cancel, NULL);
	weir_sub(&calling, 1);
}

/* weir_own_thread says that the calling thread is weir's. It is relaxed from its first call on: the
 * driver has no mode of it before cuInit. */
void weir_own_thread(void)
{
	own.keep = true;
}

void weir_own_reset(void)
{
	calling = own.depth > 0; /* a signal's handler has forked, amid calls that end here too */
}

/* leave is the handler. Whichever thread exits runs it, perhaps out of a signal that came in one of
 * its own calls. */
static void leave(void)
{
	bool first = !__atomic_exchange_n(&weir.stopping, true, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&weir.state, __ATOMIC_ACQUIRE) != WEIR_ATTACHED)
		return;
	weir_watcher_wake();
	uint64_t began = weir_now();
	while (weir_get(&calling) > (own.depth > 0) && weir_now() - began < PATIENCE_NS)
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	if (first)
		weir_count_open();
}

/* weir_at_exit registers the handler, which may run more than once. */
void weir_at_exit(void)
{
	atexit(leave);
}
