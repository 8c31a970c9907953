// The timeline: what the device did between the last computed time and now, from the queues of all
// processes.
//
// The rules, after what NVIDIA documents of streams and what is known of the stock driver's time
// slicing:
//   - Operations of one stream run in order. Within a process the most urgent stream's next
//     operation runs first, then the one queued first; up to terms.concurrent at a time. What has
//     begun is not overtaken within its process.
//   - The device serves one process at a time. While several have work, each gets a time slice in
//     turn, and work is preempted in the middle of a kernel; changing the process costs
//     terms.switch_ns.
//   - Clients of MPS take one turn together, and run at once in it. Each keeps to the
//     multiprocessors that its context may use; of more than there are, all get less in proportion,
//     as limits reserve nothing. Operations are stated for the whole device, and slow down in
//     proportion; copies, which run on no multiprocessor, do not. "Volta MPS Execution Resource
//     Provisioning" in NVIDIA's guide to the Multi-Process Service.
//   - A kernel's fault ends all operations of its context at once, and those that follow.
//   - Marks take no time and need no slice: they end as soon as what they follow has ended.
#include "model.h"

#include <stdlib.h>
#include <string.h>

// view is one process's queue while the timeline is computed on a copy of its lane.
typedef struct {
	fk_lane lane;
	fk_op *ring;
	uint64_t tail;
	uint64_t arrival; // when the next operation arrives that was in the future at the last scan
	uint64_t host;    // first FK_HOST operation whose turn has come
	uint32_t slot, turn; // turn: as fk_clock.current
	bool stale, ready, changed;
} view;

struct fk_sim {
	fk_clock clock;
	uint32_t count;
	bool ghost; // a forecast: leaves the queues alone
	const fk_terms *terms;
	view views[FK_PROCS];
};

static bool bit(const fk_lane *l, uint64_t seq) {
	return l->done[seq % FK_RING / 64] >> seq % 64 & 1;
}

static bool done(const fk_lane *l, uint64_t seq) { return seq < l->head || bit(l, seq); }

static void end(struct fk_sim *s, view *v, uint64_t seq, uint64_t at) {
	fk_lane *l = &v->lane;
	if (!s->ghost)
		v->ring[seq % FK_RING].end_ns = at;
	if (v->ring[seq % FK_RING].flags & FK_FAULT)
		l->faulted = v->ring[seq % FK_RING].context;
	l->done[seq % FK_RING / 64] |= UINT64_C(1) << seq % 64;
	for (; l->head < v->tail && bit(l, l->head); l->head++)
		l->done[l->head % FK_RING / 64] &= ~(UINT64_C(1) << l->head % 64);
	v->stale = v->changed = true;
}

static bool running(const fk_lane *l, uint64_t seq) {
	for (uint32_t i = 0; i < l->runs; i++)
		if (l->run[i].seq == seq)
			return true;
	return false;
}

// lost tells of an operation whose context a fault has ended.
static bool lost(const fk_lane *l, const fk_op *op) {
	return l->faulted && op->context == l->faulted;
}

static bool turn(const fk_lane *l, const fk_op *op, bool blocking) {
	return done(l, op->prev) && done(l, op->after) && done(l, op->barrier) &&
		!(op->flags & FK_LEGACY && blocking);
}

// survey ends the marks whose turn has come and returns the operation to begin next, 0 for none. In
// a queue of one stream only the first operation can have its turn.
static uint64_t survey(struct fk_sim *s, view *v) {
	fk_lane *l = &v->lane;
	uint64_t best = 0;
	bool blocking = false; // an earlier operation in a blocking stream is not done
	v->arrival = FK_NEVER, v->host = 0;
	for (uint64_t seq = l->head; seq < v->tail; seq++) {
		fk_op *op = &v->ring[seq % FK_RING];
		if (done(l, seq))
			continue;
		if (op->enqueued_ns > s->clock.now_ns) {
			v->arrival = op->enqueued_ns;
			break;
		}
		bool now = lost(l, op) || turn(l, op, blocking);
		if (now && (op->kind == FK_MARK || lost(l, op))) {
			if (!s->ghost) {
				op->start_ns = s->clock.now_ns;
				op->flags |= lost(l, op) ? FK_LOST : 0;
			}
			end(s, v, seq, s->clock.now_ns);
			continue;
		}
		if (now && op->kind == FK_HOST && !v->host)
			v->host = seq;
		if (now && op->kind == FK_WORK && !running(l, seq) &&
			(!best || op->priority < v->ring[best % FK_RING].priority))
			best = seq;
		if (v->ring[(v->tail - 1) % FK_RING].solo_from <= l->head)
			break;
		blocking |= (op->flags & FK_BLOCKING) != 0;
	}
	return best;
}

