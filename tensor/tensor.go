package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

var (
	// ErrShape is the kind of every error about a shape that cannot be: negative, too large, or not
	// matching the data.
	ErrShape = errors.New("bad shape")
	// ErrDType is the kind of every error about an element type that is unknown or not the one
	// asked for.
	ErrDType = errors.New("bad element type")
)

// Tensor is a dense, contiguous, row-major array.
//
// For every type but String, Data holds the elements in little-endian order, and len(Data) is what
// [ByteCount] says. Elements of 2 or 4 bits are packed from the lowest bits of each byte up,
// without a gap at the end of a row; bits of the last byte that hold no element are meaningless.
// For String, Data is nil and Strings holds one string an element. A scalar has an empty Shape and
// one element.
//
// A value of a container type ([Sequence], [Optional], [Map]) has neither Data nor Strings: it
// holds other values in Items. Tensors and containers share one struct because the code that passes
// values on, from files to plans, need not know which of them a value is.
type Tensor struct {
	DType   DType
	Shape   []int
	Data    []byte
	Strings []string
	Items   []*Tensor
}

// Elem are the Go types that mirror an element type bit for bit.
type Elem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool |
		Half | BHalf |
		complex64 | complex128
}

// Element are the Go types of the elements of tensors: those of [Elem], and string.
type Element interface{ Elem | string }

// DTypeOf returns the element type that T mirrors, String for string.
func DTypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case string:
		return String
	case float32:
		return Float32
	case float64:
		return Float64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case bool:
		return Bool
	case Half:
		return Float16
	case BHalf:
		return BFloat16
	case complex64:
		return Complex64
	}
	return Complex128
}

// Count returns the number of elements of a shape. It fails with [ErrShape] when a dimension is
// negative or the product does not fit an int; a zero dimension gives zero elements, whatever the
// others are.
func Count(shape []int) (int, error) {
	n := uint64(1)
	zero, over := false, false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("%w: %v has a negative dimension", ErrShape, shape)
		}
		if d == 0 {
			zero = true
		}
		hi, lo := bits.Mul64(n, uint64(d))
		over = over || hi != 0 || lo > math.MaxInt
		n = lo
	}
	if zero {
		return 0, nil
	}
	if over {
		return 0, fmt.Errorf("%w: %v has more elements than an address space", ErrShape, shape)
	}
	return int(n), nil
}

// ByteCount returns the bytes that a tensor of this type and shape needs, with the checks of
// [Count]; for String it counts 16 bytes an element, the size of a Go string header.
func ByteCount(d DType, shape []int) (int, error) {
	n, err := Count(shape)
	if err != nil {
		return 0, err
	}
	size := d.Size()
	switch {
	case d == String:
		size = 16
	case d.Packed():
		per := 8 / d.Bits()
		return n/per + (n%per+per-1)/per, nil
	}
	if size > 0 && n > math.MaxInt/size {
		return 0, fmt.Errorf("%w: %v of %v has more bytes than an address space", ErrShape, shape,
			d)
	}
	return n * size, nil
}

// MaxHeapBytes bounds one tensor made by [New]: a larger one is a broken model or a bug, never a
// real request.
const MaxHeapBytes = 1 << 36

// New makes a zeroed tensor on the Go heap. Shape is copied.
func New(d DType, shape ...int) (*Tensor, error) {
	if !d.Valid() {
		return nil, fmt.Errorf("%w: cannot make a tensor of %v", ErrDType, d)
	}
	n, err := ByteCount(d, shape)
	if err != nil {
		return nil, err
	}
	if int64(n) > MaxHeapBytes {
		return nil, fmt.Errorf("%w: %v%v needs %d bytes, limit %d", ErrShape, d, shape, n,
			int64(MaxHeapBytes))
	}
	t := &Tensor{DType: d, Shape: slices.Clone(shape)}
	if t.Shape == nil {
		t.Shape = []int{}
	}
	if d == String {
		t.Strings = make([]string, n/16)
	} else {
		t.Data = alignedBytes(n)
	}
	return t, nil
}

