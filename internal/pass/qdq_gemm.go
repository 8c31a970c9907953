package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gemmOfBytes proposes a 1 x 1 convolution of bytes over one pixel in place of n, which quantises
// m, when m is a fully connected layer between quantised values. The weights must have one row per
// output (transB), as exporters write them.
func (s *scope) gemmOfBytes(n, m *graph.Node, out qGrid) *Patch {
	if !is(m, "Gemm") || m.Attrs.Int("transA", 0) != 0 || m.Attrs.Int("transB", 0) == 0 ||
		m.Attrs.Float("alpha", 1) != 1 || m.Attrs.Float("beta", 1) != 1 {
		return nil
	}
	x, a, ok := dequantized(m.In[0])
	w := from(m.In[1], "DequantizeLinear")
	if !ok || w == nil || !w.In[0].IsConst() || w.In[0].Const().Rank() != 2 {
		return nil
	}
	b, ok := gridOf(w)
	rows := w.In[0].Const().Shape[0]
	if !ok || !perOutput(m, w, b) || b.scale.Const().Len() > 1 && b.scale.Const().Len() != rows {
		return nil
	}
	kernel := *w.In[0].Const()
	kernel.Shape = append([]int{rows, kernel.Shape[1]}, 1, 1)
	in, ok := withIntBias([]*graph.Value{x, a.scale, a.zero, graph.NewConst(w.In[0].Name, &kernel),
		b.scale, b.zero, out.scale, out.zero}, m, a, b)
	if !ok || len(in) > 8 && in[8].Const().Len() != rows {
		return nil
	}
	return s.onePixelConv(n, in)
}

// onePixelConv computes a product as the convolution, by these operands, of an image of one pixel.
func (s *scope) onePixelConv(n *graph.Node, in []*graph.Value) *Patch {
	shape := graph.NewConst(n.Name+"_pixel", tensor.From([]int64{0, 0, 1, 1}, 4))
	pixel := graph.NewNode(n.Name, "Reshape", s.opset, nil, []*graph.Value{in[0], shape},
		n.Out[0].Name)
	in[0] = pixel.Out[0]
	conv := operator(n, "", "QLinearConv", min(s.opset, 20),
		op.Attrs{op.IntsAttr("kernel_shape", 1, 1)}, in...)
	flat := graph.NewNode(n.Name, "Flatten", s.opset, op.Attrs{op.IntAttr("axis", 1)},
		[]*graph.Value{conv.Out[0]}, n.Out[0].Name)
	return &Patch{Insert: []*graph.Node{pixel, conv, flat},
		Replace: []Replacement{{n.Out[0], flat.Out[0]}}}
}
