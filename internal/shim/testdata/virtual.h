/*
 * A driver, a device and an agent in virtual time, for the library's time side without the rest of
 * it: time goes by in launches, sleeps, yields and waits at the gate, and with looks at events and
 * the clock. So every test sees the same times on every machine. Streams run beside each other, and
 * the device is never full.
 */
#include "../src/weir.h"
#include "freed.h"

#include "../src/watcher.c"
#include "stays.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* each program uses a part of this */
#pragma GCC diagnostic ignored "-Wunused-function"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define LAUNCH_NS 1000 /* what a launch takes of the program's time */
#define NEVER UINT64_MAX

static uint64_t now_ns = 1000 * MS;
static uint64_t next_look = NEVER; /* of the watcher */
static uint64_t agent_at = NEVER;  /* when the agent does something */
static void (*agent)(void);
/* within such a call */
static void (*in_record)(void), (*in_query)(void), (*in_asking)(void), (*in_send)(void);

/* watcher_looks is one round of the watcher's. */
static void watcher_looks(void);

/* lasts lets time pass, in which watcher and agent do what they do. */
static void lasts(uint64_t ns)
{
	static bool inside;
	uint64_t until = now_ns + ns;
	while (now_ns < until) {
		uint64_t next = until;
		next = next_look < next ? next_look : next;
		next = agent_at < next ? agent_at : next;
		now_ns = next > now_ns ? next : now_ns;
		if (now_ns >= agent_at) {
			agent_at = NEVER;
			agent();
		}
		if (now_ns >= next_look && !inside) {
			inside = true;
			watcher_looks();
			inside = false;
			next_look = now_ns + 200 * US;
		}
	}
}

/* A look at the clock takes time too, so that who looks at nothing else gets on. */
uint64_t weir_now(void) { return now_ns += 25; }

static uint64_t others_ns; /* for so long others have the processor when a sleep is over */

int nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	lasts((uint64_t)t->tv_sec * 1000 * MS + (uint64_t)t->tv_nsec + others_ns);
	return 0;
}

static uint64_t yield_ns = 3 * MS; /* for so long others have the processor, of a busy machine */

int sched_yield(void)
{
	lasts(yield_ns);
	return 0;
}

int prctl(int option, ...) { (void)option; return 0; }

/* Of system calls only futexes are used: who waits sleeps until the word changes or time is up. */
long syscall(long number, ...)
{
	va_list args;
	va_start(args, number);
	uint32_t *word = va_arg(args, uint32_t *);
	int what = va_arg(args, int);
	uint32_t value = va_arg(args, uint32_t);
	const struct timespec *t = va_arg(args, const struct timespec *);
	va_end(args);
	if (number != SYS_futex || what != FUTEX_WAIT)
		return 0;
	uint64_t until = now_ns + (uint64_t)t->tv_sec * 1000 * MS + (uint64_t)t->tv_nsec;
	while (now_ns < until && weir_get(word) == value)
		lasts(until - now_ns < 10 * US ? until - now_ns : 10 * US);
	return 0;
}

/* ---- the device: each stream runs its operations in order */

struct device_op {
	uint64_t queued, ns, end;
	uint32_t behind; /* launches that must have been made before it ends, 0: none */
};

struct CUstream_handle {
	CUcontext ctx;
	struct device_op ops[8192];
	uint32_t queued, ended; /* numbers of operations, and of those whose end is known */
	bool captured, destroyed;
};

struct CUevent_handle {
	CUstream on;
	uint32_t after; /* operations */
	uint64_t at;
	bool captured;
	CUcontext ctx;
};

static char contexts[4];
static struct CUstream_handle streams[8], legacy, own_default;
static uint64_t launch_at[8192];
static uint32_t launches;
static uint64_t most_flying, dry; /* true time in flight at most, and lost between operations */
static CUresult fails[2];         /* of all calls, by context */
static CUresult record_gives;     /* in its place */
static CUresult begin_gives, end_gives;
static bool looking; /* the watcher does */
static uint32_t broken; /* calls that a driver would take amiss */
static uint32_t recorded, queries, destroyed_events, destroyed_streams;
static CUstreamCaptureMode mode; /* of the thread */
static CUcontext current_context = (CUcontext)contexts;

