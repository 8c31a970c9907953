package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// Type is what is known of a value before it is computed. The zero Type knows nothing.
type Type struct {
	DType  tensor.DType // tensor.Undefined: not known
	Ranked bool         // whether Shape is meaningful; a ranked empty Shape is a scalar
	Shape  []Dim

	// Elems holds the elements of a small tensor of int32, int64 or bool (0 and 1) and of rank 0 or
	// 1 as expressions, so that the shape arithmetic which exporters write (Shape, Gather, Concat,
	// Mul, Reshape, the Equal before an If) resolves with symbolic dimensions. nil: not known.
	Elems []Dim

	// Const is the value itself when it is a constant; it belongs to the graph and must not be
	// written.
	Const *tensor.Tensor

	// Elem is the type of every value that a sequence or optional holds, and the type of the values
	// of a map; nil when it is not known. Dimensions that are not the same for all values are
	// Unknown in it.
	Elem *Type
	// Key is the type of a map's keys.
	Key tensor.DType
}

// MaxElems bounds the length of Type.Elems: shapes are short, and a longer tensor is data rather
// than a shape.
const MaxElems = 64

// elemTypes are the element types that Type.Elems is kept for.
var elemTypes = SetOf(tensor.Int64, tensor.Int32, tensor.Bool)

// SequenceOf is the type of sequences of values of a type.
func SequenceOf(elem Type) Type { return Type{DType: tensor.Sequence, Elem: elem.held()} }

// OptionalOf is the type of optional values of a type.
func OptionalOf(elem Type) Type { return Type{DType: tensor.Optional, Elem: elem.held()} }

// MapOf is the type of maps.
func MapOf(key tensor.DType, value Type) Type {
	return Type{DType: tensor.Map, Key: key, Elem: value.held()}
}

// held returns the type as it stands in a container's Elem, which is without contents; nil when
// nothing else is known.
func (t Type) held() *Type {
	if t = t.withoutContents(); t.IsZero() {
		return nil
	}
	return &t
}

// withoutContents returns the type without the contents of the value: what stays true of a value
// that a loop carries while its contents change.
//
//go:noinline
func (t Type) withoutContents() Type {
	t.Const, t.Elems = nil, nil
	return t
}

// IsZero reports whether nothing is known.
func (t Type) IsZero() bool { return t.DType == tensor.Undefined && !t.Ranked }

// Item returns the type of a value that is taken out of a container. Symbolic dimensions become
// Unknown in it, since the values of a container may have different sizes where the container's
// type has a single symbol.
func (t Type) Item() Type {
	if t.Elem == nil {
		return Type{}
	}
	e := *t.Elem
	e.Shape = slices.Clone(e.Shape)
	for i, d := range e.Shape {
		if _, ok := d.Int(); !ok {
			e.Shape[i] = Unknown()
		}
	}
	return e
}

// Ranked makes a type with a shape.
//
//go:noinline
func Ranked(d tensor.DType, shape ...Dim) Type {
	if shape == nil {
		shape = []Dim{}
	}
	return Type{DType: d, Ranked: true, Shape: shape}
}

// Unranked makes a type of which only the element type is known.
//
//go:noinline
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

// ValueType returns the type of a value without its contents. For a container, Elem states what is
// the same for all values that it holds.
func ValueType(t *tensor.Tensor) Type {
	switch t.DType {
	case tensor.Sequence, tensor.Optional:
		ty := Type{DType: t.DType}
		for i, v := range t.Items {
			e := ValueType(v)
			if i > 0 {
				e, _ = joined(*ty.Elem, e)
			}
			ty.Elem = &e
		}
		return ty
	case tensor.Map:
		return MapOf(t.Keys().DType, Ranked(t.Values().DType))
	}
	return Concrete(t.DType, t.Shape...)
}

// TypeOf returns the type of a constant, its elements included when it is a small tensor of a type
// that holds them.
//
//go:noinline
func TypeOf(t *tensor.Tensor) Type {
	if t.DType.IsContainer() {
		ty := ValueType(t)
		ty.Const = t
		return ty
	}
	ty := Concrete(t.DType, t.Shape...)
	ty.Const = t
	if elemTypes.Has(t.DType) && t.Rank() <= 1 && t.Len() <= MaxElems {
		ints, _ := t.Ints()
		ty.Elems = make([]Dim, len(ints))
		for i, v := range ints {
			ty.Elems[i] = Known(int(v))
		}
	}
	return ty
}

// wrapElems wraps the known elements of an int32 tensor around as arithmetic on 32 bits does, since
// expressions are computed on 64 bits. Symbolic elements stay: symbols are sizes, which fit into
// either.
func (t *Type) wrapElems() {
	wraps := func(e Dim) bool {
		n, known := e.Int()
		return known && int(int32(n)) != n
	}
	if t.DType != tensor.Int32 || !slices.ContainsFunc(t.Elems, wraps) {
		return
	}
	t.Elems = slices.Clone(t.Elems)
	for i, e := range t.Elems {
		if wraps(e) {
			t.Elems[i] = Known(int(int32(e.c)))
		}
	}
}

// Ints returns the shape as sizes when it is ranked and every dimension is known.
func (t Type) Ints() ([]int, bool) {
	if !t.Ranked {
		return nil, false
	}
	return knownInts(t.Shape)
}

// knownInts returns dimensions as integers when every one is known.
//
//go:noinline
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

// String prints "float32[N,3,224,224]", "int64[]" for a scalar, "float32[...]" for an unknown rank,
// "sequence(float32[N])" and "map(string, float32[])" for containers.
func (t Type) String() string { return t.Text(Dim.String) }

