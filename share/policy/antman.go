package policy

import (
	"flag"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is AntMan: Xiao et al., "AntMan: Dynamic scaling on GPU clusters for deep learning",
// OSDI 2020, sections 3.2 (dynamic scaling of memory) and 3.3 (of computation).
//
//	paper                              here
//	resource-guarantee job             latency and standard class
//	opportunistic job                  opportunistic class
//	GpuOpManager: idle time slots in   pauses, in which no guaranteed job wants the device; lent
//	which opportunistic operators run  from their begin for AntMan.lend
//	feedback: mini-batch time grew     delay: a guaranteed job waited while another kind ran
//	maximum GPU memory of a job        Terms.Resident
//
// Departures: how long to lend is found by one rule. It begins with the first pause; each delay is
// taken off, and AntManParams.Slow of the time is added. So no more is lost over any time than that
// fraction, a kernel and twice a pause, whatever pauses and kernels are like: debts are not
// forgiven, and credit is bounded. A pause twice as long as the mean is taken for the end of work,
// and lent as long as no debt is left. The device is idle between. Guaranteed jobs run by order of
// arrival among themselves, where the paper gives each device to one. Where memory can be spilled,
// only guaranteed jobs are promised any: an opportunistic one keeps what the caps of those with
// work, and what the others of them hold, leave it.

// AntManParams are the parameters of [AntMan].
type AntManParams struct {
	// Slow is the fraction of the time by which guaranteed jobs may be delayed.
	Slow float64
}

// DefaultAntMan returns 0.4 percent: an iteration that is as long as the pause after it is then
// delayed by less than 1 percent, the paper's goal.
func DefaultAntMan() AntManParams { return AntManParams{Slow: 0.004} }

// Validate reports all faults together.
func (p AntManParams) Validate() error {
	return validate("policy antman", between("slow", p.Slow, 1e-4, 1))
}

func (p *AntManParams) bind(f *flag.FlagSet) {
	f.Float64Var(&p.Slow, "slow", p.Slow,
		"fraction of the time by which opportunistic work may delay other work")
}

func antmanRow() Row {
	return Row{
		Name: "antman", File: "antman.go", Source: "AntMan (OSDI 2020)",
		Summary: "opportunistic work only in the pauses of other work, as long as that is hardly " +
			"delayed; compute and limit are ignored",
		Honours: Honours{Class: true},
		with: func() maker {
			p := DefaultAntMan()
			return maker{p.bind, func() (share.Policy, error) { return NewAntMan(p) }}
		},
	}
}

// AntMan lends the pauses of guaranteed jobs to opportunistic ones, for as long as feedback says
// that this does not delay the next iteration.
type AntMan struct {
	params AntManParams

	now     time.Duration
	seen    bool          // a guaranteed job has wanted the device
	paused  bool          // none does
	delayed bool          // one waits while an opportunistic job runs
	began   time.Duration // the pause
	mean    float64       // pause, smoothed; in nanoseconds, as is what follows
	lend    float64       // time from the begin of a pause; below 0: debt
	last    share.JobID   // opportunistic, that held the device last
	set     []share.Terms
}

// antmanJob is the bound that an opportunistic job was last given on its memory.
type antmanJob struct{ most share.Bytes }

// NewAntMan returns the policy, or the faults of its parameters.
func NewAntMan(p AntManParams) (*AntMan, error) { return &AntMan{params: p}, p.Validate() }

// Name returns "antman".
func (p *AntMan) Name() string { return "antman" }

// NewJobState returns the state of a job whose memory is not bounded.
func (p *AntMan) NewJobState() any { return &antmanJob{} }

// Decide grants the device to guaranteed jobs by order of arrival, at once, and else to
// opportunistic ones for what is lent of the pause.
func (p *AntMan) Decide(s *share.Snapshot) share.Decision {
	p.set = p.set[:0]
	var run, best *share.JobState
	wanted := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Running {
			run = j
		}
		if produces(j) {
			wanted = wanted || j.Wants()
			if j.Phase == share.Waiting && (best == nil || before(j, best)) {
				best = j
			}
		}
	}
	p.pass(s.Now, wanted)
	p.delayed = best != nil && run != nil && !produces(run)
	p.scale(s)
	switch {
	case p.delayed:
		p.set = append(p.set, share.Terms{Job: run.ID, Resident: bound(run)})
	case run != nil:
	case best != nil:
		p.set = append(p.set, share.Terms{Job: best.ID, Units: s.All(), Until: share.Forever,
			Yield: share.Iteration})
	case !wanted:
		return share.Decision{Set: p.set, Wake: p.fill(s)}
	}
	return share.Decision{Set: p.set}
}

