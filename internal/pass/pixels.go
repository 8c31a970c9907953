package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Between convolutions that multiply in bfloat16 images stay in it, with their channels in the last
// axis, where the device has kernels for that: the next convolution would round them anyway, they
// take half the memory, and the channels of a pixel lie side by side, as products read them.
//
//	Conv(x, w, ...){precision bf16}        =  planar(weir:NhwcConv(pixels(x), w, ...))
//	Conv(planar(x), w), a group a channel  =  planar(weir:NhwcConv(x, w))
//	Add(planar(x), planar(y))              =  planar(Add(x, y))
//	                                            (likewise Mul and Concat)
//	MaxPool(planar(x))                     =  planar(weir:NhwcMaxPool(x))
//	GlobalAveragePool(planar(x))           =  weir:NhwcGlobalAveragePool(x)
//	Split(planar(x))                       =  planar(Split(x)) ...
//	                                            (likewise Slice)
//	Resize(planar(x))                      =  planar(Reshape(Expand(Reshape(x))))
//	                                            (nearest elements, by whole factors)
//
// where pixels is Cast to bfloat16 and Transpose, and planar is Transpose and Cast back. Steps of
// training are left alone: their backward half reads the same values.

func startPixels(s *scope) rule {
	if s.portable || !s.precision.mixed() || s.precision == FP16 || unscaled(s.g) != nil ||
		!s.features.Pixels.Yes() {
		return func(*graph.Node) *Patch { return nil }
	}
	return func(n *graph.Node) *Patch {
		if n.Type != "GlobalAveragePool" &&
			slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return s.output[v] }) {
			return nil // an output is not rounded, as means are not
		}
		if n.Type == "Conv" {
			return s.pixelConv(n)
		}
		if n.Domain != "" || len(n.In) == 0 || pixelsOf(n.In[0]) == nil {
			return nil
		}
		if of := pixelRules[n.Type]; of != nil {
			return of(s, n)
		}
		return nil
	}
}

// forPixels reports whether a node becomes a convolution of pixels of one group once it multiplies
// in bfloat16. That pays whatever the product by itself would: its image and its result are half as
// large, and nothing is rounded between it and its neighbours.
func (s *scope) forPixels(n *graph.Node) bool {
	if n.Type != "Conv" || !isProduct(n) || unscaled(s.g) != nil || !constantOperands(n) {
		return false
	}
	x, w := n.In[0].Type, n.In[1].Const().Shape
	return n.Attrs.Int("group", 1) == 1 && x.Ranked && len(x.Shape) == 4 &&
		x.DType == tensor.Float32 && len(w) == 4 && s.features.Pixels.Yes()
}

// pixelRules are the operators of ONNX that work on pixels.
var pixelRules = map[string]func(s *scope, n *graph.Node) *Patch{
	"Add": (*scope).pixelwise, "Mul": (*scope).pixelwise, "Concat": (*scope).pixelConcat,
	"MaxPool": (*scope).pixelMax, "GlobalAveragePool": (*scope).pixelMean,
	"Split": (*scope).pixelSplit, "Slice": (*scope).pixelSlice, "Resize": (*scope).pixelRepeat,
}

// pixelsOf returns the image of bfloat16 with its channels in the last axis of which v is the
// planar form, or nil where v is none.
func pixelsOf(v *graph.Value) *graph.Value {
	c := from(v, "Cast")
	if c == nil || v.Type.DType != tensor.Float32 {
		return nil
	}
	t := from(c.In[0], "Transpose")
	if t == nil || !slices.Equal(t.Attrs.Ints("perm"), toPlanar) ||
		t.In[0].Type.DType != tensor.BFloat16 {
		return nil
	}
	return t.In[0]
}

// toPixels returns v as pixels, and the nodes that make it so.
func (s *scope) toPixels(n *graph.Node, v *graph.Value) (*graph.Value, []*graph.Node) {
	if x := pixelsOf(v); x != nil {
		return x, nil
	}
	c := graph.NewNode(n.Name, "Cast", min(s.opset, 13),
		op.Attrs{op.IntAttr("to", int64(tensor.BFloat16))}, []*graph.Value{v}, n.Out[0].Name)
	t := s.transpose(n, c.Out[0], toNHWC)
	return t.Out[0], []*graph.Node{c, t}
}

