package pass

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// What precedes a convolution channel by channel goes into its weights.
//
//	Conv(k·x, W, b)      =  Conv(x, W·k, b)
//	                          (k one number an input channel)
//	Conv(x + k, W, b)    =  Conv(x, W, b + ΣW·k)
//	                          (no padding)
//	Conv(a·x + k, W, b)  =  Conv(x + k/a, W·a, b)
//	                          (with padding, whose zeros are added after the sum)
//
// for constant float32 weights, bias and k, of shape [1, C, 1, ...] or one number, when the sum or
// product serves nothing else.

// maxShift bounds k/a, so that no sum overflows that did not before.
const maxShift = 1e20

func startInputScale(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Conv") || !floats(n.In[1]) || n.In[1].Const().Rank() < 3 {
			return nil
		}
		x := n.In[0]
		if k, y := s.perInput(x, "Mul"); k != nil {
			return scaleInput(n, y, k)
		}
		k, y := s.perInput(x, "Add")
		if k == nil {
			return nil
		}
		if !padded(n) {
			return shiftInput(n, y, k)
		}
		if a, z := s.perInput(y, "Mul"); a != nil {
			return scaleShifted(n, z, a, k)
		}
		return nil
	}
}

// scaleShifted proposes the Conv n, which reads a·z + k and pads, on z + k/a.
func scaleShifted(n *graph.Node, z *graph.Value, a, k []float64) *Patch {
	for i := range k {
		if k[i] /= a[i]; !(math.Abs(k[i]) < maxShift) {
			return nil
		}
	}
	x := n.In[0]
	shift := graph.NewConst(x.Name+"_shift", channelTensor(k, len(x.Type.Shape)))
	sum := graph.NewNode(x.Producer.Name, "Add", x.Producer.Version, nil, []*graph.Value{z, shift},
		x.Name)
	p := scaleInput(n, sum.Out[0], a)
	if p != nil {
		p.Insert = append([]*graph.Node{sum}, p.Insert...)
	}
	return p
}

// perInput returns k and y when x is typ(y, k) with k one number a channel, and nothing else reads
// x.
func (s *scope) perInput(x *graph.Value, typ string) ([]float64, *graph.Value) {
	m := from(x, typ)
	if m == nil || !s.only(x) {
		return nil, nil
	}
	y, c, ok := sides(m, func(v *graph.Value) bool { return v.IsConst() })
	if !ok || !sameShape(y, x) || len(y.Type.Shape) < 3 {
		return nil, nil
	}
	channels, ok := y.Type.Shape[1].Int()
	if !ok {
		return nil, nil
	}
	return perChannel(c, channels, len(y.Type.Shape)), y
}

// padded reports whether a convolution may read zeros around its input.
func padded(n *graph.Node) bool {
	w, _, ok := convWindow(n, n.In[1].Const().Shape)
	pads := func(p int) bool { return p > 0 }
	return !ok || w.Same() || slices.ContainsFunc(w.Begin, pads) || slices.ContainsFunc(w.End, pads)
}

// eachTap calls f for every weight, with its index, output channel and input channel. It returns
// false when the weights do not fit the number of channels.
func eachTap(n *graph.Node, channels int, f func(i, out, in int)) bool {
	w := n.In[1].Const()
	rows, cols := w.Shape[0], w.Shape[1]
	_, group, ok := convWindow(n, w.Shape)
	if !ok || cols*group != channels || rows%group != 0 || w.Len() == 0 {
		return false
	}
	kernel := w.Len() / (rows * cols)
	for i := range w.Len() {
		out := i / (cols * kernel)
		f(i, out, out/(rows/group)*cols+i/kernel%cols)
	}
	return true
}

func scaleInput(n *graph.Node, y *graph.Value, k []float64) *Patch {
	w := n.In[1].Const()
	scaled := slices.Clone(tensor.As[float32](w))
	if !eachTap(n, len(k), func(i, _, in int) { scaled[i] = float32(float64(scaled[i]) * k[in]) }) {
		return nil
	}
	weights := graph.NewConst(n.In[1].Name, tensor.From(scaled, w.Shape...))
	in := append([]*graph.Value{y, weights}, n.In[2:]...)
	return instead(n, operator(n, "", "Conv", n.Version, n.Attrs, in...))
}

func shiftInput(n *graph.Node, y *graph.Value, k []float64) *Patch {
	w := tensor.As[float32](n.In[1].Const())
	sum := make([]float64, n.In[1].Const().Shape[0])
	if len(n.In) > 2 && n.In[2] != nil {
		if sum = constants(n.In[2]); len(sum) != n.In[1].Const().Shape[0] {
			return nil
		}
	}
	if !eachTap(n, len(k), func(i, out, in int) { sum[out] += float64(w[i]) * k[in] }) {
		return nil
	}
	bias := graph.NewConst(n.Out[0].Name+"_bias", channelTensor(sum, 0))
	return instead(n, operator(n, "", "Conv", n.Version, n.Attrs, y, n.In[1], bias))
}

// channelTensor makes [1, C, 1, ...] of the given rank, or a vector for rank 0.
func channelTensor(v []float64, rank int) *tensor.Tensor {
	data := make([]float32, len(v))
	for i, f := range v {
		data[i] = float32(f)
	}
	shape := []int{len(v)}
	if rank > 0 {
		shape = slices.Repeat([]int{1}, rank)
		shape[1] = len(v)
	}
	return tensor.From(data, shape...)
}
