package policy

import (
	"flag"
	"strconv"

	"github.com/weirgpu/weir/share"
)

// This file is Salus's packing: Yu and Chowdhury, "Fine-grained GPU sharing primitives for deep
// learning applications", MLSys 2020, section 4.2: as many iterations at once as fit.
//
//	paper                        here
//	GPU lane                     a running iteration; memory is bounded by caps, or by lanes
//	PACK                         iterations start in order of arrival while their units fit
//	units a job fills            Forecast.Units; the whole device where that is not known
//
// Departures: the units that jobs can fill bound how many run at once, where the paper packs as
// many as memory holds and accepts that they slow each other down. PackParams.Jobs gives the
// paper's rule.

// PackParams are the parameters of [Pack].
type PackParams struct {
	// Jobs is how many iterations run at once, whatever units they fill; 0: as many as fit.
	Jobs int
}

// Validate reports all faults together.
func (p PackParams) Validate() error {
	if p.Jobs >= 0 {
		return nil
	}
	return validate("policy pack", []share.Fault{{Field: "jobs", Value: strconv.Itoa(p.Jobs),
		Bound: "must not be negative (0: as many as fit)"}})
}

// Pack runs iterations side by side on the same units, in order of arrival, as long as the units
// that they fill are there. It never revokes, and ignores compute, limit and class.
type Pack struct {
	params PackParams
	set    []share.Terms
}

func packRow() Row {
	return Row{
		Name: "pack", File: "pack.go", Source: "Salus PACK (MLSys 2020)",
		Summary: "as many iterations at once as fit, in order of arrival; compute, limit and " +
			"class are ignored",
		Needs:   share.Can{Overlap: true},
		Honours: Honours{Conserving: true},
		with: func() maker {
			var p PackParams
			return maker{
				func(f *flag.FlagSet) {
					f.IntVar(&p.Jobs, "jobs", p.Jobs,
						"how many iterations run at once, whatever they fill; 0: as many as fit")
				},
				func() (share.Policy, error) { return NewPack(p) },
			}
		},
	}
}

// NewPack returns the policy, or the faults of its parameters.
func NewPack(p PackParams) (*Pack, error) { return &Pack{params: p}, p.Validate() }

// Name returns "pack".
func (p *Pack) Name() string { return "pack" }

// Decide starts the oldest iterations that fit beside those that run, the first of them in any
// case.
func (p *Pack) Decide(s *share.Snapshot) share.Decision {
	p.set = p.set[:0]
	runs, filled := 0, 0
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Running {
			runs++
			filled += fills(j, s)
		}
	}
	for {
		next := p.oldest(s)
		if next == nil {
			break
		}
		width := fills(next, s)
		fits := filled+width <= s.Units
		if p.params.Jobs > 0 {
			fits = runs < p.params.Jobs
		}
		if runs > 0 && !fits {
			break
		}
		runs++
		filled += width
		p.set = append(p.set, wholeIteration(next, s))
	}
	return share.Decision{Set: p.set}
}

// oldest returns the waiting job not yet chosen that goes first, or nil.
func (p *Pack) oldest(s *share.Snapshot) (next *share.JobState) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Waiting && !p.chosen(j.ID) && (next == nil || before(j, next)) {
			next = j
		}
	}
	return next
}

func (p *Pack) chosen(id share.JobID) bool {
	for i := range p.set {
		if p.set[i].Job == id {
			return true
		}
	}
	return false
}

// fills returns how many units a job can use at once.
func fills(j *share.JobState, s *share.Snapshot) int {
	if w := j.Next.Units; w > 0 && w < s.Units {
		return w
	}
	return s.Units
}