// fromPixels makes the planar form of v, which takes the place of output i of n.
func (s *scope) fromPixels(n *graph.Node, i int, v *graph.Value) []*graph.Node {
	t := s.transpose(n, v, toPlanar)
	return []*graph.Node{t, graph.NewNode(n.Name, "Cast", min(s.opset, 13),
		op.Attrs{op.IntAttr("to", int64(tensor.Float32))}, []*graph.Value{t.Out[0]},
		n.Out[i].Name)}
}

// inPixels proposes the planar form of what the last of some nodes computes in the place of n.
func (s *scope) inPixels(n *graph.Node, nodes ...*graph.Node) *Patch {
	back := s.fromPixels(n, 0, nodes[len(nodes)-1].Out[0])
	return &Patch{Insert: append(nodes, back...),
		Replace: []Replacement{{n.Out[0], back[1].Out[0]}}}
}

// pixelConv makes a convolution one of pixels: one of one group that multiplies in bfloat16, or one
// of a group a channel whose image is made of pixels.
func (s *scope) pixelConv(n *graph.Node) *Patch {
	if n.Domain != "" && n.Domain != op.FusedDomain || len(n.Out) != 1 || !constantOperands(n) {
		return nil
	}
	x, w := n.In[0].Type, n.In[1].Const().Shape
	if !x.Ranked || len(x.Shape) != 4 || x.DType != tensor.Float32 || len(w) != 4 {
		return nil
	}
	window, group, ok := convWindow(n, w)
	if !ok {
		return nil
	}
	in := slices.Clone(n.In)
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a op.Attr) bool {
		return a.Name == "precision"
	})
	var before []*graph.Node
	switch {
	case inBF16(n) && group == 1 && w[1] <= 4 && onesOnly(window.Dilation) &&
		pixelsOf(n.In[0]) == nil:
		attrs = append(attrs, op.IntAttr("planar", 1))
	case inBF16(n) && group == 1:
		in[0], before = s.toPixels(n, n.In[0])
	case group == w[0] && w[1] == 1 && w[2]*w[3] <= conv.MostWindow16 && !hasResidual(n) &&
		pixelsOf(n.In[0]) != nil:
		in[0] = pixelsOf(n.In[0])
	default:
		return nil
	}
	if hasResidual(n) {
		var more []*graph.Node
		in[3], more = s.toPixels(n, n.In[3])
		before = append(before, more...)
	}
	return s.inPixels(n, append(before, operator(n, op.FusedDomain, "NhwcConv", 1, attrs,
		in...))...)
}

// hasResidual reports whether something is added to the result of a convolution.
func hasResidual(n *graph.Node) bool { return len(n.In) > 3 && n.In[3] != nil }

// constantOperands reports whether weights, bias and scale of a convolution are constants.
func constantOperands(n *graph.Node) bool {
	for i, v := range n.In {
		if i != 0 && i != 3 && v != nil && !v.IsConst() {
			return false
		}
	}
	return len(n.In) > 1 && n.In[1] != nil && n.In[1].Type.DType == tensor.Float32
}

// allPixels are the operands of n as pixels, nil where one is none.
func allPixels(n *graph.Node) []*graph.Value {
	var in []*graph.Value
	for _, v := range n.In {
		x := pixelsOf(v)
		if x == nil {
			return nil
		}
		in = append(in, x)
	}
	return in
}

// pixelwise is arithmetic by element.
func (s *scope) pixelwise(n *graph.Node) *Patch {
	in := allPixels(n)
	if in == nil {
		return nil
	}
	return s.inPixels(n, operator(n, "", n.Type, n.Version, n.Attrs, in...))
}

