package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Where convolutions of bytes follow each other, this pass moves the channels of their images to
// the last axis. The channels of a pixel then lie side by side, which is the order in which
// products of bytes read them, and a convolution stores no sums.
//
//	QLinearConv(x)                    =  planar(weir:NhwcQLinearConv(pixels(x)))
//	                                       (near another one, or of weights around a byte that is
//	                                        not 0)
//	QLinearAdd(planar(x), planar(y))  =  planar(QLinearAdd(x, y))
//	                                       (likewise Table, and Rescale by one scale)
//	Q(MaxPool(DQ(planar(x))))         =  planar(weir:NhwcMaxPool(x))
//	                                       (where Q and DQ have one grid)
//	pixels(planar(x))                 =  x
//
// where pixels and planar transpose from and to the layout of ONNX. Only devices that
// say so have kernels for it (compute.Features).

// Transposes between N x C x H x W and N x H x W x C.
var (
	toNHWC   = []int64{0, 2, 3, 1}
	toPlanar = []int64{0, 3, 1, 2}
)

func startNHWC(s *scope) rule {
	if s.portable || !s.features.NHWC {
		return func(*graph.Node) *Patch { return nil }
	}
	return func(n *graph.Node) *Patch {
		switch {
		case nhwcConv(n):
			if s.nearUp(n.In[0], maxNear) || s.nearDown(n.Out[0], maxNear) || sumsPatches(n) {
				return s.lastInConv(n)
			}
		case n.Domain == op.FusedDomain && n.Type == "QLinearAdd":
			a, b := planar(n.In[0]), planar(n.In[3])
			if a != nil && b != nil {
				in := slices.Clone(n.In)
				in[0], in[3] = a, b
				return s.madePlanar(n, operator(n, n.Domain, n.Type, n.Version, n.Attrs, in...))
			}
		case bytewise(n):
			if x := planar(n.In[0]); x != nil {
				in := append([]*graph.Value{x}, n.In[1:]...)
				return s.madePlanar(n, operator(n, n.Domain, n.Type, n.Version, n.Attrs, in...))
			}
		case is(n, "QuantizeLinear"):
			return s.maxOfBytes(n)
		}
		return nil
	}
}

// nhwcConv reports whether a convolution of bytes has a kernel in the other layout.
func nhwcConv(n *graph.Node) bool {
	if !is(n, "QLinearConv") && !(n.Domain == op.FusedDomain && n.Type == "QLinearConv") ||
		len(n.In) < 8 || !n.In[3].IsConst() || !n.In[5].IsConst() {
		return false
	}
	x, w, zero := n.In[0].Type, n.In[3].Const(), n.In[5].Const()
	if !x.Ranked || len(x.Shape) != 4 || w.Rank() != 4 || w.Len() == 0 || onePixel(x.Shape) {
		return false
	}
	if !midway(zero) {
		return false
	}
	if !constantBut(n, w.Shape[0]) {
		return false
	}
	window, group, ok := convWindow(n, w.Shape)
	return ok && (group == 1 && onesOnly(window.Dilation) ||
		group > 1 && group == w.Shape[0] && w.Shape[1] == 1)
}

// constantBut reports whether all operands of a QLinearConv but image and weights are constants:
// one number, or one for each of the outputs where the operator takes that.
func constantBut(n *graph.Node, outputs int) bool {
	for i, v := range n.In {
		most := 1
		if i == 4 || i == 5 || i >= 8 && i != 11 {
			most = outputs
		}
		if i == 0 || i == 3 || v == nil {
			continue
		}
		if !v.IsConst() || v.Const().Rank() > 1 || v.Const().Len() != 1 && v.Const().Len() != most {
			return false
		}
	}
	return true
}

// sumsPatches reports whether a convolution of one group needs, in ONNX's layout, the sums of its
// patches, and these have more than one pixel: computing the sums then costs more than transposing
// the image.
func sumsPatches(n *graph.Node) bool {
	w, zero := n.In[3].Const(), n.In[5].Const()
	centre := map[tensor.DType]byte{tensor.Uint8: 0x80}[zero.DType]
	_, group, _ := convWindow(n, w.Shape)
	return w.Shape[2]*w.Shape[3] > 1 && group == 1 && zero.Data[0] != centre
}

// midway reports whether all zero points of weights are the same byte, other than the least value
// of their type.
func midway(zero *tensor.Tensor) bool {
	least, ok := map[tensor.DType]byte{tensor.Int8: 0x80, tensor.Uint8: 0}[zero.DType]
	return ok && zero.Len() > 0 && zero.Data[0] != least &&
		!slices.ContainsFunc(zero.Data, func(b byte) bool {
			return b != zero.Data[0]
		})
}

// onePixel reports whether an image is known to have one pixel: it is a vector, whatever the
// layout.
func onePixel(shape []op.Dim) bool {
	h, ok := shape[2].Int()
	w, ok2 := shape[3].Int()
	return ok && ok2 && h*w <= 1
}

// maxNear bounds the operators between a convolution and the next.
const maxNear = 4

