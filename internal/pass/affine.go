package pass

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// What follows a convolution channel by channel goes into its weights.
//
//	a · Conv(x, W, b) + c                  =  Conv(x, a·W, a·b + c)
//	                                            (a, c one number an output channel)
//	BatchNormalization(y, γ, β, μ, σ²), ε  =  a · y + c,  a = γ / √(σ² + ε),  c = β - a·μ
//	y · k, y / k, y + k, y - k, k - y      =  a · y + c
//	                                            (k constant, [1, C, 1, ...] or one number)
//
// for Conv and ConvTranspose with constant float32 weights and bias, where nothing else reads their
// result. The new weights are computed in float64 and rounded once. Large weights of a Conv are not
// copied: the node becomes a weir:Conv, which takes a as a further input, and kernels multiply the
// weights by a when they pack them. A BatchNormalization after any other operator stays.

func startBatchNorm(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if f, ok := s.normalisation(n); ok {
			return s.intoConv(n, n.In[0], f)
		}
		return nil
	}
}

// normalisation is what n computes when it is a BatchNormalization with constants.
func (s *scope) normalisation(n *graph.Node) (f affine, ok bool) {
	if n.Type != "BatchNormalization" || n.Domain != "" || n.Attrs.Bool("training_mode", false) ||
		!n.Attrs.Bool("spatial", true) || s.anyUsed(n.Out[1:]) {
		return f, false
	}
	var in [5][]float64
	for i := 1; i < 5; i++ {
		if in[i] = constants(n.In[i]); in[i] == nil || len(in[i]) != len(in[1]) {
			return f, false
		}
	}
	eps := float64(n.Attrs.Float("epsilon", 1e-5))
	f = affine{make([]float64, len(in[1])), make([]float64, len(in[1]))}
	for i := range f.scale {
		f.scale[i] = in[1][i] / math.Sqrt(in[4][i]+eps)
		f.shift[i] = in[2][i] - in[3][i]*f.scale[i]
	}
	return f, true
}

func startChannel(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if y, f, ok := channelArithmetic(n); ok && len(y.Type.Shape) >= 3 {
			return s.intoConv(n, y, f)
		}
		return nil
	}
}

// channelArithmetic is what n does to y when it is arithmetic with a constant, one number or one a
// channel.
func channelArithmetic(n *graph.Node) (y *graph.Value, f affine, ok bool) {
	if n.Domain != "" || !slices.Contains([]string{"Mul", "Div", "Add", "Sub"}, n.Type) {
		return nil, f, false
	}
	y, c, ok := sides(n, func(v *graph.Value) bool { return v.IsConst() })
	if !ok || !y.Type.Ranked || len(y.Type.Shape) < 2 || !sameShape(y, n.Out[0]) {
		return nil, f, false
	}
	channels, ok := y.Type.Shape[1].Int()
	if !ok {
		return nil, f, false
	}
	k := perChannel(c, channels, len(y.Type.Shape))
	if k == nil {
		return nil, f, false
	}
	f, ok = affineOf(n.Type, k, c == n.In[0])
	return y, f, ok
}

// affine is the map y → scale·y + shift, one pair a channel.
type affine struct{ scale, shift []float64 }

// affineOf returns the map of a binary operator of the given type between y and the constant k, one
// number per channel. k is the first operand when first is set, and the second otherwise.
func affineOf(typ string, k []float64, first bool) (affine, bool) {
	f := affine{make([]float64, len(k)), make([]float64, len(k))}
	for i, v := range k {
		f.scale[i] = 1
		switch {
		case typ == "Mul":
			f.scale[i] = v
		case typ == "Div" && !first && v != 0:
			f.scale[i] = 1 / v
		case typ == "Add":
			f.shift[i] = v
		case typ == "Sub" && first:
			f.scale[i], f.shift[i] = -1, v
		case typ == "Sub":
			f.shift[i] = -v
		default:
			return f, false
		}
	}
	return f, true
}

// floats reports whether v is a constant float32.
func floats(v *graph.Value) bool {
	return v != nil && v.IsConst() && v.Const().DType == tensor.Float32
}

// constants returns the elements of a constant float32, nil when v is none.
func constants(v *graph.Value) []float64 {
	if !floats(v) {
		return nil
	}
	f, err := v.Const().Floats()
	if err != nil {
		return nil
	}
	return f
}

// perChannel returns the constant v as one number a channel of a value of the given rank, nil when
// it varies along another axis.
func perChannel(v *graph.Value, channels, rank int) []float64 {
	t := v.Const()
	lead := rank - t.Rank()
	if lead < 0 || t.Len() != 1 && t.Len() != channels {
		return nil
	}
	for i, d := range t.Shape {
		if d != 1 && lead+i != 1 {
			return nil
		}
	}
	k := constants(v)
	if len(k) == 1 {
		return slices.Repeat(k, channels)
	}
	return k
}

