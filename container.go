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
func NewMap[K Key, V tensor.Elem](m map[K]V) *Tensor {
	keys := slices.Sorted(maps.Keys(m))
	values := make([]V, len(keys))
	for i, k := range keys {
		values[i] = m[k]
	}
	out, err := tensor.NewMap(keyTensor(keys), tensor.From(values, len(values)))
	if err != nil {
		panic(err) // keys and values are made here, one for one
	}
	return out
}

// keyTensor wraps keys as a vector.
func keyTensor[K Key](keys []K) *Tensor {
	if texts, ok := any(keys).([]string); ok {
		return tensor.FromStrings(texts, len(texts))
	}
	return tensor.From(any(keys).([]int64), len(keys))
}

// Items returns the values of a sequence in order, or the value of an optional, if it holds one.
// They are valid as long as t is, and must not be written. Items fails with an error of kind
// [ErrInput] when t is nil, or is neither a sequence nor an optional.
func Items(t *Tensor) ([]*Tensor, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such value", ErrInput)
	}
	if t.DType != tensor.Sequence && t.DType != tensor.Optional {
		return nil, fmt.Errorf("%w: the value is a %v, not a sequence or optional", ErrInput,
			t.DType)
	}
	return t.Items, nil
}

// Map returns the pairs of a map in a new Go map. It fails with an error of kind [ErrInput] when t
// is nil, when it is not a map, and when its keys or values are of other types than K and V.
//
//	// one a row, as classifiers from scikit-learn have it
//	rows, err := weir.Items(out.Output("output_probability"))
//	if err != nil { ... }
//	probability, err := weir.Map[int64, float32](rows[0])
func Map[K Key, V tensor.Elem](t *Tensor) (map[K]V, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such value", ErrInput)
	}
	if t.DType != tensor.Map {
		return nil, fmt.Errorf("%w: the value is a %v, not a map", ErrInput, t.DType)
	}
	values, err := Data[V](t.Values())
	if err != nil {
		return nil, fmt.Errorf("values of the map: %w", err)
	}
	keys, ok := keysOf(t).([]K)
	if !ok {
		return nil, fmt.Errorf("%w: the keys of the map are %v, not %T", ErrInput, t.Keys().DType,
			*new(K))
	}
	m := make(map[K]V, len(keys))
	for i, k := range keys {
		m[k] = values[i]
	}
	return m, nil
}

// keysOf returns the keys of a map as a slice of their Go type, nil for types that [Key] does not
// have.
func keysOf(t *Tensor) any {
	switch k := t.Keys(); k.DType {
	case tensor.String:
		return k.Strings
	case tensor.Int64:
		return tensor.As[int64](k)
	}
	return nil
}