// lastAxis are attributes whose axis is that of channels, which becomes the last; nil where it is
// another one.
func lastAxis(n *graph.Node, def int64) op.Attrs {
	if a := n.Attrs.Int("axis", def); a != 1 && a != -3 {
		return nil
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a op.Attr) bool {
		return a.Name == "axis"
	})
	return append(attrs, op.IntAttr("axis", 3))
}

func (s *scope) pixelConcat(n *graph.Node) *Patch {
	in, attrs := allPixels(n), lastAxis(n, 1)
	if in == nil || attrs == nil {
		return nil
	}
	return s.inPixels(n, operator(n, "", n.Type, n.Version, attrs, in...))
}

// pixelMax takes the greatest of windows of which none lies in the padding alone.
func (s *scope) pixelMax(n *graph.Node) *Patch {
	w, err := n.Call().PoolWindow(2)
	if err != nil || len(n.Out) != 1 || w.Ceil || !onesOnly(w.Dilation) || w.Auto != "NOTSET" ||
		w.Kernel[0]*w.Kernel[1] > conv.MostWindow16 {
		return nil
	}
	for i, k := range w.Kernel {
		if max(w.Begin[i], w.End[i]) >= k {
			return nil
		}
	}
	return s.inPixels(n, operator(n, op.FusedDomain, "NhwcMaxPool", 1, n.Attrs,
		pixelsOf(n.In[0])))
}

func (s *scope) pixelMean(n *graph.Node) *Patch {
	return instead(n, operator(n, op.FusedDomain, "NhwcGlobalAveragePool", 1, nil,
		pixelsOf(n.In[0])))
}

func (s *scope) pixelSplit(n *graph.Node) *Patch {
	attrs := lastAxis(n, 0)
	if attrs == nil || slices.Contains(n.Out, nil) {
		return nil
	}
	in := append([]*graph.Value{pixelsOf(n.In[0])}, n.In[1:]...)
	var names []string
	for _, v := range n.Out {
		names = append(names, v.Name)
	}
	m := graph.NewNode(n.Name, n.Type, n.Version, attrs, in, names...)
	p := &Patch{Insert: []*graph.Node{m}}
	for i, v := range m.Out {
		back := s.fromPixels(n, i, v)
		p.Insert = append(p.Insert, back...)
		p.Replace = append(p.Replace, Replacement{n.Out[i], back[1].Out[0]})
	}
	return p
}

// pixelSlice takes some of the channels.
func (s *scope) pixelSlice(n *graph.Node) *Patch {
	if len(n.In) < 4 || n.In[3] == nil || !n.In[3].IsConst() {
		return nil
	}
	axes, err := n.In[3].Const().Ints()
	if err != nil || len(axes) != 1 || axes[0] != 1 && axes[0] != -3 {
		return nil
	}
	in := slices.Clone(n.In)
	in[0] = pixelsOf(n.In[0])
	in[3] = graph.NewConst(n.In[3].Name, tensor.From([]int64{3}, 1))
	if t := n.In[3].Type.DType; t != tensor.Int64 { // starts and axes have one type
		in[3] = graph.NewConst(n.In[3].Name, tensor.From([]int32{3}, 1))
	}
	return s.inPixels(n, operator(n, "", n.Type, n.Version, n.Attrs, in...))
}

// pixelRepeat repeats rows and columns.
func (s *scope) pixelRepeat(n *graph.Node) *Patch {
	x, ok := n.In[0].Type.Ints()
	y, ok2 := n.Out[0].Type.Ints()
	if !ok || !ok2 || !repeats(n, x, y) {
		return nil
	}
	fy, fx := y[2]/x[2], y[3]/x[3]
	shaped := func(typ string, v *graph.Value, version int, shape ...int) *graph.Node {
		to := make([]int64, len(shape))
		for i, d := range shape {
			to[i] = int64(d)
		}
		return operator(n, "", typ, version, nil, v,
			graph.NewConst(n.Out[0].Name+"_shape", tensor.From(to, len(to))))
	}
	a := shaped("Reshape", pixelsOf(n.In[0]), min(s.opset, 14), x[0], x[2], 1, x[3], 1, x[1])
	b := shaped("Expand", a.Out[0], min(s.opset, 13), x[0], x[2], fy, x[3], fx, x[1])
	c := shaped("Reshape", b.Out[0], min(s.opset, 14), y[0], y[2], y[3], y[1])
	return s.inPixels(n, a, b, c)
}

