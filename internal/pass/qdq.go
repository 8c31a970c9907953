package pass

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Products between quantised values, as quantisers write them (the QDQ format), become products of
// integers.
//
//	Q(Conv(DQ(x), DQ(w), DQ(b)))   =  QLinearConv(x, w, b)
//	                                    (w constant)
//	Q(MatMul(DQ(x), DQ(w)))        =  QLinearMatMul(x, w)
//	Q(Gemm(DQ(x), DQ(w), DQ(b)))   =  QLinearConv(x, w, b)
//	                                    (of one pixel: see qdq_gemm.go)
//	Q(Clip(y))                     =  Q(y)
//	                                    (where saturation clips as far; likewise Relu)
//	Q(DQ(x) + DQ(y))               =  weir:QLinearAdd(x, y)
//	Q(a·DQ(x) + c)                 =  weir:Rescale(x, a', c')
//	                                    (a, c constant, one an index of axis 1:
//	                                     BatchNormalization, Mul, Add, ...)
//	Q(f(DQ(x)))                    =  weir:Table(x, t)
//	                                    (f elementwise: see qdq_table.go)
//	Rescale(QLinearConv(x, w, b))  =  weir:QLinearConv(x, w, b, ...)
//
// for constant scales and zero points: a single one for x and for the result (or one per channel:
// see qdq_channel.go), and for w either a single one or one per output channel. The sums of
// integers are exact, so a result differs from that of floats by one rounding at most. Without this
// pass, constant folding would turn the quantised weights into floats.

func startQDQ(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable {
			return nil
		}
		if n.Domain == op.FusedDomain && n.Type == "Rescale" {
			return rescaleInConv(s, n)
		}
		if !is(n, "QuantizeLinear") {
			if !s.features.FastBytes {
				return nil
			}
			if p := s.gridConv(n); p != nil {
				return p
			}
			if p := s.gridProduct(n); p != nil {
				return p
			}
			return s.scaledGridConv(n)
		}
		if o, err := n.Op(); err == nil && n.In[0].IsConst() {
			// some quantisers leave it to the runtime to quantise the weights
			return s.foldNode(o, n)
		}
		out, ok := gridOf(n)
		if !ok {
			return nil
		}
		if p := s.zerosOfChannels(n, out); p != nil {
			return p
		}
		if p := dropClip(s, n, out); p != nil {
			return p
		}
		return s.ofBytes(n, out)
	}
}

// ofBytes computes on integers what n quantises, where the operands come from bytes.
func (s *scope) ofBytes(n *graph.Node, out qGrid) *Patch {
	m := producer(n.In[0])
	if m == nil || !s.only(n.In[0]) {
		return nil
	}
	if !one(out) {
		return s.productOfBytes(n, m, out)
	}
	if p := addBytes(n, m, out); p != nil {
		return p
	}
	if p := s.elementwise(n, m, out); p != nil {
		return p
	}
	if p := s.gemmOfBytes(n, m, out); p != nil {
		return p
	}
	return s.productOfBytes(n, m, out)
}

// productOfBytes makes a product or convolution m of bytes, which n quantises again, one of
// integers.
func (s *scope) productOfBytes(n, m *graph.Node, out qGrid) *Patch {
	if !is(m, "Conv") && !is(m, "MatMul") {
		return nil
	}
	x, w := from(m.In[0], "DequantizeLinear"), from(m.In[1], "DequantizeLinear")
	if x == nil || w == nil || !w.In[0].IsConst() {
		return nil
	}
	a, okA := gridOf(x)
	b, okB := gridOf(w)
	if !okA || !okB || !perOutput(m, w, b) {
		return nil
	}
	g, ok := foldChannels(n, m, x, w, a, b, out)
	if !ok {
		return nil
	}
	if is(m, "Conv") {
		return s.byteConvOf(n, m, x, g)
	}
	return instead(n, operator(n, "", "QLinearMatMul", min(s.opset, 20), nil, x.In[0], a.scale,
		a.zero, w.In[0], b.scale, b.zero, out.scale, out.zero))
}

// withIntBias adds the bias of m, if it has one, in integers on the grids of its operands a and b.
func withIntBias(in []*graph.Value, m *graph.Node, a, b qGrid) (with []*graph.Value, ok bool) {
	if len(m.In) <= 2 || m.In[2] == nil {
		return in, true
	}
	bias, ok := intBias(m.In[2], a, b)
	return append(in, bias), ok
}

// qGrid is the constant scale and zero point of a quantising node: one of each, or one of each an
// index of an axis.
type qGrid struct{ scale, zero *graph.Value }

// byteTypes are the integers of which products are computed.
var byteTypes = []tensor.DType{tensor.Uint8, tensor.Int8}

