package plan

import (
	"errors"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
)

// ErrShape is the kind of error about an input whose shape is needed and not known.
var ErrShape = errors.New("shape not known")

// Plan is a graph compiled for a device and concrete input shapes. It is immutable.
type Plan struct {
	Graph   *graph.Graph // specialised and optimised; what the steps compute
	Steps   []Step
	Slots   []Slot
	Inputs  []int // slots of Graph.Inputs
	Outputs []int // slots of Graph.Outputs
	Threads int

	ArenaBytes int64 // one session's memory: inputs, intermediates, outputs and scratch
	// weights repacked for the kernels, and the constants that a device reads whose memory the host
	// cannot address; shared by all sessions of the plan
	PackedBytes int64
	ConstBytes  int64 // constants in the model, but for those that a remote device has a copy of
	// HostBytes is the memory of the host that one session takes in addition, when the host cannot
	// address the device's memory: copies of values that pass through the host, and values that
	// only steps on the host use.
	HostBytes int64
	Flops     int64 // floating-point operations of one iteration
	Passes    pass.Report

	// State is what the plan is bound to beside an arena and packed weights, nil for nothing; its
	// bytes are in none of the others.
	State *State

	remote  bool       // for a device whose memory the host cannot address
	consts  []constant // those that its steps read, in the order in which they do
	mirrors []mirror   // what HostBytes are

	copies  []copied // that each run makes after its steps
	updates []copied // that each run makes after those: values, and variables that they become
	// replaced are the steps that give variables their new values
	replaced map[string]int
	bare     bool // made of a graph that lacks the contents of absorbed constants
}

// copied says which slot of the arena has a copy of a constant, or of a view of one.
type copied struct{ from, to int }

// PeakBytes is the most memory that the plan with n concurrent sessions holds on its device: packed
// weights and n arenas. Constants mapped from the model file are not in it.
func (p *Plan) PeakBytes(n int) int64 { return p.PackedBytes + int64(n)*p.ArenaBytes }

// Dynamic reports whether an iteration makes values beside the arena: those whose shape depends on
// data, and those inside bodies that have no plan of their own. PeakBytes cannot count them; they
// are asked for while the iteration runs.
func (p *Plan) Dynamic() bool {
	for i := range p.Slots {
		if p.Slots[i].Place == Dynamic {
			return true
		}
	}
	for i := range p.Steps {
		k, planned := p.Steps[i].Kernel.(control)
		if !planned && len(p.Steps[i].Node.Bodies()) > 0 {
			return true
		}
		if planned && slices.ContainsFunc(k.bodies(), (*Plan).Dynamic) {
			return true
		}
	}
	return false
}

// Step is one kernel call.
type Step struct {
	Node    *graph.Node
	Kernel  compute.Kernel
	In, Out []int // slots; -1 for an absent operand
	Flops   int64 // Cost.Flops, 0 where it depends on data
	Bytes   int64 // Cost.Bytes

	packed  span  // the kernel's part of the packed weights
	needs   int64 // so many leading bytes of the packed weights serve this step and those before it
	scratch span  // the kernel's part of the arena while the step runs
	dynamic bool  // some output's shape is only known once it has run
	host    bool  // runs on the host, of a plan for a device whose memory the host cannot address
}

// Place says where a value's bytes are.
type Place uint8

// The places of values.
const (
	InArena  Place = iota // at Slot.Offset of the session's arena
	Constant              // in the model
	Alias                 // bytes of another slot under this slot's shape
	Outer                 // where the enclosing plan has it: a captured value of a body
	Dynamic               // on the heap, per iteration
	OnHost                // in HostBytes: of a remote device no step uses it
	InState               // at Slot.Offset of the state
)

// Slot is one value's place.
type Slot struct {
	Value  *graph.Value
	Type   op.Type
	Place  Place
	Offset int64 // InArena: bytes from the start of the arena, a multiple of Align
	Bytes  int64
	Of     int   // Alias: the slot whose bytes these are
	At     int64 // Alias: the first of those bytes, a multiple of Align
	// InArena: the slot that dies in step First and whose place this one takes, -1 for none
	Over  int
	First int // the step that writes it; -1 for inputs, len(Steps) for copies of constants
	Last  int // the last step that reads it or an alias of it; len(Steps) for outputs
}

// Align is the alignment of every value in an arena: a cache line, and the widest vector.
const Align = 64

type span struct{ off, n int64 }

func (s span) of(mem []byte) []byte { return mem[s.off : s.off+s.n : s.off+s.n] }
