package compute

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Request is a call to be prepared. Every type is static; Const is set on inputs that are constant.
type Request struct {
	Call    *op.Call
	In, Out []op.Type
	// Choices, when not nil, decide where a kernel has several ways.
	Choices Choices
}

// Kernel is one operator call prepared for concrete types. It is immutable: every session of a plan
// shares it.
type Kernel interface {
	// Name says how the call is computed, for dumps and profiles: "conv.depthwise", "reference".
	Name() string
	// PackedBytes is the size of the kernel's own copy of its constant operands, 0 when it reads
	// them in place.
	PackedBytes() int
	// Pack writes that copy. dst has PackedBytes bytes, aligned to 64.
	Pack(dst []byte)
	// ScratchBytes is the memory, besides inputs and outputs, that one run needs with that many
	// workers.
	ScratchBytes(workers int) int
	// Bind makes a task on particular memory. It allocates whatever a run needs from Go's heap, so
	// that Task.Run need not.
	Bind(b Binding) Task
}

// Binding is the memory of one task. In and Out are the operands of the call, nil where one is
// absent. Their bytes stay where they are for the life of the task, except that each run sets a
// tensor whose shape depends on data anew.
type Binding struct {
	In, Out []*tensor.Tensor
	Packed  []byte // what Pack wrote
	Scratch []byte // ScratchBytes, aligned to 64, contents undefined at each run
	Workers int    // upper bound of the worker numbers that Chunk sees
	// Places, when set, says where the operands, Packed and Scratch lie on a device whose memory
	// the host cannot address. Packed and Scratch are then nil, and the tensors of In and Out give
	// type and shape only.
	Places *Places
}

// Places are the device memory of a [Binding]. The Block of an operand is zero where the operand is
// absent, and where it is a constant that the packed copy replaces ([Absorbing]).
type Places struct {
	In, Out         []Block
	Packed, Scratch Block
}

// Task is a kernel bound to memory. One goroutine runs it at a time.
type Task interface {
	// Run computes the outputs from the inputs. In steady state it allocates nothing on the Go
	// heap, except for the reference evaluation.
	Run(x *Exec) error
}

// Unpacked is embedded by kernels that repack nothing and need no scratch.
type Unpacked struct{}

// PackedBytes implements [Kernel].
func (Unpacked) PackedBytes() int { return 0 }

// Pack implements [Kernel].
func (Unpacked) Pack([]byte) {}

// ScratchBytes implements [Kernel].
func (Unpacked) ScratchBytes(int) int { return 0 }
