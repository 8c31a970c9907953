package microsoft

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// quantizedProducts are matrix products and convolutions of 8-bit integers.
func quantizedProducts() []op.Op {
	return []op.Op{
		composition(op.Op{Name: "MatMulIntegerToFloat", MinIn: 4, MaxIn: 7,
			Flops: flopsOf("MatMul")},
			allRounded, defineMatMulIntegerToFloat),
		composition(op.Op{Name: "DynamicQuantizeMatMul", MinIn: 3, MaxIn: 5,
			Flops: flopsOf("MatMul")},
			allRounded, defineDynamicQuantizeMatMul),
		composition(op.Op{Name: "QGemm", MinIn: 6, MaxIn: 9,
			Flops: func(c *op.Call, in, out []op.Type) int64 {
				return flopsOf("Gemm")(c, []op.Type{in[op.QLinearA], in[op.QLinearB]}, out)
			}}, allRounded, defineQGemm),
		composition(op.Op{Name: "QLinearConv", MinIn: 8, MaxIn: 9}, allRounded, defineQLinearConv),
	}
}

// defineMatMulIntegerToFloat: A, B, their scales, their zero points, bias.
func defineMatMulIntegerToFloat(x *expander) {
	y := x.integerProduct(x.Input(0), x.Input(1), x.Input(4), x.Input(5), x.Input(2), x.Input(3))
	x.Give(0, x.Add(y, x.Input(6)))
}

// defineDynamicQuantizeMatMul: A, which becomes uint8 on the scale that holds it, then B, its scale
// and zero point, bias.
func defineDynamicQuantizeMatMul(x *expander) {
	a := x.Ops("", "DynamicQuantizeLinear", x.Opset, 3, nil, x.Input(0))
	y := x.integerProduct(a[0], x.Input(1), a[2], x.Input(3), a[1], x.Input(2))
	x.Give(0, x.Add(y, x.Input(4)))
}

// defineQGemm is alpha · a_scale · b_scale times the sum of op(A)·op(B) and C, which is int32;
// integers when the result has a scale.
func defineQGemm(x *expander) {
	a, b := x.Input(op.QLinearA), x.Input(op.QLinearB)
	x.Ranked(a, "A", 2)
	x.Ranked(b, "B", 2)
	x.bytes(a)
	x.bytes(b)
	a = x.operand(a, false, x.Attrs.Bool("transA", false))
	b = x.operand(b, false, x.Attrs.Bool("transB", false))
	y := x.Op("MatMulInteger", nil, a, b, x.single(op.QLinearAZero), x.Input(op.QLinearBZero))
	if c := x.Input(6); c != op.Absent {
		if d := x.DType(c); x.Err == nil && d != tensor.Int32 {
			x.Fail(op.ErrInput, "C is %v, must be int32", d)
		}
		sum := x.Add(y, c)
		x.sameSize(sum, y)
		y = sum
	}
	scale := x.Scale(x.Op("Mul", nil, x.single(op.QLinearAScale), x.Input(op.QLinearBScale)),
		float64(x.Attrs.Float("alpha", 1)))
	y = x.Op("Mul", nil, x.Cast(y, tensor.Float32), scale)
	if x.Input(7) != op.Absent {
		y = x.quantized(y, 7, x.Input(op.QLinearA))
	}
	x.Give(0, y)
}

// defineQLinearConv is ONNX's on batch × channels × places, or with the channels last.
func defineQLinearConv(x *expander) {
	attrs := only(x.Call, "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
	f := x.channelsLast(x.Attrs.Bool("channels_last", false), func(v op.Var) op.Var {
		return x.Op("QLinearConv", attrs, v, x.Input(op.QLinearAScale), x.Input(op.QLinearAZero),
			x.Input(op.QLinearB), x.Input(op.QLinearBScale), x.Input(op.QLinearBZero),
			x.Input(op.QLinearYScale), x.Input(op.QLinearYZero), x.Input(op.QLinearBias))
	})
	x.Give(0, f(x.Input(op.QLinearA)))
}
