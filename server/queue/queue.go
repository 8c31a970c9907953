package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirgpu/weir/server/admit"
)

// Options say how a queue's batches run.
type Options[T any] struct {
	// Run runs requests together, in the order given; an error is that of all of them. It calls
	// copied once it reads nothing more of the requests, but may still write to them: one whose
	// client is gone is not kept longer. The context is that of the request where there is one, and
	// else is done once all requests are gone.
	Run func(ctx context.Context, batch []T, copied func()) error
	// Admitted is called for each request that may wait, before it runs; nil for nobody.
	Admitted func(T)
	// Drop is called, once Run has returned without an error, for requests that were given up
	// while they ran.
	Drop func(T)
}

// Request says what decides when a request runs: see admit.Request. Its deadline is its context's.
type Request struct {
	Account string
	// Weight is the account's part against others; 0 stands for 1.
	Weight float64
	Rows   int
	// Fit has a request of more rows than a batch take a whole one, in the place of being refused:
	// how many that is changes while requests come.
	Fit       bool
	Bytes     int64
	Signature string
	Priority  int
}

// Queue is the requests for a model that wait and run. T is a request as [Options].Run knows it.
type Queue[T any] struct {
	o      Options[T]
	origin time.Time

	name string

	mu      sync.Mutex
	model   admit.Model
	left    bool      // requests are refused
	busy    bool      // a batch runs, or is next
	next    *batch[T] // that nobody runs yet
	control *admit.Control
	waiting map[uint64]*ticket[T]
	last    uint64
	weights map[string]float64 // of accounts that do not weigh 1
	wake    *time.Timer
	times   *forecasts
}

// ticket is a request that waits or runs. What is said here of a moment holds under the queue's mu.
type ticket[T any] struct {
	item T
	ctx  context.Context
	id   uint64
	told chan struct{} // has a value where its goroutine is to look again; nil before it waits
	over bool          // err says how it went
	err  error
	in   *batch[T] // that is next or runs with it
	gone bool      // was given up while it ran
}

// batch is requests that run together.
type batch[T any] struct {
	tickets []*ticket[T]
	items   []T
	one     struct { // room for the one that most have
		ticket [1]*ticket[T]
		item   [1]T
	}
	of     string // signature
	rows   int
	began  time.Time
	left   int // requests that were not given up
	cancel context.CancelFunc
	by     *ticket[T]    // whose goroutine runs it, nil before
	copied chan struct{} // closed once the items are read no more; nil where only by is in it
	once   sync.Once
}

// New returns the queue of a model. Its Time is not heeded. The error is that of
// admit.Model.Validate.
func New[T any](m admit.Model, o Options[T]) (*Queue[T], error) {
	control, err := admit.New(admit.Options{})
	if err != nil {
		return nil, err
	}
	q := &Queue[T]{o: o, name: m.Name, origin: time.Now(), control: control,
		waiting: map[uint64]*ticket[T]{}, weights: map[string]float64{}, times: newForecasts()}
	return q, q.Set(m)
}

// Set gives the model another configuration. The error is that of admit.Model.Validate; nothing
// changes then. After Leave it does nothing: requests stay refused.
func (q *Queue[T]) Set(m admit.Model) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left {
		return nil
	}
	m.Time = q.times.time
	if err := q.control.Set(q.now(), m); err != nil {
		return err
	}
	q.model = m
	q.decide()
	return nil
}

// Leave refuses further requests. Those that wait are served; with all, they are refused too.
func (q *Queue[T]) Leave(all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = true
	q.control.Leave(q.now(), q.name, all)
	q.decide()
}

