package kernels

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// request is a call to be prepared, with what builders ask of it. None of that is inlined, since
// there are many builders, each of which runs once a step of a plan.
type request struct{ *compute.Request }

// in returns the static shape and type of input i; ok is false when it is absent.
//
//go:noinline
func (r *request) in(i int) (shape []int, d tensor.DType, ok bool) {
	if i < 0 || i >= len(r.In) || r.In[i].DType == tensor.Undefined {
		return nil, 0, false
	}
	shape, ok = r.In[i].Ints()
	return shape, r.In[i].DType, ok
}

// constant returns input i when it is a constant, nil otherwise.
//
//go:noinline
func (r *request) constant(i int) *tensor.Tensor {
	if i >= len(r.In) {
		return nil
	}
	return r.In[i].Const
}

// allFloat32 reports whether the first n inputs (all when n < 0) that are present and output 0 are
// float32.
//
//go:noinline
func (r *request) allFloat32(n int) bool {
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
//
//go:noinline
func (r *request) inputsAre(d tensor.DType) bool {
	for _, t := range r.In {
		if t.DType != d {
			return false
		}
	}
	return true
}

// outShape returns the static shape of output 0.
//
//go:noinline
func (r *request) outShape() []int {
	s, _ := r.Out[0].Ints()
	return s
}

// intAt returns element i of a list attribute, def where the list is shorter.
//
//go:noinline
func intAt(list []int64, i, def int) int {
	if i < len(list) {
		return int(list[i])
	}
	return def
}

// builder prepares a call, or returns nil when it has no kernel for these types, and the reference
// serves. What makes builders of parameters is not inlined: the program would have the builder's
// body once for each row of the tables.
type builder func(r *request) (compute.Kernel, error)

type opKey struct{ domain, name string }

// prepare returns the fastest kernel that this package has for the call, nil when it has none.
func prepare(q *compute.Request) (compute.Kernel, error) {
	r := &request{q}
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
//
//go:noinline
func (r *request) emptyOutputs() bool {
	for _, t := range r.Out {
		if shape, ok := t.Ints(); ok && t.DType != tensor.Undefined && count(shape) > 0 {
			return false
		}
	}
	return true
}

// plain is embedded by kernels that repack nothing and need no scratch.
type plain = compute.Unpacked

// first is embedded by kernels that may write over input 0.
type first struct{}

// InPlace implements [compute.InPlace].
func (first) InPlace() []int { return []int{0} }

// absorbed is the list of input 1 where it is a constant.
func absorbed(constant bool) []int {
	if constant {
		return []int{1}
	}
	return nil
}
