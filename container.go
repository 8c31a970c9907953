package weir

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// NewSequence wraps values, without a copy, as a value of ONNX's type sequence. They are all of one
// type; shapes may differ.
func NewSequence(values ...*Tensor) *Tensor { return tensor.NewSequence(values...) }

// NewOptional wraps a value, without a copy, as a value of ONNX's type optional; nil makes one that
// holds nothing.
func NewOptional(value *Tensor) *Tensor { return tensor.NewOptional(value) }

// Key are the types of the keys of maps.
type Key interface{ string | int64 }

// NewMap makes a value of ONNX's type map from a copy of m. The pairs stand in ascending order of
// their keys.
func NewMap[K Key, V Elem](m map[K]V) *Tensor {
	keys := slices.Sorted(maps.Keys(m))
	values := make([]V, len(keys))
	for i, k := range keys {
		values[i] = m[k]
	}
	return &Tensor{DType: tensor.Map, Shape: []int{len(keys)},
		Items: []*Tensor{vector(keys), vector(values)}}
}

// vector wraps elements as a tensor of one dimension.
func vector[T Elem](data []T) *Tensor {
	t, err := tensor.Wrap(data, len(data))
	if err != nil {
		panic(err) // every slice is of its own length
	}
	return t
}

// Items returns the values of a sequence in order, or the value of an optional, if it holds one.
// They are valid as long as t is, and must not be written. Items fails with an error of kind
// [ErrOutput] when t is nil, or is neither a sequence nor an optional.
func Items(t *Tensor) ([]*Tensor, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such value", ErrOutput)
	}
	if t.DType != tensor.Sequence && t.DType != tensor.Optional {
		return nil, fmt.Errorf("%w: the value is a %v, not a sequence or optional", ErrOutput,
			t.DType)
	}
	return t.Items, nil
}

// Map returns the pairs of a map in a new Go map. It fails with an error of kind [ErrOutput] when t
// is nil, when it is not a map, and when its keys or values are of other types than K and V.
//
//	// one a row, as classifiers from scikit-learn have it
//	rows, err := weir.Items(out.Output("output_probability"))
//	if err != nil { ... }
//	probability, err := weir.Map[int64, float32](rows[0])
func Map[K Key, V Elem](t *Tensor) (map[K]V, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such value", ErrOutput)
	}
	if t.DType != tensor.Map {
		return nil, fmt.Errorf("%w: the value is a %v, not a map", ErrOutput, t.DType)
	}
	values, err := Data[V](t.Values())
	if err != nil {
		return nil, fmt.Errorf("values of the map: %w", err)
	}
	keys, err := Data[K](t.Keys())
	if err != nil {
		return nil, fmt.Errorf("keys of the map: %w", err)
	}
	m := make(map[K]V, len(keys))
	for i, k := range keys {
		m[k] = values[i]
	}
	return m, nil
}