static CUresult error_of(CUcontext c) { return fails[((char *)c - contexts) & 1]; }

static CUstream real_stream(CUstream s)
{
	return !s || s == CU_STREAM_LEGACY ? &legacy : s == CU_STREAM_PER_THREAD ? &own_default : s;
}

static void run(CUstream s)
{
	for (; s->ended < s->queued; s->ended++) {
		struct device_op *o = &s->ops[s->ended];
		uint64_t before = s->ended ? s->ops[s->ended - 1].end : 0,
				 from = before > o->queued ? before : o->queued, end = from + o->ns;
		if (o->behind > launches)
			return;
		if (o->behind && launch_at[o->behind] > end)
			end = launch_at[o->behind];
		dry += s->ended ? from - before : 0;
		o->end = end;
	}
}

/* left is how long the stream still runs; NEVER: that is not known. */
static uint64_t left(CUstream s)
{
	run(s);
	if (s->ended < s->queued)
		return NEVER;
	return s->queued && s->ops[s->queued - 1].end > now_ns ? s->ops[s->queued - 1].end - now_ns : 0;
}

static void device_takes(CUstream s, uint64_t ns, uint32_t behind)
{
	uint64_t flying = 0;
	launch_at[++launches] = now_ns;
	s->ops[s->queued++] = (struct device_op){now_ns, ns, 0, behind};
	for (int i = 0; i < 8; i++)
		flying += left(&streams[i]) == NEVER ? 0 : left(&streams[i]);
	most_flying = flying > most_flying ? flying : most_flying;
}

/* ---- the driver */

/* own tells whether a call is made as the library's own ones have to be. */
static void own(void)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	broken += mode != CU_STREAM_CAPTURE_MODE_RELAXED || cancel != PTHREAD_CANCEL_DISABLE;
}

static CUresult event_create(CUevent *e, unsigned flags)
{
	(void)flags;
	own();
	*e = calloc(1, sizeof **e);
	(*e)->ctx = current_context;
	return error_of(current_context);
}

static CUresult event_record(CUevent e, CUstream on)
{
	CUstream s = real_stream(on);
	own();
	if (in_record)
		in_record();
	if (error_of(s->ctx) || record_gives)
		return error_of(s->ctx) ? error_of(s->ctx) : record_gives;
	broken += s->destroyed || e->ctx != s->ctx || (looking && on == CU_STREAM_PER_THREAD);
	recorded++;
	*e = (struct CUevent_handle){s, s->queued, now_ns, s->captured, e->ctx};
	return CUDA_SUCCESS;
}

static uint64_t event_time(CUevent e)
{
	run(e->on);
	if (e->on->ended < e->after)
		return NEVER;
	uint64_t end = e->after ? e->on->ops[e->after - 1].end : 0;
	return end > e->at ? end : e->at;
}

