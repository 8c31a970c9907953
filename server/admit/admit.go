package admit

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Options say how requests are admitted to a device.
type Options struct {
	// Patience is how much virtual time, which is device time where one account of weight 1 asks,
	// a class goes before the next; 0 stands for [DefaultPatience]. The levels of priority of a
	// model are spread over it.
	Patience time.Duration
}

// Request is a request for a model.
type Request struct {
	// ID is the caller's name for it, unlike those of all that wait or run.
	ID      uint64
	Model   string
	Account string
	// Rows is how many rows of a batch it takes: 1 at least. It is never split.
	Rows int
	// Bytes is what it holds while it waits.
	Bytes int64
	// Signature is equal for requests that may share a batch: the names and types of the inputs,
	// and all dimensions but that of the batch.
	Signature string
	// Priority is from 1, the most urgent, to the model's Levels; others stand for its Default.
	Priority int
	// Deadline is when the answer must be there; 0: never too late.
	Deadline time.Duration
	// Spare is how much before its deadline a request must be expected to be answered that comes
	// behind others, or it is refused: what is forecast of those may be short of what they take,
	// and who was let in would be put out again.
	Spare time.Duration
}

// Decision is what is to be done. It is good until the next call of Decide.
type Decision struct {
	// Run is the batch to start now, nil if none is.
	Run *Run
	// Refused are the requests that were admitted and put out since the last call.
	Refused []Refused
	// Wake is when to call Decide again if nothing happens before, after now; 0: not at all.
	Wake time.Duration
}

// Run is a batch that runs.
type Run struct {
	Model     string
	Signature string
	// Requests are in order of their claims, of Rows rows together.
	Requests []uint64
	Rows     int
	// Expect is the forecast of how long it takes.
	Expect time.Duration
}

// run is the batch under way.
type run struct {
	model   *model
	members []*request
	rows    int
	free    time.Duration // when it is to be done
}

// Control decides for one device.
type Control struct {
	patience time.Duration
	now      time.Duration
	models   map[string]*model
	accounts map[string]*account
	requests map[uint64]*request // that wait or run
	plan     plan
	run      *run // nil, or under
	under    run
	arrived  uint64
	longest  time.Duration // of the full batches seen

	virtual time.Duration
	epoch   int
	crowd   int // accounts at which to forget some

	refused, told []Refused // since the last decision, and with it
}

// New returns a control without models, at time 0. The error is an [ErrInvalid].
func New(o Options) (*Control, error) {
	if o.Patience < 0 {
		return nil, fmt.Errorf("admission: %w: patience is %v: it must not be negative",
			ErrInvalid, o.Patience)
	}
	return &Control{patience: cmp.Or(o.Patience, DefaultPatience), models: map[string]*model{},
		accounts: map[string]*account{}, requests: map[uint64]*request{}, crowd: sweep}, nil
}

// Set adds a model, or gives one that is there another configuration, or forecasts that changed.
// Requests that wait for it keep their claims; those for which there is no place any more are put
// out. The error is that of [Model.Validate].
func (c *Control) Set(now time.Duration, config Model) error {
	if err := config.Validate(); err != nil {
		return err
	}
	c.advance(now)
	m := c.models[config.Name]
	if m == nil {
		m = &model{groups: map[string]*group{}}
		m.set(config)
		c.models[m.Name] = m
		return nil
	}
	wait := slices.Clone(m.waiting)
	slices.SortFunc(wait, (*request).byClaim)
	for _, r := range wait {
		c.take(r)
	}
	m.set(config)
	m.leaving = false
	for _, r := range wait {
		if r.Rows > m.Batch.Max {
			c.putOut(r, ErrInvalid)
		} else if _, ok := c.place(r, false); !ok {
			c.putOut(r, ErrLate)
		}
	}
	for m.over(0, 0) {
		c.putOut(m.waiting[0], ErrFull)
	}
	return nil
}

// Leave refuses further requests for a model. Those that wait are served, and then the model is
// gone; with all, they are put out too. A model that is not there is as it should be.
func (c *Control) Leave(now time.Duration, name string, all bool) {
	c.advance(now)
	m := c.models[name]
	if m == nil {
		return
	}
	m.leaving = true
	for all && len(m.waiting) > 0 {
		c.putOut(m.waiting[0], ErrLeaving)
	}
	c.gone(m)
}

// Arrive admits a request, or refuses it with a [Refusal]. Others may be put out for it: call
// Decide after it.
func (c *Control) Arrive(now time.Duration, q Request) error {
	c.advance(now)
	m := c.models[q.Model]
	if f := c.valid(m, &q); f != nil {
		return f
	}
	c.arrived++
	r := &request{Request: q, model: m, account: c.account(q.Account), at: c.now, due: never,
		number: c.arrived, place: -1}
	if q.Deadline > 0 {
		r.due = q.Deadline
	}
	c.claim(r)
	if f := c.bounded(r); f != nil {
		return f
	}
	r.group = m.hold(q.Signature)
	if late, ok := c.settled(r); !ok {
		r.group.release()
		if r.due < c.now+m.time(q.Signature, q.Rows) {
			late = 0 // not even alone
		}
		return c.refusal(m, ErrLate, late, "")
	}
	c.wait(r)
	c.charge(r)
	if f := c.relieve(r); f != nil {
		return f
	}
	return nil
}