// From wraps data, without a copy, as a tensor of the given shape; no shape means a scalar of one
// element. It panics if the count differs from len(data), which is the caller's mistake.
func From[T Elem](data []T, shape ...int) *Tensor {
	n, err := Count(shape)
	if err != nil || n != len(data) {
		panic(fmt.Sprintf("tensor.From: %d elements for shape %v", len(data), shape))
	}
	return &Tensor{DType: DTypeOf[T](), Shape: append([]int{}, shape...), Data: bytesOf(data)}
}

// Wrap is [From] and [FromStrings] for data whose length the caller does not answer for: it fails
// with [ErrShape] on a wrong count.
func Wrap[T Element](data []T, shape ...int) (*Tensor, error) {
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if n != len(data) {
		return nil, fmt.Errorf("%w: %v has %d elements, given %d", ErrShape, shape, n, len(data))
	}
	t := &Tensor{DType: DTypeOf[T](), Shape: append([]int{}, shape...)}
	if t.DType == String {
		t.Strings = any(data).([]string)
	} else {
		t.Data = bytesOf(data)
	}
	return t, nil
}

// Elements is [As] for a tensor whose type the caller does not answer for, and for strings: it
// fails with [ErrDType] when T does not mirror t.DType, and as [Tensor.Check] when t has not the
// elements that its shape says.
func Elements[T Element](t *Tensor) ([]T, error) {
	if d := DTypeOf[T](); d != t.DType {
		return nil, fmt.Errorf("%w: the tensor holds %v, not %v", ErrDType, t.DType, d)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	if t.DType == String {
		return any(t.Strings).([]T), nil
	}
	return cast[T](t.Data), nil
}

// Scalar returns a new rank-0 tensor holding v.
func Scalar[T Elem](v T) *Tensor { return From([]T{v}) }

// FromStrings wraps strings as a String tensor; it panics like [From] on a wrong count.
func FromStrings(data []string, shape ...int) *Tensor {
	if n, err := Count(shape); err != nil || n != len(data) {
		panic(fmt.Sprintf("tensor.FromStrings: %d elements for shape %v", len(data), shape))
	}
	return &Tensor{DType: String, Shape: append([]int{}, shape...), Strings: data}
}

// Len returns the number of elements. The shape must have passed [Tensor.Check].
//
//go:noinline
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape) }

// Check reports whether type, shape and data agree, of a container also those of all that it holds.
func (t *Tensor) Check() error { return t.check(0) }

func (t *Tensor) check(depth int) error {
	if t.DType.IsContainer() {
		return t.checkItems(depth)
	}
	if !t.DType.Valid() {
		return fmt.Errorf("%w: %v", ErrDType, t.DType)
	}
	n, err := ByteCount(t.DType, t.Shape)
	if err != nil {
		return err
	}
	have := len(t.Data)
	if t.DType == String {
		have = 16 * len(t.Strings)
	}
	if have != n {
		return fmt.Errorf("%w: %v%v needs %d bytes, has %d", ErrShape, t.DType, t.Shape, n, have)
	}
	return nil
}

// Clone returns a deep copy on the Go heap.
func (t *Tensor) Clone() *Tensor {
	c := &Tensor{DType: t.DType, Shape: append([]int{}, t.Shape...),
		Strings: slices.Clone(t.Strings), Items: slices.Clone(t.Items)}
	for i, v := range c.Items {
		c.Items[i] = v.Clone()
	}
	if t.DType != String && !t.DType.IsContainer() {
		c.Data = alignedBytes(len(t.Data))
		copy(c.Data, t.Data)
	}
	return c
}

// Reshaped returns a tensor with the same bytes and another shape of the same count.
func (t *Tensor) Reshaped(shape ...int) (*Tensor, error) {
	n, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fmt.Errorf("%w: %v has %d elements, %v has %d", ErrShape, t.Shape, t.Len(),
			shape, n)
	}
	return &Tensor{DType: t.DType, Shape: append([]int{}, shape...), Data: t.Data,
		Strings: t.Strings}, nil
}