// pass takes note of the time since the last call: of delays, and of pauses that end or begin.
func (p *AntMan) pass(now time.Duration, wanted bool) {
	dt := float64(now - p.now)
	p.now = now
	if !p.seen {
		p.seen, p.paused = wanted, !wanted
		return
	}
	p.lend += p.params.Slow * dt
	if p.delayed {
		p.lend -= dt
	}
	if pause := float64(now - p.began); p.paused && wanted {
		if p.mean == 0 {
			p.mean, p.lend = pause, max(p.lend, pause)
		}
		p.mean += (pause - p.mean) / 8
	} else if !p.paused && !wanted {
		p.began = now
	}
	p.paused = !wanted
	p.lend = min(p.lend, 2*p.mean)
}

// fill grants the device, in a pause, to the next opportunistic job until the end of what is lent,
// or returns when there will be something to lend.
func (p *AntMan) fill(s *share.Snapshot) (wake time.Duration) {
	next := after(s, p.last)
	if next == nil {
		return 0
	}
	until := p.began + time.Duration(p.lend)
	long := p.began + time.Duration(2*p.mean)
	switch {
	case !p.seen || p.lend >= 0 && s.Now >= long:
		until = share.Forever
	case s.Now < until:
	case p.lend < 0:
		return max(long, s.Now+time.Duration(-p.lend/p.params.Slow)) + 1
	default:
		return long
	}
	if lingers(s, s.All()) == nil {
		p.last = next.ID
	}
	p.set = append(p.set, share.Terms{Job: next.ID, Units: s.All(), Until: until,
		Resident: bound(next)})
	return 0
}

// Admit promises memory to guaranteed jobs alone where that of the others can be moved to the host:
// the cap of another must only be one that the device could hold.
func (p *AntMan) Admit(s *share.Snapshot, j *share.JobState) error {
	firm := *s
	if s.Can.Spill {
		firm.Jobs = slices.DeleteFunc(slices.Clone(s.Jobs),
			func(o share.JobState) bool { return !produces(&o) || !produces(j) })
	}
	if err := firm.FitsMemory(j); err != nil {
		return err
	}
	return s.FitsCompute(j)
}

// scale bounds the memory of opportunistic jobs to what guaranteed ones leave, those admitted first
// before the others.
func (p *AntMan) scale(s *share.Snapshot) {
	if !s.Can.Spill {
		return
	}
	left := s.Memory
	for i := range s.Jobs {
		if j := &s.Jobs[i]; produces(j) && j.HasWork {
			left -= j.Memory.Cap
		} else if produces(j) {
			left -= j.Memory.Resident()
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if produces(j) {
			continue
		}
		state, most := j.State.(*antmanJob), share.Keep
		switch {
		case left <= 0:
			most = share.Nothing
		case left < j.Memory.Cap:
			most = left
		}
		left -= min(max(0, left), j.Memory.Cap)
		if most != state.most {
			state.most = most
			t := share.Terms{Job: j.ID, Resident: most}
			// One whose time is over, or that rests, is giving its units back or should.
			if j.Phase == share.Running && j.Until > s.Now {
				t.Units, t.Until = j.Units, j.Until
			}
			p.set = append(p.set, t)
		}
	}
}

// bound is the most memory that an opportunistic job may keep on the device.
func bound(j *share.JobState) share.Bytes { return j.State.(*antmanJob).most }
