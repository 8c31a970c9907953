package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is time slicing within one context: Sengupta, Goswami, Schwan and Pallavi, "Scheduling
// multi-tenant cloud workloads on accelerator-based systems" (Strings), SC 2014. The contexts of
// all jobs are packed into one, so that passing the device on needs no switch of contexts, and
// slices can be short; whose turn it is goes by fair share.
//
//	paper                        here
//	context packing              Needs.Overlap: jobs are in one context, nothing is switched
//	true fair share              the ledger of Fair, with its guarantees and limits
//	time slice                   FairParams.Slice
//
// Departures: one job's kernels at a time, though one context could run those of several; what a
// last kernel overruns its slice by is charged.

// DefaultMergeSlice returns slices of 2 ms, a burst of 4 ms and a granularity of 0.1 ms: those of
// Fair for a device whose passing on costs nothing.
func DefaultMergeSlice() FairParams {
	return FairParams{Slice: 2 * time.Millisecond, Least: 2 * time.Millisecond,
		Burst: DefaultFair().Burst, Granularity: time.Millisecond / 10}
}

func mergeSliceRow() Row {
	return Row{
		Name: "mergeslice", File: "mergeslice.go", Source: "Strings (SC 2014), mClock (OSDI 2010)",
		Summary: "fair in short slices inside one context, without the cost of a switch",
		Needs:   share.Can{Overlap: true},
		Honours: Honours{Guarantee: true, Limit: true, Conserving: true,
			Burst: DefaultMergeSlice().Burst,
			Wait:  Wait{Part: PartEntitled, Slice: 3 * DefaultMergeSlice().Slice, Pays: true}},
		with: func() maker {
			p := DefaultMergeSlice()
			return maker{p.bind, func() (share.Policy, error) { return NewMergeSlice(p) }}
		},
	}
}

// MergeSlice shares as [Fair] does, in shorter slices, on a device where all jobs are in one
// context.
type MergeSlice struct{ Fair }

// NewMergeSlice returns the policy, or the faults of its parameters.
func NewMergeSlice(p FairParams) (*MergeSlice, error) {
	fair, _ := NewFair(p)
	fair.arbiter.turn.beside = true
	return &MergeSlice{*fair}, p.validate("policy mergeslice")
}

// Name returns "mergeslice".
func (p *MergeSlice) Name() string { return "mergeslice" }
