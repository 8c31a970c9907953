package policy

import (
	"math"

	"github.com/weirgpu/weir/share"
)

// This file is Salus's shortest remaining time first at the granularity of iterations: Yu and
// Chowdhury, "Fine-grained GPU sharing primitives for deep learning applications", MLSys 2020,
// section 4.2.
//
//	paper                        here
//	remaining time of a job      JobState.Remaining x Forecast.Time of the next iteration
//	preemption                   at iteration edges, where jobs give the device back by themselves
//
// Departures: the length of an iteration is measured while the job runs, or told by its plan, in
// place of a profile of an earlier run, so that a job of which nothing is known runs one iteration
// first. Jobs without an end, or beyond the one that they named, come last, in order of arrival;
// what a job says of its iterations is believed until then. A long job waits for as long as shorter
// ones keep coming.

// SRTF runs the iteration of the job that has the least left to do, with all units of the device.
// It ignores compute, limit and class.
type SRTF struct {
	set [1]share.Terms
}

func srtfRow() Row {
	return Row{
		Name: "srtf", File: "srtf.go", Source: "Salus SRTF (MLSys 2020)",
		Summary: "the job with the least left to do first, an iteration at a time; compute, " +
			"limit and class are ignored",
		Honours: Honours{Conserving: true},
		with:    func() maker { return without(NewSRTF()) },
	}
}

// NewSRTF returns the policy; it has no parameters.
func NewSRTF() *SRTF { return &SRTF{} }

// Name returns "srtf".
func (p *SRTF) Name() string { return "srtf" }

// Decide grants the free device to the iteration already begun, else to the job with the least left
// to do.
func (p *SRTF) Decide(s *share.Snapshot) share.Decision {
	if !s.Unused() {
		return share.Decision{}
	}
	var next *share.JobState
	least := 0.0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase != share.Waiting {
			continue
		}
		if left := remaining(j); next == nil || left < least ||
			left == least && j.Ready < next.Ready {
			next, least = j, left
		}
	}
	if next == nil {
		return share.Decision{}
	}
	p.set[0] = wholeIteration(next, s)
	return share.Decision{Set: p.set[:]}
}

// wholeIteration lends the device to a job until its iteration ends.
func wholeIteration(j *share.JobState, s *share.Snapshot) share.Terms {
	return share.Terms{Job: j.ID, Units: s.All(), Until: share.Forever, Yield: share.Iteration}
}

// remaining is the device time that a job has left to use, in nanoseconds: less than any other if
// its iteration is in progress or nothing is known of it yet, infinite if it has no end.
func remaining(j *share.JobState) float64 {
	switch {
	case j.InIteration:
		return -2
	case j.Remaining <= 0:
		return math.Inf(1)
	case j.Next.Time == 0:
		return -1
	}
	return float64(j.Remaining) * float64(j.Next.Time)
}
