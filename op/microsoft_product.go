package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// microsoftProduct are matrix products and convolutions with what follows them.
func microsoftProduct() []Op {
	return []Op{
		composition(Op{Name: "FusedMatMul", MinIn: 2, MaxIn: 2, Flops: flopsOfLast}, allRounded,
			defineFusedMatMul),
		composition(Op{Name: "TransposeMatMul", MinIn: 2, MaxIn: 2, Flops: flopsOfLast}, allRounded,
			defineFusedMatMul),
		composition(Op{Name: "FusedConv", MinIn: 2, MaxIn: 4, Flops: convFlops}, allRounded,
			defineFusedConv),
		composition(Op{Name: "FusedGemm", MinIn: 2, MaxIn: 3, Flops: gemmFlops}, allRounded,
			defineFusedGemm),
		composition(Op{Name: "MatMulInteger16", MinIn: 2, MaxIn: 2, Flops: matMulFlops}, allRounded,
			defineMatMulInteger16),
		matMulNBits(),
	}
}

// flopsOfLast counts two operations for each output and each element of a row or column of A.
func flopsOfLast(c *Call, in, out []Type) int64 {
	s := in[0].Shape
	if len(s) == 0 {
		return 0
	}
	k := s[len(s)-1]
	if c.Attrs.Bool("transA", false) && len(s) > 1 {
		k = s[len(s)-2]
	}
	n, _ := k.Int()
	return 2 * int64(n) * typeCount(out[0])
}

// defineFusedMatMul is alpha times the product of A and B, either of them with its last two axes
// exchanged (transA), after its first axis was put before the last one (transBatchA).
func defineFusedMatMul(x *expander) {
	a, b := x.input(0), x.input(1)
	alpha := x.attr("alpha", 1)
	if x.rank(a) == 2 && x.rank(b) == 2 {
		x.give(0, x.op("Gemm", x.only("alpha", "transA", "transB"), a, b))
		return
	}
	a = x.operand(a, x.Attrs.Bool("transBatchA", false), x.Attrs.Bool("transA", false))
	b = x.operand(b, x.Attrs.Bool("transBatchB", false), x.Attrs.Bool("transB", false))
	x.give(0, x.scale(x.op("MatMul", nil, a, b), alpha))
}

// operand moves the axes of an operand of FusedMatMul; a vector has none to move.
func (x *expander) operand(v value, batch, exchange bool) value {
	rank := x.rank(v)
	perm := allAxes(rank)
	if batch && rank > 2 {
		perm = slices.Concat(perm[1:rank-1], perm[:1], perm[rank-1:])
	}
	if exchange && rank > 1 {
		perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
	}
	if slices.IsSorted(perm) {
		return v
	}
	return x.transpose(v, perm...)
}

// defineFusedConv is a convolution, the sum with Z, and an activation.
func defineFusedConv(x *expander) {
	attrs := x.only("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
	y := x.op("Conv", attrs, x.input(0), x.input(1), x.input(2))
	if z := x.input(3); z != absent {
		x.sameSize(z, y)
		y = x.add(y, z)
	}
	x.give(0, x.activate(y, x.Attrs.Floats("activation_params")))
}

// sameSize refuses an operand that would change the shape of what it is added to.
func (x *expander) sameSize(v, to value) {
	a, b := x.typ(v), x.typ(to)
	if a.Ranked && b.Ranked && !slices.EqualFunc(a.Shape, b.Shape, mayEqual) {
		x.fail(ErrInput, "%v is added to %v, must have its shape", a, b)
	}
}

// activationAttrs names the parameters of the activations that attribute activation takes, in their
// order.
var activationAttrs = map[string][]string{"": nil, "Relu": nil, "Tanh": nil, "Sigmoid": nil,
	"Softplus": nil, "Softsign": nil,
	"LeakyRelu": {"alpha"}, "Elu": {"alpha"}, "ThresholdedRelu": {"alpha"},
	"HardSigmoid": {"alpha", "beta"},
	"Selu":        {"alpha", "gamma"}, "Clip": {"min", "max"}}

// activate applies attribute activation with the given parameters.
func (x *expander) activate(y value, params []float32) value {
	name := x.Attrs.String("activation", "")
	names, ok := activationAttrs[name]
	switch {
	case !ok:
		x.fail(ErrUnsupported, "activation %q", name)
		return absent
	case len(params) > len(names) && name != "":
		x.fail(ErrAttr, "%d parameters for activation %s, which takes %d", len(params), name,
			len(names))
		return absent
	case name == "":
		return y
	case name == "Clip":
		return x.clip(y, params)
	}
	var attrs Attrs
	for i, p := range params {
		attrs = append(attrs, FloatAttr(names[i], p))
	}
	return x.op(name, attrs, y)
}

func (x *expander) clip(y value, bounds []float32) value {
	if len(bounds) != 2 {
		x.fail(ErrAttr, "%d bounds for activation Clip, which takes 2", len(bounds))
		return absent
	}
	return x.op("Clip", nil, y, x.scalar(y, float64(bounds[0])), x.scalar(y, float64(bounds[1])))
}

// defineFusedGemm is Gemm and an activation, whose parameters are attributes activation_alpha,
// _beta and _gamma.
func defineFusedGemm(x *expander) {
	y := x.op("Gemm", x.only("alpha", "beta", "transA", "transB"), x.input(0), x.input(1),
		x.input(2))
	var params []float32
	for _, name := range activationAttrs[x.Attrs.String("activation", "")] {
		if a := "activation_" + name; x.Attrs.Has(a) {
			params = append(params, x.Attrs.Float(a, 0))
		}
	}
	x.give(0, x.activate(y, params))
}

// defineMatMulInteger16 multiplies 16-bit integers into 32-bit ones, unsigned only when both
// operands are.
func defineMatMulInteger16(x *expander) {
	a, b := x.input(0), x.input(1)
	to := tensor.Int32
	if x.dtype(a) == tensor.Uint16 && x.dtype(b) == tensor.Uint16 {
		to = tensor.Uint32
	}
	if _, err := x.sameDType(setOf(tensor.Int16, tensor.Uint16), x.typ(a).DType); err != nil && x.err == nil {
		x.err = err
	}
	if _, err := x.sameDType(setOf(tensor.Int16, tensor.Uint16), x.typ(b).DType); err != nil && x.err == nil {
		x.err = err
	}
	x.give(0, x.op("MatMul", nil, x.cast(a, to), x.cast(b, to)))
}
