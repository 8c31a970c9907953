package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

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
	// Bind makes a task on particular memory. It allocates what a run needs of Go's heap, so that
	// Task.Run need not.
	Bind(b Binding) Task
}

// Packing is implemented by kernels whose packed copy may serve other kernels as well.
type Packing interface {
	// Packing identifies what Pack writes, of the kernels of this process: two kernels whose values
	// are equal write the same bytes. The value can be compared.
	Packing() any
}

// InPlace is implemented by kernels whose output 0 may be written over an input that nobody reads
// afterwards.
type InPlace interface {
	// InPlace lists such inputs, the best first. Each has as many bytes as output 0 when it is one,
	// and must then not be another operand of the call as well.
	InPlace() []int
}

// Moving is implemented by kernels that only move elements, such as Concat and Split.
type Moving interface {
	// Stretches lists the moves whose elements follow each other in input and output alike.
	Stretches() []Stretch
	// Without returns the kernel that leaves these moves out, nil when there is no other.
	Without(moves []int) Kernel
}

// Stretch is a move of bytes: those of an input from From on become those of an output from To on.
type Stretch struct {
	Move            int // its number among the kernel's
	In, Out         int
	From, To, Bytes int64
}

// first is embedded by kernels that may write over input 0.
type first struct{}

// InPlace implements [InPlace].
func (first) InPlace() []int { return []int{0} }

// Binding is the memory of one task. In and Out are those of the call, nil where an operand is
// absent; their bytes stay where they are for the life of the task, except that a tensor whose
// shape depends on data is set anew by each run.
type Binding struct {
	In, Out []*tensor.Tensor
	Packed  []byte // what Pack wrote
	Scratch []byte // ScratchBytes, aligned to 64, contents undefined at each run
	Workers int    // upper bound of the worker numbers that Chunk sees
}

// Task is a kernel bound to memory. One goroutine runs it at a time.
type Task interface {
	// Run computes the outputs from the inputs. In steady state it allocates nothing on the Go
	// heap, except for the reference evaluation.
	Run(x *Exec) error
}

// Exec is what a running task may use. One goroutine owns it.
type Exec struct {
	Ctx  context.Context
	Gate device.Gate
	Pool *Pool
	// Memory grants the bytes of values whose shape depends on data; nil grants everything. Dynamic
	// counts those of this run, which the owner of the Exec releases when the run is over.
	Memory  Memory
	Dynamic int64
}

// Memory grants and takes back bytes of a job's memory. Reserve's error names the job, what it
// wants and its cap.
type Memory interface {
	Reserve(bytes int64) error
	Release(bytes int64)
}

// For runs chunks 0 to n-1 of r on the pool, under the gate.
func (x *Exec) For(n int, r Region) error {
	return x.Pool.Run(x.Ctx, x.Gate, n, r)
}

// Pass gives the device to another job if the lease was asked back, and waits for the next lease.
// It fails when the context is done.
func (x *Exec) Pass() error {
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	if x.Gate.Revoked() {
		return x.Gate.Renew(x.Ctx)
	}
	return nil
}

// Reserve asks for the bytes of a value whose shape, or the length of whose strings, depends on
// data.
func (x *Exec) Reserve(bytes int64) error {
	if x.Memory != nil {
		if err := x.Memory.Reserve(bytes); err != nil {
			return fmt.Errorf("a value whose shape depends on data: %w", err)
		}
	}
	x.Dynamic += bytes
	return nil
}

// Release gives back, before the run is over, bytes that were asked for.
func (x *Exec) Release(bytes int64) {
	if x.Memory != nil {
		x.Memory.Release(bytes)
	}
	x.Dynamic -= bytes
}

// Result is where a task puts one output of its own making: planned memory, or, for a value whose
// shape depends on data, memory of the Go heap, which the next run lets go of.
type Result struct {
	*tensor.Tensor
	planned bool
}

// NewResult takes an output of a [Binding]: one with memory is planned, one without depends on
// data.
func NewResult(t *tensor.Tensor) Result {
	return Result{t, t != nil && (t.Data != nil || t.Strings != nil)}
}

// Planned reports whether the memory of the result is planned.
func (r Result) Planned() bool { return r.planned }

// ErrPlan is the kind of error about a result that is not of the type and shape that was planned
// for it.
var ErrPlan = errors.New("not what was planned")

