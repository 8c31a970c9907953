package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// Request follows one request from its head to the end of its answer. Methods are called in that
// order by whoever has the request; [Request.Mark] also by what runs it. A nil *Request is allowed
// everywhere and records nothing.
type Request struct {
	of      *Recorder
	model   *Model
	name    string // the account's, which counts for itself or among others
	marks   marks
	queued  atomic.Bool
	parent  *otlp.Parent // where it stands in a trace of its client's; nil for none
	traced  *traced      // nil where it is not traced
	members *Members     // of the model; nil for none
	rows    int
	in, out int64
	hit     bool          // it has an answer that was kept
	miss    bool          // none was kept, and its own is
	cache   time.Duration // looking for that, and keeping it
}

// Begin follows a request from its receipt, which is now.
func (r *Recorder) Begin() *Request {
	if r == nil {
		return nil
	}
	q := &Request{of: r}
	q.Mark(Received)
	return q
}

// Mark says that the request has come into a phase, now.
func (q *Request) Mark(p Phase) {
	if q == nil {
		return
	}
	q.markAt(p, q.of.now())
}

func (q *Request) markAt(p Phase, at time.Duration) {
	q.marks[p].Store(int64(at))
	switch p {
	case Admitted:
		q.queued.Store(true)
		q.model.waiting.Add(1)
	case Formed:
		q.leave()
	}
}

// leave counts the request out of its model's queue, once.
func (q *Request) leave() {
	if q.queued.CompareAndSwap(true, false) {
		q.model.waiting.Add(-1)
	}
}

// Traced says where the request stands in a trace of its client's, by the headers or metadata
// traceparent and tracestate. It comes before For.
func (q *Request) Traced(traceparent, tracestate string) {
	if q == nil || traceparent == "" || q.of.tracing.to == nil {
		return
	}
	if p, ok := otlp.ParseParent(traceparent, tracestate); ok {
		q.parent = &p
	}
}

// For says which model the request is for and which account asks, "" where there are none. Without
// it the request counts as one for no model.
func (q *Request) For(m *Model, account string) {
	if q == nil || m == nil {
		return
	}
	first := q.model == nil
	q.model, q.name = m, account
	if !first || !m.of.tracing.samples(m.name, q.parent) {
		return
	}
	q.traced = &traced{parent: otlp.Parent{Trace: otlp.NewTraceID()}}
	if q.parent != nil {
		q.traced.parent = *q.parent
	}
}

// Ask says that the request is understood, and for how many rows it asks: it is about to be
// admitted or refused. For comes first.
func (q *Request) Ask(rows int) {
	if q == nil {
		return
	}
	q.rows = rows
	q.model.offered.Add(uint64(rows))
	q.Mark(Decoded)
}

// Through says that the model is one graph of these, where it is asked; nil for none. It comes
// before the request has a place in the queue.
func (q *Request) Through(l *Members) {
	if q != nil {
		q.members = l
	}
}

// Hit says that the request, of so many rows, is answered by an answer that was kept, which took so
// long to find. It comes in the place of Ask and of all that an execution tells. For comes first.
func (q *Request) Hit(rows int, took time.Duration) {
	if q == nil {
		return
	}
	q.rows, q.hit, q.cache = rows, true, took
	q.Mark(Decoded)
	q.Mark(Answered)
}

// Miss says that no answer was kept for the request, and its own now is, which took so long.
func (q *Request) Miss(took time.Duration) {
	if q == nil {
		return
	}
	q.miss, q.cache = true, took
}

// Bytes says how many bytes the request's body and its answer have, as they were sent.
func (q *Request) Bytes(in, out int64) {
	if q == nil {
		return
	}
	q.in, q.out = in, out
}

// End counts the request, which has been answered: well where err is nil. It is called once.
func (q *Request) End(err error) {
	if q == nil {
		return
	}
	if q.model == nil {
		q.model = q.of.none
	}
	q.leave()
	q.Mark(Sent)
	at := q.marks.moments()
	a := q.model.account(q.name)
	k := outcomeOf(err)
	a.outcomes[k].Add(1)
	a.in.Add(uint64(q.in))
	a.out.Add(uint64(q.out))
	q.model.last.Store(int64(at[Received]))
	if q.traced != nil {
		q.export(&at, k)
	}
	q.log(&at, k)
	if k != ok {
		q.model.failed.add(at[Sent] - at[Admitted])
		return
	}
	a.rows.Add(uint64(q.rows))
	a.time.Observe(uint64(at[Sent] - at[Received]))
	switch {
	case q.hit:
		q.model.hits.add(q.cache)
		q.model.succeeded.add(at[Answered] - at[Admitted])
		q.model.queue.Observe(0)
		return
	case q.miss:
		q.model.misses.add(q.cache)
	}
	q.model.ended(&at)
	q.members.ended(q, at[Computed]-at[Granted], at[Received])
}

// ended counts a request that was answered.
func (m *Model) ended(at *moments) {
	m.succeeded.add(at[Answered] - at[Admitted])
	m.queue.Observe(uint64(at.queued()))
	m.compute.Observe(uint64(at[Computed] - at[Granted]))
	m.input.Add(uint64(at[Placed] - at[Formed]))
	m.output.Add(uint64(at[Answered] - at[Computed]))
}

// contextKey is that of a request in a context.
type contextKey struct{}

// With returns a context that carries the request.
func With(ctx context.Context, q *Request) context.Context {
	if q == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, q)
}

// From returns the request that a context carries, nil without one.
func From(ctx context.Context) *Request {
	q, _ := ctx.Value(contextKey{}).(*Request)
	return q
}
