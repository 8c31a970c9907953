/*
 * The mover: one thread in each process whose memory can be moved. It follows the order on the page
 * (move): takes what the program has allocated to the host, and brings it back.
 *
 * Nothing of the device's memory is given away before all of it has been copied, and nothing of the
 * host's before all is back, so that a move that fails at any point leaves everything where it was.
 * Memory of the host is kept for the next move, as to get and to pin it takes longer than the copy
 * does; what has not been touched since it came back is not copied again. It is given back when
 * there is no move for a while, or the agent wants it for others.
 *
 * The agent closes the gate and waits for a drain before it orders anything away. This thread may
 * wait for the device all the same: none of the program's is held up by it (hold.c).
 *
 * While the agent is dead nothing stays away: who would order it back? Nor does what could not be
 * brought back when that was ordered: it is tried again, ever less often, until another order.
 */
#include "weir.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_NS 100000000u
#define RARELY 32 /* ticks, at most, between two tries to bring back what could not be */
#define KEEP_NS UINT64_C(60000000000) /* how long memory of the host is kept for the next move */
#define CAPTURE_NS UINT64_C(100000000) /* how long the end of captures is waited for */

static bool away; /* the program's memory is not on the device; of the mover's */
static uint64_t away_bytes, host_bytes;
static bool started;
static uint64_t back_since; /* when the memory came back last */

/* a move under way */
struct move {
	uint32_t code; /* WEIR_MOVED_* */
	CUresult result;
	uint64_t bytes, needs, has;
	CUcontext context; /* that is current, */
	CUstream stream;   /* and a stream of it */
};

void weir_mover_reset(void)
{
	away = started = false;
	away_bytes = host_bytes = 0;
	weir_spill_reset();
}

/* weir_mover_adopt says in a slot what holds of the process. */
void weir_mover_adopt(struct weir_slot *slot)
{
	weir_set(&slot->movable_bytes, weir_movable_bytes());
	weir_set(&slot->away_bytes, weir_get(&away_bytes));
	weir_set(&slot->host_bytes, weir_get(&host_bytes));
	weir_spill_adopt(slot);
}

static bool fail(struct move *m, uint32_t code, CUresult r)
{
	if (m->code == WEIR_MOVED_ALL) {
		m->code = code;
		m->result = r;
	}
	return false;
}

static bool check(struct move *m, CUresult r)
{
	return r == CUDA_SUCCESS ||
		fail(m, r == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_MOVED_DEVICE : WEIR_MOVED_FAILED, r);
}

/* leave waits for the copies in the context that is current, and lets go of that. */
static bool leave(struct move *m)
{
	CUcontext same;
	bool ok = true;
	if (!m->context)
		return true;
	if (m->stream) {
		ok = check(m, WEIR_DRIVER(cuStreamSynchronize)(m->stream));
		WEIR_DRIVER(cuStreamDestroy_v2)(m->stream);
	}
	WEIR_DRIVER(cuCtxPopCurrent_v2)(&same);
	m->context = NULL;
	m->stream = NULL;
	return ok;
}

/* enter makes a context current, with a stream that waits for nothing of the program's. */
static bool enter(struct move *m, CUcontext context)
{
	enum { NON_BLOCKING = 1 };
	if (m->context == context)
		return true;
	if (!leave(m) || !check(m, WEIR_DRIVER(cuCtxPushCurrent_v2)(context)))
		return false;
	m->context = context;
	return check(m, WEIR_DRIVER(cuStreamCreate)(&m->stream, NON_BLOCKING));
}

/* each calls step for each piece until it returns false, and then leaves the context current. A
 * process that exits stops in between. */
static bool each(struct move *m, bool (*step)(struct move *, struct weir_movable *, uint32_t))
{
	bool ok = true;
	for (struct weir_movable *x = weir_movables(); x && ok; x = x->next)
		for (uint32_t i = 0; i < x->count && ok; i++) {
			if (!weir_own_begin())
				return fail(m, WEIR_MOVED_BUSY, CUDA_SUCCESS);
			ok = enter(m, x->context) && step(m, x, i);
			weir_own_end();
		}
	if (!ok || !weir_own_begin())
		return fail(m, WEIR_MOVED_BUSY, CUDA_SUCCESS);
	ok = leave(m);
	weir_own_end();
	return ok;
}

/* note_away says how much of the memory is not on the device. */
static void note_away(uint64_t bytes)
{
	weir_set(&away_bytes, bytes);
	weir_set(&weir_slot()->away_bytes, bytes);
}

/* ---- memory of the host ---- */

static void count_host(uint64_t more)
{
	weir_set(&weir_slot()->host_bytes, weir_add(&host_bytes, more));
}

