package policy

import (
	"flag"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Orion: Strati, Ma and Klimovic, "Orion: Interference-aware, fine-grained GPU sharing
// for ML applications", EuroSys 2024, section 5.
//
//	paper                              here
//	high-priority client               latency class
//	best-effort client                 any other class
//	profile of a kernel: compute- or   Forecast.Units or Forecast.Bandwidth of a job, the larger,
//	memory-bound, or unknown           if it is at least OrionParams.Bound of the device
//	SM_THRESHOLD                       the units that the high-priority job does not fill
//	DUR_THRESHOLD                      Terms.InFlight: OrionParams.Ahead of a latency request
//
// Departures: profiles are of whole iterations, not of single kernels. The paper's device runs
// thread blocks of the high-priority stream first; one that does not would share the units evenly,
// so best-effort work must fit on those that are left. Several best-effort jobs run at once by the
// same rule. Best-effort work that does not complement a request that arrives gives way at its next
// kernel, which bounds what the request waits for.

// OrionParams are the parameters of [Orion].
type OrionParams struct {
	// Bound is the part of a resource from which on a job is bound by it.
	Bound float64
	// Ahead is how much device time best-effort programs may have launched ahead, as a part of a
	// high-priority request.
	Ahead float64
}

// DefaultOrion returns the paper's thresholds: bound by what it uses 60 percent of, and 2.5 percent
// ahead.
func DefaultOrion() OrionParams { return OrionParams{Bound: 0.6, Ahead: 0.025} }

// Validate reports all faults together.
func (p OrionParams) Validate() error {
	return validate("policy orion", between("bound", p.Bound, 0.01, 1),
		between("ahead", p.Ahead, 0.001, 1))
}

func (p *OrionParams) bind(f *flag.FlagSet) {
	f.Float64Var(&p.Bound, "bound", p.Bound, "part of a resource from which a job is bound by it")
	f.Float64Var(&p.Ahead, "ahead", p.Ahead,
		"what best-effort programs may launch ahead, as a part of a high-priority request")
}

func orionRow() Row {
	return Row{
		Name: "orion", File: "orion.go", Source: "Orion (EuroSys 2024)",
		Summary: "others run beside latency jobs if one is compute- and the other memory-bound; " +
			"compute and limit are ignored",
		Needs:   share.Can{Overlap: true},
		Honours: Honours{Class: true, Conserving: true},
		with: func() maker {
			p := DefaultOrion()
			return maker{p.bind, func() (share.Policy, error) { return NewOrion(p) }}
		},
	}
}

// Orion runs latency jobs at once, and beside them what uses other resources than they.
type Orion struct {
	params   OrionParams
	together []*share.JobState // that run or are to
	waits    []*share.JobState // latency jobs first, then by arrival
	set      []share.Terms
}

// NewOrion returns the policy, or the faults of its parameters.
func NewOrion(p OrionParams) (*Orion, error) { return &Orion{params: p}, p.Validate() }

// Name returns "orion".
func (p *Orion) Name() string { return "orion" }

// Decide grants all units to latency jobs, and to others that complement all who run.
func (p *Orion) Decide(s *share.Snapshot) share.Decision {
	p.together, p.waits, p.set = p.together[:0], p.waits[:0], p.set[:0]
	shortest := time.Duration(0)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if urgent(j) {
			shortest = sooner(shortest, j.Next.Time)
		}
		switch {
		case j.Phase == share.Running && !j.Revoking:
			p.together = append(p.together, j)
		case j.Phase == share.Waiting:
			p.waits = append(p.waits, j)
		}
	}
	slices.SortStableFunc(p.waits, byUrgency)
	ahead := time.Duration(float64(shortest) * p.params.Ahead)
	for _, j := range p.waits {
		if urgent(j) {
			p.makeWay(s, j)
		}
		if !p.complements(s, j) {
			continue
		}
		t := share.Terms{Job: j.ID, Units: s.All(), Until: share.Forever, Yield: share.Kernel}
		if !urgent(j) {
			t.InFlight = ahead
		}
		p.together, p.set = append(p.together, j), append(p.set, t)
	}
	return share.Decision{Set: p.set}
}

func urgent(j *share.JobState) bool { return j.Share.Class == share.Latency }

func byUrgency(a, b *share.JobState) int {
	switch {
	case urgent(a) && !urgent(b):
		return -1
	case urgent(b) && !urgent(a):
		return 1
	}
	return byArrival(a, b)
}

// makeWay revokes best-effort jobs until a latency job complements those who are left, the last
// admitted first, unless other latency jobs are in its way.
func (p *Orion) makeWay(s *share.Snapshot, j *share.JobState) {
	if !p.fits(s, j, urgent) {
		return
	}
	for i := len(p.together) - 1; i >= 0 && !p.complements(s, j); i-- {
		if o := p.together[i]; !urgent(o) {
			p.together = slices.Delete(p.together, i, i+1)
			p.set = append(p.set, share.Terms{Job: o.ID})
		}
	}
}

// complements reports whether a job would not slow down those who run, nor they it.
func (p *Orion) complements(s *share.Snapshot, j *share.JobState) bool {
	return p.fits(s, j, func(*share.JobState) bool { return true })
}

// fits reports whether the units that a job fills, and those filled by some who run, are no more
// than there are, and the job is bound by another resource than each of them.
func (p *Orion) fits(s *share.Snapshot, j *share.JobState, some func(*share.JobState) bool) bool {
	kind, filled, n := p.kind(s, j), fills(j, s), 0
	for _, o := range p.together {
		if !some(o) {
			continue
		}
		if kind != boundByNothing && p.kind(s, o) == kind {
			return false
		}
		filled += fills(o, s)
		n++
	}
	return n == 0 || filled <= s.Units
}

// resource is what bounds a job.
type resource uint8

const (
	boundByNothing resource = iota
	boundByCompute
	boundByMemory
)

// kind is what bounds a job: of what it uses enough of, that which it uses the larger part of.
func (p *Orion) kind(s *share.Snapshot, j *share.JobState) resource {
	compute := float64(fills(j, s)) / float64(s.Units)
	switch {
	case j.Next.Bandwidth >= max(p.params.Bound, compute):
		return boundByMemory
	case compute >= p.params.Bound:
		return boundByCompute
	}
	return boundByNothing
}
