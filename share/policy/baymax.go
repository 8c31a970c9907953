package policy

import (
	"cmp"
	"flag"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Baymax: Chen, Yang, Mars and Tang, "Baymax: QoS awareness and increased utilization
// for non-preemptive accelerators in warehouse scale computers", ASPLOS 2016, sections 5 (duration
// prediction), 6 (reordering by headroom) and 7 (limiting concurrent copies).
//
//	paper                              here
//	user-facing query, its QoS target  request of a job with a target: Forecast.Target, else
//	                                   BaymaxParams.QoS for a latency job
//	predicted duration of a task       Forecast.Time, corrected by what iterations took
//	QoS headroom of a query            target - waited - own work left - that of those before it
//	task of the accelerator            kernel; of a batch job the longest seen, baymaxJob.kernel
//	concurrent transfer tasks          jobs with Forecast.Copied that copy at once
//
// Departures: durations are corrected by measurement instead of by regression over the inputs of
// kernels. On a device that is free a request goes before batch work even with headroom left, which
// on one device costs batch work nothing and leaves headroom for bursts; batch work that runs goes
// on until the headroom of those who wait, less its own longest kernel, is used up.

// BaymaxParams are the parameters of [Baymax].
type BaymaxParams struct {
	// QoS is the target of a latency job that names none: how long after its arrival a request
	// should be completed.
	QoS time.Duration
	// Margin is the part of a target that is kept back against forecasts that are too low.
	Margin float64
	// Copies is how many jobs may copy between host and device at once, on a device that can bound
	// copies; 0: all.
	Copies int
}

// DefaultBaymax returns a target of 100 ms, a margin of a tenth, and two jobs that copy at once,
// which in the paper's measurements is where transfers begin to slow each other down.
func DefaultBaymax() BaymaxParams {
	return BaymaxParams{QoS: 100 * time.Millisecond, Margin: 0.1, Copies: 2}
}

// Validate reports all faults together.
func (p BaymaxParams) Validate() error {
	return validate("policy baymax", positive("qos", p.QoS), between("margin", p.Margin, 0, 0.9),
		between("copies", float64(p.Copies), 0, 1e6))
}

func (p *BaymaxParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.QoS, "qos", p.QoS, "target of a latency job's requests that name none")
	f.Float64Var(&p.Margin, "margin", p.Margin,
		"part of a target kept back against forecasts that are too low")
	f.IntVar(&p.Copies, "copies", p.Copies, "how many jobs may copy at once (0: all)")
}

func baymaxRow() Row {
	return Row{
		Name: "baymax", File: "baymax.go", Source: "Baymax (ASPLOS 2016)",
		Summary: "requests meet their targets: least headroom first, batch work runs on while " +
			"headroom lasts; compute and limit are ignored",
		Honours: Honours{Class: true, Conserving: true},
		with: func() maker {
			p := DefaultBaymax()
			return maker{p.bind, func() (share.Policy, error) { return NewBaymax(p) }}
		},
	}
}

// Baymax runs the request with the least headroom against its target, on all units, and batch work
// as long as every request that waits keeps some. It heeds no share beyond the class.
type Baymax struct {
	params BaymaxParams
	line   []query // that wait, by headroom
	set    []share.Terms
}

// query is the oldest request of a job with a target.
type query struct {
	job *share.JobState
	// headroom is the time that remains beyond what it still takes, left. The requests behind it in
	// the job's queue take later.
	headroom, left, later time.Duration
}

// baymaxJob is what Baymax keeps of a job.
type baymaxJob struct {
	iterations int64
	used       time.Duration // when the present iteration began
	due        time.Duration // when the job was to give way; 0: it was not
	kernel     time.Duration // the longest seen to run past that
	held       bool          // from copying
}

// NewBaymax returns the policy, or the faults of its parameters.
func NewBaymax(p BaymaxParams) (*Baymax, error) { return &Baymax{params: p}, p.Validate() }

// Name returns "baymax".
func (p *Baymax) Name() string { return "baymax" }

// NewJobState returns the state of a job that has not run yet.
func (p *Baymax) NewJobState() any { return &baymaxJob{} }