/* reserve_host counts memory of the host for all of the job, as the ledger does that of the device:
 * it is added first and compared then. */
static bool reserve_host(struct move *m, uint64_t bytes)
{
	struct weir_header *h = weir_page();
	struct weir_slot *slots = (struct weir_slot *)((char *)h + WEIR_SLOTS_OFFSET);
	uint64_t most = weir_get(&h->move_host_bytes), sum = 0;
	count_host(bytes);
	for (uint32_t i = 0; i < WEIR_SLOT_COUNT; i++)
		sum += weir_get(&slots[i].host_bytes);
	if (sum <= most)
		return true;
	count_host(-bytes);
	sum -= bytes;
	m->needs = bytes;
	m->has = most > sum ? most - sum : 0;
	return fail(m, WEIR_MOVED_HOST, CUDA_ERROR_OUT_OF_MEMORY);
}

/* weir_piece_forget gives back what a piece has of the host. */
void weir_piece_forget(struct weir_piece *p, uint64_t bytes)
{
	weir_spill_free(&p->spilled, bytes);
	if (!p->host.at)
		return;
	weir_pinned_give(&p->host, bytes);
	count_host(-bytes);
}

/* lean gives back what of the host's is kept for the next move. The program may allocate and free
 * meanwhile. */
static void lean(void)
{
	struct weir_pinned p;
	CUcontext context, same;
	uint64_t bytes;
	for (bool more = true; more && weir_own_begin(); weir_own_end()) {
		more = weir_movables_kept(&p, &bytes, &context);
		if (!more)
			continue;
		bool in = WEIR_DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
		weir_pinned_give(&p, bytes);
		if (in)
			WEIR_DRIVER(cuCtxPopCurrent_v2)(&same);
		count_host(-bytes);
	}
}

/* lend gives that back where others are to have it, or nothing has moved for a while. */
static void lend(void)
{
	uint64_t has = weir_get(&host_bytes);
	bool over = has > weir_get(&weir_page()->move_host_bytes);
	if (!away && has && (over || weir_now() - back_since > KEEP_NS))
		lean();
}

/* keep has a piece that is back keep its memory of the host. */
static bool keep(struct move *m, struct weir_movable *x, uint32_t i)
{
	(void)m;
	weir_spill_free(&x->pieces[i].spilled, weir_piece_bytes(x, i));
	return true;
}

static bool drop(struct move *m, struct weir_movable *x, uint32_t i)
{
	(void)m;
	weir_piece_forget(&x->pieces[i], weir_piece_bytes(x, i));
	return true;
}

/* ---- out ---- */

/* pin has a piece have memory of the host. */
static bool pin(struct move *m, struct weir_piece *p, uint64_t n)
{
	if (p->host.at)
		return true;
	if (!reserve_host(m, n))
		return false;
	CUresult r = weir_pinned_take(&p->host, n);
	if (r == CUDA_SUCCESS)
		return true;
	count_host(-n);
	m->needs = n;
	return fail(m, r == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_MOVED_HOST : WEIR_MOVED_FAILED, r);
}

/* spill copies a piece to the folder, or back. */
static bool spill(struct move *m, struct weir_movable *x, uint32_t i, bool out)
{
	struct weir_piece *p = &x->pieces[i];
	CUdeviceptr at = weir_piece_at(x, i);
	uint64_t n = weir_piece_bytes(x, i);
	CUresult driver;
	int r = out ? weir_spill_out(&p->spilled, at, n, m->stream, &driver)
				: weir_spill_in(&p->spilled, at, n, m->stream, &driver);
	if (!r)
		return check(m, driver);
	m->needs = n;
	return fail(m, r == EILSEQ ? WEIR_MOVED_DAMAGED : WEIR_MOVED_SPILL, (CUresult)r);
}

static bool copy_out(struct move *m, struct weir_movable *x, uint32_t i)
{
	struct move without = {0};
	struct weir_piece *p = &x->pieces[i];
	uint64_t n = weir_piece_bytes(x, i);
	if (p->host.at && x->seen == weir_touches() && !weir_unknowns())
		return true;
	if (!pin(weir_spills() ? &without : m, p, n)) {
		if (without.code == WEIR_MOVED_HOST)
			return spill(m, x, i, true);
		return fail(m, without.code, without.result); /* or m has failed */
	}
	return check(
		m, WEIR_DRIVER(cuMemcpyDtoHAsync_v2)(p->host.at, weir_piece_at(x, i), n, m->stream));
}

static bool unmap(struct move *m, struct weir_movable *x, uint32_t i)
{
	if (x->pieces[i].here && check(m, weir_piece_unmap(x, i)))
		m->bytes += weir_piece_bytes(x, i);
	return true;
}

