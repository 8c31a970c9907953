package op

import (
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// Type is what is known of a value before it is computed. The zero Type knows nothing.
type Type struct {
	DType  tensor.DType // tensor.Undefined: not known
	Ranked bool         // whether Shape is meaningful; a ranked empty Shape is a scalar
	Shape  []Dim

	// Elems holds the elements of a small tensor of int32, int64 or bool (0 and 1) and of rank 0 or 1 as expressions, so
	// that the shape arithmetic which exporters write (Shape, Gather, Concat, Mul, Reshape, the Equal before an If)
	// resolves with symbolic dimensions. nil: not known.
	Elems []Dim

	// Const is the value itself when it is a constant; it belongs to the graph and must not be written.
	Const *tensor.Tensor
}

// MaxElems bounds the length of Type.Elems: shapes are short, and data is no shape.
const MaxElems = 64

// elemTypes are the element types that Type.Elems is kept for.
var elemTypes = setOf(tensor.Int64, tensor.Int32, tensor.Bool)

// Ranked makes a type with a shape.
func Ranked(d tensor.DType, shape ...Dim) Type {
	if shape == nil {
		shape = []Dim{}
	}
	return Type{DType: d, Ranked: true, Shape: shape}
}

// Unranked makes a type of which only the element type is known.
func Unranked(d tensor.DType) Type { return Type{DType: d} }

// Concrete makes a type whose dimensions are all known.
func Concrete(d tensor.DType, shape ...int) Type { return Ranked(d, KnownDims(shape)...) }

// KnownDims converts sizes to dimensions.
func KnownDims(shape []int) []Dim {
	dims := make([]Dim, len(shape))
	for i, n := range shape {
		dims[i] = Known(n)
	}
	return dims
}

// TypeOf returns the type of a constant, its elements included when it is a small tensor of a type that holds them.
func TypeOf(t *tensor.Tensor) Type {
	ty := Concrete(t.DType, t.Shape...)
	ty.Const = t
	if elemTypes.has(t.DType) && t.Rank() <= 1 && t.Len() <= MaxElems {
		ints, _ := t.Ints()
		ty.Elems = make([]Dim, len(ints))
		for i, v := range ints {
			ty.Elems[i] = Known(int(v))
		}
	}
	return ty
}

// Ints returns the shape as sizes when it is ranked and every dimension is known.
func (t Type) Ints() ([]int, bool) {
	if !t.Ranked {
		return nil, false
	}
	return knownInts(t.Shape)
}

// knownInts returns dimensions as integers when every one is known.
func knownInts(ds []Dim) ([]int, bool) {
	out := make([]int, len(ds))
	for i, d := range ds {
		n, ok := d.Int()
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// Static reports whether type and shape are wholly known, so that memory can be planned.
func (t Type) Static() bool {
	_, ok := t.Ints()
	return ok && t.DType.Valid()
}

// IntElems returns the elements as integers when every one is known.
func (t Type) IntElems() ([]int, bool) {
	if t.Elems == nil {
		return nil, false
	}
	return knownInts(t.Elems)
}

// Count returns the number of elements as an expression, Unknown when the rank is not known.
func (t Type) Count() Dim {
	if !t.Ranked {
		return Unknown()
	}
	n := Known(1)
	for _, d := range t.Shape {
		n = n.Mul(d)
	}
	return n
}

// String prints "float32[N,3,224,224]", "int64[]" for a scalar, "float32[...]" for an unknown rank.
func (t Type) String() string {
	if !t.Ranked {
		return t.DType.String() + "[...]"
	}
	parts := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		parts[i] = d.String()
	}
	return t.DType.String() + "[" + strings.Join(parts, ",") + "]"
}

// Equal reports whether element type, rank and every dimension agree; contents are not compared.
func (t Type) Equal(u Type) bool {
	return t.DType == u.DType && t.Ranked == u.Ranked && slices.EqualFunc(t.Shape, u.Shape, Dim.Equal)
}
