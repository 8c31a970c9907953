package scenario

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/share"
)

// recordedSeat grants at once and writes down what it is told.
type recordedSeat struct {
	unmanaged
	arrived, completed int
	failed             error
	held               bool
}

func (s *recordedSeat) Acquire(ctx context.Context) (device.Gate, error) {
	s.held = true
	return device.Open, ctx.Err()
}
func (s *recordedSeat) Release()       { s.held = false }
func (s *recordedSeat) Arrive()        { s.arrived++ }
func (s *recordedSeat) Complete()      { s.completed++ }
func (s *recordedSeat) Fail(err error) { s.failed = err }

// takes is an iteration of a fixed length, in virtual time.
func takes(d time.Duration) iterate {
	return func(ctx context.Context, _ device.Gate) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drive runs one job alone for a while of virtual time.
func drive(t *testing.T, spec Job, it iterate, seed uint64, window time.Duration) (d *driver,
	s *recordedSeat, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		began := time.Now()
		s = &recordedSeat{}
		d = newDriver(&spec, s, it, func() time.Duration { return time.Since(began) }, seed)
		err = d.run(ctx)
	})
	if s.held {
		t.Error("the device was kept")
	}
	return d, s, err
}

// TestTimedArrivals: clients think, a trace is followed, and nothing happens before a job's start
// or after its end.
func TestTimedArrivals(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name     string
		spec     Job
		want     []time.Duration // latencies of iterations of 10 ms within 100 ms
		finished time.Duration
	}{
		{"think", Job{Arrival: Arrival{Closed: 1, Think: 30 * ms}},
			[]time.Duration{10 * ms, 10 * ms, 10 * ms}, 90 * ms},
		{"two that think", Job{Arrival: Arrival{Closed: 2, Think: 45 * ms}},
			[]time.Duration{10 * ms, 20 * ms, 10 * ms, 10 * ms}, 75 * ms},
		{"trace", Job{Arrival: Arrival{Trace: []time.Duration{0, 2 * ms, 80 * ms}}},
			[]time.Duration{10 * ms, 18 * ms, 10 * ms}, 90 * ms},
		{"start and stop", Job{Arrival: Arrival{Closed: 1}, Start: 20 * ms, Stop: 45 * ms},
			[]time.Duration{10 * ms, 10 * ms}, 40 * ms},
		{"trace from a start", Job{Arrival: Arrival{Trace: []time.Duration{5 * ms}},
			Start: 20 * ms}, []time.Duration{10 * ms}, 35 * ms},
	} {
		c.spec.Name = "a"
		d, _, err := drive(t, c.spec, takes(10*ms), 1, 100*ms)
		if err != nil || !slices.Equal(d.latencies, c.want) || d.finished != c.finished {
			t.Errorf("%s: latencies %v until %v, %v, want %v until %v", c.name, d.latencies,
				d.finished, err, c.want, c.finished)
		}
	}
}

func TestClosedArrivals(t *testing.T) {
	for _, clients := range []int{1, 3} {
		spec := Job{Job: share.Job{Name: "a", Iterations: 20}, Arrival: Arrival{Closed: clients}}
		d, s, err := drive(t, spec, takes(10*time.Millisecond), 1, time.Hour)
		if err != nil || len(d.latencies) != 20 || d.finished != 200*time.Millisecond ||
			d.busy != 200*time.Millisecond {
			t.Fatalf("%d clients: %d iterations until %v, %v", clients, len(d.latencies),
				d.finished, err)
		}
		// With more than one client, a request waits for those of the others.
		if last := d.latencies[19]; last != time.Duration(clients)*10*time.Millisecond {
			t.Errorf("%d clients: latency %v", clients, last)
		}
		if s.completed != 20 || s.arrived != 20+clients {
			t.Errorf("%d clients: %d arrived, %d completed", clients, s.arrived, s.completed)
		}
	}
}

// TestPoissonArrivals holds the rate, the spread of the gaps, and that a seed decides them all.
func TestPoissonArrivals(t *testing.T) {
	gaps := func(seed uint64) []time.Duration {
		d := newDriver(&Job{Arrival: Arrival{Poisson: 50}}, unmanaged{}, nil, nil, seed)
		out := make([]time.Duration, 20000)
		for i := range out {
			out[i] = d.gap()
		}
		return out
	}
	a := gaps(1)
	if !slices.Equal(a, gaps(1)) || slices.Equal(a, gaps(2)) {
		t.Error("gaps do not follow the seed")
	}
	var sum, square float64
	for _, g := range a {
		sum += g.Seconds()
		square += g.Seconds() * g.Seconds()
	}
	mean := sum / float64(len(a))
	deviation := math.Sqrt(square/float64(len(a)) - mean*mean)
	// The mean and the standard deviation of an exponential distribution are both 1/rate.
	if math.Abs(mean-0.02) > 0.001 || math.Abs(deviation-0.02) > 0.001 {
		t.Errorf("gaps have mean %v and deviation %v, want 0.02", mean, deviation)
	}
}

