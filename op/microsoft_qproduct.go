package op

import "github.com/weirgpu/weir/tensor"

// microsoftQProduct are matrix products and convolutions of 8-bit integers.
func microsoftQProduct() []Op {
	return []Op{
		composition(Op{Name: "MatMulIntegerToFloat", MinIn: 4, MaxIn: 7, Flops: matMulFlops},
			allRounded, defineMatMulIntegerToFloat),
		composition(Op{Name: "DynamicQuantizeMatMul", MinIn: 3, MaxIn: 5, Flops: matMulFlops},
			allRounded, defineDynamicQuantizeMatMul),
		composition(Op{Name: "QGemm", MinIn: 6, MaxIn: 9,
			Flops: func(c *Call, in, out []Type) int64 {
				return gemmFlops(c, list2(in[qA], in[qB]), out)
			}}, allRounded, defineQGemm),
		composition(Op{Name: "QLinearConv", MinIn: 8, MaxIn: 9}, allRounded, defineQLinearConv),
	}
}

// defineMatMulIntegerToFloat: A, B, their scales, their zero points, bias.
func defineMatMulIntegerToFloat(x *expander) {
	y := x.integerProduct(x.input(0), x.input(1), x.input(4), x.input(5), x.input(2), x.input(3))
	x.give(0, x.add(y, x.input(6)))
}

// defineDynamicQuantizeMatMul: A, which becomes uint8 on the scale that holds it, then B, its scale
// and zero point, bias.
func defineDynamicQuantizeMatMul(x *expander) {
	a := x.ops("", "DynamicQuantizeLinear", x.opset, 3, nil, x.input(0))
	y := x.integerProduct(a[0], x.input(1), a[2], x.input(3), a[1], x.input(2))
	x.give(0, x.add(y, x.input(4)))
}

// defineQGemm is alpha · a_scale · b_scale times the sum of op(A)·op(B) and C, which is int32;
// integers when the result has a scale.
func defineQGemm(x *expander) {
	a, b := x.input(qA), x.input(qB)
	x.ranked(a, "A", 2)
	x.ranked(b, "B", 2)
	x.bytes(a)
	x.bytes(b)
	a = x.operand(a, false, x.Attrs.Bool("transA", false))
	b = x.operand(b, false, x.Attrs.Bool("transB", false))
	y := x.op("MatMulInteger", nil, a, b, x.single(qAZero), x.input(qBZero))
	if c := x.input(6); c != absent {
		if d := x.dtype(c); x.err == nil && d != tensor.Int32 {
			x.fail(ErrInput, "C is %v, must be int32", d)
		}
		sum := x.add(y, c)
		x.sameSize(sum, y)
		y = sum
	}
	scale := x.scale(x.op("Mul", nil, x.single(qAScale), x.input(qBScale)), x.attr("alpha", 1))
	y = x.op("Mul", nil, x.cast(y, tensor.Float32), scale)
	if x.input(7) != absent {
		y = x.quantized(y, 7, x.input(qA))
	}
	x.give(0, y)
}

// defineQLinearConv is ONNX's on batch × channels × places, or with the channels last.
func defineQLinearConv(x *expander) {
	attrs := x.only("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
	f := x.channelsLast(x.Attrs.Bool("channels_last", false), func(v value) value {
		return x.op("QLinearConv", attrs, v, x.input(qAScale), x.input(qAZero), x.input(qB),
			x.input(qBScale), x.input(qBZero),
			x.input(qYScale), x.input(qYZero), x.input(qBias))
	})
	x.give(0, f(x.input(qA)))
}
