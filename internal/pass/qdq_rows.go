package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// A product of quantised rows whose result is not quantised to bytes is a convolution of single
// pixels, of which the rows are the columns (see qdq_grid.go).
//
//	Gemm(DQ(x), DQ(w), b)  =  Transpose(weir:GridConv(Transpose(x), w, b))
//	MatMul(DQ(x), DQ(w))   =  Transpose(weir:GridConv(Transpose(x), w))
//
// for x of rank 2 or 3 on one scale and constant bytes w. Turning x around and back is little
// beside a product of so many weights.

// leastRowProducts is how many products a sum must have to be worth it, where integers have 16
// bits: there is no window to be cut from an image.
const leastRowProducts = 96

// gridProduct proposes a convolution by integers in place of the product n.
func (s *scope) gridProduct(n *graph.Node) *Patch {
	if !is(n, "Gemm") && !is(n, "MatMul") || s.opset < axesAsInput || s.becomesBytes(n.Out[0]) {
		return nil
	}
	w, a, b, ok := s.gridOperands(n)
	if !ok || w.In[0].Const().Rank() != 2 || !n.In[0].Type.Ranked {
		return nil
	}
	rank := len(n.In[0].Type.Shape)
	if rank != 2 && (rank != 3 || n.Type == "Gemm") {
		return nil
	}
	rows, ok := rowsOfWeights(n, w, b)
	if !ok || !worthRows(rows, a) || !op.GridSumsFit(a.zero.Const(), rows, b.zero.Const()) {
		return nil
	}
	in := []*graph.Value{nil, a.scale, a.zero, graph.NewConst(w.In[0].Name, rows), b.scale, b.zero}
	if len(n.In) > 2 && n.In[2] != nil {
		if shape, ok := n.In[2].Type.Ints(); !ok || !slices.Equal(shape, rows.Shape[:1]) {
			return nil
		}
		in = append(in, n.In[2])
	}
	return s.rowsConv(n, in, rank)
}

// axesAsInput is the version from which on Squeeze and Unsqueeze take axes as an input.
const axesAsInput = 13

// rowsOfWeights is the weights w of a product, of grid b, as those of a convolution of single
// pixels: outputs, products, 1. It is false for products that are more than that.
func rowsOfWeights(n, w *graph.Node, b qGrid) (*tensor.Tensor, bool) {
	t, turned := w.In[0].Const(), true
	if n.Type == "Gemm" {
		turned = n.Attrs.Int("transB", 0) == 0
		if n.Attrs.Int("transA", 0) != 0 || n.Attrs.Float("alpha", 1) != 1 ||
			n.Attrs.Float("beta", 1) != 1 {
			return nil, false
		}
	}
	axis := int(w.Attrs.Int("axis", 1)+2) % 2
	if !one(b) && (axis == 1) != turned {
		return nil, false
	}
	if !turned {
		return &tensor.Tensor{DType: t.DType, Shape: []int{t.Shape[0], t.Shape[1], 1},
			Data: t.Data}, true
	}
	k, m := t.Shape[0], t.Shape[1]
	return &tensor.Tensor{DType: t.DType, Shape: []int{m, k, 1},
		Data: op.Transposed(t.Data, k, m)}, true
}

// worthRows reports whether a product by these rows of weights is worth computing in integers.
func worthRows(rows *tensor.Tensor, a qGrid) bool {
	least := leastRowProducts
	if a.zero.Const().DType.Bits() == 8 {
		least = leastProducts
	}
	return rows.Shape[0] >= leastOutputs && rows.Shape[1] >= least
}

// rowsConv computes n, whose first operand has that rank, as the convolution of these operands but
// for the first.
func (s *scope) rowsConv(n *graph.Node, in []*graph.Value, rank int) *Patch {
	p := &Patch{}
	add := func(m *graph.Node) *graph.Value {
		p.Insert = append(p.Insert, m)
		return m.Out[0]
	}
	axes := graph.NewConst(n.Name+"_axes", tensor.From([]int64{0}, 1))
	turn := func(x *graph.Value) *graph.Value {
		perm := []int64{0, 2, 1}
		if rank == 2 {
			perm = []int64{1, 0}
		}
		return add(s.transpose(n, x, perm))
	}
	y := turn(n.In[0])
	if rank == 2 {
		y = add(operator(n, "", "Unsqueeze", s.opset, nil, y, axes))
	}
	in[0] = y
	y = add(operator(n, op.FusedDomain, "GridConv", 1,
		op.Attrs{op.IntsAttr("kernel_shape", 1)}, in...))
	if rank == 2 {
		y = add(operator(n, "", "Squeeze", s.opset, nil, y, axes))
	}
	p.Replace = []Replacement{{n.Out[0], turn(y)}}
	return p
}
