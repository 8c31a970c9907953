package policy

import (
	"github.com/weirgpu/weir/share"
)

// This file is Salus's FIFO at the granularity of iterations: Yu and Chowdhury, "Fine-grained GPU
// sharing primitives for deep learning applications", MLSys 2020.
//
//	paper                        here
//	iteration of a job           from JobState.InIteration to its end
//	arrival order                JobState.Ready, then JobState.ID
//
// Departures: the order is that of requests, not of jobs, so a job that never ends does not hold up
// the others, as long as its iterations and requests do end; there is one lane, the whole device.

// FIFO runs one iteration at a time to its end, in order of arrival, with all units of the device.
// It never revokes, and ignores compute, limit and class.
type FIFO struct {
	set [1]share.Terms
}

func fifoRow() Row {
	return Row{
		Name: "fifo", File: "fifo.go", Source: "Salus FIFO (MLSys 2020)",
		Summary: "one iteration at a time in order of arrival; compute, limit and class are " +
			"ignored",
		Honours: Honours{Conserving: true},
		with:    func() maker { return without(NewFIFO()) },
	}
}

// NewFIFO returns the policy; it has no parameters.
func NewFIFO() *FIFO { return &FIFO{} }

// Name returns "fifo".
func (p *FIFO) Name() string { return "fifo" }

// Decide grants the free device to the iteration already begun, else to the oldest request.
func (p *FIFO) Decide(s *share.Snapshot) share.Decision {
	if !s.Unused() {
		return share.Decision{}
	}
	var next *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Waiting && (next == nil || before(j, next)) {
			next = j
		}
	}
	if next == nil {
		return share.Decision{}
	}
	p.set[0] = share.Terms{Job: next.ID, Units: s.All(), Until: share.Forever,
		Yield: share.Iteration}
	return share.Decision{Set: p.set[:]}
}

// before reports whether a goes before b, which has the lower ID.
func before(a, b *share.JobState) bool {
	if a.InIteration != b.InIteration {
		return a.InIteration
	}
	return a.Ready < b.Ready
}
