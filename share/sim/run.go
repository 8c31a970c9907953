package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// maxEvents bounds a run, against scenarios of too fine a grain and policies that go in circles.
const maxEvents = 50_000_000

// ErrTooLong is the kind of error of a run with too many events.
var ErrTooLong = errors.New("too many events")

// ErrStopped is the kind of error of a run that Options.Done has ended.
var ErrStopped = errors.New("stopped")

// stopEvents is after how many events it is looked whether a run is to end.
const stopEvents = 1 << 12

// Options say how to run a scenario.
type Options struct {
	// Record, if not nil, is where every event and decision is written, for core.Replay.
	Record io.Writer
	// Observe, if not nil, is told all notices of the core in their order.
	Observe func(core.Notice)
	// Done, if not nil, ends the run when it is closed, with [ErrStopped].
	Done <-chan struct{}
}

// Run simulates the scenario under a policy, as policy.New reads it, on a device that can do what
// the scenario says. The error is one of the scenario's Validate, of policy.New, [share.ErrCannot],
// [ErrTooLong] or [ErrStopped].
func Run(sc Scenario, spec string, o Options) (*Result, error) {
	s, err := policy.ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	needs, err := s.Needs()
	if err != nil {
		return nil, err
	}
	p, err := s.New()
	if err != nil {
		return nil, err
	}
	return RunPolicy(sc, p, needs, o)
}

// RunPolicy is Run with a policy that is not one of policy.All, which must be new, and what it
// needs.
func RunPolicy(sc Scenario, p share.Policy, needs share.Can, o Options) (*Result, error) {
	if err := sc.Validate(); err != nil {
		return nil, err
	}
	w, err := newWorld(sc, p, needs, o)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		e, ok := w.calendar.pop()
		if !ok || e.at >= sc.Duration {
			break
		}
		if n%stopEvents == 0 && stopped(o.Done) {
			return nil, fmt.Errorf("scenario under %s: %w at %v", p.Name(), ErrStopped, e.at)
		}
		if n == maxEvents {
			return nil, fmt.Errorf("scenario under %s: %w: over %d at %v", p.Name(), ErrTooLong, n,
				e.at)
		}
		w.happen(e)
	}
	res := w.result(sc.Duration)
	if w.recorder != nil && w.recorder.Err() != nil {
		return nil, w.recorder.Err()
	}
	return res, nil
}

