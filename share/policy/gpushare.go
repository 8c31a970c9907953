package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Goswami, Young, Schwan, Farooqui, Gavrilovska, Wolf and Eisenhauer, "GPUShare:
// Fair-sharing middleware for GPU clouds", IPDPS workshops, 2016: long kernels take turns by time
// used, not by kernels run, and a kernel that is over sooner than a switch of contexts is not worth
// one.
//
//	paper                        here
//	time slice of a tenant       FairParams.Slice
//	central scheduler            the ledger of Fair: what a kernel overruns is charged
//	kernel run time              forecast by whoever launches it, against Terms.Free
//
// Departures: a kernel yields where the device lets it, and not by rewriting its code. Kernels that
// pass are charged to nobody, so a job of only such kernels is bounded by nothing.

// GPUShareParams are the parameters of [GPUShare].
type GPUShareParams struct {
	// Fair is how jobs share what does not pass.
	Fair FairParams
	// Switch is what it costs to pass the device on: kernels shorter than that pass.
	Switch time.Duration
}

// DefaultGPUShare returns slices of 10 ms, else fair's defaults, and a switch of 0.2 ms, of the
// order of what GPUs take to switch contexts.
func DefaultGPUShare() GPUShareParams {
	p := GPUShareParams{Fair: DefaultFair(), Switch: 200 * time.Microsecond}
	p.Fair.Slice = 10 * time.Millisecond
	return p
}

// Validate reports all faults together.
func (p GPUShareParams) Validate() error {
	return p.Fair.validate("policy gpushare", positive("switch", p.Switch))
}

func (p *GPUShareParams) bind(f *flag.FlagSet) {
	p.Fair.bind(f)
	f.DurationVar(&p.Switch, "switch", p.Switch,
		"the cost of a switch of contexts: kernels shorter than that pass without a turn")
}

func gpuShareRow() Row {
	return Row{
		Name: "gpushare", File: "gpushare.go", Source: "GPUShare (IPDPSW 2016)",
		Summary: "kernels shorter than a switch pass at once, longer ones take turns by time used",
		Needs:   share.Can{Launches: true},
		Honours: Honours{Guarantee: true, Conserving: true,
			Wait: Wait{Part: PartEntitled, Slice: 3 * DefaultGPUShare().Fair.Slice, Pays: true}},
		with: func() maker {
			p := DefaultGPUShare()
			return maker{p.bind, func() (share.Policy, error) { return NewGPUShare(p) }}
		},
	}
}

// GPUShare shares as [Fair] does, but for kernels shorter than a switch, which pass without a
// lease. So limits hold only for what does not pass.
type GPUShare struct {
	Fair
	free time.Duration
	set  []share.Terms
}

// NewGPUShare returns the policy, or the faults of its parameters.
func NewGPUShare(p GPUShareParams) (*GPUShare, error) {
	fair, _ := NewFair(p.Fair)
	return &GPUShare{Fair: *fair, free: p.Switch}, p.Validate()
}

// Name returns "gpushare".
func (p *GPUShare) Name() string { return "gpushare" }

// Decide lets the short kernels of waiting jobs pass, and gives the device to one as Fair does.
func (p *GPUShare) Decide(s *share.Snapshot) share.Decision {
	d := p.Fair.Decide(s)
	p.set = p.set[:0]
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Waiting {
			p.set = append(p.set, share.Terms{Job: j.ID, Free: p.free})
		}
	}
	for _, t := range d.Set {
		t.Free = p.free
		p.set = append(p.set, t)
	}
	d.Set = p.set
	return d
}
