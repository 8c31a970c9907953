package onnx

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gradientNode asks for the derivatives of y.
func gradientNode(xs, zs []string, outputs string) part {
	names := func(attr string, list []string) part {
		parts := []part{text(1, attr), number(20, 8)}
		for _, s := range list {
			parts = append(parts, text(9, s))
		}
		return sub(5, parts...)
	}
	y := sub(5, text(1, "y"), text(4, "y"), number(20, 3))
	parts := nodeParts("grad", "Gradient",
		strings.Join(append(append([]string{}, xs...), zs...), ",")+"->"+outputs, names("xs", xs),
		names("zs", zs), y)
	return sub(1, append(parts, text(7, trainingDomain))...)
}

func gradientModel(nodes []part, g ...part) []byte {
	g = append(append([]part{in("x"), in("w"), initializer(integers("axis0", 0)...),
		initializer(integers("axis1", 1)...)}, nodes...), g...)
	return join(msg(number(1, 8), sub(7, g...), opsetPart("", 13), opsetPart(trainingDomain, 1)))
}

func integers(name string, v ...int64) []part {
	parts := []part{text(8, name), number(2, 7), number(1, int64(len(v)))}
	return append(parts, blob(9, tensor.Bytes(v)))
}

// TestGradients compares derivatives with differences of the function.
func TestGradients(t *testing.T) {
	row, column := node("Unsqueeze", "x,axis0->row"), node("Unsqueeze", "w,axis1->column")
	for name, nodes := range map[string][]part{
		"sums": {node("Add", "x,w->s"), node("Sub", "s,x->d"), node("Neg", "d->n"),
			node("Mul", "n,s->y")},
		"quotient": {node("Div", "x,w->q"), node("Mul", "q,x->y")},
		"functions": {node("Sigmoid", "x->a"), node("Tanh", "w->b"), node("Exp", "a->c"),
			node("Log", "c->d"), node("Mul", "d,b->e"), node("Identity", "e->y")},
		"root": {node("Mul", "x,x->a"), node("Mul", "w,w->b"), node("Add", "a,b->c"),
			node("Sqrt", "c->d"), node("Relu", "d->y")},
		"product": {row, column, node("MatMul", "row,column->y")},
		"outer": {row, column, node("Transpose", "row->turned"),
			node("Transpose", "column->flat"), node("MatMul", "turned,flat->p"),
			node("Mul", "p,p->y")},
		"gemm": {row, column, node("Gemm", "row,row,column->y", intAttr("transA", 1))},
		"gemm b": {column, node("Gemm", "column,column,x->p", intAttr("transB", 1),
			sub(5, text(1, "beta"), single(2, 2), number(20, 1))), node("Mul", "p,w->y")},
		"broadcast": {row, column, node("Mul", "row,column->y")},
		"mean": {node("Mul", "x,w->p"), node("ReduceMean", "p->m", intAttr("keepdims", 0)),
			node("Mul", "m,x->y")},
		"sum":      {node("Mul", "x,w->p"), node("ReduceSum", "p->m"), node("Mul", "m,w->y")},
		"one of w": {node("Mul", "w,w->y")},
	} {
		m, err := Decode(gradientModel(nodes, gradientNode([]string{"x", "w"}, nil, "dx,dw"),
			out("y"), out("dx"), out("dw")), "", Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		at := [][]float32{{0.5, 1.25}, {0.75, -1.5}}
		values := func() []*tensor.Tensor {
			got, err := m.Graph.Eval(t.Context(),
				[]*tensor.Tensor{tensor.From(at[0], 2), tensor.From(at[1], 2)})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return got
		}
		sum := func() (s float64) {
			for _, v := range tensor.As[float32](values()[0]) {
				s += float64(v)
			}
			return s
		}
		got := values()
		for k, x := range at {
			for i, v := range x {
				// A difference is off by step²/6 of a third derivative, of which none here reaches
				// 12, and by the rounding of two sums to float32.
				const step, third, rounding = 1.0 / 64, 12, 1e-5
				x[i] = v + step
				up := sum()
				x[i] = v - step
				down := sum()
				x[i] = v
				want := (up - down) / (2 * step)
				g := float64(tensor.As[float32](got[1+k])[i])
				if math.Abs(g-want) > step*step/6*third+rounding*(1+math.Abs(want)) {
					t.Errorf("%s: derivative %d of input %d is %v, differences say %v", name, i, k,
						g, want)
				}
			}
		}
	}
}

// TestGradientOfGradient differentiates x³ twice.
func TestGradientOfGradient(t *testing.T) {
	cube := []part{node("Mul", "x,x->s"), node("Mul", "s,x->y")}
	first := gradientNode([]string{"x"}, nil, "dx")
	again := sub(1, append(nodeParts("again", "Gradient", "x->ddx",
		sub(5, text(1, "xs"), text(9, "x"), number(20, 8)),
		sub(5, text(1, "y"), text(4, "dx"), number(20, 3))), text(7, trainingDomain))...)
	m, err := Decode(gradientModel(cube, first, again, out("dx"), out("ddx")), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Graph.Eval(t.Context(),
		[]*tensor.Tensor{tensor.From([]float32{2, -1}, 2), tensor.From([]float32{0, 0}, 2)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float32{{12, 3}, {12, -6}} {
		if !tensor.Equal(got[i], tensor.From(want, 2)) {
			t.Errorf("derivative %d is %v, want %v", i+1, got[i], want)
		}
	}
}

// TestGradientOfEverySplitOutput differentiates through the second output of Split alone: y = b·b
// of [1, 3] parted in two.
func TestGradientOfEverySplitOutput(t *testing.T) {
	m, err := Decode(gradientModel([]part{node("Split", "x->a,b"), node("Mul", "b,b->y")},
		gradientNode([]string{"x"}, nil, "dx"), out("dx")), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantGradient(t, m, []float32{1, 3}, []float32{0, 0}, []float32{0, 6})
}

// TestGradientBesideAbsentOperands: an output of x that is not asked for does not make what has an
// absent input depend on x; Unique has no derivative.
func TestGradientBesideAbsentOperands(t *testing.T) {
	m, err := Decode(gradientModel([]part{node("Split", "x->,b"), node("Unique", "w->u"),
		node("Clip", "u,,x0->c"), node("ReduceMax", "c->top"), node("Mul", "b,top->z"),
		node("ReduceSum", "z->y")}, gradientNode([]string{"x"}, nil, "dx"), out("dx"),
		initializer(text(8, "x0"), number(2, 1), blob(9, tensor.Bytes([]float32{5})))), "",
		Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantGradient(t, m, []float32{1, 3}, []float32{4, 9}, []float32{0, 5})
}

// TestGradientHoldsZs: zs are constants, whatever the graph computes them from.
func TestGradientHoldsZs(t *testing.T) {
	m, err := Decode(gradientModel([]part{node("Mul", "x,x->z"), node("Mul", "z,x->y")},
		gradientNode([]string{"x"}, []string{"z"}, "dx"), out("dx")), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantGradient(t, m, []float32{2, 3}, []float32{0, 0}, []float32{4, 9})
}

// wantGradient evaluates a model at x and w and compares its first output.
func wantGradient(t *testing.T, m *Model, x, w, want []float32) {
	t.Helper()
	got, err := m.Graph.Eval(t.Context(),
		[]*tensor.Tensor{tensor.From(x, len(x)), tensor.From(w, len(w))})
	if err != nil {
		t.Fatal(err)
	}
	if !tensor.Equal(got[0], tensor.From(want, len(want))) {
		t.Errorf("gradient %v, want %v", got[0], want)
	}
}

func TestGradientRefused(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []part
		xs    []string
		err   error
	}{
		"no rule":       {[]part{node("Unique", "x->y")}, []string{"x"}, op.ErrNoGradient},
		"no such y":     {[]part{node("Neg", "x->v")}, []string{"x"}, ErrFormat},
		"no such input": {[]part{node("Neg", "x->y")}, []string{"q"}, ErrFormat},
	} {
		if _, err := Decode(gradientModel(c.nodes, gradientNode(c.xs, nil, "dx"), out("dx")), "",
			Options{}); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}