// valid returns the refusal of a request that cannot be.
func (c *Control) valid(m *model, q *Request) *Refusal {
	switch {
	case m == nil:
		return &Refusal{Kind: ErrModel, Model: q.Model}
	case m.leaving:
		return c.refusal(m, ErrLeaving, c.drained(m), "")
	case q.Rows < 1 || q.Rows > m.Batch.Max:
		return c.refusal(m, ErrInvalid, 0, "a request of %d rows, and batches are of 1 to %d",
			q.Rows, m.Batch.Max)
	case q.Bytes < 0:
		return c.refusal(m, ErrInvalid, 0, "a request of %d bytes", q.Bytes)
	case c.requests[q.ID] != nil:
		return c.refusal(m, ErrInvalid, 0, "request %d is there already", q.ID)
	}
	return nil
}

// claim gives a request its level, tag, and cost.
func (c *Control) claim(r *request) {
	m := r.model
	whole := m.time(r.Signature, m.Batch.Max)
	c.longest = max(c.longest, whole)
	r.cost = max(1, whole/time.Duration(m.Batch.Max)*time.Duration(r.Rows))
	r.level = c.level(m, r.Priority)
	r.tag = max(c.virtual, r.account.next(r.level))
	r.key = r.tag + r.level
}

// Cancel takes a request out that nobody waits for any more, without a word about it. It reports
// whether the request waited; one that runs is the caller's to stop.
func (c *Control) Cancel(now time.Duration, id uint64) bool {
	c.advance(now)
	r := c.requests[id]
	if r == nil || r.place < 0 {
		return false
	}
	c.drop(r)
	c.rest()
	return true
}

// Done ends the batch under way, which has used so much device time. The error is an [ErrInvalid]:
// there is none.
func (c *Control) Done(now, used time.Duration) error {
	if c.run == nil {
		return fmt.Errorf("admission: %w: no batch is under way", ErrInvalid)
	}
	b := c.run
	c.run = nil
	b.model.running = false
	for _, r := range b.members {
		c.refund(r, time.Duration(float64(used)*float64(r.Rows)/float64(b.rows)))
		r.account.running--
		delete(c.requests, r.ID)
	}
	c.gone(b.model)
	c.advance(now)
	c.rest()
	return nil
}

// Decide says what is to be done now: call it after everything that happened.
func (c *Control) Decide(now time.Duration) Decision {
	c.advance(now)
	var d Decision
	if c.run == nil {
		if b := c.next(); b != nil {
			d.Run = c.start(b)
		}
	}
	d.Refused = c.refused
	c.refused, c.told = c.told[:0], c.refused
	if root := c.plan.root; root != nil {
		wake := root.latest + 1 // somebody is late from then on
		if c.run == nil {
			wake = min(root.soonest, root.latest)
		}
		if wake < never/2 {
			d.Wake = max(wake, c.now+1)
		}
	}
	return d
}

// next chooses the batch that an idle device starts, nil if all wait for more requests.
func (c *Control) next() *batch {
	root := c.plan.root
	if root == nil {
		return nil
	}
	first, b := c.plan.first(), c.plan.ready(c.now)
	switch {
	case b == first:
	case b != nil:
		c.plan.remove(b)
		ok := c.plan.fits(c.now + b.time)
		c.plan.insert(b)
		if !ok {
			return first
		}
	case root.latest <= c.now:
		return first
	}
	return b
}

// start begins a batch.
func (c *Control) start(b *batch) *Run {
	c.leave(b)
	g := b.group
	g.held++ // its members are to wait no more
	c.fill(b)
	c.trim(b)
	told := &Run{Model: g.model.Name, Signature: g.signature, Rows: b.rows, Expect: b.time,
		Requests: make([]uint64, 0, len(b.members))}
	for _, r := range b.members {
		told.Requests = append(told.Requests, r.ID)
		r.batch = nil
		c.unwait(r)
		r.account.running++
	}
	c.virtual = max(c.virtual, b.members[0].tag)
	g.release()
	g.model.running = true
	c.under = run{g.model, b.members, b.rows, c.now + b.time}
	c.run = &c.under
	return told
}

// advance moves time on, and puts out who is late.
func (c *Control) advance(now time.Duration) {
	c.now = max(c.now, now)
	c.settle()
}

// starts is when the plan begins.
func (c *Control) starts() time.Duration {
	if c.run != nil {
		return max(c.now, c.run.free)
	}
	return c.now
}

func (c *Control) refusal(m *model, kind error, after time.Duration, detail string,
	args ...any) *Refusal {
	return &Refusal{Kind: kind, Model: m.Name, RetryAfter: after,
		detail: fmt.Sprintf(detail, args...)}
}
