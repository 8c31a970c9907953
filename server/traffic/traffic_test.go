package traffic

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// constant is a plan of 100 requests a second.
func constant() Plan {
	return Plan{Rate: 100, Constant: true, Clients: 1000, Duration: 10 * time.Second,
		Timeout: time.Minute}
}

func always(text string) Kind { return func(error) (string, bool) { return text, false } }

// near reports whether a percentile is what it should be, to the histogram's precision.
func near(got, want float64) bool { return math.Abs(got-want) <= want/fine+1e-6 }

// TestNothingIsOmitted: a server that stops for a second makes all requests late that were due
// meanwhile, though it held only one of a client's.
func TestNothingIsOmitted(t *testing.T) {
	for name, clients := range map[string]int{"as many as are due": 1000, "one at a time": 1} {
		synctest.Test(t, func(t *testing.T) {
			p := constant()
			p.Clients = clients
			began := time.Now()
			r, err := Run(t.Context(), p, func(context.Context) error {
				if at := time.Since(began); at >= 5*time.Second && at < 6*time.Second {
					time.Sleep(6*time.Second - at)
				}
				return nil
			}, always("?"))
			if err != nil || r.Sent != 1000 || r.Answered != 1000 || len(r.Errors) > 0 {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			// 100 of 1000 were due in that second, and waited from 10 ms to 1 s
			if r.Latency.P50 != 0 || r.Latency.P90 != 0 || !near(r.Latency.P99, 900) ||
				!near(r.Latency.P999, 990) || r.Latency.Max != 1000 ||
				!near(r.Latency.Mean, 50.5) {
				t.Errorf("%s: %+v", name, r.Latency)
			}
			if held := r.Held > 0; held != (clients == 1) {
				t.Errorf("%s: %d requests were held", name, r.Held)
			}
			if r.Disturbed || r.Late.Max != 0 {
				t.Errorf("%s: the client says that it was late: %+v", name, r.Late)
			}
		})
	}
}

// TestClientIsLate: where this process has no time for its requests, it says so.
func TestClientIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{plan: constant(), ask: func(context.Context) error { return nil },
			kind: always("?"), began: time.Now(), errors: map[string]uint64{}}
		var until time.Time
		r.ask = func(ctx context.Context) error {
			until, _ = ctx.Deadline()
			return nil
		}
		slots := make(chan struct{}, 1)
		time.Sleep(time.Second) // nobody sent it when it was due
		r.due(t.Context(), slots, 900*time.Millisecond)
		if d := until.Sub(r.began); d != 900*time.Millisecond+r.plan.Timeout {
			t.Errorf("it is given up after %v", d)
		}
		got := r.result()
		if !got.Disturbed || got.Late.P50 != 100 || got.Latency.P50 != 100 {
			t.Errorf("got %+v", got)
		}
	})
	for _, c := range []struct {
		late, latency Times
		want          bool
	}{{Times{P50: 0.1, P99: 0.5}, Times{P50: 2, P99: 10}, false},
		{Times{P50: 0.3, P99: 0.5}, Times{P50: 2, P99: 10}, true},
		{Times{P50: 0.1, P99: 2}, Times{P50: 2, P99: 10}, true}, {Times{}, Times{}, false}} {
		if got := disturbed(c.late, c.latency); got != c.want {
			t.Errorf("late %+v of %+v: %v", c.late, c.latency, got)
		}
	}
}

// TestErrors: requests that fail are counted by kind and have no latency, and one that takes too
// long is given up on time.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := constant()
		p.Timeout, p.Deadline = 50*time.Millisecond, time.Millisecond
		full := errors.New("full")
		var n atomic.Int64
		r, err := Run(t.Context(), p, func(ctx context.Context) error {
			turn := n.Add(1) % 4
			switch turn {
			case 0:
				time.Sleep(3 * time.Millisecond)
				return full
			case 1:
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Duration(turn-1) * time.Millisecond)
			return nil
		}, func(err error) (string, bool) {
			if errors.Is(err, context.DeadlineExceeded) {
				return "timeout", false
			}
			return err.Error(), true
		})
		if err != nil || r.Sent != 1000 || r.Answered != 500 || r.Errors["full"] != 250 ||
			r.Errors["timeout"] != 250 || r.Latency.Max != 2 {
			t.Errorf("got %+v, %v", r, err)
		}
		if r.Refused != 250 || r.Refusal.P50 != 3 || r.InTime != 250 ||
			r.Goodput != 250/r.Seconds {
			t.Errorf("got %+v", r)
		}
		if r.PerSecond != 500/r.Seconds || r.Seconds < 10 || r.Seconds > 10.05 {
			t.Errorf("%v answered a second in %v s", r.PerSecond, r.Seconds)
		}
	})
}

