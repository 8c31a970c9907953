package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// A convolution of quantised numbers whose result is not quantised to bytes is one of integers all
// the same.
//
//	Conv(DQ(x), DQ(w), b)      =  weir:GridConv(DQ(x), w, b)
//	                                (w constant bytes, one scale for x)
//	a·weir:GridConv(x, w, b)+c =  weir:GridConv(x, w', b')
//	                                (a, c constant, one an index of axis 1)
//
// That is what NNCF leaves, which quantises where a product reads, and files of 16 bits. Of these
// only convolutions of single pixels are, by weights with which no sum exceeds 32 bits. The
// operator rounds x, which it gets as numbers, once more, so that it matters to nothing else how
// these are stored. Only where the device multiplies bytes faster than numbers is it worth bringing
// them into their form, and twice as many where it multiplies them far faster.

// gridOperands are the operands of a product of numbers on the steps of integers: the first is on
// grid a, of one scale, and the second is what w makes of constant integers on grid b.
func (s *scope) gridOperands(n *graph.Node) (w *graph.Node, a, b qGrid, ok bool) {
	x, w := from(n.In[0], "DequantizeLinear"), from(n.In[1], "DequantizeLinear")
	if x == nil || w == nil || !w.In[0].IsConst() || n.In[0].Type.DType != tensor.Float32 {
		return nil, a, b, false
	}
	a, okA := gridOn(x, gridTypes)
	b, okB := gridOf(w)
	return w, a, b, okA && okB && one(a) &&
		(s.features.FastWords || a.zero.Const().DType.Bits() == 8)
}

// gridConv proposes a convolution by integers in place of n.
func (s *scope) gridConv(n *graph.Node) *Patch {
	if !is(n, "Conv") || s.becomesBytes(n.Out[0]) {
		return nil
	}
	w, a, b, ok := s.gridOperands(n)
	if !ok || !perOutput(n, w, b) || !worthIntegers(n, w.In[0].Const(), a) ||
		!op.GridSumsFit(a.zero.Const(), w.In[0].Const(), b.zero.Const()) {
		return nil
	}
	in := []*graph.Value{n.In[0], a.scale, a.zero, w.In[0], b.scale, b.zero}
	if len(n.In) > 2 && n.In[2] != nil {
		in = append(in, n.In[2])
	}
	return instead(n, operator(n, op.FusedDomain, "GridConv", 1, n.Attrs, in...))
}

// A convolution is worth bringing an image and sums into other forms for from so many outputs on,
// of so many products, of bytes and of integers of 16 bits, each of which is two products.
const (
	leastOutputs  = 32
	leastProducts = 48
	leastWords    = 192
)

// worthIntegers reports whether the convolution n by weights w of numbers on the grid a has fast
// kernels of integers.
func worthIntegers(n *graph.Node, w *tensor.Tensor, a qGrid) bool {
	if w.Rank() < 3 || w.Shape[0] < leastOutputs {
		return false
	}
	window, group, ok := convWindow(n, w.Shape)
	products := w.Len() / w.Shape[0]
	if !ok || group != 1 || a.zero.Const().DType.Bits() == 8 {
		return ok && group == 1 && products >= leastProducts
	}
	padded := func(p int) bool { return p != 0 }
	return products >= leastWords && onesOnly(w.Shape[2:]) && onesOnly(window.Stride) &&
		!slices.ContainsFunc(append(window.Begin, window.End...), padded)
}

// becomesBytes reports whether v is only read to be quantised to bytes, maybe limited before.
func (s *scope) becomesBytes(v *graph.Value) bool {
	for s.only(v) {
		n := s.readers(v)[0]
		if is(n, "QuantizeLinear") {
			_, ok := gridOf(n)
			return ok
		}
		if !is(n, "Clip") && !is(n, "Relu") {
			return false
		}
		v = n.Out[0]
	}
	return false
}

// scaledGridConv proposes a convolution by integers with arithmetic on its channels in the scales
// of its weights and the bias, in place of n, which computes that.
func (s *scope) scaledGridConv(n *graph.Node) *Patch {
	y, f, ok := s.channelwise(n)
	if !ok || !s.only(y) {
		return nil
	}
	m := producer(y)
	if m == nil || m.Domain != op.FusedDomain || m.Type != "GridConv" ||
		m.Attrs.Has("activation") {
		return nil
	}
	outputs := m.In[op.QLinearB].Const().Shape[0]
	bias, ok := make([]float64, outputs), true
	if len(m.In) > op.GridBias {
		bias, ok = floatsOf(m.In[op.GridBias])
	}
	if !ok || len(bias) != outputs || len(f.scale) != 1 && len(f.scale) != outputs {
		return nil
	}
	scale, _ := floatsOf(m.In[op.QLinearBScale])
	scales, biases := make([]float32, outputs), make([]float32, outputs)
	for c := range outputs {
		by := f.scale[c%len(f.scale)]
		scales[c] = float32(scale[c%len(scale)] * by)
		biases[c] = float32(bias[c]*by + f.shift[c%len(f.shift)])
		if scales[c]*0 != 0 || biases[c]*0 != 0 {
			return nil
		}
	}
	zeros := m.In[op.QLinearBZero].Const()
	if zeros.Len() == 1 {
		zeros = &tensor.Tensor{DType: zeros.DType, Data: slices.Repeat(zeros.Data, outputs)}
	}
	in := append(slices.Clone(m.In[:op.QLinearBScale]),
		graph.NewConst(n.Name+"_scale", tensor.From(scales, outputs)),
		graph.NewConst(n.Name+"_zero", &tensor.Tensor{DType: zeros.DType, Shape: []int{outputs},
			Data: zeros.Data}),
		graph.NewConst(n.Name+"_bias", tensor.From(biases, outputs)))
	return instead(n, operator(n, op.FusedDomain, "GridConv", 1, m.Attrs, in...))
}