// scan brings a view up to the clock; with fill it begins operations up to the bound.
static void scan(struct fk_sim *s, view *v, bool fill) {
	fk_lane *l = &v->lane;
	uint64_t best = survey(s, v);
	while (fill && best && l->runs < s->terms->concurrent) {
		l->run[l->runs++] = (fk_run){.seq = best, .left_ns = v->ring[best % FK_RING].duration_ns};
		v->changed = true;
		best = l->runs < s->terms->concurrent ? survey(s, v) : best;
	}
	v->ready = l->runs || best;
	v->stale = false;
}

// next is whose turn comes after the current one, of those with work: FK_NONE for nobody's. *mine:
// the current one has work, *others: one besides.
static uint32_t next(const struct fk_sim *s, bool *mine, bool *others) {
	uint32_t first = FK_NONE, after = FK_NONE, current = s->clock.current;
	*mine = *others = false;
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t t = s->views[i].turn;
		if (!s->views[i].ready)
			continue;
		*mine |= t == current;
		*others |= t != current;
		first = t < first ? t : first;
		if ((current == FK_NONE || t > current) && t < after)
			after = t;
	}
	return after != FK_NONE ? after : first;
}

// choose says whose turn it is now, FK_NONE for nobody's. *others as in next.
static uint32_t choose(struct fk_sim *s, bool *others) {
	fk_clock *c = &s->clock;
	bool mine;
	uint32_t to = next(s, &mine, others);
	if (to == FK_NONE || (mine && (c->now_ns < c->slice_end_ns || !*others)))
		return to == FK_NONE ? to : c->current;
	c->switch_until_ns = c->now_ns;
	if (to != c->current) {
		c->switches += c->current != FK_NONE;
		c->switch_until_ns += c->current != FK_NONE ? s->terms->switch_ns : 0;
		c->current = to;
	}
	c->slice_end_ns = c->switch_until_ns + s->terms->slice_ns;
	return to;
}

static uint32_t width_of(const view *v, const fk_run *r) {
	return v->ring[r->seq % FK_RING].width;
}

// width is how many multiprocessors a process uses at most by what runs of it.
static uint32_t width(const view *v) {
	uint32_t most = 0;
	for (uint32_t i = 0; i < v->lane.runs; i++)
		if (width_of(v, &v->lane.run[i]) > most)
			most = width_of(v, &v->lane.run[i]);
	return most;
}

// crowd is of how many multiprocessors those whose turn it is have their parts: those of the
// device, or as many as they ask for together if that is more.
static uint32_t crowd(const struct fk_sim *s, uint32_t turn) {
	uint32_t sum = 0;
	for (uint32_t i = 0; turn == FK_CLIENTS && i < s->count; i++)
		if (s->views[i].turn == turn)
			sum += width(&s->views[i]);
	return sum > FK_SMS ? sum : FK_SMS;
}

// part is how many of the crowd's multiprocessors something of this width has: all of them, where
// nobody runs beside it or it needs none.
static uint32_t part(const view *v, uint32_t width, uint32_t crowd) {
	return v->turn == FK_CLIENTS && width ? width : crowd;
}

// tick is when the state changes next, at most to.
static uint64_t tick(
	const struct fk_sim *s, uint32_t turn, uint32_t crowd, bool others, uint64_t to) {
	const fk_clock *c = &s->clock;
	uint64_t at = to;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].arrival < at)
			at = s->views[i].arrival;
	if (turn == FK_NONE)
		return at;
	if (c->now_ns < c->switch_until_ns)
		return c->switch_until_ns < at ? c->switch_until_ns : at;
	if (others && c->slice_end_ns < at)
		at = c->slice_end_ns;
	for (uint32_t i = 0; i < s->count; i++) {
		const view *v = &s->views[i];
		for (uint32_t k = 0; v->turn == turn && k < v->lane.runs; k++) {
			uint64_t p = part(v, width_of(v, &v->lane.run[k]), crowd);
			uint64_t end = c->now_ns + (v->lane.run[k].left_ns * crowd + p - 1) / p;
			at = end < at ? end : at;
		}
	}
	return at;
}

// record notes that the device worked in this turn until the time. Work of one turn with gaps below
// 200 us is one segment.
static void record(struct fk_sim *s, fk_file *f, const view *v, uint64_t until) {
	fk_clock *c = &s->clock;
	uint64_t from = c->now_ns;
	c->busy_ns += until - from;
	if (s->ghost)
		return;
	if (c->open.busy_ns &&
		(c->open.turn != v->turn || from - c->open.end_ns > 200000 ||
			until - c->open.start_ns > 10000000)) {
		f->segments[c->segments++ % FK_SEGMENTS] = c->open;
		c->open.busy_ns = 0;
	}
	if (!c->open.busy_ns) {
		const fk_slot *p = &f->slots[v->slot];
		c->open = (fk_segment){.start_ns = from,
			.pid = v->turn == FK_CLIENTS ? p->server : atomic_load(&p->pid),
			.turn = v->turn};
	}
	c->open.busy_ns += until - from;
	c->open.end_ns = until;
}