// TestClosed: clients of a closed loop ask again when they are answered, and say nothing of being
// late.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Plan{Clients: 4, Duration: 10 * time.Second, Timeout: time.Minute}
		r, err := Run(t.Context(), p, func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}, always("?"))
		if err != nil || r.Answered != 400 || !near(r.PerSecond, 40) || r.Latency.Max != 100 ||
			r.Late != (Times{}) || r.Disturbed {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

// TestNothingAnswers: the time in which nothing was answered counts.
func TestNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		first := true
		r, err := Run(ctx, Plan{Clients: 1, Duration: time.Hour, Timeout: time.Hour},
			func(ctx context.Context) error {
				if first {
					first = false
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}, always("?"))
		if err != nil || r.Answered != 1 || r.Seconds != 2 || r.PerSecond != 0.5 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestStops: once the context is done, nothing more is sent, and what was measured is the result.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []Plan{constant(),
			{Clients: 3, Duration: time.Hour, Timeout: time.Hour}} {
			ctx, cancel := context.WithTimeout(t.Context(), 2005*time.Millisecond)
			began := time.Now()
			r, err := Run(ctx, p, func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(10 * time.Millisecond):
					return nil
				}
			}, always("?"))
			cancel()
			if took := time.Since(began); err != nil || took != 2005*time.Millisecond ||
				len(r.Errors) > 0 || r.Answered < 200 || r.Sent != r.Answered {
				t.Errorf("after %v: %+v, %v", took, r, err)
			}
		}
	})
}

// TestTimes: a Poisson process has its rate and its spread, and is the same by the same seed.
func TestTimes(t *testing.T) {
	all := func(seed uint64) (list []time.Duration) {
		p := Plan{Rate: 1000, Duration: 100 * time.Second, Seed: seed}
		s := p.times()
		for at, ok := s.next(); ok; at, ok = s.next() {
			list = append(list, at)
		}
		return list
	}
	a := all(1)
	if !slices.Equal(a, all(1)) || slices.Equal(a, all(2)) || !slices.IsSorted(a) {
		t.Error("times do not follow the seed")
	}
	if n := float64(len(a)); math.Abs(n-100_000) > 4*math.Sqrt(100_000) {
		t.Errorf("%v requests in 100 s at 1000 a second", n)
	}
	var square float64
	for i := range a[1:] {
		gap := (a[i+1] - a[i]).Seconds() * 1000
		square += gap * gap
	}
	if mean := square / float64(len(a)-1); math.Abs(mean-2) > 0.1 { // of an exponential: 2
		t.Errorf("the mean square of gaps is %v", mean)
	}
}

// TestHistogram: percentiles are those of the values themselves, to the precision that is said.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(rng.Float64() * 40))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
		got := h.quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/fine)+1 {
			t.Errorf("quantile %v is %d, of the values %d", q, got, want)
		}
	}
	var none histogram
	if none.quantile(0.5) != 0 || none.times() != (Times{}) {
		t.Error("nothing has percentiles")
	}
	none.add(math.MaxInt64)
	if none.quantile(1) != math.MaxInt64 {
		t.Errorf("the longest is %v", none.quantile(1))
	}
}

func TestValidate(t *testing.T) {
	for _, wrong := range []func(p *Plan){func(p *Plan) { p.Rate = -1 },
		func(p *Plan) { p.Rate = math.NaN() }, func(p *Plan) { p.Rate = 1e9 },
		func(p *Plan) { p.Clients = 0 }, func(p *Plan) { p.Duration = 0 },
		func(p *Plan) { p.Timeout = 0 }, func(p *Plan) { p.Deadline = -1 }} {
		p := constant()
		wrong(&p)
		if _, err := Run(t.Context(), p, nil, nil); !errors.Is(err, ErrPlan) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