static CUresult event_query(CUevent e)
{
	own();
	queries++;
	now_ns += US;
	if (in_query)
		in_query();
	if (error_of(e->on->ctx))
		return error_of(e->on->ctx);
	broken += e->captured;
	return event_time(e) <= now_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_elapsed(float *ms, CUevent a, CUevent b)
{
	if (event_time(a) > now_ns || event_time(b) > now_ns)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(int64_t)(event_time(b) - event_time(a)) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent e)
{
	own();
	free(e);
	destroyed_events++;
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream on, CUstreamCaptureStatus *status)
{
	CUstream s = real_stream(on);
	if (error_of(s->ctx))
		return error_of(s->ctx);
	*status = s->captured ? 1 : CU_STREAM_CAPTURE_STATUS_NONE;
	if (in_asking)
		in_asking();
	for (int i = 0; s == &legacy && i < 8; i++)
		if (streams[i].captured)
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return CUDA_SUCCESS;
}

static void (*in_begin)(void);

static CUresult begin_capture(CUstream s, CUstreamCaptureMode how)
{
	(void)how;
	if (in_begin)
		in_begin();
	real_stream(s)->captured |= !begin_gives;
	return begin_gives;
}

static CUresult end_capture(CUstream s, CUgraph *graph)
{
	(void)graph;
	real_stream(s)->captured &= end_gives != CUDA_SUCCESS;
	return end_gives;
}

static CUresult exchange_mode(CUstreamCaptureMode *m)
{
	CUstreamCaptureMode was = mode;
	mode = *m;
	*m = was;
	return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream s)
{
	lasts(left(real_stream(s)));
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream s)
{
	s->destroyed = true;
	destroyed_streams++;
	return CUDA_SUCCESS;
}

static void (*in_get_context)(void);

static CUresult stream_context(CUstream s, CUcontext *c)
{
	if (in_get_context)
		in_get_context();
	*c = s == CU_STREAM_LEGACY ? current_context : real_stream(s)->ctx;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *c) { *c = current_context; return CUDA_SUCCESS; }

static CUcontext pushed;

static CUresult push_current(CUcontext c)
{
	pushed = current_context;
	current_context = c;
	return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *c)
{
	*c = current_context;
	current_context = pushed;
	return CUDA_SUCCESS;
}

void *weir_resolve(enum weir_call call)
{
	switch (call) {
	case WEIR_cuEventCreate: return (void *)event_create;
	case WEIR_cuEventRecord: return (void *)event_record;
	case WEIR_cuEventQuery: return (void *)event_query;
	case WEIR_cuEventElapsedTime: return (void *)event_elapsed;
	case WEIR_cuEventDestroy_v2: return (void *)event_destroy;
	case WEIR_cuStreamIsCapturing: return (void *)is_capturing;
	case WEIR_cuStreamBeginCapture_v2: return (void *)begin_capture;
	case WEIR_cuStreamBeginCapture_v2_ptsz: return (void *)begin_capture;
	case WEIR_cuStreamEndCapture: return (void *)end_capture;
	case WEIR_cuThreadExchangeStreamCaptureMode: return (void *)exchange_mode;
	case WEIR_cuStreamSynchronize: return (void *)stream_synchronize;
	case WEIR_cuStreamDestroy_v2: return (void *)stream_destroy;
	case WEIR_cuStreamGetCtx: return (void *)stream_context;
	case WEIR_cuCtxGetCurrent: return (void *)get_current;
	case WEIR_cuCtxPushCurrent_v2: return (void *)push_current;
	case WEIR_cuCtxPopCurrent_v2: return (void *)pop_current;
	default: return NULL;
	}
}

/* ---- the rest of the library, and the agent's page */

struct weir_process weir = {.state = WEIR_ATTACHED};
void *weir_reals[WEIR_CALLS];
static _Alignas(4096) char page[WEIR_PAGE_SIZE];
static struct weir_header *header = (struct weir_header *)page;
static struct weir_slot *slot = (struct weir_slot *)(page + WEIR_SLOTS_OFFSET);
static uint32_t sent[16];
static bool socket_open = true;

int weir_attach(void) { return WEIR_ATTACHED; }
void weir_send(uint32_t kind, uint32_t gate)
{
	sent[kind] = gate;
	if (in_send)
		in_send();
}
bool weir_socket_open(void) { return socket_open; }
bool weir_reconnect(void) { return false; }
void weir_tell_unknown(void) {}
void weir_say(const char *format, ...) { (void)format; }
bool weir_pools_slack(void) { return false; }
void weir_pools_refresh(bool trim) { (void)trim; }
bool weir_waits_begin(void) { return weir_add(&weir.slot->waiting, 1) == 1; }
void weir_waits_end(void) { weir_sub(&weir.slot->waiting, 1); }
CUresult weir_missing(void) { return CUDA_ERROR_NOT_FOUND; }

/* begins sets the bound and opens the gate. */
static void begins(uint64_t bound)
{
	for (int i = 0; i < 8; i++)
		streams[i].ctx = (CUcontext)contexts;
	legacy.ctx = own_default.ctx = (CUcontext)contexts;
	header->inflight_bound_ns = bound;
	header->agent_beat_ns = NEVER / 2;
	header->gate = 1;
	slot->owner_pid = 1;
	weir.page = header;
	weir.slot = slot;
	weir.watched = true;
}

/* ---- the program */

#define KEY(f) ((uintptr_t)(f) * 16) /* functions are aligned */

/* launch launches function f, which takes so long, or until so many launches have been made. */
static void launch_behind(CUstream s, uintptr_t f, uint64_t ns, uint32_t behind)
{
	struct weir_ticket t;
	bool enters = weir_enter(&t, KEY(f), 1, s, 0);
	device_takes(real_stream(s), ns, behind);
	lasts(LAUNCH_NS);
	if (enters)
		weir_leave(&t, error_of(real_stream(s)->ctx));
}

static void launch(CUstream s, uintptr_t f, uint64_t ns) { launch_behind(s, f, ns, 0); }

static struct weir_function *function(uintptr_t f) { return weir_function_of(KEY(f), 1); }

/* teach makes it known that a function takes so long. */
static void teach(uintptr_t f, uint64_t ns)
{
	for (int i = 0; i < 6; i++)
		weir_function_measured(function(f), ns);
}

static struct weir_stream *record_of(CUstream s) { return weir_stream_of(s, 0); }

/* ends lets time pass until the stream's work has ended and the library knows. */
static void ends(CUstream s)
{
	while (left(s))
		lasts(left(s) == NEVER ? MS : left(s));
	lasts(MS);
}

/* ---- what is expected */

static const char *now_in;

/* within expects a number between two others. */
static void within(const char *what, uint64_t got, uint64_t least, uint64_t most)
{
	if (got >= least && got <= most)
		return;
	printf("%s: %s: %llu, want %llu to %llu\n", now_in, what, (unsigned long long)got,
		(unsigned long long)least, (unsigned long long)most);
}

static void is(const char *what, uint64_t got, uint64_t want) { within(what, got, want, want); }

static struct watch watching = {.drained_said = true};

static void watcher_looks(void)
{
	uint32_t gate = weir_get(&header->gate);
	check_lease(header, gate, now_ns);
	weir_pass_unused(now_ns);
	bool closed = !(gate & 1) || weir_get(&weir.expired), stopping = weir_get(&weir.stopping);
	looking = true;
	report(&watching, header, gate,
		stopping ? leaving(&watching, now_ns) : look_all(closed, now_ns), now_ns);
	looking = false;
}

static void open_gate(void) { header->gate = (header->gate & ~1u) + 3; }
static uint32_t close_gate(void) { return header->gate = (header->gate & ~1u) + 2; }

#define A (&streams[0])
#define B (&streams[1])
#define C (&streams[2])

/* nothing_left holds that all that was counted has been taken off again. */
static void nothing_left(void)
{
	is("in flight at the end", weir.inflight_ns, 0);
	is("aside at the end", weir.aside_ns, 0);
	is("streams aside at the end", weir.aside, 0);
	is("the slot says stalled", slot->stalled, 0);
	is("uncertain at the end", weir.uncertain, 0);
	is("calls that a driver would take amiss", broken, 0);
}

/* ---- the cases, each in a process of its own */

struct one {
	const char *name;
	void (*run)(void);
};

#define CASE(name) {#name, name},

/* all runs the cases, or the one that is named, and prints what is not as it should be, and how
 * many there were. */
static int all(const struct one *cases, size_t count, const char *only)
{
	int ran = 0;
	for (size_t i = 0; i < count; i++) {
		int status = 0;
		if (only && strcmp(only, cases[i].name) != 0)
			continue;
		fflush(stdout);
		pid_t child = fork();
		if (!child) {
			alarm(20); /* one that waits for a lock in vain */
			now_in = cases[i].name;
			cases[i].run();
			fflush(stdout);
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("%s: signal %d\n", cases[i].name, WTERMSIG(status));
		ran++;
	}
	printf("%d cases\n", ran);
	return 0;
}
