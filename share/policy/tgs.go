package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the adaptive rate control of TGS: Wu, Zhang, Bai, Liu and Jin, "Transparent GPU
// sharing in container clouds for deep learning workloads", NSDI 2023, section 4.1.
//
//	paper                              here
//	production job                     latency and standard class
//	opportunistic job                  opportunistic class
//	rate of the production job         device time that it got, of the time in which it wanted
//	                                   that, over one TGSParams.Period
//	rate of the opportunistic job      the part of the time that it may hold the device for, in
//	                                   holds of TGSParams.Slice
//	additive increase                  TGSParams.Step
//	multiplicative decrease            by half
//
// Departures: the device says who holds it, so the production rate alone is known and need not be
// measured before; an opportunistic hold begins only while no production job wants the device, and
// is short instead of revoked. Production jobs share among themselves in order of arrival,
// opportunistic ones in turn. The placement of unified memory (section 4.2) is not modelled.

// TGSParams are the parameters of [TGS].
type TGSParams struct {
	// Slice is how long an opportunistic job holds the device at a time, rounded up to a kernel.
	Slice time.Duration
	// Period is how long rates are measured for between two adjustments.
	Period time.Duration
	// Loss is the part of its rate that a production job may lose before the opportunistic rate
	// is lowered.
	Loss float64
	// Step is what is added to the opportunistic rate, of 0 to 1, after a period without that loss.
	Step float64
}

// DefaultTGS returns slices of 1 ms, periods of 500 ms, a loss of 2 percent and steps of 0.05.
func DefaultTGS() TGSParams {
	return TGSParams{Slice: time.Millisecond, Period: 500 * time.Millisecond, Loss: 0.02,
		Step: 0.05}
}

// Validate reports all faults together.
func (p TGSParams) Validate() error {
	return validate("policy tgs", positive("slice", p.Slice), positive("period", p.Period),
		between("loss", p.Loss, 0.001, 0.5), between("step", p.Step, 0.001, 1))
}

func (p *TGSParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.Slice, "slice", p.Slice, "how long an opportunistic job runs at a time")
	f.DurationVar(&p.Period, "period", p.Period, "time between two adjustments of the rate")
	f.Float64Var(&p.Loss, "loss", p.Loss,
		"part of their rate that others may lose before the opportunistic rate is lowered")
	f.Float64Var(&p.Step, "step", p.Step, "what a period without loss adds to the rate")
}

func tgsRow() Row {
	return Row{
		Name: "tgs", File: "tgs.go", Source: "TGS (NSDI 2023)",
		Summary: "opportunistic work at a rate that grows until others lose by it; compute and " +
			"limit are ignored",
		Honours: Honours{Class: true},
		with: func() maker {
			p := DefaultTGS()
			return maker{p.bind, func() (share.Policy, error) { return NewTGS(p) }}
		},
	}
}

// tgsLeast is the rate that is always left, to see whether more would do harm.
const tgsLeast = 0.01

// TGS holds back opportunistic jobs to a rate that rises step by step while nobody loses by it, and
// halves when somebody does.
type TGS struct {
	params TGSParams
	rate   float64 // of opportunistic jobs, above 0 to 1

	now         time.Duration
	begun       time.Duration // the period
	wanting     bool          // a production job wanted the device from the last call on
	wanted, got time.Duration // by production jobs in the period
	last        share.JobID   // opportunistic, that held the device last
	next        time.Duration // when one may hold it again
	set         [1]share.Terms
}

// tgsJob is what TGS has counted of a job's device time.
type tgsJob struct{ used time.Duration }

// NewTGS returns the policy, or the faults of its parameters.
func NewTGS(p TGSParams) (*TGS, error) { return &TGS{params: p, rate: tgsLeast}, p.Validate() }

// Name returns "tgs".
func (p *TGS) Name() string { return "tgs" }

// NewJobState returns the state of a job that has used nothing yet.
func (p *TGS) NewJobState() any { return &tgsJob{} }

// Decide grants the free device to production jobs first, and to opportunistic ones at their rate.
func (p *TGS) Decide(s *share.Snapshot) share.Decision {
	p.measure(s)
	p.adjust()
	if !s.Unused() {
		return share.Decision{}
	}
	var best *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Waiting && produces(j) && (best == nil || before(j, best)) {
			best = j
		}
	}
	if best != nil {
		p.set[0] = share.Terms{Job: best.ID, Units: s.All(), Until: share.Forever,
			Yield: share.Iteration}
		return share.Decision{Set: p.set[:]}
	}
	best = after(s, p.last)
	switch {
	case best == nil:
		return share.Decision{}
	case s.Now < p.next:
		return share.Decision{Wake: p.next}
	}
	if lingers(s, s.All()) == nil {
		p.last = best.ID
	}
	p.set[0] = share.Terms{Job: best.ID, Units: s.All(), Until: s.Now + p.params.Slice}
	return share.Decision{Set: p.set[:]}
}

// produces reports whether the job is one that opportunistic work must not slow down.
func produces(j *share.JobState) bool { return j.Share.Class != share.Opportunistic }

// measure counts what production jobs wanted and got since the last call, and what opportunistic
// ones used, which puts off their next hold.
func (p *TGS) measure(s *share.Snapshot) {
	if p.wanting {
		p.wanted += s.Now - p.now
	}
	p.now, p.wanting = s.Now, false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		state := j.State.(*tgsJob)
		used := j.Used - state.used
		state.used = j.Used
		if produces(j) {
			p.got += used
			p.wanting = p.wanting || j.Wants()
		} else if used > 0 {
			p.next = s.Now + time.Duration(float64(used)*(1/p.rate-1))
		}
	}
}

// adjust raises or lowers the rate for the periods that are over.
func (p *TGS) adjust() {
	over := (p.now - p.begun) / p.params.Period
	if over == 0 {
		return
	}
	if float64(p.got) < (1-p.params.Loss)*float64(p.wanted) {
		p.rate = max(tgsLeast, p.rate/2)
	} else {
		p.rate = min(1, p.rate+float64(over)*p.params.Step)
	}
	p.begun += over * p.params.Period
	p.wanted, p.got = 0, 0
}