// execute runs a process whose turn it is from now until the time.
static void execute(struct fk_sim *s, view *v, uint32_t crowd, uint64_t until) {
	fk_lane *l = &v->lane;
	uint64_t from = s->clock.now_ns;
	uint32_t kept = 0;
	l->device_ns += (until - from) * part(v, width(v), crowd) / crowd;
	v->changed = true;
	for (uint32_t i = 0; i < l->runs; i++) {
		fk_run r = l->run[i];
		uint64_t done = (until - from) * part(v, width_of(v, &r), crowd) / crowd;
		if (!r.started && !s->ghost)
			v->ring[r.seq % FK_RING].start_ns = from;
		r.started = 1;
		if (done < r.left_ns) {
			r.left_ns -= done;
			l->run[kept++] = r;
			continue;
		}
		l->finished++;
		end(s, v, r.seq, until);
	}
	l->runs = kept;
	if (!l->faulted)
		return;
	kept = 0;
	for (uint32_t i = 0; i < l->runs; i++)
		if (!lost(l, &v->ring[l->run[i].seq % FK_RING]))
			l->run[kept++] = l->run[i];
	l->runs = kept; // the others end with the survey to come
}

// serve runs all whose turn it is from now until the time.
static void serve(struct fk_sim *s, fk_file *f, uint32_t turn, uint32_t crowd, uint64_t until) {
	bool noted = false;
	if (s->clock.now_ns < s->clock.switch_until_ns || until == s->clock.now_ns)
		return;
	for (uint32_t i = 0; i < s->count; i++) {
		view *v = &s->views[i];
		if (v->turn != turn || !v->lane.runs)
			continue;
		if (!noted)
			record(s, f, v, until);
		noted = true;
		execute(s, v, crowd, until);
	}
}

// await counts, until the time, for whom the device has work to do and does not: it serves another,
// or changes to whose turn it is.
static void await(struct fk_sim *s, uint32_t turn, uint64_t until) {
	bool changes = s->clock.now_ns < s->clock.switch_until_ns;
	for (uint32_t i = 0; i < s->count; i++) {
		view *v = &s->views[i];
		if (v->ready && (changes || v->turn != turn)) {
			v->lane.waited_ns += until - s->clock.now_ns;
			v->changed = true;
		}
	}
}

// goal ends a computation early: when one of the slot's operations is done, or if there are none
// when it has a host operation to do.
typedef struct {
	uint32_t slot, count;
	const uint64_t *seqs;
} goal;

static bool any_done(const fk_lane *l, const goal *g) {
	for (uint32_t i = 0; i < g->count; i++)
		if (done(l, g->seqs[i]))
			return true;
	return false;
}

static bool reached(const struct fk_sim *s, const goal *g) {
	if (!g)
		return false;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].slot == g->slot)
			return g->count ? any_done(&s->views[i].lane, g) : s->views[i].host != 0;
	return true;
}

// compute moves the clock to the time, or to where the goal is reached.
static void compute(struct fk_sim *s, fk_file *f, uint64_t to, const goal *g) {
	for (;;) {
		for (uint32_t i = 0; i < s->count; i++)
			if (s->views[i].stale || s->views[i].arrival <= s->clock.now_ns)
				scan(s, &s->views[i], false);
		if (s->clock.now_ns >= to || reached(s, g))
			return;
		bool others;
		uint32_t turn = choose(s, &others);
		for (uint32_t i = 0; i < s->count; i++)
			if (s->views[i].turn == turn && s->views[i].lane.runs < s->terms->concurrent)
				scan(s, &s->views[i], true);
		uint32_t c = crowd(s, turn);
		uint64_t at = tick(s, turn, c, others, to);
		await(s, turn, at);
		if (turn != FK_NONE)
			serve(s, f, turn, c, at);
		s->clock.now_ns = at;
	}
}

// load copies the queues that have work.
static void load(fk_device *d, struct fk_sim *s) {
	fk_file *f = d->file;
	s->clock = f->clock, s->terms = &f->terms, s->count = 0, s->ghost = false;
	for (uint32_t i = 0; i < f->high; i++) {
		fk_slot *p = &f->slots[i];
		uint64_t tail = atomic_load_explicit(&p->tail, memory_order_acquire);
		if (p->lane.head == tail || !atomic_load(&p->pid))
			continue;
		view *v = &s->views[s->count++];
		v->lane = p->lane, v->ring = p->ring, v->tail = tail, v->slot = i;
		v->turn = p->server ? FK_CLIENTS : i;
		v->stale = true, v->ready = v->changed = false;
	}
}

