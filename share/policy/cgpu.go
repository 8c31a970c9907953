package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the scheduler of Alibaba Cloud's cGPU, which shares a device in its kernel driver by
// slices alone: "What is cGPU", and "Use cGPU to share GPUs", Alibaba Cloud documentation, section
// on cgpu policies.
//
//	cGPU                         here
//	fair-share scheduling        mode fair: slices of the same length
//	weight-preemptive            mode weighted: slices in proportion to Share.Weight
//	native, fixed slices         mode strict: slices by Share.Compute, idle if unused
//
// Departures: slices end at the next boundary between steps, and a job that overran pays with its
// next slices. So one that has the part x of all weights waits for two turns, each of a period over
// x at most even where slices were given while fewer jobs had work, for what it overran by over x,
// and for what the others did, once.

// The modes of [CGPU].
const (
	cgpuFair     = "fair"
	cgpuWeighted = "weighted"
	cgpuStrict   = "strict"
)

// CGPUParams are the parameters of [CGPU].
type CGPUParams struct {
	// Mode is "weighted", "fair" or "strict".
	Mode string
	// Period is the time in which each job has its slice once, if all have work.
	Period time.Duration
}

// DefaultCGPU returns weighted slices in periods of 40 ms.
func DefaultCGPU() CGPUParams {
	return CGPUParams{Mode: cgpuWeighted, Period: 40 * time.Millisecond}
}

// Validate reports all faults together.
func (p CGPUParams) Validate() error {
	return validate("policy cgpu", oneOf("mode", p.Mode, cgpuWeighted, cgpuFair, cgpuStrict),
		positive("period", p.Period))
}

// CGPU is round robin with slices whose length is the job's share. It ignores limit and class.
type CGPU struct {
	params  CGPUParams
	wheel   wheel
	weights float64 // of the jobs with work
	n       int
	promise float64 // sum of Compute
}

func cgpuRow() Row {
	return Row{
		Name: "cgpu", File: "cgpu.go", Source: "Alibaba Cloud cGPU",
		Summary: "round robin with slices as long as shares are large; limit and class are ignored",
		Honours: Honours{Conserving: true,
			Wait: Wait{Part: PartWeight, Slice: 2 * DefaultCGPU().Period, Pays: true}},
		with: func() maker {
			p := DefaultCGPU()
			return maker{
				func(f *flag.FlagSet) {
					f.StringVar(&p.Mode, "mode", p.Mode,
						"weighted: slices by compute; fair: equal ones; strict: by compute, idle "+
							"if their job has no work")
					f.DurationVar(&p.Period, "period", p.Period,
						"time in which each job has its slice once")
				},
				func() (share.Policy, error) { return NewCGPU(p) },
			}
		},
	}
}

// NewCGPU returns the policy, or the faults of its parameters.
func NewCGPU(p CGPUParams) (*CGPU, error) { return &CGPU{params: p}, p.Validate() }

// Name returns "cgpu".
func (p *CGPU) Name() string { return "cgpu" }

// NewJobState returns the state of a job that owes nothing.
func (p *CGPU) NewJobState() any { return &spoke{} }

// Decide grants the free device to the job whose slice it is.
func (p *CGPU) Decide(s *share.Snapshot) share.Decision {
	p.weights, p.n, p.promise = 0, 0, 0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p.promise += j.Share.Compute
		if j.Wants() {
			p.weights += j.Share.Weight()
			p.n++
		}
	}
	return p.wheel.decide(s, p)
}

func (p *CGPU) slot(j *share.JobState) time.Duration {
	period := float64(p.params.Period)
	switch {
	case p.params.Mode == cgpuStrict:
		return time.Duration(period * j.Share.Compute / max(1, p.promise))
	case !j.Wants():
		return 0
	case p.params.Mode == cgpuFair:
		return time.Duration(period / float64(p.n))
	}
	return time.Duration(period * j.Share.Weight() / p.weights)
}

func (p *CGPU) rest() time.Duration {
	return time.Duration(float64(p.params.Period) * max(0, 1-p.promise))
}

func (p *CGPU) lends() bool { return p.params.Mode != cgpuStrict }
