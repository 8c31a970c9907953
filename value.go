package weir

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// Tensor is a value of a model: a dense row-major array or, since ONNX has values that are not
// arrays, a sequence or optional ([NewSequence], [NewOptional], [Items]) or a map ([NewMap],
// [Map]). See package tensor for its fields.
type Tensor = tensor.Tensor

// Elem are the Go types of elements: those of tensor.Elem, and string.
type Elem = tensor.Element

// Inputs are the values of one run by input name.
type Inputs map[string]*Tensor

// NewTensor wraps data, without a copy, as a tensor; without a shape, as a scalar of one element.
// It fails with an error of kind [ErrInput] when the shape does not have len(data) elements.
func NewTensor[T Elem](data []T, shape ...int) (*Tensor, error) {
	t, err := tensor.Wrap(data, shape...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return t, nil
}

// Data returns the elements of t without a copy: valid as long as t is. It fails with an error of
// kind [ErrOutput] when t is nil, holds another type, or has not the elements that its shape says.
func Data[T Elem](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such tensor", ErrOutput)
	}
	data, err := tensor.Elements[T](t)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOutput, err)
	}
	return data, nil
}

// Output returns the elements of the output of that name without a copy: valid until the result is
// closed, and not to be written. It fails with an error of kind [ErrOutput] when the model has no
// such output, when that holds another type, and when the result is closed.
func Output[T Elem](r Result, name string) ([]T, error) {
	t := r.Output(name)
	if t == nil {
		return nil, r.missing(name)
	}
	data, err := Data[T](t)
	if err != nil {
		return nil, fmt.Errorf("output %q: %w", name, err)
	}
	return data, nil
}

// missing says why there is no output of a name.
func (r Result) missing(name string) error {
	if !r.live() {
		return fmt.Errorf("%w: output %q of a result that is closed, or of a Run that failed",
			ErrOutput, name)
	}
	var names []string
	for _, v := range r.slot.variant.model.graph.Outputs {
		names = append(names, v.Name)
	}
	return fmt.Errorf("%w: the model has no output %q; it gives %s", ErrOutput, name,
		strings.Join(names, ", "))
}

// Metadata is what a model says of itself: producer, version, operator sets, properties and so on.
// See package onnx for its fields.
type Metadata = onnx.Metadata

// ValueInfo describes an input or output.
type ValueInfo struct {
	Name string
	Type Type
}

// Type is the type of a value. It prints as "float32[N,3,224,224]", symbolic dimensions by name, or
// as "sequence(map(int64, float32[]))" when it is no tensor.
type Type struct {
	// DType is the type of a tensor's elements, or tensor.Sequence, tensor.Optional or tensor.Map.
	DType tensor.DType
	// Shape are the dimensions of a tensor; nil when the model does not declare how many it has,
	// empty for a scalar.
	Shape []Dim
	// Elem is the type of the values of a sequence, optional or map, nil when the model does not
	// declare it and for a tensor. Key is the type of a map's keys.
	Elem *Type
	Key  tensor.DType

	text string
}

// Dim is a dimension: Size is -1 when each Run may have another, and Name then what the model calls
// it, "" for nothing.
type Dim struct {
	Size int
	Name string
}

// String implements fmt.Stringer.
func (t Type) String() string { return t.text }

// describe tells of values for those who use the model.
func describe(vs []*graph.Value) []ValueInfo {
	out := make([]ValueInfo, len(vs))
	for i, v := range vs {
		out[i] = ValueInfo{Name: v.Name, Type: typeOf(v.Type)}
	}
	return out
}

func typeOf(o op.Type) Type {
	t := Type{DType: o.DType, Key: o.Key, text: o.String()}
	if o.Elem != nil {
		elem := typeOf(*o.Elem)
		t.Elem = &elem
	}
	if !o.Ranked || o.DType.IsContainer() {
		return t
	}
	t.Shape = make([]Dim, len(o.Shape))
	for i, d := range o.Shape {
		t.Shape[i] = Dim{Size: -1}
		if n, known := d.Int(); known {
			t.Shape[i].Size = n
		} else if !d.IsUnknown() {
			t.Shape[i].Name = d.String()
		}
	}
	return t
}