func stopped(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// never is the time of events that do not come.
const never = share.Forever

// world is a simulation in progress.
type world struct {
	sc       Scenario
	units    int
	core     *core.Core
	recorder *core.Recorder
	observe  func(core.Notice)
	now      time.Duration
	merged   bool          // all jobs are in one context
	wake     time.Duration // in the calendar; 0: none
	jobs     []*job        // by Start
	byID     []*job        // by number
	calendar calendar
	door     []*job // who wait to be let in
	inside   int    // jobs let in and not ended
	holders  []*job
	asked    int    // jobs that have yet to give back what they rest on
	kept     int    // jobs that hold units in a pause
	owner    []*job // of each unit, who had it last
	notices  []core.Notice
	stale    bool // speeds are to be found anew
	passes   bool // kernels may pass without a lease
	res      Result

	got, speeds, offer []float64 // used again
	parcels            []parcel
}

func newWorld(sc Scenario, p share.Policy, needs share.Can, o Options) (*world, error) {
	d := &sc.Device
	d.Units = max(1, d.Units)
	if d.Memory == 0 {
		d.Memory = 1 << 40
	}
	if d.Name == "" {
		d.Name = "sim:0"
	}
	k, err := core.New(core.Config{Device: d.Name, Units: d.Units, Memory: d.Memory,
		Lanes: d.Lanes, Can: d.Can, Policy: p, Needs: needs})
	if err != nil {
		return nil, err
	}
	w := &world{sc: sc, units: d.Units, core: k, owner: make([]*job, d.Units), byID: []*job{nil},
		observe: o.Observe, merged: needs.Overlap}
	if o.Record != nil {
		w.recorder = core.NewRecorder(o.Record)
	}
	for i := range sc.Jobs {
		w.jobs = append(w.jobs, &job{spec: &sc.Jobs[i], index: i, left: -1,
			random: rand.New(rand.NewPCG(sc.Seed, uint64(i)))})
	}
	slices.SortStableFunc(w.jobs, func(a, b *job) int {
		return cmp.Compare(a.spec.Start, b.spec.Start)
	})
	for i, j := range w.jobs {
		j.place = int32(i)
		w.calendar.push(event{at: j.spec.Start, kind: jobStarts, job: j.place})
	}
	for _, j := range w.jobs {
		if w.measures() {
			w.calendar.push(event{at: measureEvery, kind: measures, job: j.place})
		}
	}
	return w, nil
}

func (w *world) happen(e event) {
	w.now = e.at
	if e.kind == wakes {
		if e.at == w.wake {
			w.wake = 0
			w.step(nil, core.Event{Kind: core.Tick})
		}
		w.settle()
		return
	}
	switch j := w.jobs[e.job]; {
	case e.kind == jobStarts:
		w.arriveAtDoor(j)
	case j.ended:
	case e.kind == holdEnds:
		if e.version == j.stopVersion && !j.units.Empty() {
			w.ends(j)
		}
	case e.kind == restEnds:
		if e.version == j.stopVersion && j.asked {
			w.stopResting(j)
		}
	case e.kind == arrives:
		w.arrive(j)
	case e.kind == keepEnds:
		if e.version == j.stopVersion && j.keeping {
			w.stopKeeping(j, core.Release)
		}
	case e.kind == measures:
		w.measure(j)
	case e.kind == jobEnds:
		w.end(j)
	}
	w.settle()
}

// step tells the core of an event of a job, and keeps what it answers for settle. The error is the
// core's, who refuses to let jobs in, and to let such as others wait for go on.
func (w *world) step(j *job, e core.Event) error {
	e.At = w.now
	if j != nil {
		e.Job = j.id
	}
	var notices []core.Notice
	var err error
	if w.recorder != nil {
		notices, err = w.recorder.Step(w.core, e)
	} else {
		notices, err = w.core.Step(e)
	}
	w.res.Events++
	if w.observe != nil {
		for i := range notices {
			w.observe(notices[i])
		}
	}
	w.notices = append(w.notices, notices...)
	return err
}

// settle does what the notices say, and what follows from that, until nothing more does.
func (w *world) settle() {
	for i := 0; i < len(w.notices) || w.letPass(); {
		for ; i < len(w.notices); i++ {
			w.heed(&w.notices[i])
		}
	}
	w.notices = w.notices[:0]
	if w.stale {
		w.stale = false
		w.pace()
	}
	if wake := w.core.Wake(); wake != 0 && wake != w.wake {
		w.calendar.push(event{at: wake, kind: wakes})
		w.wake = wake
	} else if wake == 0 {
		w.wake = 0
	}
	w.audit()
}

func (w *world) heed(n *core.Notice) {
	if n.Job == 0 || int(n.Job) >= len(w.byID) {
		return
	}
	j := w.byID[n.Job]
	switch n.Kind {
	case core.Granted:
		w.grant(j, n.Units, n.Until)
	case core.Resized:
		j.progress(w.now)
		j.held(j.holdFrom, w.now, w.fraction(j))
		j.holdFrom, j.units, j.until = w.now, n.Units, n.Until
		j.speed, w.stale = 0, true
	case core.Revoked:
		switch {
		case j.resting:
			w.askBack(j)
			return
		case j.keeping:
			w.stopKeeping(j, core.Release)
			return
		}
		j.progress(w.now)
		j.until = min(j.until, w.now)
		if j.speed > 0 {
			w.schedule(j)
		}
	case core.Resumed:
		w.resume(j)
	case core.Released:
		if j.resting {
			w.leave(j) // others run beside it on what it kept
		}
	case core.Bounded:
		j.free, j.bandwidth, w.stale = n.Terms.Free, n.Terms.Bandwidth, len(w.holders) > 0
		j.ahead = n.Terms.InFlight
		w.passes = w.passes || j.free > 0
	case core.Ended:
		j.account = *n.Account
	}
}

func (w *world) fraction(j *job) float64 { return float64(j.units.Len()) / float64(w.units) }

// forecast is what the job says of its iterations.
func (j *job) forecast() share.Forecast {
	f := share.Forecast{Bandwidth: j.spec.Bandwidth, Units: j.spec.Width, Target: j.spec.Target}
	if j.spec.Foreknown {
		f.Time = j.spec.Iteration.Mean
	}
	return f
}

func (w *world) arrive(j *job) {
	j.queue = append(j.queue, w.now)
	if j.spec.Arrival.Poisson > 0 {
		w.calendar.push(event{at: w.now + j.gap(), kind: arrives, job: j.place})
	}
	w.step(j, core.Event{Kind: core.Arrive})
	switch {
	case len(j.queue) > 1 || j.asked:
	case j.keeping:
		w.goOn(j)
	default:
		w.step(j, core.Event{Kind: core.Want})
	}
}

// begin begins an iteration if none is in progress.
func (w *world) begin(j *job) {
	if j.total == 0 {
		j.total, j.done = float64(j.spec.Iteration.draw(j.random)), 0
		w.step(j, core.Event{Kind: core.Begin})
	}
}

// grant begins a hold.
func (w *world) grant(j *job, units share.UnitSet, until time.Duration) {
	if j.passing {
		w.leave(j)
	}
	j.units, j.until = units, until
	w.start(j)
}

// start lets a job work on its units, and begins an iteration if none is in progress.
func (w *world) start(j *job) {
	w.begin(j)
	units := j.units
	j.holdFrom, j.mark = w.now, w.now
	j.first, j.target, j.speed = j.done, j.total, 0
	alone := !slices.ContainsFunc(w.holders, func(h *job) bool { return h.units.Overlaps(units) })
	passed := false
	for u := range units.All() {
		passed = passed || w.owner[u] != j
		w.owner[u] = j
	}
	if passed {
		w.res.Switches++
		if alone && !w.merged {
			j.mark += w.sc.Device.SwitchCost
		}
	}
	w.holders = append(w.holders, j)
	w.stale = true
}

// leave ends a hold.
func (w *world) leave(j *job) {
	j.progress(w.now)
	j.held(j.holdFrom, w.now, w.fraction(j))
	if j.asked {
		w.asked--
	}
	if j.keeping {
		w.kept--
	}
	w.holders = slices.DeleteFunc(w.holders, func(h *job) bool { return h == j })
	j.units, j.speed, j.passing, j.resting, j.asked = share.UnitSet{}, 0, false, false, false
	j.keeping = false
	j.stopVersion++
	w.stale = len(w.holders) > 0
}

// ends ends a hold, or a kernel that passes without one.
func (w *world) ends(j *job) {
	if j.passing {
		w.passed(j)
	} else {
		w.giveBack(j)
	}
}

// giveBack ends a hold at a boundary between steps, and the iteration with it if that was the last
// step.
func (w *world) giveBack(j *job) {
	units, until := j.units, j.until
	w.leave(j)
	j.done = j.target
	if j.done < j.total {
		w.step(j, core.Event{Kind: core.Return})
		return
	}
	w.finish(j)
	if j.ended {
		return
	}
	switch {
	case len(j.queue) > 0:
		w.step(j, core.Event{Kind: core.Return})
	case j.spec.Keeps > 0 && w.mayGoOn(j, until):
		w.keep(j, units, until)
	case w.mayRest(j, until):
		w.rest(j, units, until)
	default:
		w.step(j, core.Event{Kind: core.Release})
	}
}

// finish ends an iteration, and the job with it if it was the last.
func (w *world) finish(j *job) {
	j.total = 0
	w.step(j, core.Event{Kind: core.Finish})
	w.complete(j)
	if j.left == 0 {
		j.completion = w.now
		w.end(j)
	}
}

// complete answers the oldest request. In a closed loop without think time the next request is
// there at the same moment.
func (w *world) complete(j *job) {
	j.latencies = append(j.latencies, w.now-j.queue[0])
	j.queue = j.queue[1:]
	j.iterations++
	if j.left > 0 {
		j.left--
	}
	if a := &j.spec.Arrival; a.Closed > 0 {
		if a.Think == 0 {
			j.queue = append(j.queue, w.now)
			w.step(j, core.Event{Kind: core.Arrive})
		} else {
			w.calendar.push(event{at: w.now + a.Think, kind: arrives, job: j.place})
		}
	}
	w.step(j, core.Event{Kind: core.Complete})
}

func (w *world) end(j *job) {
	if !j.units.Empty() {
		w.leave(j)
	}
	j.ended, j.queue = true, nil
	if j.id == 0 {
		w.giveUp(j)
		return
	}
	w.inside--
	w.step(j, core.Event{Kind: core.End})
	w.openDoor()
}

// audit notes a device left unused beside a job that has no limit. What a job has yet to give back
// after a rest, or holds in a pause, is in use.
func (w *world) audit() {
	if len(w.holders) > 0 || w.asked > 0 || w.kept > 0 {
		return
	}
	for _, j := range w.jobs {
		if j.id != 0 && !j.ended && len(j.queue) > 0 && j.spec.Cap() >= 1 {
			w.res.Wasted++
			return
		}
	}
}
