package policy

import (
	"flag"
	"fmt"

	"github.com/weirgpu/weir/share"
)

// This file is NVIDIA's Multi-Process Service: "Multi-Process Service", deploy guide, 2021 and
// after, section "Volta MPS execution resource provisioning". Kernels of all clients run at once in
// one context; a client may be held to a percentage of the threads.
//
//	MPS                          here
//	client                       job
//	active thread percentage     Share.Limit, else Share.Compute, else MPSParams.Percent
//	server's shared context      Needs.Overlap: nothing is switched
//
// That the percentages of clients are as their parts of the work, so that they sum to 100, is what
// the guide calls near optimal.
//
// Departures: which multiprocessors a client runs on is left to the hardware there; where they can
// be chosen they are those that the fewest limited jobs are held to. Fault containment, client
// priorities and the largest number of clients are not modelled.

// MPSParams are the parameters of [MPS].
type MPSParams struct {
	// Percent is the part of the units that a job with neither limit nor compute may use, above 0
	// to 100.
	Percent float64
}

// DefaultMPS returns 100 percent: every job may use all units.
func DefaultMPS() MPSParams { return MPSParams{Percent: 100} }

// Validate reports all faults together.
func (p MPSParams) Validate() error {
	if p.Percent > 0 && p.Percent <= 100 {
		return nil
	}
	return validate("policy mps", []share.Fault{{Field: "percent", Value: fmt.Sprint(p.Percent),
		Bound: "must be above 0 and at most 100"}})
}

func (p *MPSParams) bind(f *flag.FlagSet) {
	f.Float64Var(&p.Percent, "percent", p.Percent,
		"the part of the units that a job with neither limit nor compute may use, up to 100")
}

func mpsRow() Row {
	return Row{
		Name: "mps", File: "mps.go", Source: "NVIDIA MPS",
		Summary: "all jobs at once, each on as many units as its limit says, or its compute, " +
			"and others on the rest; class is ignored",
		Needs: share.Can{Limit: true, Overlap: true},
		Honours: Honours{Conserving: true, Absolute: true, Static: true,
			Wait: Wait{Part: PartAlways}},
		with: func() maker {
			p := DefaultMPS()
			return maker{p.bind, func() (share.Policy, error) { return NewMPS(p) }}
		},
	}
}

// MPS lets all jobs run at once, each on as many units as its limit says, or its compute, rounded
// up. Those that say neither have what the others leave, if they leave any. Compute is guaranteed
// only where limits and compute fit beside each other: the policy sets nothing apart.
type MPS struct {
	params MPSParams
	set    []share.Terms
	counts []int // of limited jobs, by unit
}

// NewMPS returns the policy, or the faults of its parameters.
func NewMPS(p MPSParams) (*MPS, error) { return &MPS{params: p}, p.Validate() }

// Name returns "mps".
func (p *MPS) Name() string { return "mps" }

// NewJobState returns the state of a job that has no units yet.
func (p *MPS) NewJobState() any { return &part{} }

// Decide grants every waiting job its units, whoever else holds them.
func (p *MPS) Decide(s *share.Snapshot) share.Decision {
	p.set = p.set[:0]
	p.place(s)
	all, rest := s.All(), share.UnitSet{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		units := partOf(j).units
		if says(j) == 0 {
			if rest.Empty() {
				rest = p.rest(s)
			}
			units = rest
		}
		if j.Phase == share.Running && j.Units == units {
			continue // by far the most common: nothing is to change
		}
		t := share.Terms{Units: units, Until: share.Forever, Yield: share.Kernel}
		p.set = assign(p.set, j, t, all)
	}
	return share.Decision{Set: p.set}
}

// UnitLimit returns how many units the job may use.
func (p *MPS) UnitLimit(s *share.Snapshot, j *share.JobState) int {
	if part := says(j); part > 0 {
		return whole(part, s.Units)
	}
	return p.rest(s).Len()
}

// says is the part of the device that the job names, or 0.
func says(j *share.JobState) float64 {
	if j.Share.Limit > 0 {
		return j.Share.Limit
	}
	return j.Share.Compute
}

// place finds units for the jobs that name a part: those that the fewest others are held to.
func (p *MPS) place(s *share.Snapshot) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		part := says(j)
		if part == 0 {
			continue
		}
		mine := partOf(j)
		if n := whole(part, s.Units); mine.units.Len() != n {
			mine.units = share.UnitSet{}
			mine.units = p.lightest(s, n)
		}
	}
}

// rest returns what jobs that name a part leave to those that name none: all, where that is
// nothing, and Percent of the device at most.
func (p *MPS) rest(s *share.Snapshot) share.UnitSet {
	left := s.All()
	for i := range s.Jobs {
		if j := &s.Jobs[i]; says(j) > 0 {
			left = left.Minus(partOf(j).units)
		}
	}
	if left.Empty() {
		left = s.All()
	}
	if most := whole(p.params.Percent/100, s.Units); most < s.Units {
		return left.First(most)
	}
	return left
}

// lightest returns the n units that the fewest jobs are held to, of equal ones the lowest.
func (p *MPS) lightest(s *share.Snapshot, n int) share.UnitSet {
	if n >= s.Units {
		return s.All()
	}
	p.counts = append(p.counts[:0], make([]int, s.Units)...)
	for i := range s.Jobs {
		if units := partOf(&s.Jobs[i]).units; says(&s.Jobs[i]) > 0 {
			for u := range units.All() {
				p.counts[u]++
			}
		}
	}
	var set share.UnitSet
	for most := 0; set.Len() < n; most++ {
		for u, k := range p.counts {
			if k == most && set.Len() < n {
				set = set.Union(share.UnitRange(u, 1))
			}
		}
	}
	return set
}
