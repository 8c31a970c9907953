package traffic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// ErrPlan is the kind of errors about plans.
var ErrPlan = errors.New("not a plan for requests")

// The bounds of a plan.
const (
	MaxRate     = 1e6 // a second: timers are no more precise
	MaxClients  = 100_000
	MaxDuration = 24 * time.Hour
)

// Plan says when requests are sent.
type Plan struct {
	// Rate is how many requests are due a second; 0: a closed loop of Clients.
	Rate float64
	// Constant spaces requests evenly, in place of a Poisson process.
	Constant bool
	// Clients is how many ask at a time in a closed loop, and in an open one how many requests may
	// be under way: more wait, and their latencies count that.
	Clients int
	// Duration is how long requests are sent.
	Duration time.Duration
	// Timeout is after how long a request is given up, from when it was due.
	Timeout time.Duration
	// Deadline is how long an answer may take to be in time, from when the request was due; 0: any
	// time that it takes.
	Deadline time.Duration
	// Seed makes the times of a Poisson process the same each time.
	Seed uint64
}

// Validate reports what is wrong with the plan, as an error of kind [ErrPlan].
func (p *Plan) Validate() error {
	switch {
	case math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > MaxRate:
		return fmt.Errorf("%w: rate %g: give 0 to %g a second", ErrPlan, p.Rate, float64(MaxRate))
	case p.Clients < 1 || p.Clients > MaxClients:
		return fmt.Errorf("%w: %d clients: give 1 to %d", ErrPlan, p.Clients, MaxClients)
	case p.Duration <= 0 || p.Duration > MaxDuration:
		return fmt.Errorf("%w: a duration of %v: give more than 0, up to %v", ErrPlan, p.Duration,
			MaxDuration)
	case p.Timeout <= 0:
		return fmt.Errorf("%w: a timeout of %v: give more than 0", ErrPlan, p.Timeout)
	case p.Deadline < 0:
		return fmt.Errorf("%w: a deadline of %v: give more than 0, or 0 for none", ErrPlan,
			p.Deadline)
	}
	return nil
}

// times are when the requests of an open loop are due.
type times struct {
	plan *Plan
	rng  *rand.Rand
	n    float64
	at   time.Duration
}

func (p *Plan) times() *times {
	return &times{plan: p, rng: rand.New(rand.NewPCG(p.Seed, 0x74726166))}
}

// next returns when the next request is due; ok is false after the last.
func (t *times) next() (at time.Duration, ok bool) {
	if t.plan.Constant {
		// each from the first, so that rounding does not add up
		t.at = time.Duration(t.n / t.plan.Rate * float64(time.Second))
		t.n++
	} else {
		gap := t.rng.ExpFloat64() / t.plan.Rate * float64(time.Second)
		t.at += time.Duration(min(gap, float64(MaxDuration)))
	}
	return t.at, t.at < t.plan.Duration
}
