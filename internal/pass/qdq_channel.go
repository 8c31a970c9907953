package pass

import (
	"bytes"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// Some quantisers, such as NNCF, give the input of a depthwise convolution a scale for each
// channel. An operator of ONNX on bytes has one scale for its input and one for its result, but as
// many for its weights as these have outputs, which take those of the channels in:
//
//	Q[s](Conv(DQ(x), DQ[b](w)))  =  QLinearConv(x, DQ[b/s](w))
//	Q(Conv(DQ[a](x), DQ[b](w)))  =  QLinearConv(x, DQ[a·b](w))
//	                                  (depthwise, where output c reads one channel)
//
// with 1 for the scale of what had several. The zero points of the channels must be the same.

// channelGrids are the grids of a convolution once no operand but the weights has one a channel.
type channelGrids struct {
	a, out qGrid // of its input and of its result
	sums   qGrid // of the weights, such that the product with the scale of a is the sums' scale
	b      qGrid // of the weights, such that results are on out
	w      *graph.Value
}

// foldChannels takes the scales of the channels of x, which dequantises the input of m, and of n,
// which quantises its result, into those of the weights. It is false where they are not scales of
// channels, or where m mixes channels.
func foldChannels(n, m, x, w *graph.Node, a, b, out qGrid) (g channelGrids, ok bool) {
	g = channelGrids{a: a, out: out, sums: b, b: b, w: w.In[0]}
	if one(a) && one(out) {
		return g, true
	}
	if !is(m, "Conv") || w.In[0].Const().Len() == 0 || w.In[0].Const().Rank() < 3 ||
		!ofAxisOne(x, a) || !ofAxisOne(n, out) || !one(a) &&
		!eachItsOwn(m, w.In[0].Const().Shape, a.scale.Const().Len()) {
		return g, false
	}
	outputs := w.In[0].Const().Shape[0]
	multiply, divide := ones(outputs), ones(outputs)
	if !one(a) {
		multiply = spread(a, outputs)
		if g.a, ok = unscaledGrid(a); !ok {
			return g, false
		}
		g.w = withoutEmpty(w.In[0], b, out, multiply)
	}
	if !one(out) {
		if out.scale.Const().Len() != outputs {
			return g, false
		}
		divide = spread(out, outputs)
		if g.out, ok = unscaledGrid(out); !ok {
			return g, false
		}
	}
	if g.sums, ok = scaledGrid(b, multiply, ones(outputs)); !ok {
		return g, false
	}
	g.b, ok = scaledGrid(b, multiply, divide)
	return g, ok
}

// withoutEmpty returns the weights w, on the grid b, with zeros for outputs whose products with
// what they multiply, bytes on so large a scale for each, come to less than a hundredth of a step
// of the result: of those it makes the scale one on which a bias can be written.
func withoutEmpty(w *graph.Value, b, out qGrid, scale []float64) *graph.Value {
	t := w.Const()
	taps, zero := t.Len()/len(scale), b.zero.Const().Data
	weight := tensor.As[float32](b.scale.Const())
	step := tensor.As[float32](out.scale.Const())
	var data []byte
	for o := range scale {
		by, s := float64(weight[o%len(weight)]), float64(step[o%len(step)])
		if !(scale[o] > 0 && by > 0 && mostOfBytes*float64(taps)*scale[o]*by < s*littleOfStep) {
			continue
		}
		if data == nil {
			data = bytes.Clone(t.Data)
		}
		copy(data[o*taps:], bytes.Repeat(zero[o%len(zero):][:1], taps))
		scale[o] = s * littleOfStep / by
	}
	if data == nil {
		return w
	}
	return graph.NewConst(w.Name+"_full", &tensor.Tensor{DType: t.DType, Shape: t.Shape,
		Data: data})
}

// What bytes come to, and those that are multiplied, each less its zero point; and parts of the
// step of a result, of which the little one shows in the rounding of one element in a hundred.
const (
	rangeOfBytes = 255
	mostOfBytes  = rangeOfBytes * rangeOfBytes
	partOfStep   = 0.5
	littleOfStep = 0.01
)

// one reports whether a grid has one scale.
func one(g qGrid) bool { return g.scale.Const().Len() == 1 }

// ofAxisOne reports whether the grid of a quantising node is one for all or one for each index of
// axis 1, the channels of an image.
func ofAxisOne(n *graph.Node, g qGrid) bool {
	if one(g) {
		return true
	}
	of := n.In[0].Type
	axis := int(n.Attrs.Int("axis", 1))
	return axis == 1 || of.Ranked && axis+len(of.Shape) == 1
}

// eachItsOwn reports whether each output of the convolution m reads one of so many channels.
func eachItsOwn(m *graph.Node, weights []int, channels int) bool {
	return weights[1] == 1 && weights[0]%channels == 0 &&
		int(m.Attrs.Int("group", 1)) == channels
}

// ones are n times 1.
func ones(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// spread gives each of the outputs the scale of its channel, of which each has as many outputs.
func spread(g qGrid, outputs int) []float64 {
	scale := tensor.As[float32](g.scale.Const())
	x := make([]float64, outputs)
	for c := range x {
		x[c] = float64(scale[c/(outputs/len(scale))])
	}
	return x
}

// unscaledGrid is a grid of scale 1 with the one zero point that all channels of g have; false
// where they have several.
func unscaledGrid(g qGrid) (qGrid, bool) {
	zero := g.zero.Const()
	size := zero.DType.Bits() / 8
	for i := size; i < len(zero.Data); i++ {
		if zero.Data[i] != zero.Data[i-size] {
			return g, false
		}
	}
	return qGrid{
		scale: graph.NewConst(g.scale.Name+"_one", tensor.From([]float32{1}, 1)),
		zero: graph.NewConst(g.zero.Name+"_one", &tensor.Tensor{DType: zero.DType,
			Shape: []int{1}, Data: zero.Data[:size]}),
	}, true
}

// scaledGrid multiplies and divides the scales of weights, one for each output then. It is false
// where a scale is none.
func scaledGrid(g qGrid, multiply, divide []float64) (qGrid, bool) {
	from, zero := tensor.As[float32](g.scale.Const()), g.zero.Const()
	n := len(multiply)
	if len(from) != 1 && len(from) != n {
		return g, false
	}
	scale, size := make([]float32, n), zero.DType.Bits()/8
	zeros, err := tensor.New(zero.DType, n)
	if err != nil {
		return g, false
	}
	for c := range scale {
		s := float64(from[c%len(from)]) * multiply[c] / divide[c]
		if !(s >= math.SmallestNonzeroFloat32 && s <= math.MaxFloat32) {
			return g, false
		}
		scale[c] = float32(s)
		at := c % len(from) * size
		copy(zeros.Data[c*size:], zero.Data[at:at+size])
	}
	return qGrid{
		scale: graph.NewConst(g.scale.Name+"_channels", tensor.From(scale, n)),
		zero:  graph.NewConst(g.zero.Name+"_channels", zeros),
	}, true
}

// byteConvOf makes the convolution of bytes that n quantises, by grids that have one scale but for
// the weights.
func (s *scope) byteConvOf(n, m, x *graph.Node, g channelGrids) *Patch {
	in, ok := withIntBias([]*graph.Value{x.In[0], g.a.scale, g.a.zero, g.w, g.b.scale,
		g.b.zero, g.out.scale, g.out.zero}, m, g.a, g.sums)
	if !ok {
		return nil
	}
	return instead(n, operator(n, "", "QLinearConv", min(s.opset, 20), m.Attrs, in...))
}

// zerosOfChannels proposes one zero point for all channels of what n quantises, whose grid is g,
// where all that is lost are channels that hold nothing: quantisers give a channel in which they
// saw zeros only a tiny scale and the zero point in the middle. The range of such a channel then
// moves, by half of its length, which changes no result by more than half a step.
func (s *scope) zerosOfChannels(n *graph.Node, g qGrid) *Patch {
	if one(g) || n.In[2] != g.zero || !ofAxisOne(n, g) || !s.onlyDequantized(n.Out[0]) {
		return nil
	}
	zeros := *g.zero.Const()
	common, odd := majority(zeros.Data)
	if len(odd) == 0 || zeros.DType.Bits() != 8 {
		return nil
	}
	moved := make([]float64, len(odd))
	for i, c := range odd {
		moved[i] = math.Abs(byteAt(zeros.DType, zeros.Data[c]) - byteAt(zeros.DType, common))
	}
	zeros.Data = bytes.Repeat([]byte{common}, len(zeros.Data))
	to := graph.NewConst(g.zero.Name+"_common", &zeros)
	p := &Patch{Operands: []Operand{{n, n.In[2], to}}}
	for _, d := range s.readers(n.Out[0]) {
		back, ok := gridOf(d)
		if !ok || !sameGrid(g, back) || !ofAxisOne(d, back) || !s.negligible(d, g, odd, moved) {
			return nil
		}
		p.Operands = append(p.Operands, Operand{d, d.In[2], to})
	}
	return p
}

// majority returns the byte that most are, and where the others lie.
func majority(b []byte) (most byte, others []int) {
	var count [256]int
	for _, x := range b {
		if count[x]++; count[x] > count[most] {
			most = x
		}
	}
	for i, x := range b {
		if x != most {
			others = append(others, i)
		}
	}
	return most, others
}

// negligible reports whether all that reads d, which dequantises on the grid g, are depthwise
// convolutions whose results, quantised again, do not change by more than half a step when
// the ranges of such channels move by so many steps of theirs.
func (s *scope) negligible(d *graph.Node, g qGrid, channels []int, moved []float64) bool {
	if s.output[d.Out[0]] {
		return false
	}
	for _, m := range s.readers(d.Out[0]) {
		if !is(m, "Conv") || m.In[0] != d.Out[0] {
			return false
		}
		w := from(m.In[1], "DequantizeLinear")
		step, ok := s.stepOf(m.Out[0])
		if w == nil || !ok {
			return false
		}
		shape, ok := w.In[0].Type.Ints()
		b, ok2 := gridOf(w)
		if !ok || !ok2 || len(shape) < 3 || volume(shape) == 0 || !perOutput(m, w, b) ||
			!eachItsOwn(m, shape, g.scale.Const().Len()) ||
			!smallBeside(step, w.In[0], shape, g, b, channels, moved) {
			return false
		}
	}
	return true
}

// smallBeside reports whether what channels on the grid g may hold, multiplied by the weights of w
// on the grid b, changes by less than a part of a step when their ranges move by so many steps.
func smallBeside(step float64, w *graph.Value, shape []int, g, b qGrid, channels []int,
	moved []float64) bool {
	scale, weight := tensor.As[float32](g.scale.Const()), tensor.As[float32](b.scale.Const())
	taps, multiple := volume(shape[1:]), shape[0]/len(scale)
	for i, c := range channels {
		for o := c * multiple; o < (c+1)*multiple; o++ {
			most := moved[i] * float64(scale[c]) * math.Abs(float64(weight[o%len(weight)])) *
				magnitude(w, b, taps, o)
			if !(most < step*partOfStep) {
				return false
			}
		}
	}
	return true
}

// magnitude is the sum of the magnitudes of the weights of output o, or the most that it can be
// where they are not known yet.
func magnitude(w *graph.Value, b qGrid, taps, o int) (sum float64) {
	if !w.IsConst() {
		return rangeOfBytes * float64(taps)
	}
	zeros := b.zero.Const()
	zero := byteAt(zeros.DType, zeros.Data[o%len(zeros.Data)])
	for _, x := range w.Const().Data[o*taps:][:taps] {
		sum += math.Abs(byteAt(zeros.DType, x) - zero)
	}
	return sum
}

// byteAt is the number that a byte stands for.
func byteAt(d tensor.DType, x byte) float64 {
	if d.IsSigned() {
		return float64(int8(x))
	}
	return float64(x)
}

// stepOf is the one scale on which a value is quantised, or what limits it; false where anything
// else reads it.
func (s *scope) stepOf(v *graph.Value) (step float64, ok bool) {
	for range 2 {
		readers := s.readers(v)
		if !s.only(v) || len(readers) != 1 {
			return 0, false
		}
		switch n := readers[0]; {
		case is(n, "QuantizeLinear") && n.In[0] == v:
			g, ok := gridOf(n)
			if !ok || !one(g) {
				return 0, false
			}
			return float64(tensor.As[float32](g.scale.Const())[0]), true
		case is(n, "Clip") || is(n, "Relu"):
			v = n.Out[0]
		}
	}
	return 0, false
}