/* idle waits until the device is done with what was launched in a context. Where that fails for
 * good nothing is under way, and who copies what is in it is told. */
static bool idle(struct move *m, CUcontext context)
{
	CUcontext same;
	if (!weir_own_begin())
		return fail(m, WEIR_MOVED_BUSY, CUDA_SUCCESS);
	CUresult r = WEIR_DRIVER(cuCtxPushCurrent_v2)(context);
	if (r == CUDA_SUCCESS) {
		r = WEIR_DRIVER(cuCtxSynchronize)();
		WEIR_DRIVER(cuCtxPopCurrent_v2)(&same);
	}
	weir_own_end();
	bool captured = r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && r <= CUDA_ERROR_CAPTURED_EVENT;
	return !captured || fail(m, WEIR_MOVED_BUSY, r);
}

/* settle waits until the device is done with what was launched in any context of the program: all
 * of them reach all of its memory. */
static bool settle(struct move *m)
{
	size_t n = 0;
	uint64_t *contexts = weir_sizes_keys(WEIR_KIND_ALIVE, &n);
	CUcontext last = NULL;
	bool ok = true;
	for (size_t i = 0; contexts && i < n && ok; i++)
		ok = idle(m, (CUcontext)(uintptr_t)contexts[i]);
	free(contexts);
	for (struct weir_movable *x = weir_movables(); x && ok; x = x->next) {
		/* one that was made on a way around the library */
		if (x->context != last &&
			!weir_sizes_get(WEIR_KIND_ALIVE, (uintptr_t)x->context, NULL, NULL))
			ok = idle(m, x->context);
		last = x->context;
	}
	return ok;
}