// Waiting returns how many requests wait.
func (q *Queue[T]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Forecast returns how long a batch is expected to take; 0 where nothing is known of its signature.
func (q *Queue[T]) Forecast(signature string, rows int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.times.curves[signature] == nil {
		return 0
	}
	return q.times.time(signature, rows)
}

// Do runs a request once its turn has come. The error is an *admit.Refusal, that of the context
// while it waits, or else that of Run. Nobody reads item once Do has returned.
func (q *Queue[T]) Do(ctx context.Context, r Request, item T) error {
	t := &ticket[T]{item: item, ctx: ctx}
	b, err := q.arrive(&r, t)
	if err != nil {
		return err
	}
	for over := false; !over; {
		if b != nil {
			b, over = q.carry(b, t)
			continue
		}
		select {
		case <-t.told:
		case <-ctx.Done():
			if in, over := q.abandon(t); over {
				if in != nil {
					<-in.copied
				}
				return fmt.Errorf("model %s: waiting for its turn: %w", q.name, ctx.Err())
			}
		}
		b, over = q.look(t)
	}
	return t.err
}

// look returns the batch that the goroutine of a request is to run now, or whether the request is
// over; neither where it has to wait.
func (q *Queue[T]) look(t *ticket[T]) (b *batch[T], over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.take(t), t.over
}

// swift is the longest forecast of a batch that is run by whoever comes first, one of its requests
// or one that waits. To wake the goroutine of another takes longer than batches of small models,
// and so much longer a request may wait that is given up meanwhile.
const swift = 200 * time.Microsecond

// take is the next batch, if the goroutine of t is to run it. q.mu is held.
func (q *Queue[T]) take(t *ticket[T]) *batch[T] {
	b := q.next
	if b == nil || t.over {
		return nil
	}
	if long := q.times.time(b.of, b.rows); t.in != b && (long > swift || long == unknown) {
		return nil
	}
	q.next, b.by = nil, t
	if b.tickets[0] != t || len(b.tickets) > 1 {
		b.copied = make(chan struct{})
	}
	return b
}

// arrive lets a request wait, or refuses it. It returns the batch that its goroutine is to run now,
// if any.
func (q *Queue[T]) arrive(r *Request, t *ticket[T]) (*batch[T], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.weigh(r); err != nil {
		return nil, err
	}
	q.last++
	t.id = q.last
	rows := r.Rows
	if r.Fit {
		rows = min(rows, q.model.Batch.Max)
	}
	a := admit.Request{ID: t.id, Model: q.name, Account: r.Account, Rows: rows,
		Bytes: r.Bytes, Signature: r.Signature, Priority: r.Priority}
	now := q.now()
	if at, ok := t.ctx.Deadline(); ok {
		a.Deadline = max(1, at.Sub(q.origin))
		a.Spare = q.times.time(r.Signature, rows) / misjudged
	}
	if err := q.control.Arrive(now, a); err != nil {
		if errors.Is(err, admit.ErrLate) && !q.busy && len(q.waiting) == 0 {
			q.times.doubt(r.Signature)
			q.publish()
		}
		q.decide() // some may have been put out
		return nil, err
	}
	q.waiting[t.id] = t
	if q.o.Admitted != nil {
		q.o.Admitted(t.item)
	}
	return q.decideFor(t), nil
}

// misjudged is the part of a batch by which what is forecast of those before it may be short:
// forecasts hold until they are off by so much (forecasts.observe).
const misjudged = 4

// weigh tells what an account weighs, where that is new.
func (q *Queue[T]) weigh(r *Request) error {
	if r.Weight == 0 {
		r.Weight = 1
	}
	before, known := q.weights[r.Account]
	if !known {
		before = 1
	}
	if r.Weight == before {
		return nil
	}
	if err := q.control.Account(r.Account, admit.Account{Weight: r.Weight}); err != nil {
		return err
	}
	q.weights[r.Account] = r.Weight
	return nil
}

// abandon gives a request up whose context is done. Without over it was told meanwhile how it goes
// on. It returns the batch that it runs in, if it does.
func (q *Queue[T]) abandon(t *ticket[T]) (in *batch[T], over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case t.over || t.in != nil && t.in == q.next:
		return nil, false
	case t.in != nil:
		q.leave(t)
		return t.in, true
	case q.control.Cancel(q.now(), t.id):
		delete(q.waiting, t.id)
		q.decide()
		return nil, true
	case q.waiting[t.id] != nil: // put out by admission, which has not said so yet
		q.decide()
	}
	return nil, false // what became of it is known
}

// leave gives up a request that runs, and with the last its batch. q.mu is held.
func (q *Queue[T]) leave(t *ticket[T]) {
	b := t.in
	if b == nil || t.gone {
		return
	}
	t.gone = true
	if b.left--; b.left == 0 && b.cancel != nil {
		b.cancel()
	}
}

// decide does what is to be done now. q.mu is held.
func (q *Queue[T]) decide() { q.decideFor(nil) }

// decideFor does what is to be done now, and returns the batch that the goroutine of t is to run:
// without one that of another request is told. q.mu is held.
func (q *Queue[T]) decideFor(t *ticket[T]) *batch[T] {
	before := q.next
	q.choose()
	if t != nil && !t.over {
		if b := q.take(t); b != nil {
			return b
		}
		t.listen()
	}
	if q.next != before {
		q.next.tickets[0].tell()
	}
	return nil
}

// listen makes it possible to tell the request's goroutine, which then looks first. q.mu is held.
func (t *ticket[T]) listen() {
	if t.told == nil {
		t.told = make(chan struct{}, 1)
		t.tell()
	}
}

// tell has the goroutine of a request look again.
func (t *ticket[T]) tell() {
	select {
	case t.told <- struct{}{}:
	default: // it has not looked since it was told last, or is to look before it waits
	}
}

