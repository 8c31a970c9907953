package sim

import (
	"math/rand/v2"
	"time"

	"github.com/weirgpu/weir/share"
)

// job is a job in progress. Work is counted in nanoseconds of one unit.
type job struct {
	spec     *Job
	index    int // in the scenario
	random   *rand.Rand
	state    share.JobState
	admitted bool
	ended    bool

	queue []time.Duration // arrivals of requests not yet completed
	due   []time.Duration // arrivals to come, as far as known

	left     int64         // work left of the present iteration
	workFrom time.Duration // when the work of the present hold began
	steps    int           // steps that the present hold will have done
	stop     time.Duration // when the present hold ends
	usedThen time.Duration // Used when the present iteration began

	busy       bool
	busyFrom   time.Duration
	holds      []Hold
	latencies  []time.Duration
	completion time.Duration
}

func (j *job) enter(p share.Phase, now time.Duration) {
	if j.state.Phase != p {
		j.state.Phase, j.state.Since = p, now
	}
}

func (j *job) used(now time.Duration, units int) time.Duration {
	s := &j.state
	if s.Phase != share.Running {
		return s.Used
	}
	return s.Used + (now-s.Granted)*time.Duration(s.Units)/time.Duration(units)
}

// begin sets the arrival process going; a closed loop starts full.
func (j *job) begin(now time.Duration) {
	a := &j.spec.Arrival
	for _, t := range a.Trace {
		j.due = append(j.due, now+t)
	}
	for range a.Closed {
		j.due = append(j.due, now)
	}
	if a.Poisson > 0 {
		j.due = append(j.due, now+j.gap())
	}
}

// arrived moves the process on past the arrival that is now.
func (j *job) arrived(now time.Duration) {
	j.due = j.due[1:]
	if j.spec.Arrival.Poisson > 0 {
		j.due = append(j.due, now+j.gap())
	}
}

// gap draws a time between two arrivals of the Poisson process.
func (j *job) gap() time.Duration {
	return max(1, time.Duration(j.random.ExpFloat64()/j.spec.Arrival.Poisson*float64(time.Second)))
}

// iterated completes the oldest request. In a closed loop without think time the next request is
// there at the same moment.
func (j *job) iterated(now time.Duration) {
	s := &j.state
	j.latencies = append(j.latencies, now-j.queue[0])
	j.queue = j.queue[1:]
	if a := &j.spec.Arrival; a.Closed > 0 {
		if a.Think == 0 {
			j.queue = append(j.queue, now)
		} else {
			j.due = append(j.due, now+a.Think)
		}
	}
	took := s.Used - j.usedThen
	if s.Iterations == 0 {
		s.IterationTime = took
	}
	s.IterationTime += (took - s.IterationTime) / 8
	s.Iterations++
	if s.Remaining > 0 {
		s.Remaining--
	}
	s.InIteration = false
	if s.Ready = now; len(j.queue) > 0 {
		s.Ready = j.queue[0]
	}
}

// stepWork is the work of one step.
func (j *job) stepWork(units int) int64 {
	if j.spec.Step <= 0 {
		return int64(never)
	}
	return int64(j.spec.Step) * int64(units)
}

// stopAt plans the end of the hold: at the first boundary between steps at or after the time, after
// one step at least, and not after the iteration's end.
func (j *job) stopAt(t time.Duration, units int) {
	held := int64(j.state.Units)
	step := j.stepWork(units)
	all := 1
	if step < j.left {
		all = int((j.left + step - 1) / step)
	}
	j.steps = all
	if span := t - j.workFrom; t != never && span < time.Duration(j.left/held+1) {
		work := max(1, int64(span)*held)
		if step < j.left {
			j.steps = min(all, int((work+step-1)/step))
		}
	}
	work := j.left
	if j.steps < all {
		work = int64(j.steps) * step
	}
	j.stop = j.workFrom + time.Duration((work+held-1)/held)
}
