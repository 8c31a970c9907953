package compute

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Result is where a task puts an output that it makes itself: planned memory, or, for a value whose
// shape depends on data, memory of the Go heap, which the next run releases.
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
		if r.DType != d || !slices.Equal(r.Tensor.Shape, shape) {
			return fmt.Errorf("%w: got %v%v, planned %v%v", ErrPlan, d, slices.Clone(shape),
				r.DType, r.Tensor.Shape)
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

// Deliver makes the value of src the result. It copies the bytes of a tensor; it shares the items
// of a sequence, optional or map, which must therefore not lie in memory that is used for anything
// else before the next run.
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
