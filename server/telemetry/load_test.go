package telemetry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// station is a device that serves one model in virtual time: rows wait in a bounded queue, and up
// to so many are computed together.
type station struct {
	fixed, each time.Duration // of a batch, and of each of its rows
	most, room  int

	free     time.Duration // when the device is free
	waiting  int
	u        usage
	arrivals *rand.Rand
	next     time.Duration
}

// run goes on until a moment, with requests of a row at a rate.
func (s *station) run(until time.Duration, rate float64) {
	for {
		if s.next == 0 {
			s.next = s.free + s.gap(rate)
		}
		start := max(s.free, 0)
		if s.waiting > 0 && start <= s.next && start < until {
			n := min(s.waiting, s.most)
			took := s.fixed + time.Duration(n)*s.each
			s.waiting -= n
			s.u.begun += uint64(n)
			s.u.charged += took
			s.free = start + took
			continue
		}
		if s.next >= until {
			return
		}
		s.u.offered++
		s.free = max(s.free, s.next)
		if s.waiting < s.room { // else it is refused, and demanded all the same
			s.waiting++
		}
		s.next += s.gap(rate)
	}
}

func (s *station) gap(rate float64) time.Duration {
	return time.Duration(s.arrivals.ExpFloat64() / rate * float64(time.Second))
}

// loadAt is the load after two minutes of requests at a rate.
func loadAt(s station, rate float64) float64 {
	s.arrivals = rand.New(rand.NewPCG(7, 7))
	s.u.model = new(Model)
	l := load{costs: map[*Model]*cost{}}
	var sum float64
	const seconds = 120
	for i := range seconds {
		s.run(time.Duration(i+1)*time.Second, rate)
		l.step(time.Second, []usage{s.u})
		if i >= seconds/2 {
			sum += l.value
		}
	}
	return sum / (seconds / 2)
}

// TestLoad: without batches the load is the offered rate over what the device can do, far beyond
// that too. It rises with the rate with batches too, whose rows cost less the more they are, and is
// 1 where the largest batches fill the device.
func TestLoad(t *testing.T) {
	alone := station{each: 10 * time.Millisecond, most: 1, room: 50}
	for _, part := range []float64{0.1, 0.5, 0.9, 1, 1.5, 3, 10} {
		if got := loadAt(alone, 100*part); math.Abs(got-part) > 0.06*part {
			t.Errorf("at %v of what the device can do the load is %.3f", part, got)
		}
	}
	batches := station{fixed: 10 * time.Millisecond, each: time.Millisecond, most: 16, room: 200}
	best := 16 / 0.026
	before := 0.0
	for _, part := range []float64{0.05, 0.1, 0.2, 0.4, 0.8, 1, 1.25, 2, 4, 8} {
		got := loadAt(batches, best*part)
		if got <= before {
			t.Errorf("at %v of what the device can do the load is %.3f, and %.3f at less", part,
				got, before)
		}
		if part >= 1 && math.Abs(got-part) > 0.06*part {
			t.Errorf("at %v of what batches can do the load is %.3f", part, got)
		}
		before = got
	}
}

// TestLoadFollows: the load follows a step of the rate with its time constant, and goes back to
// nothing.
func TestLoadFollows(t *testing.T) {
	l := load{costs: map[*Model]*cost{}}
	u := usage{model: new(Model)}
	step := func(rows uint64) {
		u.offered += rows
		u.begun += rows
		u.charged += time.Duration(rows) * 10 * time.Millisecond
		l.step(time.Second, []usage{u})
	}
	for range int(loadOver / time.Second) {
		step(100)
	}
	if want := 1 - math.Exp(-1); math.Abs(l.value-want) > 1e-9 {
		t.Errorf("after its time constant the load is %v of 1, want %v", l.value, want)
	}
	for range 300 {
		step(0)
	}
	if l.value > 1e-6 {
		t.Errorf("without requests the load is %v", l.value)
	}
	// a model that was closed and loaded again is charged from nothing
	u.charged = 0
	step(100)
	if l.value < 0 {
		t.Errorf("a job that begins anew makes a load of %v", l.value)
	}
	l.step(time.Second, nil)
	if len(l.costs) != 0 {
		t.Error("the cost of a model that is gone is kept")
	}
}