// choose refuses what is to be refused, and finds what is next. q.mu is held.
func (q *Queue[T]) choose() {
	d := q.control.Decide(q.now())
	for _, r := range d.Refused {
		t := q.waiting[r.ID]
		delete(q.waiting, r.ID)
		why := *r.Why
		if errors.Is(&why, admit.ErrLate) {
			why.RetryAfter = 0 // it came in time, and its time is over
		}
		t.err, t.over = &why, true
		t.tell()
	}
	if d.Run != nil {
		q.start(d.Run)
	}
	q.rouse(d.Wake)
}

// start makes a batch the next. q.mu is held.
func (q *Queue[T]) start(r *admit.Run) {
	q.busy = true
	b := &batch[T]{of: r.Signature, rows: r.Rows, left: len(r.Requests)}
	b.tickets, b.items = b.one.ticket[:0], b.one.item[:0]
	for _, id := range r.Requests {
		t := q.waiting[id]
		delete(q.waiting, id)
		t.in = b
		b.tickets = append(b.tickets, t)
		b.items = append(b.items, t.item)
	}
	q.next = b
}

// rouse asks again at a time; 0: only once something happens. q.mu is held.
func (q *Queue[T]) rouse(at time.Duration) {
	switch {
	case at == 0:
		if q.wake != nil {
			q.wake.Stop()
		}
	case q.wake == nil:
		q.wake = time.AfterFunc(at-q.now(), func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.decide()
		})
	default:
		q.wake.Reset(at - q.now())
	}
}

// errLost is that of requests whose batch ended by a panic or runtime.Goexit.
var errLost = errors.New("the batch ended without an outcome")

// carry runs a batch on the goroutine of a request, which may be in another. It returns as look
// does.
func (q *Queue[T]) carry(b *batch[T], t *ticket[T]) (next *batch[T], over bool) {
	ctx := b.tickets[0].ctx
	if b.copied != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		q.mu.Lock()
		b.cancel = cancel
		if b.left == 0 {
			cancel()
		}
		q.mu.Unlock()
		stop := context.AfterFunc(t.ctx, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.leave(t)
		})
		defer stop()
	}
	b.began = time.Now()
	err, returned := errLost, false
	defer func() { next, over = q.finish(b, err, returned) }()
	copied := nothing
	if b.copied != nil {
		copied = b.release
	}
	err = q.o.Run(ctx, b.items, copied)
	returned = true
	return nil, false // what finish returns
}

// nothing is what is done once the requests of a batch are copied that has but its own.
func nothing() {}

// release lets those go that were given up.
func (b *batch[T]) release() {
	if b.copied != nil {
		b.once.Do(func() { close(b.copied) })
	}
}

// finish ends a batch and finds what is next. It returns as look does, for the request whose
// goroutine has run the batch; that goroutine ends if it has not returned from it.
func (q *Queue[T]) finish(b *batch[T], err error, returned bool) (next *batch[T], over bool) {
	b.release()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(b, err)
	if returned {
		return q.decideFor(b.by), b.by.over
	}
	if !b.by.over && q.control.Cancel(q.now(), b.by.id) {
		delete(q.waiting, b.by.id)
	}
	q.decide()
	return nil, true
}

// end tells the requests of a batch how it went. q.mu is held.
func (q *Queue[T]) end(b *batch[T], err error) {
	q.busy = false
	took := time.Since(b.began)
	if e := q.control.Done(q.now(), took); e != nil {
		panic(e) // the batch is under way
	}
	switch {
	case err == nil && q.times.observe(b.of, b.rows, took),
		errors.Is(err, context.DeadlineExceeded) && q.times.atLeast(b.of, b.rows, took):
		q.publish()
	}
	for _, t := range b.tickets {
		t.in, t.over, t.err = nil, true, err
		if t.gone {
			if err == nil {
				q.o.Drop(t.item)
			}
			t.err = fmt.Errorf("model %s: while it ran: %w", q.name, t.ctx.Err())
		}
		if t != b.by && !t.gone {
			t.tell()
		}
	}
}

// rest is the least time between two changes of forecasts while requests wait, whose places then
// have to be found again.
const rest = 10 * time.Millisecond

// publish makes forecasts hold that have changed. q.mu is held.
func (q *Queue[T]) publish() {
	now := q.now()
	if q.left || len(q.waiting) > 0 && now < q.times.since+rest {
		return
	}
	q.times.publish(now)
	if err := q.control.Set(now, q.model); err != nil {
		panic(err) // it was valid before
	}
}

// now is the time since the queue was made; admit's is that too.
func (q *Queue[T]) now() time.Duration { return time.Since(q.origin) }
