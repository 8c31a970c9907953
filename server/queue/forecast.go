package queue

import (
	"math/bits"
	"time"
)

// This file forecasts how long batches take, from those that ran: the mean of their times and four
// times their mean deviation, both fading (Jacobson, "Congestion avoidance and control", SIGCOMM
// 1988, appendix A, which does it for round trips). Batches count with those of as many rows or
// more, up to the next power of two.
//
// Departures. The first batch of some rows may have waited for a plan to be compiled: a second one
// that takes less than half of it begins anew. A batch that takes more than four times the mean
// counts as one of four times.

// The fading of RFC 6298: a gain of 1/8 for the mean, 1/4 for the deviation.
const (
	meanGain      = 1.0 / 8
	deviationGain = 1.0 / 4
	deviations    = 4
	outlier       = 4
)

// most bounds the signatures that are remembered: clients choose them.
const most = 256

// sizes is how many numbers of rows are told apart: powers of two.
const sizes = 32

// forecasts are those of one model.
type forecasts struct {
	curves map[string]*curve
	since  time.Duration // when they were published
}

// curve is the times of batches of one signature, by the power of two that their rows are up to.
type curve struct {
	seen [sizes]estimate
	told [sizes]time.Duration // what holds now: 0 where nothing is known
}

// estimate is of some number of rows.
type estimate struct {
	n               int
	mean, deviation float64 // ns
}

func newForecasts() *forecasts { return &forecasts{curves: map[string]*curve{}} }

// slot is the index of a number of rows.
func slot(rows int) int { return min(bits.Len(uint(max(rows, 1)-1)), sizes-1) }

// unknown is the forecast of batches of which nothing is known: they are let in.
const unknown = time.Microsecond

// time is admit.Model.Time.
func (f *forecasts) time(signature string, rows int) time.Duration {
	c := f.curves[signature]
	if c == nil {
		return unknown
	}
	return max(c.told[slot(rows)], unknown)
}

// observe counts a batch, and reports whether forecasts should change.
func (f *forecasts) observe(signature string, rows int, took time.Duration) bool {
	c := f.curves[signature]
	if c == nil {
		if len(f.curves) >= most {
			for s := range f.curves {
				delete(f.curves, s) // any: times are learned again
				break
			}
		}
		c = new(curve)
		f.curves[signature] = c
	}
	e := &c.seen[slot(rows)]
	e.add(float64(took))
	now, told := e.time(), c.told[slot(rows)]
	return told == 0 || now > told+told/4 || now < told-told/4
}

func (e *estimate) add(x float64) {
	e.n++
	switch {
	case e.n == 1, e.n == 2 && x < e.mean/2:
		e.mean, e.deviation = x, x/8
		return
	}
	x = min(x, outlier*e.mean)
	off := x - e.mean
	e.mean += meanGain * off
	e.deviation += deviationGain * (max(off, -off) - e.deviation)
}

func (e *estimate) time() time.Duration {
	return time.Duration(min(e.mean+deviations*e.deviation, float64(longest)))
}

// atLeast counts a batch that was cut off: it takes no less than that.
func (f *forecasts) atLeast(signature string, rows int, took time.Duration) bool {
	if c := f.curves[signature]; c != nil && c.seen[slot(rows)].mean >= float64(took) {
		return false
	}
	return f.observe(signature, rows, took)
}

// doubt makes the forecast of batches shorter. It is called where a request was refused by it with
// nothing before it: of a forecast that is too long nothing else would be learned.
func (f *forecasts) doubt(signature string) {
	c := f.curves[signature]
	if c == nil {
		return
	}
	for i := range c.seen {
		c.seen[i].mean -= c.seen[i].mean * meanGain
		c.seen[i].deviation -= c.seen[i].deviation * meanGain
	}
}

// publish makes what was seen hold.
func (f *forecasts) publish(now time.Duration) {
	f.since = now
	for _, c := range f.curves {
		c.publish()
	}
}

// publish makes what was seen hold: not less for more rows, and for rows of which nothing was seen
// in proportion to the next fewer, or to more where there are none, and never above more.
func (c *curve) publish() {
	from := -1 // the last slot of which something was seen
	for i := range c.seen {
		if c.seen[i].n == 0 {
			continue
		}
		t := c.seen[i].time()
		if from < 0 {
			for j := range i {
				c.told[j] = t >> (i - j)
			}
		} else {
			t = max(t, c.told[from])
			c.between(from, i, t)
		}
		c.told[i], from = t, i
	}
	c.between(from, sizes, longest)
}

// between fills the slots from one to another.
func (c *curve) between(from, to int, most time.Duration) {
	for i := from + 1; i < to; i++ {
		c.told[i] = min(2*c.told[i-1], most)
	}
}

// longest bounds a forecast, so that sums stay numbers.
const longest = time.Hour
