package onnx

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// derivatives are the rules of operators: each adds to the derivatives by its inputs what follows
// from g, the derivative by the node's output.
var derivatives = map[string]func(d *differentiator, n *graph.Node, g *graph.Value) error{
	"Identity": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, g)
	},
	"Neg": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, d.apply("Neg", nil, g))
	},
	"Add": func(d *differentiator, n *graph.Node, g *graph.Value) error { return d.both(n, g, g) },
	"Sub": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.both(n, g, d.apply("Neg", nil, g))
	},
	"Mul": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.both(n, d.apply("Mul", nil, g, n.In[1]), d.apply("Mul", nil, g, n.In[0]))
	},
	"Div": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		a := d.apply("Div", nil, g, n.In[1])
		return d.both(n, a, d.apply("Neg", nil, d.apply("Mul", nil, a, n.Out[0])))
	},
	"Exp": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, d.apply("Mul", nil, g, n.Out[0]))
	},
	"Log": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, d.apply("Div", nil, g, n.In[0]))
	},
	"Sqrt": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, d.apply("Div", nil, g, d.apply("Add", nil, n.Out[0], n.Out[0])))
	},
	"Sigmoid": func(d *differentiator, n *graph.Node, g *graph.Value) error { // g·(y - y²)
		square := d.apply("Mul", nil, n.Out[0], n.Out[0])
		return d.add(n, 0, d.apply("Mul", nil, g, d.apply("Sub", nil, n.Out[0], square)))
	},
	"Tanh": func(d *differentiator, n *graph.Node, g *graph.Value) error { // g - g·y²
		square := d.apply("Mul", nil, n.Out[0], n.Out[0])
		return d.add(n, 0, d.apply("Sub", nil, g, d.apply("Mul", nil, g, square)))
	},
	"Relu": func(d *differentiator, n *graph.Node, g *graph.Value) error {
		return d.add(n, 0, d.apply("Mul", nil, g, d.apply("Sign", nil, n.Out[0])))
	},
	"MatMul": matMulDerivative, "Gemm": gemmDerivative, "Transpose": transposeDerivative,
	"Reshape": reshapeDerivative, "Flatten": reshapeDerivative, "Squeeze": reshapeDerivative,
	"Unsqueeze": reshapeDerivative,
	"ReduceSum": reduceDerivative, "ReduceMean": reduceDerivative,
}

// both adds to the derivatives of the two inputs of a node.
func (d *differentiator) both(n *graph.Node, a, b *graph.Value) error {
	if err := d.add(n, 0, a); err != nil {
		return err
	}
	return d.add(n, 1, b)
}

// transposed swaps the axes of a matrix.
func (d *differentiator) transposed(v *graph.Value) *graph.Value {
	return d.apply("Transpose", op.Attrs{op.IntsAttr("perm", 1, 0)}, v)
}

// matrices checks that operands are matrices, for which the rules of products are written.
func matrices(vs ...*graph.Value) error {
	for _, v := range vs {
		if !v.Type.Ranked || len(v.Type.Shape) != 2 {
			return fmt.Errorf("%w: operand %v is no matrix", op.ErrUnsupported, v.Type)
		}
	}
	return nil
}

// matMulDerivative: g·bᵀ and aᵀ·g.
func matMulDerivative(d *differentiator, n *graph.Node, g *graph.Value) error {
	if err := matrices(n.In[0], n.In[1]); err != nil {
		return err
	}
	return d.both(n, d.apply("MatMul", nil, g, d.transposed(n.In[1])),
		d.apply("MatMul", nil, d.transposed(n.In[0]), g))
}

// gemmDerivative is matMulDerivative for alpha·a·b + beta·c, either matrix turned.
func gemmDerivative(d *differentiator, n *graph.Node, g *graph.Value) error {
	if err := matrices(n.In[0], n.In[1]); err != nil {
		return err
	}
	scaled := func(name string) op.Attrs {
		return op.Attrs{op.FloatAttr("alpha", n.Attrs.Float(name, 1))}
	}
	gemm := func(a, b *graph.Value, transA, transB bool) *graph.Value {
		attrs := scaled("alpha")
		for name, set := range map[string]bool{"transA": transA, "transB": transB} {
			if set {
				attrs = append(attrs, op.IntAttr(name, 1))
			}
		}
		return d.apply("Gemm", attrs, a, b)
	}
	transA, transB := n.Attrs.Bool("transA", false), n.Attrs.Bool("transB", false)
	a, b := gemm(g, n.In[1], false, !transB), gemm(n.In[0], g, !transA, false)
	if transA {
		a = gemm(n.In[1], g, transB, true)
	}
	if transB {
		b = gemm(g, n.In[0], true, transA)
	}
	if err := d.both(n, a, b); err != nil || len(n.In) < 3 {
		return err
	}
	if beta := n.Attrs.Float("beta", 1); beta != 1 {
		g = d.apply("Mul", nil, g,
			graph.NewConst(d.b.fresh("gradient_beta"), floatOf(g.Type.DType, beta)))
	}
	return d.add(n, 2, g)
}

// transposeDerivative turns the axes back.
func transposeDerivative(d *differentiator, n *graph.Node, g *graph.Value) error {
	perm := n.Attrs.Ints("perm")
	if perm == nil {
		return d.add(n, 0, d.apply("Transpose", nil, g))
	}
	back := make([]int64, len(perm))
	for i, p := range perm {
		if p < 0 || p >= int64(len(perm)) {
			return formatErr("perm %v", perm)
		}
		back[p] = int64(i)
	}
	return d.add(n, 0, d.apply("Transpose", op.Attrs{op.IntsAttr("perm", back...)}, g))
}

// reshapeDerivative gives g the shape of the input.
func reshapeDerivative(d *differentiator, n *graph.Node, g *graph.Value) error {
	return d.add(n, 0, d.apply("Reshape", nil, g, d.apply("Shape", nil, n.In[0])))
}

// reduceDerivative repeats g along the axes that were reduced, for a mean divided by how many
// elements it is of.
func reduceDerivative(d *differentiator, n *graph.Node, g *graph.Value) error {
	x, y := n.In[0], n.Out[0]
	if !x.Type.Ranked || !y.Type.Ranked {
		return fmt.Errorf("%w: rank of %v is not known", op.ErrUnsupported, x.Type)
	}
	shape := d.apply("Shape", nil, x)
	if !n.Attrs.Bool("keepdims", true) {
		kept, err := reducedAxes(n, len(x.Type.Shape))
		if err != nil {
			return err
		}
		g = d.apply("Unsqueeze", nil, g,
			graph.NewConst(d.b.fresh("gradient_axes"), tensor.From(kept, len(kept))))
	}
	g = d.apply("Expand", nil, g, shape)
	if n.Type == "ReduceMean" {
		ratio := d.apply("Div", nil, d.apply("Size", nil, x), d.apply("Size", nil, y))
		g = d.apply("Div", nil, g,
			d.apply("Cast", op.Attrs{op.IntAttr("to", int64(x.Type.DType))}, ratio))
	}
	return d.add(n, 0, g)
}

// reducedAxes are the axes of a reduction: an attribute or a constant input, all without either.
func reducedAxes(n *graph.Node, rank int) ([]int64, error) {
	if len(n.In) > 1 && n.In[1] != nil {
		return constantInts(n, 1)
	}
	if axes := n.Attrs.Ints("axes"); axes != nil {
		return slices.Clone(axes), nil
	}
	if n.Attrs.Bool("noop_with_empty_axes", false) {
		return nil, fmt.Errorf("%w: noop_with_empty_axes", op.ErrUnsupported)
	}
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes, nil
}
