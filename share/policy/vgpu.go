package policy

import (
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the three schedulers of NVIDIA vGPU for time-sliced virtual GPUs: "Virtual GPU
// Software User Guide", NVIDIA, section "Changing Scheduling Behavior for Time-Sliced vGPUs".
//
//	vGPU                         here
//	best effort                  mode best-effort: round robin among the jobs with work
//	equal share                  mode equal-share: each job that is there has the same slots
//	fixed share                  mode fixed-share: each job has one slot of VGPUParams.Max
//	time slice                   VGPUParams.Slice
//
// Departures: slots end at the next boundary between steps, and a job that overran pays with its
// next slots. So with n jobs one waits for n slots, for n times what it overran by, and for what
// the others did, once.

// The modes of [VGPU].
const (
	vgpuBest  = "best-effort"
	vgpuEqual = "equal-share"
	vgpuFixed = "fixed-share"
)

// VGPUParams are the parameters of [VGPU].
type VGPUParams struct {
	// Mode is "best-effort", "equal-share" or "fixed-share".
	Mode string
	// Slice is the length of a slot.
	Slice time.Duration
	// Max is the number of jobs that the device is made for, in fixed-share.
	Max int
}

// DefaultVGPU returns best effort with slices of 2 ms, NVIDIA's default for up to eight virtual
// GPUs, and room for four in fixed-share.
func DefaultVGPU() VGPUParams {
	return VGPUParams{Mode: vgpuBest, Slice: 2 * time.Millisecond, Max: 4}
}

// Validate reports all faults together.
func (p VGPUParams) Validate() error {
	var most []share.Fault
	if p.Max < 1 {
		most = []share.Fault{{Field: "max", Value: strconv.Itoa(p.Max),
			Bound: "must be at least 1"}}
	}
	return validate("policy vgpu", oneOf("mode", p.Mode, vgpuBest, vgpuEqual, vgpuFixed),
		positive("slice", p.Slice), most)
}

// VGPU is round robin with slots of one length, which only best-effort lends to others. It ignores
// compute, limit and class.
type VGPU struct {
	params VGPUParams
	wheel  wheel
	n      int
}

func vgpuRow() Row {
	return Row{
		Name: "vgpu", File: "vgpu.go", Source: "NVIDIA vGPU schedulers",
		Summary: "best effort, equal share or fixed share of slots of one length; compute, limit " +
			"and class are ignored",
		Honours: Honours{Conserving: true,
			Wait: Wait{Part: PartEqual, Slice: DefaultVGPU().Slice, Pays: true}},
		with: func() maker {
			p := DefaultVGPU()
			return maker{
				func(f *flag.FlagSet) {
					f.StringVar(&p.Mode, "mode", p.Mode, "best-effort, equal-share or fixed-share")
					f.DurationVar(&p.Slice, "slice", p.Slice, "length of a slot")
					f.IntVar(&p.Max, "max", p.Max, "jobs that a device is made for, in fixed-share")
				},
				func() (share.Policy, error) { return NewVGPU(p) },
			}
		},
	}
}

// NewVGPU returns the policy, or the faults of its parameters.
func NewVGPU(p VGPUParams) (*VGPU, error) { return &VGPU{params: p}, p.Validate() }

// Name returns "vgpu".
func (p *VGPU) Name() string { return "vgpu" }

// NewJobState returns the state of a job that owes nothing.
func (p *VGPU) NewJobState() any { return &spoke{} }

// Admit refuses what does not fit as under any policy, and in fixed-share a job too many.
func (p *VGPU) Admit(s *share.Snapshot, j *share.JobState) error {
	if p.params.Mode == vgpuFixed && len(s.Jobs) >= p.params.Max {
		return fmt.Errorf("fixed-share is made for %d jobs and has as many: raise max or end a job",
			p.params.Max)
	}
	if err := s.FitsMemory(j); err != nil {
		return err
	}
	return s.FitsCompute(j)
}

// Decide grants the free device to the job whose slot it is.
func (p *VGPU) Decide(s *share.Snapshot) share.Decision {
	p.n = len(s.Jobs)
	return p.wheel.decide(s, p)
}

func (p *VGPU) slot(*share.JobState) time.Duration { return p.params.Slice }

func (p *VGPU) rest() time.Duration {
	if p.params.Mode != vgpuFixed {
		return 0
	}
	return time.Duration(max(0, p.params.Max-p.n)) * p.params.Slice
}

func (p *VGPU) lends() bool { return p.params.Mode == vgpuBest }
