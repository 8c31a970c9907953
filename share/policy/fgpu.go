package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Fractional GPUs: Jain, Baek, Wang and Rajkumar, "Fractional GPUs: Software-based
// compute and memory bandwidth reservation for GPUs", RTAS 2019. The multiprocessors of a device
// are divided into disjoint sets, one a job, which nobody else uses, even while its job is idle.
//
//	paper                        here
//	FGPU i                       the units set apart for a job, by Share.Guarantee
//	SMs of an FGPU               Terms.Units
//	colours of an FGPU           Terms.Bandwidth, where Can.Bandwidth: the part of the units
//
// Departures: the sets are as large as guarantees ask for, rounded up to whole units, in place of
// equal ones. Jobs without a guarantee, which the paper does not have, take turns on the units that
// nobody was promised.

// FGPUParams are the parameters of [FGPU].
type FGPUParams struct {
	// Slice is how long a job without a guarantee runs while others of the kind wait.
	Slice time.Duration
}

// DefaultFGPU returns a slice of 2 ms, that of Timeslice.
func DefaultFGPU() FGPUParams { return FGPUParams{Slice: DefaultTimeslice().Slice} }

// Validate reports all faults together.
func (p FGPUParams) Validate() error {
	return validate("policy fgpu", positive("slice", p.Slice))
}

func (p *FGPUParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.Slice, "slice", p.Slice,
		"how long a job without a guarantee runs while others of the kind wait")
}

func fgpuRow() Row {
	return Row{
		Name: "fgpu", File: "fgpu.go", Source: "Fractional GPUs (RTAS 2019)",
		Summary: "units of its own for every guarantee, idle or not; the other jobs take turns " +
			"on the rest",
		Needs: share.Can{Partition: true},
		Honours: Honours{Guarantee: true, Static: true, Absolute: true,
			Wait: Wait{Part: PartEqual, Slice: DefaultFGPU().Slice}},
		with: func() maker {
			p := DefaultFGPU()
			return maker{p.bind, func() (share.Policy, error) { return NewFGPU(p) }}
		},
	}
}

// FGPU sets units apart for every job with a guarantee, from its admission to its end, and lets the
// others take turns on what is left. It ignores limits and, but for opportunistic jobs, which have
// no guarantee, class.
type FGPU struct {
	params FGPUParams
	last   turn // of the jobs without units of their own
	set    []share.Terms
}

// NewFGPU returns the policy, or the faults of its parameters.
func NewFGPU(p FGPUParams) (*FGPU, error) { return &FGPU{params: p}, p.Validate() }

// Name returns "fgpu".
func (p *FGPU) Name() string { return "fgpu" }

// NewJobState returns the state of a job that has no units yet.
func (p *FGPU) NewJobState() any { return &part{} }

// Admit lets a job in if its guarantee, in whole units, fits beside the others', and its memory.
func (p *FGPU) Admit(s *share.Snapshot, j *share.JobState) error { return admitPart(s, j, 1) }

// Decide grants each job its own units, and what is left to one of the jobs that have none.
func (p *FGPU) Decide(s *share.Snapshot) share.Decision {
	rest, free := setApart(s), s.Free()
	p.set = p.set[:0]
	others := others{last: &p.last, now: s.Now}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if units := partOf(j).units; !units.Empty() {
			t := share.Terms{Units: units, Until: share.Forever, Yield: share.Kernel,
				Bandwidth: bandwidth(s, units.Len(), s.Units)}
			p.set = assign(p.set, j, t, free)
			continue
		}
		if j.Phase == share.Running && !rest.Contains(j.Units) {
			p.set = assign(p.set, j, share.Terms{}, free)
		}
		others.see(j)
	}
	if next := others.next(); next != nil && !rest.Empty() {
		t := p.last.grant(next, s, rest, p.params.Slice)
		t.Bandwidth = bandwidth(s, rest.Len(), s.Units)
		p.set = append(p.set, t)
	}
	return share.Decision{Set: p.set}
}

// others finds whose turn it is of the jobs that it sees, in order of ID.
type others struct {
	last                *turn
	now                 time.Duration
	busy                bool
	rest, later, sooner *share.JobState
}

func (o *others) see(j *share.JobState) {
	switch {
	case j.Phase == share.Running:
		o.busy = true
	case j.Phase != share.Waiting:
	case o.last.lasts(j, o.now) || o.last.inherits(j):
		o.rest = j
	case j.ID > o.last.job && o.later == nil:
		o.later = j
	case o.sooner == nil:
		o.sooner = j
	}
}

// next returns the job whose slice is not over, else the next in turn, or nil while one runs.
func (o *others) next() *share.JobState {
	switch {
	case o.busy:
		return nil
	case o.rest != nil:
		return o.rest
	case o.later != nil:
		return o.later
	}
	return o.sooner
}
