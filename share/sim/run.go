package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// maxEvents bounds a run, against scenarios of too fine a grain and policies that go in circles.
const maxEvents = 20_000_000

// ErrTooLong is the kind of error of a run with too many events.
var ErrTooLong = errors.New("too many events")

// retry is when a policy is asked again that left jobs waiting on an idle device, as the broker
// does.
const retry = 10 * time.Millisecond

// Run simulates the scenario under the policy, which must be new.
func Run(sc Scenario, p share.Policy) (*Result, error) {
	if err := sc.Validate(); err != nil {
		return nil, err
	}
	w := newWorld(sc, p)
	for n := 0; ; n++ {
		e := w.next()
		if e.at >= sc.Duration {
			break
		}
		if n == maxEvents {
			return nil, fmt.Errorf("scenario under %s: %w: over %d at %v", p.Name(), ErrTooLong, n,
				e.at)
		}
		w.happen(e)
		w.decide()
	}
	return w.result(sc.Duration), nil
}

// never is the time of events that do not come.
const never = share.Forever

// world is a simulation in progress.
type world struct {
	sc     Scenario
	policy share.Policy
	now    time.Duration
	wake   time.Duration
	jobs   []*job // of the scenario, by Start
	live   []*job // admitted and not ended, by ID
	snap   share.Snapshot
	meter  *share.Meter
	owner  share.JobID // who had the device last
	res    Result
}

func newWorld(sc Scenario, p share.Policy) *world {
	sc.Units = max(1, sc.Units)
	w := &world{sc: sc, policy: p, wake: never, meter: share.NewMeter()}
	for i := range sc.Jobs {
		w.jobs = append(w.jobs, &job{
			spec: &sc.Jobs[i], index: i, random: rand.New(rand.NewPCG(sc.Seed, uint64(i))),
			stop: never,
		})
	}
	slices.SortStableFunc(w.jobs, func(a, b *job) int {
		return cmp.Compare(a.spec.Start, b.spec.Start)
	})
	for i, j := range w.jobs {
		j.state.ID = share.JobID(i + 1)
	}
	return w
}

// event is something about to happen.
type event struct {
	at   time.Duration
	kind eventKind
	job  *job
}

type eventKind uint8

// At the same time, ends of holds come before arrivals, these before ends and admissions of jobs,
// and calls that the policy asked for come last.
const (
	holdEnds eventKind = iota
	arrives
	jobEnds
	jobStarts
	wakes
)

// next finds the earliest event; among the same kind, that of the lowest ID.
func (w *world) next() event {
	first := event{w.wake, wakes, nil}
	consider := func(at time.Duration, kind eventKind, j *job) {
		if at < first.at || at == first.at && kind < first.kind {
			first = event{at, kind, j}
		}
	}
	for _, j := range w.jobs {
		switch {
		case j.ended:
		case !j.admitted:
			consider(j.spec.Start, jobStarts, j)
		default:
			consider(j.stop, holdEnds, j)
			if len(j.due) > 0 {
				consider(j.due[0], arrives, j)
			}
			if j.spec.Stop > 0 {
				consider(j.spec.Stop, jobEnds, j)
			}
		}
	}
	return first
}

func (w *world) happen(e event) {
	w.now = e.at
	switch e.kind {
	case holdEnds:
		w.giveBack(e.job)
	case arrives:
		w.arrive(e.job)
	case jobEnds:
		w.end(e.job)
	case jobStarts:
		w.admit(e.job)
	case wakes:
		w.wake = never
	}
}

func (w *world) admit(j *job) {
	j.admitted = true
	s := &j.state
	s.Share, s.Since, s.Admitted, s.Ready, s.Remaining = j.spec.Share, w.now, w.now, w.now, -1
	if j.spec.Iterations > 0 {
		s.Remaining = j.spec.Iterations
	}
	if p, ok := w.policy.(share.Stateful); ok {
		s.State = p.NewJobState()
	}
	w.meter.Add(s.ID, s.Share)
	w.live = append(w.live, j)
	j.begin(w.now)
}

func (w *world) end(j *job) {
	if j.state.Phase == share.Running {
		w.book(j)
	}
	j.enter(share.Idle, w.now)
	j.state.Units, j.queue = 0, nil
	w.demand(j)
	j.ended, j.stop = true, never
	w.live = slices.DeleteFunc(w.live, func(x *job) bool { return x == j })
}

