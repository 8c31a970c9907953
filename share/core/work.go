package core

import (
	"fmt"
	"math"
	"time"

	"github.com/weirgpu/weir/share"
)

// work takes note of a job's requests and iterations, and reports whether the policy is to be
// asked.
func (c *Core) work(j *job, e *Event) (decides bool, err error) {
	s := c.state(j)
	switch e.Kind {
	case Arrive:
		if j.arrivals.push(c.now); j.arrivals.n == 1 {
			s.Ready = c.now
		}
		s.Queue, j.shelved = j.arrivals.n, false
	case Complete:
		if j.arrivals.n == 0 {
			return false, nil
		}
		j.arrivals.pop()
		s.Queue = j.arrivals.n
		if s.Ready = c.now; j.arrivals.n > 0 {
			s.Ready = j.arrivals.first()
		}
	case Begin:
		if err := c.inLane(j); err != nil {
			return false, err
		}
		if c.waitsForDevice(j) {
			return false, c.waitsError(j, e.Kind)
		}
		c.used(j)
		j.part(s.Used)
		j.begun.push(start{c.now, j.parts})
		s.InIteration = true
	case Finish:
		if j.begun.n == 0 {
			return false, nil
		}
		j.part(s.Used)
		c.finish(j, s)
	case Expect:
		if e.Next == nil {
			return false, fmt.Errorf("job %s: %w: no forecast", j.spec.Name, ErrEvent)
		}
		if err := sane(e.Next); err != nil {
			return false, fmt.Errorf("job %s: %w", j.spec.Name, err)
		}
		unknown := s.Next.Reload == 0
		j.forecast.said = *e.Next
		if j.forecast.apply(s); unknown && s.Next.Reload > 0 {
			c.assess(j) // it was ranked as if it cost what others do
		}
	}
	c.demand(j)
	return true, nil
}

// part divides what the job spent since it was last called between the iterations in progress.
func (j *job) part(used time.Duration) {
	if n := j.begun.n; n > 0 {
		j.parts.used += (used - j.parted.used) / time.Duration(n)
		j.parts.solo += (j.solo - j.parted.solo) / float64(n)
	}
	j.parted = spent{used, j.solo}
}

// finish ends the iteration that began first. Its device time joins the estimate of the next one's.
func (c *Core) finish(j *job, s *share.JobState) {
	began := j.begun.first()
	j.begun.pop()
	took := j.parts.used - began.parts.used
	if s.Iterations == 0 {
		s.IterationTime = took
	}
	// Smoothing by an eighth is that of round-trip times in RFC 6298.
	s.IterationTime += (took - s.IterationTime) / 8
	s.Iterations++
	if s.Remaining > 0 {
		s.Remaining--
	}
	if wall := c.now - began.at; wall > 0 && s.Next.Time > 0 {
		s.Pace = float64(s.Next.Time) / float64(wall)
	}
	// What a job takes beside others on the same units says nothing of how long it takes alone.
	if !j.charge.crowded && j.charge.until <= began.at {
		j.forecast.learn(time.Duration(j.parts.solo - began.parts.solo))
	}
	j.forecast.apply(s)
	if s.InIteration = j.begun.n > 0; !s.InIteration && s.Memory.Asked == 0 {
		j.turn = 0
	}
	// Those begun since it was revoked are not waited for: it may always have one in progress.
	if j.untold > 0 {
		if j.untold--; j.untold == 0 {
			c.tell(j)
		}
	}
	if j.arrivals.n == 0 {
		s.Ready = c.now
	}
	c.notify(j, Notice{Kind: Iterated, From: began.at})
}

// sane returns an [ErrEvent] for a forecast of what cannot be.
func sane(f *share.Forecast) error {
	if f.Time < 0 || f.Copied < 0 || f.Ephemeral < 0 || f.Units < 0 || f.Target < 0 ||
		f.Reload < 0 || f.Users < 0 || f.Time > latest || f.Target > latest ||
		!(f.Bandwidth >= 0 && f.Bandwidth <= 1) {
		return fmt.Errorf("%w: forecast of %+v: want nothing below 0, times up to %v, and a "+
			"bandwidth of at most 1", ErrEvent, *f, time.Duration(latest))
	}
	return nil
}

// demand notes whether the job has work.
func (c *Core) demand(j *job) {
	s := c.state(j)
	has := j.arrivals.n > 0 || s.InIteration || s.Phase != share.Idle
	s.HasWork = has
	switch {
	case has == j.busy:
	case has:
		j.busy, j.busyFrom, j.busyMark = true, c.now, c.now
		c.notify(j, Notice{Kind: Busy})
	default:
		c.worked(j)
		j.busy = false
		c.notify(j, Notice{Kind: Drained, From: j.busyFrom})
	}
	c.endTurn(j)
}

// forecast corrects what a job says of its iterations by how long they took while nobody else used
// the same units.
type forecast struct {
	said share.Forecast
	// alone is the measured time, smoothed; 0 before the first iteration.
	alone time.Duration
	// ratio is measured over said time, smoothed; 0 before the first iteration.
	ratio float64
	// wrong is the mean of |corrected forecast / measured - 1| over seen iterations.
	wrong float64
	seen  int64
}

// learn takes note of how long an iteration took.
func (f *forecast) learn(took time.Duration) {
	if took <= 0 {
		return
	}
	if f.alone == 0 {
		f.alone = took
	}
	f.alone += (took - f.alone) / 8
	if f.said.Time <= 0 {
		return
	}
	ratio := float64(took) / float64(f.said.Time)
	if f.ratio == 0 {
		f.ratio = ratio // and nothing had been corrected yet: judge what the job said
		f.judge(1 / ratio)
		return
	}
	f.judge(f.ratio / ratio)
	f.ratio += (ratio - f.ratio) / 8
}

func (f *forecast) judge(over float64) {
	f.seen++
	f.wrong += (math.Abs(over-1) - f.wrong) / float64(f.seen)
}

// apply writes the forecast where the policy sees it.
func (f *forecast) apply(s *share.JobState) {
	s.Next = f.said
	switch {
	case f.said.Time <= 0 && f.alone > 0:
		s.Next.Time = f.alone
	case f.said.Time <= 0:
		s.Next.Time = s.IterationTime
	case f.ratio > 0:
		s.Next.Time = time.Duration(min(float64(f.said.Time)*f.ratio, float64(latest)))
	}
}

// start is when an iteration began, and what one in progress all along would have spent by then.
type start struct {
	at    time.Duration
	parts spent
}

// spent is the device time charged for some work, and how long that takes alone on the whole
// device, in nanoseconds.
type spent struct {
	used time.Duration
	solo float64
}

type (
	times  = ring[time.Duration]
	starts = ring[start]
)

// ring is a queue.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		grown := make([]T, max(8, 2*r.n))
		for i := range r.n {
			grown[i] = r.items[(r.head+i)%len(r.items)]
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

func (r *ring[T]) pop() {
	r.head = (r.head + 1) % len(r.items)
	r.n--
}

func (r *ring[T]) first() T { return r.items[r.head] }
