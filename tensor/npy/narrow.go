package npy

import (
	"fmt"
	"io"

	"github.com/weirgpu/weir/tensor"
)

// wider is the type that stands for d in a file: d itself where NumPy knows it.
func wider(d tensor.DType) tensor.DType {
	switch {
	case d == tensor.BFloat16 || d.IsMinifloat():
		return tensor.Float32
	case d.Packed() && d.IsSigned():
		return tensor.Int8
	case d.Packed():
		return tensor.Uint8
	}
	return d
}

// widened converts t to the type that stands for its own.
func widened(t *tensor.Tensor) (*tensor.Tensor, error) {
	d := wider(t.DType)
	if d == t.DType {
		return t, nil
	}
	out, err := tensor.New(d, t.Shape...)
	if err != nil {
		return nil, err
	}
	if d != tensor.Float32 {
		ints, err := t.Ints()
		for i, v := range ints {
			out.Data[i] = uint8(v)
		}
		return out, err
	}
	floats, err := t.Floats()
	for i, v := range floats {
		tensor.As[float32](out)[i] = float32(v)
	}
	return out, err
}

// ReadAs is [Read] for a value of type d: where d has no form of its own in a file and the file is
// of the type that [Write] writes for it, the elements are narrowed to d. Those that d does not
// hold are of kind [ErrFormat]. A file of any other type is returned as it is.
func ReadAs(r io.Reader, d tensor.DType) (*tensor.Tensor, error) {
	t, err := Read(r)
	if err != nil {
		return nil, err
	}
	return narrowed(t, d)
}

// narrowed is t as type d, if it is of the type that stands for d.
func narrowed(t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if t.DType == d || t.DType != wider(d) {
		return t, nil
	}
	out, err := tensor.New(d, t.Shape...)
	if err != nil {
		return nil, err
	}
	for i := range t.Len() {
		narrow(out, i, t)
		if got, want := out.At(i), t.At(i); got != want && (got == got || want == want) {
			return nil, fmt.Errorf("%w: element %d is %v, which %v does not hold", ErrFormat, i,
				want, d)
		}
	}
	return out, nil
}

// narrow sets element i of a tensor to what t has there, as near as it can.
func narrow(to *tensor.Tensor, i int, t *tensor.Tensor) {
	switch d := to.DType; {
	case t.DType != tensor.Float32:
		to.SetCode(i, t.Data[i])
	case d == tensor.BFloat16:
		tensor.As[tensor.BHalf](to)[i] = tensor.BHalfOf(tensor.As[float32](t)[i])
	case d == tensor.Float8E8M0:
		to.SetCode(i, tensor.E8M0Of(float64(tensor.As[float32](t)[i]), tensor.RoundNearest, false))
	default:
		to.SetCode(i, tensor.MinifloatOf(d, float64(tensor.As[float32](t)[i]), false))
	}
}
