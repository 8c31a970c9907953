package traffic

import (
	"context"
	"sync"
	"time"
)

// Ask sends one request and waits for its answer.
type Ask func(ctx context.Context) error

// Kind names the kind of an error that an [Ask] returned, and says whether it is a refusal of a
// server that has too much to do.
type Kind func(err error) (name string, refusal bool)

// Times are percentiles in milliseconds.
type Times struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

func (h *histogram) times() Times {
	t := Times{P50: ms(h.quantile(0.5)), P90: ms(h.quantile(0.9)), P99: ms(h.quantile(0.99)),
		P999: ms(h.quantile(0.999)), Max: ms(h.most)}
	if h.n > 0 {
		t.Mean = h.sum / float64(h.n) / float64(time.Millisecond)
	}
	return t
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Result is what was measured.
type Result struct {
	Sent     uint64            `json:"sent"`
	Answered uint64            `json:"answered"` // without an error
	Errors   map[string]uint64 `json:"errors"`   // by their kinds
	Seconds  float64           `json:"seconds"`  // from the first time to the last answer
	// PerSecond is how many were answered a second, and Goodput how many in time: within the plan's
	// deadline, where it has one.
	PerSecond float64 `json:"per_s"`
	Goodput   float64 `json:"goodput_per_s"`
	InTime    uint64  `json:"in_time"`
	Refused   uint64  `json:"refused"`
	// Latency is that of answered requests, in an open loop from when they were due, and Refusal
	// that of those that were refused.
	Latency Times `json:"latency_ms"`
	Refusal Times `json:"refusal_ms"`
	// Late is by how much this process began requests of an open loop after they were due.
	Late Times `json:"late_ms"`
	// Held is how many requests waited because as many as may were under way.
	Held uint64 `json:"held"`
	// Disturbed says that lateness of this process is a part of the latencies that matters.
	Disturbed bool `json:"disturbed"`
}

// run is a plan under way.
type run struct {
	plan  Plan
	ask   Ask
	kind  Kind
	began time.Time
	under sync.WaitGroup
	// virtual says that time passes by timers only; of the goroutine that sends in an open loop
	virtual bool

	mu                     sync.Mutex
	latency, refusal, late histogram
	sent, held, inTime     uint64
	errors                 map[string]uint64
	last                   time.Duration // when the last answer came
}

// Run sends the requests of a plan and waits for the answers. Once ctx is done no more requests are
// sent, those under way are given up uncounted, and the result is what was measured until then. The
// error is of kind [ErrPlan].
func Run(ctx context.Context, p Plan, ask Ask, kind Kind) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &run{plan: p, ask: ask, kind: kind, began: time.Now(), errors: map[string]uint64{}}
	if p.Rate > 0 {
		r.open(ctx)
	} else {
		r.closed(ctx)
	}
	r.under.Wait()
	return r.result(), nil
}

func (r *run) now() time.Duration { return time.Since(r.began) }

// open sends each request when it is due, whatever became of those before.
func (r *run) open(ctx context.Context) {
	slots := make(chan struct{}, r.plan.Clients)
	timer := time.NewTimer(0)
	defer timer.Stop()
	t := r.plan.times()
	for due, ok := t.next(); ok; due, ok = t.next() {
		if !r.await(ctx, due, timer) {
			return
		}
		r.under.Go(func() { r.due(ctx, slots, due) })
	}
}

// coarse is by how much Go's timers may be late: the system's poll that they wait in counts whole
// milliseconds.
const coarse = 5 * time.Millisecond / 4

// await returns once a request is due; false where ctx is done before.
func (r *run) await(ctx context.Context, due time.Duration, timer *time.Timer) bool {
	for wait := due - r.now(); wait > 0; wait = due - r.now() {
		if wait <= coarse && !r.virtual {
			before := r.now()
			nap(wait)
			r.virtual = r.now() == before // as within testing/synctest
			continue
		}
		if !r.virtual {
			wait -= coarse
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// due sends a request that is due.
func (r *run) due(ctx context.Context, slots chan struct{}, due time.Duration) {
	late := r.now() - due
	limited, cancel := context.WithDeadline(ctx, r.began.Add(due+r.plan.Timeout))
	defer cancel()
	held := false
	select {
	case slots <- struct{}{}:
	default:
		held = true
		select {
		case slots <- struct{}{}:
		case <-limited.Done():
			r.count(ctx, due, late, held, limited.Err())
			return
		}
	}
	err := r.ask(limited)
	<-slots
	r.count(ctx, due, late, held, err)
}

// closed has each client ask again once it is answered.
func (r *run) closed(ctx context.Context) {
	for range r.plan.Clients {
		r.under.Go(func() {
			for began := r.now(); began < r.plan.Duration && ctx.Err() == nil; began = r.now() {
				limited, cancel := context.WithTimeout(ctx, r.plan.Timeout)
				err := r.ask(limited)
				cancel()
				r.count(ctx, began, 0, false, err)
			}
		})
	}
}

// count counts a request that has ended; one that was given up because all was is none.
func (r *run) count(ctx context.Context, due, late time.Duration, held bool, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return
	}
	r.sent++
	if held {
		r.held++
	}
	r.late.add(late)
	r.last = max(r.last, now)
	if err != nil {
		name, refusal := r.kind(err)
		r.errors[name]++
		if refusal {
			r.refusal.add(now - due)
		}
		return
	}
	r.latency.add(now - due)
	if r.plan.Deadline == 0 || now-due <= r.plan.Deadline {
		r.inTime++
	}
}

// result is what was measured.
func (r *run) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := max(r.last, min(r.plan.Duration, r.now()))
	out := &Result{Sent: r.sent, Answered: r.latency.n, Errors: r.errors, Held: r.held,
		Seconds: took.Seconds(), Latency: r.latency.times(), InTime: r.inTime,
		Refused: r.refusal.n, Refusal: r.refusal.times()}
	if out.Seconds > 0 {
		out.PerSecond = float64(out.Answered) / out.Seconds
		out.Goodput = float64(out.InTime) / out.Seconds
	}
	if r.plan.Rate > 0 {
		out.Late = r.late.times()
	}
	out.Disturbed = disturbed(out.Late, out.Latency)
	return out
}

// disturbed reports whether more than a tenth of what was measured may be this process's own doing.
func disturbed(late, latency Times) bool {
	return late.P50 > latency.P50/10 && late.P50 > 0 || late.P99 > latency.P99/10 && late.P99 > 0
}