// maxShown is how many elements or items String shows.
const maxShown = 8

// String describes the type and shape, and the contents when there are at most eight elements; of a
// container the first eight items.
func (t *Tensor) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v", t.DType, t.Shape)
	if t.DType.IsContainer() {
		t.writeItems(&b)
		return b.String()
	}
	if n := t.Len(); n <= maxShown {
		b.WriteString("{")
		for i := range n {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprint(&b, t.At(i))
		}
		b.WriteString("}")
	}
	return b.String()
}

// At returns element i in row-major order as its Go type (smaller floats widened to float32,
// integers but uint64 to int64). It boxes the value and is meant for printing and tests, not for
// loops over large tensors. Of a sequence or optional it is item i, a *Tensor.
func (t *Tensor) At(i int) any {
	switch t.DType {
	case Sequence, Optional:
		return t.Items[i]
	case String:
		return t.Strings[i]
	case Bool:
		return t.Data[i] != 0
	case Float16:
		return As[Half](t)[i].Float32()
	case BFloat16:
		return As[BHalf](t)[i].Float32()
	case Float32:
		return As[float32](t)[i]
	case Float64:
		return As[float64](t)[i]
	case Complex64:
		return As[complex64](t)[i]
	case Complex128:
		return As[complex128](t)[i]
	case Uint64:
		return As[uint64](t)[i]
	}
	if t.DType.IsMinifloat() {
		return t.DType.Minifloat(t.Code(i))
	}
	return t.intAt(i)
}

func (t *Tensor) intAt(i int) int64 {
	switch t.DType {
	case Int8:
		return int64(As[int8](t)[i])
	case Int16:
		return int64(As[int16](t)[i])
	case Int32:
		return int64(As[int32](t)[i])
	case Int64:
		return As[int64](t)[i]
	case Uint8:
		return int64(t.Data[i])
	case Uint16:
		return int64(As[uint16](t)[i])
	case Uint32:
		return int64(As[uint32](t)[i])
	case Uint64:
		return int64(As[uint64](t)[i])
	case Bool:
		return int64(t.Data[i])
	case Int2, Int4:
		unused := 8 - t.DType.Bits()
		return int64(int8(t.Code(i)<<unused) >> unused)
	case Uint2, Uint4:
		return int64(t.Code(i))
	}
	return 0
}

// Ints returns the elements of an integer or Bool tensor as int64s, in row-major order, in a new
// slice. It fails with [ErrDType] for other types. Uint64 values above the int64 range wrap.
func (t *Tensor) Ints() ([]int64, error) {
	if !t.DType.IsInteger() && t.DType != Bool {
		return nil, fmt.Errorf("%w: want integers, have %v", ErrDType, t.DType)
	}
	out := make([]int64, t.Len())
	for i := range out {
		out[i] = t.intAt(i)
	}
	return out, nil
}

// Floats returns the elements of any numeric tensor as float64s in a new slice; it fails with
// [ErrDType] for others.
func (t *Tensor) Floats() ([]float64, error) {
	out := make([]float64, t.Len())
	switch t.DType {
	case Float32:
		for i, v := range As[float32](t) {
			out[i] = float64(v)
		}
	case Float64:
		copy(out, As[float64](t))
	case Float16:
		for i, v := range As[Half](t) {
			out[i] = float64(v.Float32())
		}
	case BFloat16:
		for i, v := range As[BHalf](t) {
			out[i] = float64(v.Float32())
		}
	case Uint64:
		for i, v := range As[uint64](t) {
			out[i] = float64(v)
		}
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float4E2M1:
		for i := range out {
			out[i] = float64(t.DType.Minifloat(t.Code(i)))
		}
	default:
		ints, err := t.Ints()
		if err != nil {
			return nil, err
		}
		for i, v := range ints {
			out[i] = float64(v)
		}
	}
	return out, nil
}
