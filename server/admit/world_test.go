package admit

import (
	"errors"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// outcome is what became of a request.
type outcome struct {
	Request
	at, done time.Duration
	refused  error // when it arrived
	out      error // later
	gone     bool  // cancelled
}

// world runs a control in virtual time.
type world struct {
	t    *testing.T
	c    *Control
	all  []*outcome
	by   map[uint64]*outcome
	free time.Duration
	run  []uint64
	wake time.Duration
	took func(Run) time.Duration // nil: as forecast
	runs []Run
	busy time.Duration
	sets map[string]bool // models that were set again
	seen func(w *world, now time.Duration, d Decision)
}

func newWorld(t *testing.T, models ...Model) *world {
	t.Helper()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		if err := c.Set(0, m); err != nil {
			t.Fatal(err)
		}
	}
	return &world{t: t, c: c, by: map[uint64]*outcome{},
		sets: map[string]bool{}}
}

// until moves to a time, with all that ends or is asked for before.
func (w *world) until(now time.Duration) {
	for {
		switch {
		case w.run != nil && w.free <= now && (w.wake == 0 || w.free <= w.wake):
			for _, id := range w.run {
				o := w.by[id]
				if o.done != 0 || o.out != nil {
					w.t.Fatalf("request %d was answered twice", id)
				}
				o.done = w.free
			}
			w.run = nil
			if err := w.c.Done(w.free, w.busyOf()); err != nil {
				w.t.Fatal(err)
			}
			w.decide(w.free)
		case w.wake != 0 && w.wake <= now:
			w.decide(w.wake)
		default:
			return
		}
	}
}

func (w *world) busyOf() time.Duration {
	last := w.runs[len(w.runs)-1]
	return w.length(last)
}

func (w *world) length(r Run) time.Duration {
	if w.took != nil {
		return w.took(r)
	}
	return r.Expect
}

func (w *world) decide(now time.Duration) {
	d := w.c.Decide(now)
	for _, r := range d.Refused {
		o := w.by[r.ID]
		if o.out != nil || o.refused != nil || o.done != 0 || o.gone {
			w.t.Fatalf("request %d was answered twice", r.ID)
		}
		o.out = r.Why
	}
	w.wake = d.Wake
	if d.Wake != 0 && d.Wake <= now {
		w.t.Fatalf("to wake at %v, which is %v", d.Wake, now)
	}
	if d.Run != nil {
		if w.run != nil {
			w.t.Fatal("a batch was started beside another")
		}
		w.runs = append(w.runs, *d.Run)
		w.run, w.free = d.Run.Requests, now+w.length(*d.Run)
		w.busy += w.length(*d.Run)
	}
	if w.seen != nil {
		w.seen(w, now, d)
	}
}

func (w *world) arrive(now time.Duration, q Request) error {
	w.until(now)
	o := &outcome{Request: q, at: now}
	o.Rows, o.ID = max(q.Rows, 1), uint64(len(w.all)+1)
	w.all, w.by[o.ID] = append(w.all, o), o
	o.refused = w.c.Arrive(now, o.Request)
	w.decide(now)
	return o.refused
}

// finish runs until nothing is left, and holds that each request has had one answer.
func (w *world) finish() {
	w.t.Helper()
	w.until(never / 4)
	for _, o := range w.all {
		n := 0
		for _, is := range []bool{o.refused != nil, o.out != nil, o.done != 0, o.gone} {
			if is {
				n++
			}
		}
		if n != 1 {
			w.t.Fatalf("request %d had %d answers: %+v", o.ID, n, *o)
		}
	}
	if len(w.c.requests) != 0 || w.c.plan.root != nil || w.c.run != nil {
		w.t.Fatalf("%d requests are left", len(w.c.requests))
	}
}

// linear is a forecast: so much, and so much a row.
func linear(base, row time.Duration) func(string, int) time.Duration {
	return func(_ string, rows int) time.Duration { return base + time.Duration(rows)*row }
}

func simple(name string, b Batch) Model {
	return Model{Name: name, Queue: 1000, Bytes: 1 << 30, Batch: b, Time: linear(0, ms)}
}

// verify holds all that is known of what waits against what is.
func (c *Control) verify(t *testing.T) {
	t.Helper()
	var order []*batch
	var walk func(b *batch)
	walk = func(b *batch) {
		if b == nil {
			return
		}
		walk(b.left)
		order = append(order, b)
		walk(b.right)
	}
	walk(c.plan.root)
	if !slices.IsSortedFunc(order, (*batch).byKey) {
		t.Fatal("the plan is out of order")
	}
	at, latest, soonest, waiting := time.Duration(0), never, never, 0
	for _, b := range order {
		at += b.time
		latest, soonest = min(latest, b.due-at), min(soonest, b.ready)
		rows := 0
		for _, r := range b.members {
			rows += r.Rows
			if r.batch != b || r.Signature != b.group.signature || b.due > r.due {
				t.Fatalf("request %d is not what its batch knows", r.ID)
			}
		}
		if rows != b.rows || rows > b.group.model.Batch.Max || rows == 0 ||
			!slices.IsSortedFunc(b.members, (*request).byClaim) {
			t.Fatalf("a batch of %d rows knows %d", rows, b.rows)
		}
		if !b.group.alone() && b.group.batches[b.group.at(b)] != b {
			t.Fatal("a batch is not in its group's list")
		}
		waiting += len(b.members)
	}
	if root := c.plan.root; root != nil &&
		(root.work != at || root.latest != latest || root.soonest != soonest) {
		t.Fatalf("the plan's sums are %v %v %v, want %v %v %v", root.work, root.latest,
			root.soonest, at, latest, soonest)
	}
	if c.starts() > latest {
		t.Fatalf("the plan begins at %v and must by %v", c.starts(), latest)
	}
	c.verifyQueues(t, waiting)
}

func (c *Control) verifyQueues(t *testing.T, waiting int) {
	t.Helper()
	sum := 0
	for _, m := range c.models {
		bytes := int64(0)
		for i, r := range m.waiting {
			bytes += r.Bytes
			if r.place != i || m.waiting[0].byClaim(r) < 0 {
				t.Fatal("the queue does not begin with its worst")
			}
		}
		held := 0
		for _, g := range m.groups {
			held += g.held
		}
		if m.over(0, 0) || bytes != m.bytes || held != len(m.waiting) {
			t.Fatalf("model %s: %d of %d wait, %d of %d bytes, groups hold %d", m.Name,
				len(m.waiting), m.Queue, bytes, m.Model.Bytes, held)
		}
		sum += len(m.waiting)
	}
	accounts := 0
	for _, a := range c.accounts {
		accounts += a.waiting
	}
	if sum != waiting || accounts != waiting {
		t.Fatalf("%d wait in the plan, %d for models, %d of accounts", waiting, sum, accounts)
	}
}

// rowsOf lists the batches' sizes.
func (w *world) rowsOf() []int {
	var rows []int
	for _, r := range w.runs {
		rows = append(rows, r.Rows)
	}
	return rows
}

func kind(err error) error {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return err
}