func (w *world) arrive(j *job) {
	j.queue = append(j.queue, w.now)
	j.arrived(w.now)
	j.state.Ready = j.queue[0]
	w.demand(j)
	if j.state.Phase == share.Idle {
		j.enter(share.Waiting, w.now)
	}
}

// giveBack ends a hold at a boundary between steps, and the iteration with it if that was the last
// step.
func (w *world) giveBack(j *job) {
	j.left -= min(j.left, int64(j.steps)*j.stepWork(w.sc.Units))
	w.book(j)
	j.state.Units, j.state.Revoking, j.stop = 0, false, never
	if j.left > 0 {
		j.enter(share.Waiting, w.now)
		return
	}
	j.iterated(w.now)
	if j.state.Remaining == 0 {
		j.completion = w.now
		w.end(j)
		return
	}
	if j.enter(share.Idle, w.now); len(j.queue) > 0 {
		j.enter(share.Waiting, w.now)
	}
	w.demand(j)
}

// decide asks the policy and carries out what is sound, as the broker does.
func (w *world) decide() {
	s := &w.snap
	s.Now, s.Units, s.Jobs = w.now, w.sc.Units, s.Jobs[:0]
	for _, j := range w.live {
		s.Jobs = append(s.Jobs, j.state)
		s.Jobs[len(s.Jobs)-1].Used = j.used(w.now, w.sc.Units)
	}
	d := w.policy.Decide(s)
	free := s.Free()
	for _, g := range d.Run {
		if err := s.CheckGrant(g, free); err != nil {
			w.res.Faults++
			continue
		}
		free -= g.Units
		s.Job(g.Job).Phase = share.Running
		w.grant(w.jobs[g.Job-1], g)
	}
	for _, id := range d.Revoke {
		if j := s.Job(id); j == nil || j.Phase != share.Running {
			w.res.Faults++
			continue
		}
		w.revoke(w.jobs[id-1])
	}
	w.sleep(s, d.Wake, free)
	w.audit(s, free)
}

func (w *world) sleep(s *share.Snapshot, wake time.Duration, free int) {
	waiting := slices.ContainsFunc(s.Jobs, func(j share.JobState) bool {
		return j.Phase == share.Waiting
	})
	switch {
	case wake != 0 && wake <= w.now, wake == 0 && free == s.Units && waiting:
		w.res.Faults++
		w.wake = w.now + retry
	case wake != 0:
		w.wake = wake
	default:
		w.wake = never
	}
}

// audit notes a device left idle beside a job that has no limit.
func (w *world) audit(s *share.Snapshot, free int) {
	if free < s.Units {
		return
	}
	for i := range s.Jobs {
		if s.Jobs[i].Phase == share.Waiting && s.Jobs[i].Share.Cap() >= 1 {
			w.res.Wasted++
			return
		}
	}
}

func (w *world) grant(j *job, g share.Grant) {
	j.enter(share.Running, w.now)
	s := &j.state
	s.Units, s.Granted, s.Until, s.Revoking = g.Units, w.now, g.Until, false
	if j.left == 0 {
		j.left = int64(j.spec.Iteration.draw(j.random)) * int64(w.sc.Units)
		s.InIteration, j.usedThen = true, s.Used
	}
	j.workFrom = w.now
	if w.owner != s.ID {
		w.res.Switches++
		j.workFrom += w.sc.SwitchCost
		w.owner = s.ID
	}
	j.stopAt(g.Until, w.sc.Units)
}

func (w *world) revoke(j *job) {
	j.state.Revoking = true
	j.stopAt(min(w.now, j.state.Until), w.sc.Units)
}

// book charges the hold that ends now.
func (w *world) book(j *job) {
	s := &j.state
	s.Used = j.used(w.now, w.sc.Units)
	fraction := float64(s.Units) / float64(w.sc.Units)
	w.meter.Hold(s.ID, s.Granted, w.now, fraction)
	if n := len(j.holds); n > 0 && j.holds[n-1].To == s.Granted &&
		j.holds[n-1].Fraction == fraction {
		j.holds[n-1].To = w.now
		return
	}
	j.holds = append(j.holds, Hold{From: s.Granted, To: w.now, Fraction: fraction})
}

func (w *world) demand(j *job) {
	has := len(j.queue) > 0
	j.state.HasWork = has
	switch {
	case has == j.busy:
	case has:
		j.busy, j.busyFrom = true, w.now
	default:
		j.busy = false
		w.meter.Busy(j.state.ID, j.busyFrom, w.now)
	}
}