// intoConv proposes the convolution that computes y with the map f after it in place of n, nil when
// y is none.
func (s *scope) intoConv(n *graph.Node, y *graph.Value, f affine) *Patch {
	m := producer(y)
	if m == nil || m.Domain != "" && !isScaled(m) || m.Type != "Conv" &&
		m.Type != "ConvTranspose" || !s.only(y) || m.In[1] == nil ||
		!m.In[1].IsConst() || m.In[1].Const().DType != tensor.Float32 {
		return nil
	}
	b := f.biasOf(m)
	if b == nil {
		return nil
	}
	name := n.Out[0].Name + "_bias"
	if isScaled(m) || !s.portable && large(m) {
		return scaledLater(n, m, graph.NewConst(name, tensor.From(b, len(b))), f.scale)
	}
	w := scaled(m, f.scale)
	if w == nil {
		return nil
	}
	weights := holding(m.In[1], w)
	return instead(n, operator(n, "", m.Type, m.Version, m.Attrs, m.In[0], weights,
		graph.NewConst(name, tensor.From(b, len(b)))))
}

// biasOf is what a convolution's bias becomes: zero where it has none, nil where it does not fit.
func (f affine) biasOf(m *graph.Node) []float32 {
	bias := make([]float64, len(f.scale))
	if len(m.In) > 2 && m.In[2] != nil {
		if bias = constants(m.In[2]); len(bias) != len(f.scale) {
			return nil
		}
	}
	b := make([]float32, len(bias))
	for i := range b {
		b[i] = float32(bias[i]*f.scale[i] + f.shift[i])
	}
	return b
}

// leastScaled is the size in bytes of weights that are worth not being copied.
const leastScaled = 128 << 10

// large reports whether the weights of a convolution had better stay where they are until a kernel
// packs them.
func large(m *graph.Node) bool {
	return m.Type == "Conv" && len(m.In[1].Const().Data) >= leastScaled
}

// isScaled reports whether m is a convolution whose weights are scaled when they are packed, and
// nothing else of weir's own.
func isScaled(m *graph.Node) bool {
	return m.Domain == op.FusedDomain && m.Type == "Conv" && len(m.In) == 5 && m.In[3] == nil &&
		m.In[4] != nil && m.In[4].IsConst() &&
		!m.Attrs.Has("activation") && !m.Attrs.Has("precision")
}

// scaledLater proposes, in place of n, the convolution m with another bias and with its weights
// multiplied by scale, one number per output channel. The weights themselves stay as they are:
// scale becomes an input of weir:Conv, multiplied by the scale that m may have already.
func scaledLater(n, m *graph.Node, bias *graph.Value, scale []float64) *Patch {
	by := make([]float32, len(scale))
	for i, v := range scale {
		by[i] = float32(v)
	}
	if isScaled(m) {
		for i, v := range tensor.As[float32](m.In[4].Const()) {
			by[i] *= v
		}
	}
	in := []*graph.Value{m.In[0], m.In[1], bias, nil,
		graph.NewConst(n.Out[0].Name+"_scale", tensor.From(by, len(by)))}
	if !slices.ContainsFunc(by, func(v float32) bool { return v != 1 }) {
		in = in[:3]
	}
	return instead(n, operator(n, op.FusedDomain, "Conv", 1, m.Attrs, in...))
}

// scaled returns the weights of a convolution times one number an output channel, nil when they do
// not fit. Conv has [M, C/group, ...], ConvTranspose [C, M/group, ...] with the groups along C.
func scaled(m *graph.Node, scale []float64) *tensor.Tensor {
	w := m.In[1].Const()
	if !slices.ContainsFunc(scale, func(a float64) bool { return a != 1 }) {
		return w
	}
	if w.Rank() < 3 || w.Len() == 0 {
		return nil
	}
	_, group, ok := convWindow(m, w.Shape)
	if !ok {
		return nil
	}
	rows, cols := w.Shape[0], w.Shape[1]
	channel := func(i, _ int) int { return i }
	fits := rows == len(scale)
	if m.Type == "ConvTranspose" {
		channel = func(i, j int) int { return i/(rows/group)*cols + j }
		fits = rows%group == 0 && cols*group == len(scale)
	}
	if !fits {
		return nil
	}
	return scaledKernels(w, func(i, j int) float64 { return scale[channel(i, j)] })
}

// scaledKernels returns w, whose first two axes number kernels, with each kernel times a number.
func scaledKernels(w *tensor.Tensor, by func(i, j int) float64) *tensor.Tensor {
	out, in := make([]float32, w.Len()), tensor.As[float32](w)
	rows, cols := w.Shape[0], w.Shape[1]
	kernel := w.Len() / (rows * cols)
	for i := range rows {
		for j := range cols {
			a, at := by(i, j), (i*cols+j)*kernel
			for k, v := range in[at : at+kernel] {
				out[at+k] = float32(float64(v) * a)
			}
		}
	}
	return tensor.From(out, w.Shape...)
}

// holding returns v when t is its tensor already, and otherwise a new constant with the name of v
// that holds t.
func holding(v *graph.Value, t *tensor.Tensor) *graph.Value {
	if v.Const() == t {
		return v
	}
	return graph.NewConst(v.Name, t)
}
