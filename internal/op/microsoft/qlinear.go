package microsoft

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// quantized are operators on 8-bit integers that each stand for (q - zero point) · scale:
// the operator on those numbers, and the result as integers again.
func quantized() []op.Op {
	return []op.Op{
		qlinearOp("QLinearAdd", 7, 8, []int{2, 5}, func(x *expander) { x.qlinearBinary("Add") }),
		qlinearOp("QLinearMul", 7, 8, []int{2, 5}, func(x *expander) { x.qlinearBinary("Mul") }),
		qlinearOp("QLinearSigmoid", 4, 5, []int{2}, func(x *expander) {
			x.qlinearUnary("Sigmoid", nil)
		}),
		qlinearOp("QLinearLeakyRelu", 4, 5, []int{2}, func(x *expander) {
			x.qlinearUnary("LeakyRelu", only(x.Call, "alpha"))
		}),
		qlinearOp("QLinearSoftmax", 5, 5, []int{2}, defineQLinearSoftmax),
		qlinearOp("QLinearConcat", 3, -1, nil, defineQLinearConcat),
		qlinearOp("QLinearAveragePool", 4, 5, []int{2}, func(x *expander) {
			x.qlinearPool("AveragePool",
				only(x.Call, "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads",
					"strides"))
		}),
		qlinearOp("QLinearGlobalAveragePool", 5, 5, nil, func(x *expander) {
			x.qlinearPool("GlobalAveragePool", nil)
		}),
		qlinearOp("QLinearWhere", 9, 9, nil, defineQLinearWhere),
		qlinearOp("QLinearReduceMean", 4, 5, []int{2}, defineQLinearReduceMean),
		composition(op.Op{Name: "NhwcMaxPool", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			attrs := only(x.Call, "auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads",
				"strides")
			x.Give(0, x.channelsLast(true, func(v op.Var) op.Var {
				return x.Op("MaxPool", attrs, v)
			})(x.Input(0)))
		}),
	}
}

// qlinearOp is a row whose inputs named in optional, zero points, may be left out although others
// follow.
func qlinearOp(name string, minIn, maxIn int, optional []int, define func(*expander)) op.Op {
	return composition(op.Op{Name: name, MinIn: minIn, MaxIn: maxIn, Optional: optional},
		allRounded, define)
}

// dequantized is operand i as numbers; its scale and zero point, which may be absent, follow it.
func (x *expander) dequantized(i int) op.Var {
	x.bytes(x.Input(i))
	return x.Op("DequantizeLinear", nil, x.Input(i), x.single(i+1), x.single(i+2))
}

// bytes refuses operands that are not 8-bit integers.
func (x *expander) bytes(v op.Var) {
	if d := x.DType(v); x.Err == nil && !byteTypes.Has(d) {
		x.Fail(op.ErrInput, "operand is %v, must be int8 or uint8", d)
	}
}

// single is input i, which must have one element if it is there.
func (x *expander) single(i int) op.Var {
	v := x.Input(i)
	if v == op.Absent {
		return op.Absent
	}
	if n, ok := x.TypeOf(v).Count().Int(); ok && n != 1 && x.TypeOf(v).Ranked {
		x.Fail(op.ErrInput, "input %d is %v, must have one element", i, x.TypeOf(v))
	}
	if x.Rank(v) > 1 {
		return x.Reshape(v)
	}
	return v
}

// quantized is a number as integers with the scale of input i and the zero point of input i+1,
// which is 0 of the type of like when it is absent.
func (x *expander) quantized(v op.Var, i int, like op.Var) op.Var {
	zero := x.single(i + 1)
	if zero == op.Absent {
		x.bytes(like)
		zero = x.Scalar(like, 0)
	}
	return x.Op("QuantizeLinear", nil, v, x.single(i), zero)
}

func (x *expander) qlinearBinary(typ string) {
	sum := x.Op(typ, nil, x.dequantized(0), x.dequantized(3))
	x.Give(0, x.quantized(sum, 6, x.Input(0)))
}