// repeats reports whether a Resize takes element i/f, rounded down, by whole factors f of the last
// two of four axes.
func repeats(n *graph.Node, x, y []int) bool {
	if len(x) != 4 || volume(x) == 0 || x[0] != y[0] || x[1] != y[1] || y[2]%x[2] != 0 ||
		y[3]%x[3] != 0 || n.Attrs.Has("axes") || n.Version < 11 ||
		n.Attrs.String("mode", "nearest") != "nearest" ||
		n.Attrs.String("coordinate_transformation_mode", "half_pixel") != "asymmetric" ||
		n.Attrs.String("nearest_mode", "round_prefer_floor") != "floor" {
		return false
	}
	if len(n.In) > 2 && n.In[2] != nil && n.In[2].Type.Count().String() != "0" { // scales
		if !n.In[2].IsConst() {
			return false
		}
		by, err := n.In[2].Const().Floats()
		return err == nil && slices.Equal(by,
			[]float64{1, 1, float64(y[2] / x[2]), float64(y[3] / x[3])})
	}
	return n.Attrs.String("keep_aspect_ratio_policy", "stretch") == "stretch"
}

// isPixelConv reports whether a node is a convolution of pixels.
func isPixelConv(n *graph.Node) bool {
	return n.Domain == op.FusedDomain && n.Type == "NhwcConv"
}

// isPixelProduct reports whether a node is a convolution of pixels that multiplies in bfloat16.
func isPixelProduct(n *graph.Node) bool { return isPixelConv(n) && n.Attrs.Int("group", 1) == 1 }

// staysPixels reports whether what a node computes stays in bfloat16, which casts do not compute.
func staysPixels(n *graph.Node) bool {
	return !isCast(n) && len(n.Out) > 0 && !slices.ContainsFunc(n.Out, func(v *graph.Value) bool {
		return v == nil || v.Type.DType != tensor.BFloat16
	})
}

// pixelCasts lists the casts around a convolution of pixels, whose image and result stay in
// bfloat16 where what is beside it has kernels for them.
func pixelCasts(n *graph.Node, readers map[*graph.Value][]*graph.Node) []AmpCast {
	x := pixelCast(n.In[0])
	if n.In[0].Type.DType == tensor.Float32 {
		x.Fate, x.Why = AmpFused, "rounded as the kernel lays out the image"
	}
	list := []AmpCast{x,
		{n.In[1].Name, "bfloat16", AmpFolded, "constant: rounded once, as it is packed at load"}}
	if hasResidual(n) && isPixelCast(n.In[3].Producer) {
		list = append(list, pixelCast(n.In[3]))
	}
	y := AmpCast{n.Out[0].Name, "float32", AmpEliminated, "stays in bfloat16 for what reads it"}
	if slices.ContainsFunc(readers[n.Out[0]], func(m *graph.Node) bool {
		return is(m, "Transpose") && slices.ContainsFunc(readers[m.Out[0]], isCast)
	}) {
		y.Fate, y.Why = AmpNode, "what reads it has no kernel for pixels"
	}
	return append(list, y)
}

// pixelCast is the cast of an operand of a convolution of pixels.
func pixelCast(v *graph.Value) AmpCast {
	if isPixelCast(v.Producer) {
		return AmpCast{v.Name, "bfloat16", AmpNode, "what computes it has no kernel for pixels"}
	}
	return AmpCast{v.Name, "bfloat16", AmpEliminated, "bfloat16 already"}
}

// isPixelCast reports whether a node, which may be nil, makes pixels of a planar image of floats.
func isPixelCast(n *graph.Node) bool { return is(n, "Transpose") && isCast(n.In[0].Producer) }
