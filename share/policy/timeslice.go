package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the time slicing that drivers do for contexts that share a device, the baseline that
// every other policy is compared with: NVIDIA, "Time-slicing GPUs in Kubernetes" and nvidia-smi
// compute-policy. Every job with work gets the same slice in turn; one that stops early gives up
// the rest.
//
//	driver                       here
//	context with pending work    waiting job
//	time slice                   TimesliceParams.Slice
//
// Departures: a slice ends at the next boundary between steps, not inside a kernel.

// TimesliceParams are the parameters of [Timeslice].
type TimesliceParams struct {
	// Slice is how long a job runs while others wait.
	Slice time.Duration
}

// DefaultTimeslice returns a slice of 2 ms, of the order of what drivers use.
func DefaultTimeslice() TimesliceParams { return TimesliceParams{Slice: 2 * time.Millisecond} }

// Validate reports all faults together.
func (p TimesliceParams) Validate() error {
	return validate("policy timeslice", positive("slice", p.Slice))
}

// Timeslice is round robin with a fixed slice, all units at a time. It ignores compute, limit and
// class.
type Timeslice struct {
	params TimesliceParams
	last   turn
	set    [1]share.Terms
}

func timesliceRow() Row {
	return Row{
		Name: "timeslice", File: "timeslice.go", Source: "stock GPU time slicing",
		Summary: "round robin with a fixed slice; compute, limit and class are ignored",
		Honours: Honours{Conserving: true,
			Wait: Wait{Part: PartEqual, Slice: DefaultTimeslice().Slice}},
		with: func() maker {
			p := DefaultTimeslice()
			return maker{
				func(f *flag.FlagSet) {
					f.DurationVar(&p.Slice, "slice", p.Slice,
						"how long a job runs while others wait")
				},
				func() (share.Policy, error) { return NewTimeslice(p) },
			}
		},
	}
}

// NewTimeslice returns the policy, or the faults of its parameters.
func NewTimeslice(p TimesliceParams) (*Timeslice, error) {
	return &Timeslice{params: p}, p.Validate()
}

// Name returns "timeslice".
func (p *Timeslice) Name() string { return "timeslice" }

// Decide lets the job whose slice is not over go on, else grants the free device to the next
// waiting job in order of ID.
func (p *Timeslice) Decide(s *share.Snapshot) share.Decision {
	if !s.Unused() {
		return share.Decision{}
	}
	next := s.Job(p.last.heir)
	if !p.last.inherits(next) {
		next = p.last.rest(s)
	}
	if next == nil {
		next = after(s, p.last.job)
	}
	if next == nil {
		return share.Decision{}
	}
	p.set[0] = p.last.grant(next, s, s.All(), p.params.Slice)
	return share.Decision{Set: p.set[:]}
}

// after returns the first waiting job with an ID above this one, else the first of all, else nil.
func after(s *share.Snapshot, id share.JobID) *share.JobState {
	var first *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		switch {
		case j.Phase != share.Waiting:
		case j.ID > id:
			return j
		case first == nil:
			first = j
		}
	}
	return first
}
