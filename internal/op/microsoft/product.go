package microsoft

import (
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// products are matrix products and convolutions with what follows them.
func products() []op.Op {
	return []op.Op{
		composition(op.Op{Name: "FusedMatMul", MinIn: 2, MaxIn: 2, Flops: flopsOfLast}, allRounded,
			defineFusedMatMul),
		composition(op.Op{Name: "TransposeMatMul", MinIn: 2, MaxIn: 2, Flops: flopsOfLast},
			allRounded, defineFusedMatMul),
		composition(op.Op{Name: "FusedConv", MinIn: 2, MaxIn: 4, Flops: flopsOf("Conv")},
			allRounded, defineFusedConv),
		composition(op.Op{Name: "FusedGemm", MinIn: 2, MaxIn: 3, Flops: flopsOf("Gemm")},
			allRounded, defineFusedGemm),
		composition(op.Op{Name: "MatMulInteger16", MinIn: 2, MaxIn: 2, Flops: flopsOf("MatMul")},
			allRounded, defineMatMulInteger16),
		matMulNBits(),
	}
}

// flopsOfLast counts two operations for each output and each element of a row or column of A.
func flopsOfLast(c *op.Call, in, out []op.Type) int64 {
	s := in[0].Shape
	if len(s) == 0 {
		return 0
	}
	k := s[len(s)-1]
	if c.Attrs.Bool("transA", false) && len(s) > 1 {
		k = s[len(s)-2]
	}
	n, _ := k.Int()
	return 2 * int64(n) * out[0].Elements()
}

// defineFusedMatMul is alpha times the product of A and B, either of them with its last two axes
// exchanged (transA), after its first axis was put before the last one (transBatchA).
func defineFusedMatMul(x *expander) {
	a, b := x.Input(0), x.Input(1)
	alpha := float64(x.Attrs.Float("alpha", 1))
	if x.Rank(a) == 2 && x.Rank(b) == 2 {
		x.Give(0, x.Op("Gemm", only(x.Call, "alpha", "transA", "transB"), a, b))
		return
	}
	a = x.operand(a, x.Attrs.Bool("transBatchA", false), x.Attrs.Bool("transA", false))
	b = x.operand(b, x.Attrs.Bool("transBatchB", false), x.Attrs.Bool("transB", false))
	x.Give(0, x.Scale(x.Op("MatMul", nil, a, b), alpha))
}

// operand moves the axes of an operand of FusedMatMul; a vector has none to move.
func (x *expander) operand(v op.Var, batch, exchange bool) op.Var {
	rank := x.Rank(v)
	perm := op.AllAxes(rank)
	if batch && rank > 2 {
		perm = slices.Concat(perm[1:rank-1], perm[:1], perm[rank-1:])
	}
	if exchange && rank > 1 {
		perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
	}
	if slices.IsSorted(perm) {
		return v
	}
	return x.Transpose(v, perm...)
}

// defineFusedConv is a convolution, the sum with Z, and an activation.
func defineFusedConv(x *expander) {
	attrs := only(x.Call, "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
	y := x.Op("Conv", attrs, x.Input(0), x.Input(1), x.Input(2))
	if z := x.Input(3); z != op.Absent {
		x.sameSize(z, y)
		y = x.Add(y, z)
	}
	x.Give(0, x.activate(y, x.Attrs.Floats("activation_params")))
}

// sameSize refuses an operand that would change the shape of what it is added to.
func (x *expander) sameSize(v, to op.Var) {
	a, b := x.TypeOf(v), x.TypeOf(to)
	if a.Ranked && b.Ranked && !slices.EqualFunc(a.Shape, b.Shape, op.Dim.MayEqual) {
		x.Fail(op.ErrInput, "%v is added to %v, must have its shape", a, b)
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
func (x *expander) activate(y op.Var, params []float32) op.Var {
	name := x.Attrs.String("activation", "")
	names, ok := activationAttrs[name]
	switch {
	case !ok:
		x.Fail(op.ErrUnsupported, "activation %q", name)
		return op.Absent
	case len(params) > len(names) && name != "":
		x.Fail(op.ErrAttr, "%d parameters for activation %s, which takes %d", len(params), name,
			len(names))
		return op.Absent
	case name == "":
		return y
	case name == "Clip":
		return x.clip(y, params)
	}
	var attrs op.Attrs
	for i, p := range params {
		attrs = append(attrs, op.FloatAttr(names[i], p))
	}
	return x.Op(name, attrs, y)
}

func (x *expander) clip(y op.Var, bounds []float32) op.Var {
	if len(bounds) != 2 {
		x.Fail(op.ErrAttr, "%d bounds for activation Clip, which takes 2", len(bounds))
		return op.Absent
	}
	return x.Op("Clip", nil, y, x.Scalar(y, float64(bounds[0])), x.Scalar(y, float64(bounds[1])))
}

// defineFusedGemm is Gemm and an activation, whose parameters are attributes activation_alpha,
// _beta and _gamma.
func defineFusedGemm(x *expander) {
	y := x.Op("Gemm", only(x.Call, "alpha", "beta", "transA", "transB"), x.Input(0), x.Input(1),
		x.Input(2))
	var params []float32
	for _, name := range activationAttrs[x.Attrs.String("activation", "")] {
		if a := "activation_" + name; x.Attrs.Has(a) {
			params = append(params, x.Attrs.Float(a, 0))
		}
	}
	x.Give(0, x.activate(y, params))
}

// defineMatMulInteger16 multiplies 16-bit integers into 32-bit ones, unsigned only when both
// operands are.
func defineMatMulInteger16(x *expander) {
	a, b := x.Input(0), x.Input(1)
	to := tensor.Int32
	if x.DType(a) == tensor.Uint16 && x.DType(b) == tensor.Uint16 {
		to = tensor.Uint32
	}
	if _, err := x.SameDType(op.SetOf(tensor.Int16, tensor.Uint16),
		x.TypeOf(a).DType); err != nil && x.Err == nil {
		x.Err = err
	}
	if _, err := x.SameDType(op.SetOf(tensor.Int16, tensor.Uint16),
		x.TypeOf(b).DType); err != nil && x.Err == nil {
		x.Err = err
	}
	x.Give(0, x.Op("MatMul", nil, x.Cast(a, to), x.Cast(b, to)))
}