static bool captures_end(void)
{
	for (uint64_t began = weir_now(); weir_get(&weir.captures);) {
		if (weir_now() - began > CAPTURE_NS)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return true;
}

static void close_context(struct move *m)
{
	if (weir_own_begin()) {
		leave(m);
		weir_own_end();
	}
}

/* out moves all to the host. */
static void out(struct move *m)
{
	if (!captures_end() || !weir_barrier_close()) {
		fail(m, WEIR_MOVED_BUSY, CUDA_SUCCESS);
		return;
	}
	bool still = settle(m) && weir_barrier_away();
	if (!still) {
		fail(m, WEIR_MOVED_BUSY, CUDA_SUCCESS);
		weir_barrier_open();
		return;
	}
	if (!each(m, copy_out)) {
		close_context(m);
		each(&(struct move){0}, drop);
		weir_spill_trim();
		weir_barrier_open();
		return;
	}
	each(m, unmap);
	away = true;
	note_away(weir_movable_absent());
	weir_release(weir_get(&away_bytes));
}

/* ---- in ---- */

/* map puts memory under a piece and its bytes into that: also under one that could not be unmapped,
 * into which copies may have begun. */
static bool map(struct move *m, struct weir_movable *x, uint32_t i)
{
	struct weir_piece *p = &x->pieces[i];
	uint64_t n = weir_piece_bytes(x, i);
	if (!p->here) {
		if (!check(m, weir_piece_map(x, i)))
			return false;
		m->bytes += n;
	}
	if (p->spilled.there)
		return spill(m, x, i, false);
	return !p->host.at ||
		check(m,
			WEIR_DRIVER(cuMemcpyHtoDAsync_v2)(weir_piece_at(x, i), p->host.at, n, m->stream));
}

/* lacking says how much the device would have to have, and has. */
static void lacking(struct move *m)
{
	size_t left = 0, whole;
	if (weir_own_begin()) {
		if (m->context && WEIR_DRIVER(cuMemGetInfo_v2)(&left, &whole) != CUDA_SUCCESS)
			left = 0;
		weir_own_end();
	}
	m->needs = weir_get(&away_bytes);
	m->has = left + m->bytes;
}

/* say_lost says once what the agent, which may be dead, is told as well. */
static void say_lost(const struct move *m)
{
	static bool said;
	if (!said)
		weir_say(m->code == WEIR_MOVED_DAMAGED
				? "what was spilled is not what was written: the program cannot go on, end it"
				: "what was spilled cannot be read back: the program waits until it can");
	said = true;
}

/* in brings all back. What it takes was counted under the cap before it went, and the agent has
 * kept room for it since. It is counted before the driver takes it: who compares what is held with
 * what is counted (measure.c, and the agent) is never to find more held. */
static void in(struct move *m)
{
	uint64_t absent = weir_get(&away_bytes);
	weir_count(absent);
	if (!each(m, map)) {
		struct move back = {0};
		if (m->code == WEIR_MOVED_DAMAGED || m->code == WEIR_MOVED_SPILL)
			say_lost(m);
		else
			lacking(m);
		close_context(m);
		each(&back, unmap);
		note_away(weir_movable_absent());
		weir_release(weir_get(&away_bytes));
		return;
	}
	each(m, keep);
	back_since = weir_now();
	weir_spill_trim();
	for (struct weir_movable *x = weir_movables(); x; x = x->next)
		x->seen = weir_touches();
	note_away(0);
	away = false;
	weir_barrier_open();
}

/* ---- orders ---- */

/* tell sends a message of which none may be lost: the agent waits for it. */
static void tell(const void *message)
{
	while (!weir_send_message(message) && weir_socket_open() && !weir_get(&weir.stopping))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static uint64_t sum(enum weir_kind kind)
{
	return weir_sizes_sum(kind, 0);
}

static void tell_stays(void)
{
	enum { LOOSE = 2 }; /* as in alloc.c */
	struct weir_stays s = {
		.kind = WEIR_MSG_STAYS,
		.slot = weir.slot_number,
		.contexts = weir_contexts(),
		.managed = weir_sizes_sum(WEIR_KIND_POINTER, LOOSE),
		.arrays = sum(WEIR_KIND_ARRAY) + sum(WEIR_KIND_MIPMAP),
		.mapped = sum(WEIR_KIND_PHYSICAL) + sum(WEIR_KIND_EXTERNAL),
		.pools = weir_pools_held() + sum(WEIR_KIND_GRAPH),
	};
	uint64_t named = s.managed + s.arrays + s.mapped + s.pools;
	uint64_t used = weir_counted();
	uint64_t mine = weir_movable_bytes() - weir_get(&away_bytes);
	s.small = used > named + mine ? used - named - mine : 0;
	tell(&s);
}

static void carry_out(uint32_t order, bool report)
{
	uint64_t began = weir_now();
	struct move m = {.code = WEIR_MOVED_ALL};
	bool to = (order & 1) && report;
	if (to)
		lend();
	if (to && !away)
		out(&m);
	else if (!to && away)
		in(&m);
	if (!report)
		return;
	struct weir_moved answer = {
		.kind = WEIR_MSG_MOVED,
		.slot = weir.slot_number,
		.move = order,
		.code = m.code,
		.result = (uint32_t)m.result,
		.bytes = m.code == WEIR_MOVED_ALL ? m.bytes : 0,
		.needs = m.needs,
		.has = m.has,
		.opened = sum(WEIR_KIND_OPENED),
		.ns = weir_now() - began,
	};
	if (order & 1)
		tell_stays();
	tell(&answer);
}

/* again reports whether what is away is to be brought back although nobody orders it now. A try may
 * read all that was spilled, so one that fails has the next come later. */
static bool again(bool gone, uint32_t order)
{
	static uint32_t ticks, pause;
	if (!away || (!gone && (order & 1))) {
		ticks = pause = 0;
		return false;
	}
	if (ticks++ < pause)
		return false;
	ticks = 0;
	pause = pause ? pause * 2 < RARELY ? pause * 2 : RARELY : 1;
	return true;
}

static void *mover(void *unused)
{
	uint32_t done = 0;
	weir_own_thread();
	while (!weir_get(&weir.stopping)) {
		struct weir_header *h = weir_page();
		uint32_t order = weir_get(&h->move);
		bool gone = weir_get(&weir.agent_gone);
		if (!gone && order != done) {
			carry_out(order, true);
			done = order;
		} else if (again(gone, order)) {
			carry_out(order, false);
			if (gone)
				done = 0; /* the same agent may go on, and means the same */
		}
		weir_mover_adopt(weir_slot());
		if (!away) {
			lend();
			weir_movables_late(false);
		}
		weir_futex_wait(&h->move, order, TICK_NS);
	}
	return unused;
}

/* weir_mover_start starts the thread where the page says that memory is to be movable. */
void weir_mover_start(void)
{
	pthread_attr_t how;
	pthread_t thread;
	sigset_t all, before;
	if (!weir_get(&weir_page()->movable) || started)
		return;
	weir_spill_begin();
	sigfillset(&all);
	pthread_attr_init(&how);
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	/* a process that begins in a job whose memory is away has no room either */
	away = weir_get(&weir_page()->move) & 1;
	if (away)
		weir_barrier_shut();
	started = pthread_create(&thread, &how, mover, NULL) == 0;
	if (!started)
		weir_say("no thread to move memory with: the program keeps its memory on the device");
	weir_set(&weir.movable, started);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
}
