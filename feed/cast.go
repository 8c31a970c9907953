package feed

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/tensor"
)

// castable reports whether numbers of a type are converted.
func castable(d tensor.DType) bool {
	return d == tensor.Bool || d.IsInteger() && !d.Packed() || d == tensor.Float32 ||
		d == tensor.Float64 || d == tensor.Float16 || d == tensor.BFloat16
}

// Cast converts the elements of t to a type. Floats are rounded; an integer type refuses what
// it does not hold.
func Cast(t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if t.DType == d {
		return t, nil
	}
	if !castable(t.DType) || !castable(d) {
		return nil, fmt.Errorf("%v cannot be made %v", t.DType, d)
	}
	out, err := tensor.New(d, t.Shape...)
	if err != nil {
		return nil, err
	}
	if d.IsFloat() {
		values, err := t.Floats()
		fillFloats(out, values)
		return out, err
	}
	ints, err := intsWithin(t, d)
	if err != nil {
		return nil, err
	}
	fillInts(out, ints)
	return out, nil
}

// intsWithin are the elements of t as integers, all of which a type holds.
func intsWithin(t *tensor.Tensor, d tensor.DType) ([]int64, error) {
	ints, err := integers(t)
	if err != nil {
		return nil, err
	}
	low, high := intRange(d)
	for i, v := range ints {
		if v < low || v > high {
			return nil, fmt.Errorf("element %d is %d, %v holds %d to %d", i, v, d, low, high)
		}
	}
	return ints, nil
}

// integers returns the elements as integers, all of which they must be.
func integers(t *tensor.Tensor) ([]int64, error) {
	if !t.DType.IsFloat() {
		return t.Ints()
	}
	values, err := t.Floats()
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(values))
	for i, v := range values {
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return nil, fmt.Errorf("element %d is %v, no integer", i, v)
		}
		out[i] = int64(v)
	}
	return out, nil
}

// intRange is what an integer type holds, of uint64 what an int64 holds, too.
func intRange(d tensor.DType) (low, high int64) {
	switch bits := d.Bits(); {
	case d == tensor.Bool:
		return 0, 1
	case d.IsSigned():
		return -1 << (bits - 1), 1<<(bits-1) - 1
	case bits == 64:
		return 0, math.MaxInt64
	default:
		return 0, 1<<bits - 1
	}
}

func fillFloats(out *tensor.Tensor, values []float64) {
	switch out.DType {
	case tensor.Float64:
		copy(tensor.As[float64](out), values)
	case tensor.Float32:
		for i, v := range values {
			tensor.As[float32](out)[i] = float32(v)
		}
	case tensor.Float16:
		for i, v := range values {
			tensor.As[tensor.Half](out)[i] = tensor.HalfOf(float32(v))
		}
	case tensor.BFloat16:
		for i, v := range values {
			tensor.As[tensor.BHalf](out)[i] = tensor.BHalfOf(float32(v))
		}
	}
}

// fillInts writes integers that the type holds, in two's complement from the lowest byte up.
func fillInts(out *tensor.Tensor, values []int64) {
	size := out.DType.Size()
	for i, v := range values {
		for k := range size {
			out.Data[i*size+k] = byte(v >> (8 * k))
		}
	}
}