// TestLatencyCountsFromDueTime gives a job requests while it is busy: they count from when they
// were due.
func TestLatencyCountsFromDueTime(t *testing.T) {
	spec := Job{Job: share.Job{Name: "a", Iterations: 50}, Arrival: Arrival{Poisson: 100}}
	const service = 30 * time.Millisecond // three times what 100 requests a second leave
	d, _, err := drive(t, spec, takes(service), 9, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	same := newDriver(&spec, unmanaged{}, nil, nil, 9)
	var due, free time.Duration
	for i, got := range d.latencies {
		due += same.gap()
		free = max(free, due) + service
		if want := free - due; got != want {
			t.Fatalf("request %d: latency %v, want %v", i, got, want)
		}
	}
}

func TestIdleBetweenRequests(t *testing.T) {
	spec := Job{Job: share.Job{Name: "a"}, Arrival: Arrival{Poisson: 10}}
	d, s, err := drive(t, spec, takes(time.Microsecond), 3, 20*time.Second)
	if err != nil || s.failed != nil {
		t.Fatal(err, s.failed)
	}
	if n := len(d.latencies); n < 150 || n > 250 || s.completed != n {
		t.Errorf("%d requests in 20 s at 10 a second, %d completed", n, s.completed)
	}
	if d.latencies[0] != time.Microsecond {
		t.Errorf("an idle job answers in %v", d.latencies[0])
	}
}

func TestWindowEndsAnIteration(t *testing.T) {
	d, _, err := drive(t, Job{Job: share.Job{Name: "a"}, Arrival: Arrival{Closed: 1}},
		takes(30*time.Millisecond), 1, 100*time.Millisecond)
	if err != nil || len(d.latencies) != 3 || d.busy != 100*time.Millisecond {
		t.Errorf("%d iterations, busy %v, %v", len(d.latencies), d.busy, err)
	}
}

func TestDriverEndsWithTheJobsError(t *testing.T) {
	mine := errors.New("mine")
	for name, it := range map[string]iterate{
		"error": func(context.Context, device.Gate) error { return mine },
		"panic": func(context.Context, device.Gate) error { panic("index out of range") },
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := drive(t, Job{Job: share.Job{Name: "a"}, Arrival: Arrival{Closed: 1}}, it,
				1, time.Second)
			if want := map[string]error{"error": mine,
				"panic": engine.ErrFault}[name]; !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestQueueKeepsOrder compares the queue with a slice under random use.
func TestQueueKeepsOrder(t *testing.T) {
	var q queue
	var plain []time.Duration
	for i := range 10000 {
		if i%7 < 4 || len(plain) == 0 {
			q.push(time.Duration(i))
			plain = append(plain, time.Duration(i))
		} else {
			if got := q.pop(); got != plain[0] {
				t.Fatalf("step %d: got %d, want %d", i, got, plain[0])
			}
			plain = plain[1:]
		}
		if q.len() != len(plain) {
			t.Fatalf("step %d: %d left, want %d", i, q.len(), len(plain))
		}
	}
	if cap(q.at) > 4*max(1, len(plain)) {
		t.Errorf("room for %d with %d left", cap(q.at), len(plain))
	}
}

func TestRecentIsBounded(t *testing.T) {
	d := newDriver(&Job{}, unmanaged{}, nil, nil, 1)
	for i := range 2500 {
		d.latencies = append(d.latencies, time.Duration(i))
	}
	n, last, _ := d.recent()
	if n != 2500 || len(last) != recentRequests || last[0] != 1500 || last[len(last)-1] != 2499 {
		t.Errorf("%d requests, the last %d from %v", n, len(last), last[0])
	}
}

// TestRareArrivals: the time to a request that comes once in ages is long, whatever the rate.
func TestRareArrivals(t *testing.T) {
	for _, rate := range []float64{1e-9, 1e-10, 1e-300, math.SmallestNonzeroFloat64} {
		_, s, err := drive(t, Job{Arrival: Arrival{Poisson: rate}}, takes(time.Millisecond), 1,
			time.Hour)
		if err != nil || s.arrived != 0 {
			t.Errorf("at %g a second %d requests came in an hour, %v", rate, s.arrived, err)
		}
	}
}
