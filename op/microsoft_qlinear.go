package op

import "github.com/weirgpu/weir/tensor"

// microsoftQLinear are operators on 8-bit integers that each stand for (q - zero point) · scale:
// the operator on those numbers, and the result as integers again.
func microsoftQLinear() []Op {
	return []Op{
		qlinearOp("QLinearAdd", 7, 8, []int{2, 5}, func(x *expander) { x.qlinearBinary("Add") }),
		qlinearOp("QLinearMul", 7, 8, []int{2, 5}, func(x *expander) { x.qlinearBinary("Mul") }),
		qlinearOp("QLinearSigmoid", 4, 5, []int{2}, func(x *expander) {
			x.qlinearUnary("Sigmoid", nil)
		}),
		qlinearOp("QLinearLeakyRelu", 4, 5, []int{2}, func(x *expander) {
			x.qlinearUnary("LeakyRelu", x.only("alpha"))
		}),
		qlinearOp("QLinearSoftmax", 5, 5, []int{2}, defineQLinearSoftmax),
		qlinearOp("QLinearConcat", 3, -1, nil, defineQLinearConcat),
		qlinearOp("QLinearAveragePool", 4, 5, []int{2}, func(x *expander) {
			x.qlinearPool("AveragePool",
				x.only("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads",
					"strides"))
		}),
		qlinearOp("QLinearGlobalAveragePool", 5, 5, nil, func(x *expander) {
			x.qlinearPool("GlobalAveragePool", nil)
		}),
		qlinearOp("QLinearWhere", 9, 9, nil, defineQLinearWhere),
		qlinearOp("QLinearReduceMean", 4, 5, []int{2}, defineQLinearReduceMean),
		composition(Op{Name: "NhwcMaxPool", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			attrs := x.only("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
			x.give(0, x.channelsLast(true, func(v value) value {
				return x.op("MaxPool", attrs, v)
			})(x.input(0)))
		}),
	}
}

// qlinearOp is a row whose inputs named in optional, zero points, may be left out although others
// follow.
func qlinearOp(name string, minIn, maxIn int, optional []int, define func(*expander)) Op {
	return composition(Op{Name: name, MinIn: minIn, MaxIn: maxIn, Optional: optional}, allRounded,
		define)
}

// dequantized is operand i as numbers; its scale and zero point, which may be absent, follow it.
func (x *expander) dequantized(i int) value {
	x.bytes(x.input(i))
	return x.op("DequantizeLinear", nil, x.input(i), x.single(i+1), x.single(i+2))
}

// bytes refuses operands that are not 8-bit integers.
func (x *expander) bytes(v value) {
	if d := x.dtype(v); x.err == nil && !byteTypes.has(d) {
		x.fail(ErrInput, "operand is %v, must be int8 or uint8", d)
	}
}

// single is input i, which must have one element if it is there.
func (x *expander) single(i int) value {
	v := x.input(i)
	if v == absent {
		return absent
	}
	if n, ok := x.typ(v).Count().Int(); ok && n != 1 && x.typ(v).Ranked {
		x.fail(ErrInput, "input %d is %v, must have one element", i, x.typ(v))
	}
	if x.rank(v) > 1 {
		return x.reshape(v)
	}
	return v
}

// quantized is a number as integers with the scale of input i and the zero point of input i+1,
// which is 0 of the type of like when it is absent.
func (x *expander) quantized(v value, i int, like value) value {
	zero := x.single(i + 1)
	if zero == absent {
		x.bytes(like)
		zero = x.scalar(like, 0)
	}
	return x.op("QuantizeLinear", nil, v, x.single(i), zero)
}

func (x *expander) qlinearBinary(typ string) {
	sum := x.op(typ, nil, x.dequantized(0), x.dequantized(3))
	x.give(0, x.quantized(sum, 6, x.input(0)))
}

func (x *expander) qlinearUnary(typ string, attrs Attrs) {
	x.give(0, x.quantized(x.op(typ, attrs, x.dequantized(0)), 3, x.input(0)))
}

// defineQLinearSoftmax normalises along axis, or over all dimensions from it on when attribute
// opset is below 13.
func defineQLinearSoftmax(x *expander) {
	v, rank := x.dequantized(0), x.rank(x.input(0))
	if x.err != nil {
		return
	}
	axis, err := x.axis(x.Attrs.Int("axis", -1), rank)
	if err != nil {
		x.err = err
		return
	}
	if x.Attrs.Int("opset", 13) >= 13 || axis == rank-1 {
		x.give(0, x.quantized(x.op("Softmax", Attrs{IntAttr("axis", int64(axis))}, v), 3,
			x.input(0)))
		return
	}
	rows := x.op("Softmax", Attrs{IntAttr("axis", -1)},
		x.op("Flatten", Attrs{IntAttr("axis", int64(axis))}, v))
	x.give(0, x.quantized(x.op("Reshape", nil, rows, x.op("Shape", nil, v)), 3, x.input(0)))
}

// defineQLinearConcat joins operands that each bring their scale and zero point, after those of the
// result.
func defineQLinearConcat(x *expander) {
	var parts []value
	for i := 2; i < x.NumIn; i += 3 {
		if i+2 >= x.NumIn {
			x.fail(ErrInput, "%d inputs, wants two and three for each operand", x.NumIn)
			return
		}
		parts = append(parts, x.dequantized(i))
	}
	x.give(0, x.quantized(x.op("Concat", x.only("axis"), parts...), 0, x.input(2)))
}

// channelsLast makes an operator on batch × channels × places one on batch × places × channels when
// last holds.
func (x *expander) channelsLast(last bool, f func(value) value) func(value) value {
	if !last {
		return f
	}
	return func(v value) value {
		rank := x.rank(v)
		if x.err != nil || rank < 3 {
			x.fail(ErrInput, "operand %v must be batch × places × channels", x.typ(v))
			return absent
		}
		to, from := []int64{0, int64(rank - 1)}, []int64{0}
		for i := 1; i < rank-1; i++ {
			to, from = append(to, int64(i)), append(from, int64(i+1))
		}
		return x.transpose(f(x.transpose(v, to...)), append(from, 1)...)
	}
}

func (x *expander) qlinearPool(typ string, attrs Attrs) {
	f := x.channelsLast(x.Attrs.Bool("channels_last", false), func(v value) value {
		return x.op(typ, attrs, v)
	})
	x.give(0, x.quantized(f(x.dequantized(0)), 3, x.input(0)))
}

func defineQLinearWhere(x *expander) {
	v := x.op("Where", nil, x.input(0), x.dequantized(1), x.dequantized(4))
	x.give(0, x.quantized(v, 7, x.input(1)))
}

func defineQLinearReduceMean(x *expander) {
	axes, keep := x.Attrs.Ints("axes"), IntAttr("keepdims", x.Attrs.Int("keepdims", 1))
	v, attrs, in := x.dequantized(0), Attrs{keep}, absent
	if x.opset >= 18 {
		in = x.ints(axes...)
	} else {
		attrs = append(attrs, IntsAttr("axes", axes...))
	}
	if len(axes) == 0 {
		attrs, in = Attrs{keep}, absent
	}
	x.give(0, x.quantized(x.op("ReduceMean", attrs, v, in), 3, x.input(0)))
}

// integerProduct multiplies 8-bit integers, from which their zero points are taken, times both
// scales.
func (x *expander) integerProduct(a, b, aZero, bZero, aScale, bScale value) value {
	x.bytes(a)
	x.bytes(b)
	y := x.cast(x.op("MatMulInteger", nil, a, b, aZero, bZero), tensor.Float32)
	return x.op("Mul", nil, y, x.op("Mul", nil, aScale, bScale))
}