// Shape makes room for a result of that type and shape, whose contents are then undefined. It fails
// with ErrPlan, and with what [Exec.Reserve] says.
func (r Result) Shape(x *Exec, d tensor.DType, shape []int) error {
	if r.planned {
		if r.DType != d || !sameShape(r.Tensor.Shape, shape) {
			return fmt.Errorf(
				"%w: got %v%v, planned %v%v",
				ErrPlan,
				d,
				slices.Clone(shape),
				r.DType,
				r.Tensor.Shape,
			)
		}
		return nil
	}
	n, err := tensor.ByteCount(d, shape)
	if err != nil {
		return err
	}
	if err := x.Reserve(int64(n)); err != nil {
		return err
	}
	v, err := tensor.New(d, shape...)
	if err != nil {
		return err
	}
	*r.Tensor = *v
	return nil
}

// Deliver makes the value of src the result. The bytes of a tensor are copied; the items of a
// sequence, optional or map are shared, and must not lie in memory that is used for anything else
// before the next run.
func (r Result) Deliver(x *Exec, src *tensor.Tensor) error {
	if src.DType.IsContainer() {
		*r.Tensor = tensor.Tensor{DType: src.DType, Shape: src.Shape, Items: src.Items}
		return nil
	}
	if err := r.Shape(x, src.DType, src.Shape); err != nil {
		return err
	}
	copy(r.Data, src.Data)
	copy(r.Strings, src.Strings)
	return nil
}

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Request is a call to be prepared. Every type is static; Const is set on inputs that are constant.
type Request struct {
	Call    *op.Call
	In, Out []op.Type
	// Choices, when not nil, decide where a kernel has several ways.
	Choices Choices
}

// in returns the static shape and type of input i; ok is false when it is absent.
func (r *Request) in(i int) (shape []int, d tensor.DType, ok bool) {
	if i < 0 || i >= len(r.In) || r.In[i].DType == tensor.Undefined {
		return nil, 0, false
	}
	shape, ok = r.In[i].Ints()
	return shape, r.In[i].DType, ok
}

// constant returns input i when it is a constant, nil otherwise.
func (r *Request) constant(i int) *tensor.Tensor {
	if i >= len(r.In) {
		return nil
	}
	return r.In[i].Const
}

// allFloat32 reports whether the first n inputs (all when n < 0) that are present and output 0 are
// float32.
func (r *Request) allFloat32(n int) bool {
	for i, t := range r.In {
		if n >= 0 && i >= n {
			break
		}
		if t.DType != tensor.Float32 && t.DType != tensor.Undefined {
			return false
		}
	}
	return r.Out[0].DType == tensor.Float32
}

// inputsAre reports whether all inputs are there and of type d.
func (r *Request) inputsAre(d tensor.DType) bool {
	for _, t := range r.In {
		if t.DType != d {
			return false
		}
	}
	return true
}

// outShape returns the static shape of output 0.
func (r *Request) outShape() []int {
	s, _ := r.Out[0].Ints()
	return s
}

// builder prepares a call, or returns nil when it has no kernel for these types, and the reference
// serves.
type builder func(r *Request) (Kernel, error)

type opKey struct{ domain, name string }

// Prepare returns the fastest kernel that this package has for the call, nil when it has none.
func Prepare(r *Request) (Kernel, error) {
	for _, t := range append(r.In[:len(r.In):len(r.In)], r.Out...) {
		if t.DType != tensor.Undefined && !t.Static() {
			return nil, nil
		}
	}
	b := builders()[opKey{r.Call.Domain, r.Call.Type}]
	if b == nil || r.emptyOutputs() {
		return nil, nil
	}
	k, err := b(r)
	switch {
	case errors.Is(err, op.ErrAttr), errors.Is(err, op.ErrInput): // which name the call
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.Call.Name(), err)
	}
	return k, nil
}

// emptyOutputs reports whether no output that is asked for has elements: the reference serves,
// which checks the inputs.
func (r *Request) emptyOutputs() bool {
	for _, t := range r.Out {
		if shape, ok := t.Ints(); ok && t.DType != tensor.Undefined && count(shape) > 0 {
			return false
		}
	}
	return true
}

// plain is embedded by kernels that repack nothing and need no scratch.
type plain struct{}

// PackedBytes implements Kernel.
func (plain) PackedBytes() int { return 0 }

// Pack implements Kernel.
func (plain) Pack([]byte) {}

// ScratchBytes implements Kernel.
func (plain) ScratchBytes(int) int { return 0 }
