package sim

import "time"

// eventKind is the kind of an event to come. At the same time, ends of holds and of rests come
// before arrivals, these before ends of what is kept without work, ends and admissions of jobs, and
// measurements and calls that the policy asked for come last.
type eventKind uint8

const (
	holdEnds eventKind = iota
	restEnds
	arrives
	keepEnds
	jobEnds
	jobStarts
	measures
	wakes
)

// event is something to come. Among those of one time and kind the lowest job goes first.
type event struct {
	at      time.Duration
	kind    eventKind
	job     int32 // index in world.jobs
	version uint32
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.kind != o.kind {
		return e.kind < o.kind
	}
	return e.job < o.job
}

// calendar is a binary heap of events to come. What does not come after all stays in it, and is
// known by its version when its time comes.
type calendar struct{ events []event }

func (c *calendar) push(e event) {
	c.events = append(c.events, e)
	i := len(c.events) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&c.events[up]) {
			break
		}
		c.events[i] = c.events[up]
		i = up
	}
	c.events[i] = e
}

// pop removes the first event; false if there is none.
func (c *calendar) pop() (first event, ok bool) {
	n := len(c.events) - 1
	if n < 0 {
		return first, false
	}
	first = c.events[0]
	last := c.events[n]
	c.events = c.events[:n]
	if n == 0 {
		return first, true
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && c.events[down+1].before(&c.events[down]) {
			down++
		}
		if !c.events[down].before(&last) {
			break
		}
		c.events[i] = c.events[down]
		i = down
	}
	c.events[i] = last
	return first, true
}
