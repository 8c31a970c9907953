package server

import (
	"context"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/tensor"
)

// warm computes what a version's first requests would else wait for. A model that takes no ones is
// warm as it is.
func (v *version) warm(ctx context.Context) error {
	in := weir.Inputs{}
	for name, x := range v.inputs {
		shape := []int{}
		for _, d := range x.Type.Shape {
			shape = append(shape, max(d.Size, 1))
		}
		in[name] = filled(x.Type.DType, shape, 1)
	}
	if _, _, err := v.behind(ctx, in); err != nil && ctx.Err() == nil {
		v.server.o.Log.Debug("a model takes no ones to be warmed up", "model", v.name, "error", err)
	}
	return ctx.Err()
}

// filled is a tensor of which all elements are 0 or 1, or strings that are empty or "1".
func filled(d tensor.DType, shape []int, value byte) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	t := &tensor.Tensor{DType: d, Shape: shape}
	if d == tensor.String {
		t.Strings = make([]string, n)
		for i := range t.Strings {
			t.Strings[i] = "1"[:value]
		}
		return t
	}
	size := d.Size()
	t.Data = make([]byte, n*size)
	if value == 0 {
		return t
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0} // of whole numbers and truths, little-endian
	switch d {
	case tensor.Float16:
		one = []byte{0, 0x3c} // IEEE 754
	case tensor.BFloat16:
		one = []byte{0x80, 0x3f}
	case tensor.Float32:
		one = []byte{0, 0, 0x80, 0x3f}
	case tensor.Float64:
		one = []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}
	}
	for i := range n {
		copy(t.Data[i*size:(i+1)*size], one)
	}
	return t
}