// nearUp reports whether v is computed from the result of a convolution that has a kernel for
// channels in the last axis. It follows v at most left steps up the graph, through operators that
// work in any layout.
func (s *scope) nearUp(v *graph.Value, left int) bool {
	n := producer(v)
	if n == nil || left == 0 {
		return false
	}
	switch {
	case nhwcConv(n) || planar(v) != nil:
		return true
	case n.Domain == op.FusedDomain && n.Type == "QLinearAdd":
		return s.nearUp(n.In[0], left-1) || s.nearUp(n.In[3], left-1)
	case bytewise(n):
		return s.nearUp(n.In[0], left-1)
	}
	if x, _ := s.pooledBytes(n); x != nil {
		return s.nearUp(x, left-1)
	}
	return false
}

// nearDown reports whether such a convolution reads v or what is computed from it. It follows v at
// most left steps down the graph, through operators that work in any layout.
func (s *scope) nearDown(v *graph.Value, left int) bool {
	if left == 0 {
		return false
	}
	for _, n := range s.readers(v) {
		switch {
		case n.Domain == op.FusedDomain && n.Type == "NhwcQLinearConv" || nhwcConv(n) &&
			n.In[0] == v:
			return true
		case bytewise(n) || n.Domain == op.FusedDomain && n.Type == "QLinearAdd":
			if s.nearDown(n.Out[0], left-1) {
				return true
			}
		case is(n, "DequantizeLinear"):
			if q := s.throughPool(n); q != nil && s.nearDown(q.Out[0], left-1) {
				return true
			}
		}
	}
	return false
}

// throughPool returns a node that quantises the MaxPool of the numbers that d, a DequantizeLinear,
// makes of bytes ([scope.pooledBytes]), or nil where there is none.
func (s *scope) throughPool(d *graph.Node) *graph.Node {
	for _, pool := range s.readers(d.Out[0]) {
		if !is(pool, "MaxPool") {
			continue
		}
		for _, q := range s.readers(pool.Out[0]) {
			if x, _ := s.pooledBytes(q); x != nil {
				return q
			}
		}
	}
	return nil
}

// pooledBytes recognises q = Q(MaxPool(DQ(x))) where q quantises with the scale and zero point of
// x. It returns the bytes x and the MaxPool, or nil where q is anything else.
func (s *scope) pooledBytes(q *graph.Node) (x *graph.Value, pool *graph.Node) {
	if !is(q, "QuantizeLinear") {
		return nil, nil
	}
	if pool = from(q.In[0], "MaxPool"); pool == nil || !s.only(q.In[0]) {
		return nil, nil
	}
	if _, err := pool.Call().PoolWindow(2); err != nil { // of images, two axes
		return nil, nil
	}
	x, g, ok := dequantized(pool.In[0])
	to, ok2 := gridOf(q)
	if !ok || !ok2 || to.scale.Const().Len() != 1 || x.Type.DType != q.Out[0].Type.DType ||
		!slices.Equal(g.zero.Const().Data, to.zero.Const().Data) ||
		!slices.Equal(g.scale.Const().Data, to.scale.Const().Data) ||
		tensor.As[float32](g.scale.Const())[0] <= 0 {
		return nil, nil
	}
	return x, pool
}

// maxOfBytes proposes a MaxPool of bytes in place of n where n quantises the MaxPool of the numbers
// that these bytes stand for ([scope.pooledBytes]).
func (s *scope) maxOfBytes(n *graph.Node) *Patch {
	x, pool := s.pooledBytes(n)
	if x = planar(x); x == nil {
		return nil
	}
	return s.madePlanar(n, operator(n, op.FusedDomain, "NhwcMaxPool", 1, pool.Attrs, x))
}

// planar returns the value with channels in the last axis whose transpose to ONNX's layout is v, or
// nil where v is no such transpose.
func planar(v *graph.Value) *graph.Value {
	t := from(v, "Transpose")
	if t == nil || !slices.Equal(t.Attrs.Ints("perm"), toPlanar) ||
		t.In[0].Type.DType != tensor.Uint8 && t.In[0].Type.DType != tensor.Int8 {
		return nil
	}
	return t.In[0]
}

// transpose makes a transpose of v.
func (s *scope) transpose(n *graph.Node, v *graph.Value, perm []int64) *graph.Node {
	return graph.NewNode(n.Name, "Transpose", min(s.opset, 13),
		op.Attrs{op.IntsAttr("perm", perm...)}, []*graph.Value{v}, n.Out[0].Name)
}

// madePlanar proposes a transpose of what m computes, after some other nodes, in the place of n.
func (s *scope) madePlanar(n, m *graph.Node, before ...*graph.Node) *Patch {
	t := s.transpose(n, m.Out[0], toPlanar)
	return &Patch{Insert: append(before, m, t), Replace: []Replacement{{n.Out[0], t.Out[0]}}}
}

// lastInConv makes a convolution one with its channels in the last axis. An image of few channels
// it takes as it is.
func (s *scope) lastInConv(n *graph.Node) *Patch {
	in := make([]*graph.Value, 12)
	copy(in, n.In)
	attrs := slices.Clone(n.Attrs)
	weights := n.In[3].Const().Shape
	_, group, _ := convWindow(n, weights)
	var before []*graph.Node
	switch x := planar(n.In[0]); {
	case x != nil:
		in[0] = x
	case weights[1] <= 4 && group == 1:
		attrs = append(attrs, op.IntAttr("planar", 1))
	default:
		t := s.transpose(n, n.In[0], toNHWC)
		before, in[0] = append(before, t), t.Out[0]
	}
	return s.madePlanar(n, operator(n, op.FusedDomain, "NhwcQLinearConv", 1, attrs, in...),
		before...)
}
