package tensor

import (
	"fmt"
	"slices"
	"strings"
)

// The types of those ONNX values that are not tensors (TypeProto.Sequence, Optional and Map). The
// format does not number them among its element types, so their numbers here lie above all element
// types of the format.
const (
	// Sequence holds any number of values of one type, in order: Shape is [n], Items are its n
	// values.
	Sequence DType = 128 + iota
	// Optional holds one value or none: Shape is [1] or [0], Items are that value or nothing.
	Optional
	// Map holds pairs of a key and a number: Shape is [n], Items are two tensors of shape [n], the
	// keys (String or an integer type, each once) and their values.
	Map
)

var containerNames = map[DType]string{Sequence: "sequence", Optional: "optional", Map: "map"}

// MaxNesting bounds containers within containers; ONNX's own operators need three,
// optional(sequence(tensor)) counted whole.
const MaxNesting = 8

// IsContainer reports whether d is Sequence, Optional or Map: a value that holds others and no
// elements of its own.
//
//go:noinline
func (d DType) IsContainer() bool { return d >= Sequence && d <= Map }

// NewSequence wraps values as a sequence. They are shared, not copied.
func NewSequence(items ...*Tensor) *Tensor {
	return &Tensor{DType: Sequence, Shape: []int{len(items)}, Items: items}
}

// NewOptional wraps a value, which is shared, as an optional; nil makes one without a value.
func NewOptional(value *Tensor) *Tensor {
	if value == nil {
		return &Tensor{DType: Optional, Shape: []int{0}}
	}
	return &Tensor{DType: Optional, Shape: []int{1}, Items: []*Tensor{value}}
}

// NewMap wraps keys and their values, two vectors of one length, as a map. They are shared. It
// fails with [ErrDType] or [ErrShape] on others.
func NewMap(keys, values *Tensor) (*Tensor, error) {
	m := &Tensor{DType: Map, Shape: []int{0}, Items: []*Tensor{keys, values}}
	if keys != nil && len(keys.Shape) == 1 {
		m.Shape[0] = keys.Shape[0]
	}
	return m, m.Check()
}

// Keys returns the keys of a map, nil for other values.
func (t *Tensor) Keys() *Tensor { return t.half(0) }

// Values returns the values of a map in the order of its keys, nil for other values.
func (t *Tensor) Values() *Tensor { return t.half(1) }

func (t *Tensor) half(i int) *Tensor {
	if t.DType != Map || len(t.Items) != 2 {
		return nil
	}
	return t.Items[i]
}

// Size returns the bytes that a value holds, those of its items included; a string counts its
// header and its text.
func (t *Tensor) Size() int64 {
	n := int64(len(t.Data))
	for _, s := range t.Strings {
		n += 16 + int64(len(s))
	}
	for _, v := range t.Items {
		n += itemBytes + v.Size()
	}
	return n
}

// itemBytes is the header of an item and the pointer to it.
const itemBytes = 128

// Set copies the contents of v into t. Elements that lie in Data are copied into the bytes of t;
// strings and containers are copied to the Go heap. When t is a scalar, v may have any rank as long
// as it has one element. It fails with [ErrDType] or [ErrShape] when v is of another type than t,
// or, unless t is a container, of another shape.
func (t *Tensor) Set(v *Tensor) error {
	switch {
	case t.DType != v.DType:
		return fmt.Errorf("%w: given %v, want %v", ErrDType, v.DType, t.DType)
	case t.DType.IsContainer():
		c := v.Clone()
		t.Shape, t.Items = c.Shape, c.Items
		return nil
	case !t.sameShape(v) || len(t.Data) != len(v.Data):
		return fmt.Errorf("%w: given %v%v, want %v%v", ErrShape, v.DType, v.Shape, t.DType, t.Shape)
	case t.DType == String:
		t.Strings = slices.Clone(v.Strings)
	default:
		copy(t.Data, v.Data)
	}
	return nil
}

// sameShape reports whether t can be given the elements of v, as far as shapes tell.
func (t *Tensor) sameShape(v *Tensor) bool {
	return slices.Equal(t.Shape, v.Shape) || len(t.Shape) == 0 &&
		!slices.ContainsFunc(v.Shape, func(n int) bool { return n != 1 })
}

// checkItems checks a container that lies depth containers deep.
func (t *Tensor) checkItems(depth int) error {
	if depth >= MaxNesting {
		return fmt.Errorf("%w: containers nest deeper than %d", ErrDType, MaxNesting)
	}
	if len(t.Data) > 0 || len(t.Strings) > 0 {
		return fmt.Errorf("%w: a %v has elements of its own", ErrDType, t.DType)
	}
	for i, v := range t.Items {
		if v == nil {
			return fmt.Errorf("%w: item %d of a %v is nil", ErrDType, i, t.DType)
		}
		if err := v.check(depth + 1); err != nil {
			return fmt.Errorf("item %d of a %v: %w", i, t.DType, err)
		}
		if t.DType != Map && v.DType != t.Items[0].DType {
			return fmt.Errorf("%w: a %v holds %v and %v", ErrDType, t.DType, t.Items[0].DType,
				v.DType)
		}
	}
	if t.DType == Map {
		return t.checkMap()
	}
	if len(t.Shape) != 1 || t.Shape[0] != len(t.Items) || t.DType == Optional && len(t.Items) > 1 {
		return fmt.Errorf("%w: a %v of shape %v holds %d values", ErrShape, t.DType, t.Shape,
			len(t.Items))
	}
	return nil
}

func (t *Tensor) checkMap() error {
	if len(t.Items) != 2 {
		return fmt.Errorf("%w: a map has keys and values, this one has %d parts", ErrShape,
			len(t.Items))
	}
	keys, values := t.Items[0], t.Items[1]
	if keys.DType != String && !keys.DType.IsInteger() || values.DType.IsContainer() {
		return fmt.Errorf("%w: a map of %v to %v", ErrDType, keys.DType, values.DType)
	}
	if len(t.Shape) != 1 || !slices.Equal(keys.Shape, t.Shape) ||
		!slices.Equal(values.Shape, t.Shape) {
		return fmt.Errorf("%w: a map of shape %v has keys %v and values %v", ErrShape, t.Shape,
			keys.Shape, values.Shape)
	}
	return nil
}

// writeItems describes the items of a container; of a long container it describes only the first
// ones.
func (t *Tensor) writeItems(b *strings.Builder) {
	b.WriteString("{")
	n := len(t.Items)
	if t.DType == Map {
		n = t.Len()
	}
	for i := range min(n, maxShown) {
		if i > 0 {
			b.WriteString(", ")
		}
		if t.DType == Map {
			fmt.Fprintf(b, "%v: %v", t.Items[0].At(i), t.Items[1].At(i))
		} else {
			b.WriteString(t.Items[i].String())
		}
	}
	if n > maxShown {
		b.WriteString(", ...")
	}
	b.WriteString("}")
}

// sameItems compares containers value by value.
func sameItems(a, b *Tensor, same func(a, b *Tensor) error) error {
	if len(a.Items) != len(b.Items) {
		return fmt.Errorf("%w: got %d values, want %d", ErrShape, len(a.Items), len(b.Items))
	}
	for i := range a.Items {
		if err := same(a.Items[i], b.Items[i]); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}