// gridOf returns the grid of a QuantizeLinear or DequantizeLinear of bytes; false for others.
func gridOf(n *graph.Node) (g qGrid, ok bool) { return gridOn(n, byteTypes) }

// gridOn returns the grid of a QuantizeLinear or DequantizeLinear of such integers; false for
// others.
func gridOn(n *graph.Node, types []tensor.DType) (g qGrid, ok bool) {
	of := n.In[0].Type.DType
	if n.Type == "QuantizeLinear" {
		of = n.Out[0].Type.DType
	}
	g.scale = n.In[1]
	if !slices.Contains(types, of) || !g.scale.IsConst() ||
		g.scale.Type.DType != tensor.Float32 ||
		n.Attrs.Int("block_size", 0) != 0 || len(g.scale.Const().Shape) > 1 {
		return g, false
	}
	if len(n.In) > 2 && n.In[2] != nil {
		g.zero = n.In[2]
		return g, g.zero.IsConst() && g.zero.Const().Len() == g.scale.Const().Len()
	}
	zero, err := tensor.New(of, g.scale.Const().Shape...)
	g.zero = graph.NewConst(g.scale.Name+"_zero_point", zero)
	return g, err == nil
}

// perOutput reports whether the weights w of m have one scale for all, or one per output channel.
func perOutput(m, w *graph.Node, g qGrid) bool {
	if g.scale.Const().Len() == 1 {
		return true
	}
	rank := len(w.In[0].Type.Shape)
	axis := int(w.Attrs.Int("axis", 1))
	if axis < 0 {
		axis += rank
	}
	if m.Type == "MatMul" {
		return rank == 2 && axis == 1
	}
	return axis == 0
}

// intBias returns a constant bias as integers on the scale of the sums of products, which is the
// product of the scales of a and b.
func intBias(v *graph.Value, a, b qGrid) (*graph.Value, bool) {
	n := from(v, "DequantizeLinear")
	if n == nil {
		x, ok := floatsOf(v)
		if !ok {
			return nil, false
		}
		return roundedBias(v.Name, x, a, b)
	}
	x, ok := floatsOf(n.In[0])
	scale, ok2 := floatsOf(n.In[1])
	if !ok || !ok2 || len(n.In) > 2 && !zeros(n.In[2]) {
		return nil, false
	}
	for i := range x {
		x[i] *= scale[i%len(scale)]
	}
	return roundedBias(v.Name, x, a, b)
}

// roundedBias puts a bias on the scale of the sums. A step is far below the step of any result.
func roundedBias(name string, x []float64, a, b qGrid) (*graph.Value, bool) {
	sa, _ := floatsOf(a.scale)
	sb, _ := floatsOf(b.scale)
	out := make([]int32, len(x))
	for i, v := range x {
		q := math.RoundToEven(v / (sa[0] * sb[i%len(sb)]))
		if !(math.Abs(q) < 1<<30) {
			return nil, false
		}
		out[i] = int32(q)
	}
	return graph.NewConst(name+"_quantized", tensor.From(out, len(out))), len(sb) == 1 ||
		len(sb) == len(x)
}

// floatsOf returns the elements of a constant as numbers.
func floatsOf(v *graph.Value) ([]float64, bool) {
	if v == nil || !v.IsConst() {
		return nil, false
	}
	x, err := v.Const().Floats()
	return x, err == nil && len(x) > 0
}

// zeros reports whether an operand is absent or a constant of zeros.
func zeros(v *graph.Value) bool {
	if v == nil {
		return true
	}
	x, ok := floatsOf(v)
	for _, f := range x {
		ok = ok && f == 0
	}
	return ok
}

// dropClip leaves out bounds that the saturation of n implies.
func dropClip(s *scope, n *graph.Node, g qGrid) *Patch {
	c := producer(n.In[0])
	if !is(c, "Relu") && !is(c, "Clip") {
		return nil
	}
	lo, hi := 0.0, math.Inf(1)
	if c.Type == "Clip" {
		var ok bool
		if lo, hi, ok = clipBounds(c); !ok {
			return nil
		}
	}
	scale, _ := floatsOf(g.scale)
	zero, _ := floatsOf(g.zero)
	least, most := integerRange(g.zero.Type.DType)
	for i, by := range scale {
		// A bound within the last half step of the range rounds to the same integer.
		if !(lo <= (least+0.49-zero[i])*by && hi >= (most-0.49-zero[i])*by && lo <= hi && by > 0) {
			return nil
		}
	}
	in := append([]*graph.Value{c.In[0]}, n.In[1:]...)
	return instead(n, operator(n, n.Domain, n.Type, n.Version, n.Attrs, in...))
}
