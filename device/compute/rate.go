package compute

import (
	"math"
	"strconv"
	"sync"
)

// Rate is how many times as fast one way of computing is as another. It is measured when it is
// first asked for, unless who has kept it says what it is before that; from then on it stays. It is
// safe for concurrent use. A nil *Rate is 2, and nobody measures it.
type Rate struct {
	measure func() float64

	mu    sync.Mutex
	times float64 // 0 until it is known
	fresh bool    // it was measured
}

// RateOf is the rate that a function measures. It counts in steps of a quarter, so that machines of
// one kind plan alike in spite of what measuring differs by.
func RateOf(measure func() float64) *Rate { return &Rate{measure: measure} }

// Times is the rate.
func (r *Rate) Times() float64 {
	if r == nil {
		return 2
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == 0 {
		r.times, r.fresh = max(quarters(r.measure()), leastRate), true
	}
	return r.times
}

// leastRate and mostRate are the limits of a rate.
const leastRate, mostRate = 0.25, 64

// quarters rounds to the nearest quarter.
func quarters(x float64) float64 { return math.Round(4*min(x, mostRate)) / 4 }

// Fresh returns the rate as text for [Rate.Restore], "" unless it was measured by this process.
func (r *Rate) Fresh() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.fresh {
		return ""
	}
	return strconv.FormatFloat(r.times, 'f', -1, 64)
}

// Restore has the rate be what Fresh returned where it was measured before, unless it is known. A
// text that is none is as good as none.
func (r *Rate) Restore(text string) {
	times, err := strconv.ParseFloat(text, 64)
	if r == nil || err != nil || !(times >= leastRate && times <= mostRate) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == 0 {
		r.times = quarters(times)
	}
}

// String says whether the rate is that of a processor: it does not measure.
func (r *Rate) String() string {
	if r == nil {
		return "2"
	}
	return "measured"
}