// Decide grants the free device to the request with the least headroom, else to batch work in order
// of arrival, and ends a hold where another's headroom is used up.
func (p *Baymax) Decide(s *share.Snapshot) share.Decision {
	p.line, p.set = p.line[:0], p.set[:0]
	var run, batch *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		observe(j)
		switch {
		case j.Phase == share.Running:
			run = j
		case j.Phase != share.Waiting:
		case p.target(j) > 0:
			p.line = append(p.line, p.query(j, s.Now))
		case batch == nil || before(j, batch):
			batch = j
		}
	}
	slices.SortStableFunc(p.line, func(a, b query) int {
		return cmp.Compare(a.headroom, b.headroom)
	})
	switch {
	case run != nil:
		p.goOn(s, run)
	case len(p.line) > 0:
		run = p.line[0].job
		p.give(s, run)
	case batch != nil:
		run = batch
		p.give(s, run)
	}
	p.limitCopies(s, run)
	return share.Decision{Set: p.set}
}

// target is how long after its arrival a request of the job should be completed; 0: whenever.
func (p *Baymax) target(j *share.JobState) time.Duration {
	switch {
	case j.Next.Target > 0:
		return j.Next.Target
	case j.Share.Class == share.Latency:
		return p.params.QoS
	}
	return 0
}

// query finds the headroom of a job's oldest request.
func (p *Baymax) query(j *share.JobState, now time.Duration) query {
	left := max(0, j.Next.Time-(j.Used-j.State.(*baymaxJob).used))
	target := time.Duration(float64(p.target(j)) * (1 - p.params.Margin))
	later := time.Duration(max(1, j.Queue)-1) * j.Next.Time
	return query{j, j.Ready + target - now - left, left, later}
}

// headroom is the least of all who wait, each behind those before it. All that a job has in its
// queue counts, as if it were due with the oldest.
func (p *Baymax) headroom() time.Duration {
	least, ahead := share.Forever, time.Duration(0)
	for _, q := range p.line {
		least = min(least, q.headroom-q.later-ahead)
		ahead += q.left + q.later
	}
	return least
}

// give grants the device to a job until it is told to give way.
func (p *Baymax) give(s *share.Snapshot, j *share.JobState) {
	j.State.(*baymaxJob).due = 0
	p.set = append(p.set, share.Terms{Job: j.ID, Units: s.All(), Until: share.Forever,
		Yield: share.Kernel})
}

// goOn lets the job that runs go on for as long as those who wait have headroom: batch work until
// that is used up, a request to its end if it takes no longer.
func (p *Baymax) goOn(s *share.Snapshot, run *share.JobState) {
	if run.Revoking || len(p.line) == 0 {
		return
	}
	state, room := run.State.(*baymaxJob), p.headroom()
	if p.target(run) > 0 {
		own := p.query(run, s.Now)
		if room < own.left && p.line[0].headroom < own.headroom {
			p.end(run, s.Now)
		}
		return
	}
	until := s.Now + room - state.kernel
	switch {
	case until <= s.Now:
		p.end(run, s.Now)
	case until < run.Until:
		state.due = until
		p.set = append(p.set, share.Terms{Job: run.ID, Units: run.Units, Until: until,
			Yield: share.Kernel})
	}
}

func (p *Baymax) end(run *share.JobState, now time.Duration) {
	run.State.(*baymaxJob).due = max(1, now)
	p.set = append(p.set, share.Terms{Job: run.ID})
}

// observe takes note of where the job's iterations begin, and of how long it ran after it was to
// give way.
func observe(j *share.JobState) {
	state := j.State.(*baymaxJob)
	if !j.InIteration || j.Iterations != state.iterations {
		state.iterations, state.used = j.Iterations, j.Used
	}
	if j.Phase != share.Running && state.due > 0 {
		state.kernel = max(state.kernel, j.Since-state.due)
		state.due = 0
	}
}

// limitCopies lets the job that runs and the first of those who wait copy, and bounds the others to
// next to nothing.
func (p *Baymax) limitCopies(s *share.Snapshot, run *share.JobState) {
	if p.params.Copies == 0 || !s.Can.Copies {
		return
	}
	left := p.params.Copies
	if run != nil && run.Next.Copied > 0 {
		left--
	}
	for _, q := range p.line {
		left = p.limitCopy(q.job, run, left)
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; p.target(j) == 0 {
			left = p.limitCopy(j, run, left)
		}
	}
}

// limitCopy lets a waiting job copy if any may, and returns how many more may.
func (p *Baymax) limitCopy(j, run *share.JobState, left int) int {
	state := j.State.(*baymaxJob)
	if j == run {
		state.held = false // its new terms bound nothing
		return left
	}
	if j.Phase != share.Waiting || j.Next.Copied == 0 {
		return left
	}
	if hold := left <= 0; hold != state.held {
		state.held = hold
		t := share.Terms{Job: j.ID}
		if hold {
			t.Copy = 1
		}
		p.set = append(p.set, t)
	}
	return left - 1
}
