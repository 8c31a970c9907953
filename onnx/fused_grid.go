package onnx

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gridNode writes weir:Grid: as the two operators of which it is made, where the opset lets them
// make integers of its type, else as arithmetic.
func (f *functionBody) gridNode(n *graph.Node, ins []string) (string, error) {
	d := n.In[2].Type.DType
	if f.opset >= gridOpset {
		return f.call("DequantizeLinear", referred(n),
			f.call("QuantizeLinear", referred(n), ins...), ins[1], ins[2]), nil
	}
	scale, zero := ins[1], f.call("Cast",
		[]*message{attrProto(op.IntAttr("to", int64(tensor.Float32)))}, ins[2])
	if shape := n.In[1].Type.Shape; len(shape) > 0 {
		if !n.In[0].Type.Ranked {
			return "", fmt.Errorf("%v: %w: writing it below opset %d needs the rank of its input",
				n, ErrOpset, gridOpset)
		}
		rank := len(n.In[0].Type.Shape)
		axis := int(n.Attrs.Int("axis", 1))
		if axis < 0 {
			axis += rank
		}
		scale, zero = f.along(scale, axis, rank), f.along(zero, axis, rank)
	}
	least, most := 0.0, math.Ldexp(1, d.Bits())-1
	if d.IsSigned() {
		least = -math.Ldexp(1, d.Bits()-1)
	}
	lo := f.call("Sub", nil, f.scalar(least), zero)
	return f.rounded(ins[0], scale, lo, f.call("Sub", nil, f.scalar(least+most), zero)), nil
}

// along reshapes a vector for an axis of a tensor of that rank.
func (f *functionBody) along(v string, axis, rank int) string {
	shape := make([]int64, max(1, rank))
	for i := range shape {
		shape[i] = 1
	}
	shape[min(axis, len(shape)-1)] = -1
	return f.call("Reshape", nil, v, f.call("Constant",
		[]*message{attrProto(op.TensorAttr("value", tensor.From(shape, len(shape))))}))
}

// grid writes activation Grid: as the two operators, where its bounds are those of integers, else
// as arithmetic.
func (f *functionBody) grid(x string, scale, lo, hi float32) string {
	zero := -lo
	if f.opset < gridOpset || hi-lo != math.MaxUint16 ||
		zero != float32(uint16(min(max(zero, 0), math.MaxUint16))) {
		return f.rounded(x, f.scalar(float64(scale)), f.scalar(float64(lo)), f.scalar(float64(hi)))
	}
	by := f.scalar(float64(scale))
	point := f.call("Constant",
		[]*message{attrProto(op.TensorAttr("value", tensor.Scalar(uint16(zero))))})
	return f.call("DequantizeLinear", nil, f.call("QuantizeLinear", nil, x, by, point), by, point)
}

// rounded writes round(min(max(x/scale, lo), hi)) · scale. It differs from the definition of Grid
// in NaN, which stays.
func (f *functionBody) rounded(x, scale, lo, hi string) string {
	q := f.call("Min", nil, f.call("Max", nil, f.call("Div", nil, x, scale), lo), hi)
	return f.call("Mul", nil, f.call("Add", nil, f.call("Round", nil, q), f.scalar(0)), scale)
}