func (x *expander) qlinearUnary(typ string, attrs op.Attrs) {
	x.Give(0, x.quantized(x.Op(typ, attrs, x.dequantized(0)), 3, x.Input(0)))
}

// defineQLinearSoftmax normalises along axis, or over all dimensions from it on when attribute
// opset is below 13.
func defineQLinearSoftmax(x *expander) {
	v := x.dequantized(0)
	axis, rank := x.axisOf(x.Input(0), -1)
	if x.Err != nil {
		return
	}
	var y op.Var
	if x.Attrs.Int("opset", 13) >= 13 {
		y = x.Op("Softmax", op.Attrs{op.IntAttr("axis", int64(axis))}, v)
	} else {
		y = x.softmaxFrom(v, axis, rank)
	}
	x.Give(0, x.quantized(y, 3, x.Input(0)))
}

// defineQLinearConcat joins operands that each bring their scale and zero point, after those of the
// result.
func defineQLinearConcat(x *expander) {
	var parts []op.Var
	for i := 2; i < x.NumIn; i += 3 {
		if i+2 >= x.NumIn {
			x.Fail(op.ErrInput, "%d inputs, wants two and three for each operand", x.NumIn)
			return
		}
		parts = append(parts, x.dequantized(i))
	}
	x.Give(0, x.quantized(x.Op("Concat", only(x.Call, "axis"), parts...), 0, x.Input(2)))
}

// channelsLast makes an operator on batch × channels × places one on batch × places × channels when
// last holds.
func (x *expander) channelsLast(last bool, f func(op.Var) op.Var) func(op.Var) op.Var {
	if !last {
		return f
	}
	return func(v op.Var) op.Var {
		rank := x.Rank(v)
		if x.Err != nil || rank < 3 {
			x.Fail(op.ErrInput, "operand %v must be batch × places × channels", x.TypeOf(v))
			return op.Absent
		}
		to, from := []int64{0, int64(rank - 1)}, []int64{0}
		for i := 1; i < rank-1; i++ {
			to, from = append(to, int64(i)), append(from, int64(i+1))
		}
		return x.Transpose(f(x.Transpose(v, to...)), append(from, 1)...)
	}
}

func (x *expander) qlinearPool(typ string, attrs op.Attrs) {
	f := x.channelsLast(x.Attrs.Bool("channels_last", false), func(v op.Var) op.Var {
		return x.Op(typ, attrs, v)
	})
	x.Give(0, x.quantized(f(x.dequantized(0)), 3, x.Input(0)))
}

func defineQLinearWhere(x *expander) {
	v := x.Op("Where", nil, x.Input(0), x.dequantized(1), x.dequantized(4))
	x.Give(0, x.quantized(v, 7, x.Input(1)))
}

func defineQLinearReduceMean(x *expander) {
	axes, keep := x.Attrs.Ints("axes"), op.IntAttr("keepdims", x.Attrs.Int("keepdims", 1))
	v, attrs, in := x.dequantized(0), op.Attrs{keep}, op.Absent
	if x.Opset >= 18 {
		in = x.Ints(axes...)
	} else {
		attrs = append(attrs, op.IntsAttr("axes", axes...))
	}
	if len(axes) == 0 {
		attrs, in = op.Attrs{keep}, op.Absent
	}
	x.Give(0, x.quantized(x.Op("ReduceMean", attrs, v, in), 3, x.Input(0)))
}

// integerProduct multiplies 8-bit integers, from which their zero points are taken, times both
// scales.
func (x *expander) integerProduct(a, b, aZero, bZero, aScale, bScale op.Var) op.Var {
	x.bytes(a)
	x.bytes(b)
	y := x.Cast(x.Op("MatMulInteger", nil, a, b, aZero, bZero), tensor.Float32)
	return x.Op("Mul", nil, y, x.Op("Mul", nil, aScale, bScale))
}