static void commit(fk_file *f, const struct fk_sim *s) {
	f->journal.clock = s->clock, f->journal.count = 0;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].changed) {
			uint32_t n = f->journal.count++;
			f->journal.record[n].slot = s->views[i].slot;
			f->journal.record[n].lane = s->views[i].lane;
		}
	atomic_store_explicit(&f->journal.valid, 1, memory_order_release);
	f->clock = s->clock;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].changed)
			f->slots[s->views[i].slot].lane = s->views[i].lane;
	atomic_store_explicit(&f->journal.valid, 0, memory_order_release);
}

static struct fk_sim *scratch(fk_device *d) {
	if (!d->sim)
		d->sim = calloc(1, sizeof *d->sim);
	return d->sim;
}

void fk_advance(fk_device *d) {
	fk_file *f = d->file;
	struct fk_sim *s = scratch(d);
	uint64_t now = fk_now();
	if (!s || now <= f->clock.now_ns)
		return;
	for (uint32_t i = 0; i < f->high; i++)
		if (f->slots[i].lane.head !=
				atomic_load_explicit(&f->slots[i].tail, memory_order_acquire) &&
			i != d->slot)
			fk_bury(d, i);
	load(d, s);
	compute(s, f, now, NULL);
	commit(f, s);
}

bool fk_done(fk_device *d, uint32_t slot, uint64_t seq) {
	return done(&d->file->slots[slot].lane, seq);
}

uint32_t fk_faulted(fk_device *d) { return d->file->slots[d->slot].lane.faulted; }

uint64_t fk_head(fk_device *d) { return d->file->slots[d->slot].lane.head; }

// horizon bounds a forecast, after which the sleeper looks again, because another process may have
// died. The more processes have work, the longer: so looking costs the host the same.
static uint64_t horizon(const struct fk_sim *s) {
	uint64_t ms = 2 * s->count;
	return s->clock.now_ns + 1000000 * (ms < 5 ? 5 : ms > 100 ? 100 : ms);
}

uint64_t fk_forecast(fk_device *d, const uint64_t *seqs, uint32_t count) {
	struct fk_sim *s = scratch(d);
	if (!s)
		return fk_now() + 1000000;
	load(d, s);
	s->ghost = true;
	compute(s, d->file, horizon(s), &(goal){d->slot, count, seqs});
	return s->clock.now_ns;
}

// own is the process's view, NULL if it has no work.
static view *own(fk_device *d, struct fk_sim *s) {
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].slot == d->slot)
			return &s->views[i];
	return NULL;
}

// turns fills in a view's host operations whose turn has come.
static uint32_t turns(const struct fk_sim *s, const view *v, uint64_t *seqs, uint32_t room) {
	uint32_t n = 0;
	bool blocking = false;
	for (uint64_t seq = v->lane.head; seq < v->tail && n < room; seq++) {
		const fk_op *op = &v->ring[seq % FK_RING];
		if (done(&v->lane, seq))
			continue;
		if (op->enqueued_ns > s->clock.now_ns)
			break;
		if (op->kind == FK_HOST && turn(&v->lane, op, blocking))
			seqs[n++] = seq;
		blocking |= (op->flags & FK_BLOCKING) != 0;
	}
	return n;
}

uint32_t fk_host_turns(fk_device *d, uint64_t *seqs, uint32_t room, uint64_t *when) {
	struct fk_sim *s = scratch(d);
	*when = fk_now() + 1000000;
	if (!s)
		return 0;
	load(d, s);
	view *v = own(d, s);
	uint32_t n = v ? turns(s, v, seqs, room) : 0;
	if (n)
		return n;
	s->ghost = true;
	compute(s, d->file, horizon(s), &(goal){.slot = d->slot});
	*when = s->clock.now_ns;
	return 0;
}

bool fk_settled(fk_device *d, uint32_t slot, uint64_t seq) {
	const fk_slot *p = &d->file->slots[slot];
	return p->ring[seq % FK_RING].end_ns <= atomic_load(&p->settled_ns);
}

void fk_finish_host(fk_device *d, uint64_t seq) {
	struct fk_sim *s = scratch(d);
	if (!s)
		return;
	fk_advance(d);
	load(d, s);
	for (uint32_t i = 0; i < s->count; i++)
		if (s->views[i].slot == d->slot && !done(&s->views[i].lane, seq))
			end(s, &s->views[i], seq, s->clock.now_ns);
	commit(d->file, s);
}
