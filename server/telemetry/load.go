package telemetry

import (
	"math"
	"time"
)

// The times over which the load is smoothed, and over which the device time of a row is averaged.
const (
	loadOver = 15 * time.Second
	costOver = time.Minute
)

// loadEvery is how often the load is computed.
const loadEvery = time.Second

// load is how much device time requests demand, over how much there is: 1 is full. Demanded is what
// the requests that came would take, those too that were refused for want of it, so the load goes
// on rising where the device is busy all the time.
type load struct {
	value float64
	costs map[*Model]*cost
}

// cost is the device time that a row of a model takes: charged time and rows, which both fade.
type cost struct {
	used, rows     float64
	perRow         float64       // s, the last that was known
	offered, begun uint64        // at the last step
	charged        time.Duration // likewise
	there          bool          // in this step
}

// usage is what a model came to up to a step.
type usage struct {
	model          *Model
	offered, begun uint64
	charged        time.Duration
}

// step takes what each model came to, passed after the step before.
func (l *load) step(passed time.Duration, models []usage) {
	var demanded float64
	for _, u := range models {
		demanded += l.cost(u.model).step(passed, u)
	}
	for m, c := range l.costs {
		if !c.there {
			delete(l.costs, m)
		}
		c.there = false
	}
	rate := demanded / passed.Seconds()
	l.value += (rate - l.value) * -math.Expm1(-passed.Seconds()/loadOver.Seconds())
}

func (l *load) cost(m *Model) *cost {
	c := l.costs[m]
	if c == nil {
		c = new(cost)
		l.costs[m] = c
	}
	return c
}

// step returns the device time that was demanded since the step before, in seconds.
func (c *cost) step(passed time.Duration, u usage) (demanded float64) {
	c.there = true
	if u.charged < c.charged { // another job of that name: it begins at nothing
		c.charged = 0
	}
	fade := math.Exp(-passed.Seconds() / costOver.Seconds())
	c.used = c.used*fade + (u.charged - c.charged).Seconds()
	c.rows = c.rows*fade + float64(u.begun-c.begun)
	if c.rows > 0 {
		c.perRow = c.used / c.rows
	}
	demanded = float64(u.offered-c.offered) * c.perRow
	c.offered, c.begun, c.charged = u.offered, u.begun, u.charged
	return demanded
}