// Text prints the type like [Type.String], dimensions by the given function.
func (t Type) Text(dim func(Dim) string) string {
	if t.DType.IsContainer() {
		var elem Type
		if t.Elem != nil {
			elem = *t.Elem
		}
		if t.DType == tensor.Map {
			return t.DType.String() + "(" + t.Key.String() + ", " + elem.Text(dim) + ")"
		}
		return t.DType.String() + "(" + elem.Text(dim) + ")"
	}
	if !t.Ranked {
		return t.DType.String() + "[...]"
	}
	parts := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		parts[i] = dim(d)
	}
	return t.DType.String() + "[" + strings.Join(parts, ",") + "]"
}

// Admits fails with [ErrInput] when v is of another element type than t, or holds values that are.
// Shapes are not compared.
func (t Type) Admits(v *tensor.Tensor) error {
	if t.DType == tensor.Undefined {
		return nil
	}
	if v.DType != t.DType {
		return fmt.Errorf("%w: a value of type %v where %v is wanted", ErrInput, v.DType, t)
	}
	if v.DType == tensor.Map {
		if t.Key != tensor.Undefined && v.Keys().DType != t.Key {
			return fmt.Errorf("%w: a map with keys of %v where %v is wanted", ErrInput,
				v.Keys().DType, t)
		}
		v = tensor.NewSequence(v.Values())
	}
	if t.Elem == nil {
		return nil
	}
	for i, item := range v.Items {
		if err := t.Elem.Admits(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// Fit returns the shape in which an input of type t takes a tensor of the given shape. This is the
// given shape itself, except that a scalar input takes a tensor of one element of any rank as a
// scalar, as ONNX Runtime does. Fit fails with [ErrInput] when t declares another rank or another
// size.
func (t Type) Fit(shape []int) ([]int, error) {
	if !t.Ranked {
		return shape, nil
	}
	if len(t.Shape) == 0 && isOneElement(shape) {
		return []int{}, nil
	}
	if len(shape) != len(t.Shape) {
		return nil, fmt.Errorf("%w: given shape %v of rank %d, the model takes %v of rank %d",
			ErrInput, shape, len(shape), t, len(t.Shape))
	}
	for i, d := range t.Shape {
		if n, ok := d.Int(); ok && n != shape[i] {
			return nil, fmt.Errorf("%w: given shape %v, the model takes %v: dimension %d is %d, "+
				"want %d", ErrInput, shape, t, i, shape[i], n)
		}
	}
	return shape, nil
}

func isOneElement(shape []int) bool {
	for _, n := range shape {
		if n != 1 {
			return false
		}
	}
	return true
}

// Identical reports whether two types say the same, contents included, so that what was inferred
// from one holds for the other.
func (t Type) Identical(u Type) bool {
	return t.Equal(u) && t.Const == u.Const && (t.Elems == nil) == (u.Elems == nil) &&
		slices.EqualFunc(t.Elems, u.Elems, Dim.Equal)
}

// Equal reports whether element type, rank and every dimension agree, of containers also the types
// of what they hold; contents are not compared.
func (t Type) Equal(u Type) bool { return t.same(u, Dim.Equal) }

func (t Type) same(u Type, dims func(a, b Dim) bool) bool {
	if t.DType != u.DType || t.Key != u.Key || (t.Elem == nil) != (u.Elem == nil) ||
		t.Elem != nil && !t.Elem.same(*u.Elem, dims) {
		return false
	}
	return t.Ranked == u.Ranked && slices.EqualFunc(t.Shape, u.Shape, dims)
}

// TypeOnly returns what remains of a type when its shapes, also those of what a container holds,
// are forgotten.
func (t Type) TypeOnly() Type {
	out := Type{DType: t.DType, Key: t.Key}
	if t.Elem != nil {
		e := t.Elem.TypeOnly()
		out.Elem = &e
	}
	return out
}

// joined returns what is certain of a value that has type a or type b; false when their element
// types differ. When the element type of one is not known, it does not count as different.
func joined(a, b Type) (Type, bool) {
	switch {
	case a.DType == tensor.Undefined:
		a.DType, a.Key = b.DType, b.Key
		if a.DType.IsContainer() {
			return Type{DType: b.DType, Key: b.Key, Elem: b.Elem}, true
		}
	case b.DType == tensor.Undefined:
		b.DType = a.DType
		if a.DType.IsContainer() {
			b = a
		}
	case a.DType != b.DType:
		return Type{}, false
	}
	if a.DType.IsContainer() {
		return joinedContainers(a, b)
	}
	if !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return Unranked(a.DType), true
	}
	return Ranked(a.DType, joinedDims(a.Shape, b.Shape)...), true
}

// joinedDims are the dimensions that two shapes of one rank agree on, Unknown where they differ.
func joinedDims(a, b []Dim) []Dim {
	shape := make([]Dim, len(a))
	for k := range shape {
		if shape[k] = Unknown(); a[k].Equal(b[k]) {
			shape[k] = a[k]
		}
	}
	return shape
}

func joinedContainers(a, b Type) (Type, bool) {
	switch {
	case a.Key != b.Key:
		return Type{}, false
	case b.Elem == nil:
		return a, true
	case a.Elem == nil:
		return b, true
	}
	elem, ok := joined(*a.Elem, *b.Elem)
	return Type{DType: a.DType, Key: a.Key, Elem: elem.held()}, ok
}

// Elements returns the number of elements of a concrete type, 0 when it is not concrete.
func (t Type) Elements() int64 {
	n, ok := t.Count().Int()
	if !ok || !t.Ranked {
		return 0
	}
	return int64(n)
}
