package grad_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// parse reads a graph of opset 20 without its frame.
func parse(t *testing.T, lines string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse("graph \"test\" {\nopset \"\" 20\n" + lines + "\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// value finds a value by name.
func value(t *testing.T, g *graph.Graph, name string) *graph.Value {
	t.Helper()
	for _, n := range g.Nodes {
		for _, v := range slices.Concat(n.In, n.Out) {
			if v != nil && v.Name == name {
				return v
			}
		}
	}
	t.Fatalf("no value %q", name)
	return nil
}

func values(t *testing.T, g *graph.Graph, names ...string) []*graph.Value {
	t.Helper()
	var vs []*graph.Value
	for _, name := range names {
		vs = append(vs, value(t, g, name))
	}
	return vs
}

// derive evaluates the gradients of the sum of value y by the named values.
func derive(t *testing.T, g *graph.Graph, o grad.Objective, in ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	ds, err := grad.Backward(g, o)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = ds
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	out, err := g.Eval(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func f64(v ...float64) *tensor.Tensor { return tensor.From(v, len(v)) }

func expect(t *testing.T, got []*tensor.Tensor, want ...*tensor.Tensor) {
	t.Helper()
	for i, w := range want {
		if err := tensor.Close(got[i], w, 1e-12, 1e-12); err != nil {
			t.Errorf("gradient %d: %v", i, err)
		}
	}
}

// TestEveryResultCounts differentiates through the second result of an operator alone, through
// both, and through one that nobody reads.
func TestEveryResultCounts(t *testing.T) {
	split := `input %x: float64[4]
const %sizes: int64[2] = {3, 1}
%a: float64[3], %b: float64[1] = Split@13 "split" (%x, %sizes)
`
	for lines, want := range map[string]*tensor.Tensor{
		`%y: float64[1] = Mul@14 "y" (%b, %b)`: f64(0, 0,
			0, 8),
		`%y: float64[3] = Mul@14 "y" (%a, %a)`: f64(2, 4,
			6, 0),
		`%y: float64[3] = Mul@14 "y" (%a, %b)`: f64(4, 4,
			4, 6),
		`%y: float64[7] = Concat@13 "y" (%a, %b, %a) {axis=0}`: f64(2, 2,
			2, 1),
		`%s: float64[1] = Sub@14 "s" (%b, %b)` +
			"\n%y: float64[1] = Abs@13 \"y\" (%s)": f64(0, 0, 0, 0),
	} {
		g := parse(t, split+lines+"\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
		expect(t, derive(t, g, o, f64(1, 2, 3, 4)), want)
	}
}

// TestAbsentOperands: a result that is not asked for and an operand that is not given have nothing
// to do with each other.
func TestAbsentOperands(t *testing.T) {
	g := parse(t, `input %x: float64[2]
input %w: float64[1]
const %sizes: int64[2] = {1, 1}
const %hi: float64[] = {5}
_, %b: float64[1] = Split@13 "split" (%x, %sizes)
%n: int64[1,1] = NonZero@13 "places" (%w)
%u: float64[1] = Unique@11 "no rule" (%w)
%c: float64[1] = Clip@13 "clip" (%u, _, %hi)
%y: float64[1] = Mul@14 "y" (%b, %c)
output %y`)
	o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
	expect(t, derive(t, g, o, f64(2, 3), f64(7)), f64(0, 5))
}

// TestIndependence differentiates by a computed value and holds another.
func TestIndependence(t *testing.T) {
	lines := `input %x: float64[1]
%h: float64[1] = Mul@14 "h" (%x, %x)
%y: float64[1] = Mul@14 "y" (%h, %x)
%far: float64[1] = Exp@13 "far" (%x)
output %y
output %far`
	for name, c := range map[string]struct {
		of, by, held []string
		want         []*tensor.Tensor
	}{
		"whole":       {[]string{"y"}, []string{"x"}, nil, []*tensor.Tensor{f64(27)}},
		"held":        {[]string{"y"}, []string{"x"}, []string{"h"}, []*tensor.Tensor{f64(9)}},
		"computed":    {[]string{"y"}, []string{"h"}, nil, []*tensor.Tensor{f64(3)}},
		"both":        {[]string{"y"}, []string{"x", "h"}, nil, []*tensor.Tensor{f64(9), f64(3)}},
		"itself":      {[]string{"y"}, []string{"y"}, nil, []*tensor.Tensor{f64(1)}},
		"nothing":     {[]string{"far"}, []string{"h"}, nil, []*tensor.Tensor{f64(0)}},
		"two results": {[]string{"y", "h"}, []string{"x"}, nil, []*tensor.Tensor{f64(33)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, lines)
			o := grad.Objective{Of: values(t, g, c.of...), By: values(t, g, c.by...),
				Held: values(t, g, c.held...)}
			expect(t, derive(t, g, o, f64(3)), c.want...)
		})
	}
}

// TestFrozenBranchesCostNothing: no product is computed for weights that are not asked for.
func TestFrozenBranchesCostNothing(t *testing.T) {
	g := parse(t, `input %x: float64[2,3]
input %w: float64[3,2]
%p: float64[2,2] = MatMul@13 "p" (%x, %w)
%side: float64[2,3] = Exp@13 "side" (%x)
output %p
output %side`)
	if _, err := grad.Backward(g, grad.Objective{Of: values(t, g, "p"),
		By: values(t, g, "x")}); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, n := range g.Nodes {
		count[n.Type]++
	}
	if count["MatMul"]+count["Gemm"] != 2 || count["Exp"] != 1 {
		t.Errorf("the joint graph has %v", count)
	}
}

// TestOneValueTwice gives a value to two operands of a call: its gradient is the sum of theirs.
func TestOneValueTwice(t *testing.T) {
	tried := 0
	for _, c := range calls() {
		if len(c.in) < 2 || c.in[1] == nil || !slices.Equal(c.in[0].Shape, c.in[1].Shape) ||
			!isReal(c.in[0].DType) || !isReal(c.in[1].DType) || len(c.held) > 0 {
			continue
		}
		tried++
		t.Run(c.String(), func(t *testing.T) {
			f := build(t, c, tensor.Float64, false)
			n := f.g.Nodes[0]
			n.In[1] = n.In[0]
			f.g.Inputs = slices.Delete(f.g.Inputs, 1, 2)
			f.at, f.by = slices.Delete(f.at, 1, 2), slices.Delete(f.by, 1, 2)
			f.compare(t, every(len(f.of)), every(len(f.by)))
		})
	}
	if tried < 8 {
		t.Errorf("%d calls have two operands of one shape", tried)
	}
}

// TestLinearity: gradients of a weighted sum of two functions are the weighted sum of theirs.
func TestLinearity(t *testing.T) {
	for _, c := range calls() {
		f := build(t, c, tensor.Float64, false)
		of, by := every(len(f.of)), every(len(f.by))
		one := f.gradients(t, of, by)
		for i, s := range f.seed {
			f.seed[i] = s.Clone()
			for k := range tensor.As[float64](s) {
				tensor.As[float64](f.seed[i])[k] = math.Sin(float64(k + i))
			}
		}
		two := f.gradients(t, of, by)
		g := build(t, c, tensor.Float64, false)
		for i, s := range g.seed {
			for k := range tensor.As[float64](s) {
				tensor.As[float64](s)[k] = 2*tensor.As[float64](s)[k] -
					3*tensor.As[float64](f.seed[i])[k]
			}
		}
		for i, sum := range g.gradients(t, of, by) {
			for k, v := range tensor.As[float64](sum) {
				a, b := tensor.As[float64](one[i])[k], tensor.As[float64](two[i])[k]
				if math.Abs(v-(2*a-3*b)) > 1e-11*(1+2*math.Abs(a)+3*math.Abs(b)) {
					t.Fatalf("%v: gradient %d is %v, the parts give %v", c, i, v, 2*a-3*b)
				}
			}
		}
	}
}

// TestCast: a conversion between floats passes the gradient on in the type of its operand, one to
// integers or conditions has none.
func TestCast(t *testing.T) {
	for lines, want := range map[string]*tensor.Tensor{
		fmt.Sprintf(`%%c: float32[2] = Cast@13 "c" (%%x) {to=%d}`, tensor.Float32): f64(2.5, -3),
		`const %like: float32[] = {1}
%c: float32[2] = CastLike@15 "c" (%x, %like)`: f64(2.5, -3),
		fmt.Sprintf(`%%i: int32[2] = Cast@13 "i" (%%x) {to=%d}
%%c: float32[2] = Cast@13 "c" (%%i) {to=%d}`, tensor.Int32, tensor.Float32): f64(0, 0),
		fmt.Sprintf(`%%i: bool[2] = Cast@13 "i" (%%x) {to=%d}
%%c: float32[2] = Cast@13 "c" (%%i) {to=%d}`, tensor.Bool, tensor.Float32): f64(0, 0),
	} {
		g := parse(t, "input %x: float64[2]\nconst %k: float32[2] = {2.5, -3}\n"+lines+
			"\n%y: float32[2] = Mul@14 \"y\" (%c, %k)\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
		expect(t, derive(t, g, o, f64(1.25, 4)), want)
	}
}

// TestEveryOperator: an operator has a rule that a call of calls tries, or its row says that it is
// flat, or differentiating through it is an error that names node, operator and what to do.
func TestEveryOperator(t *testing.T) {
	tried := map[string]bool{"Cast": true, "CastLike": true, // TestCast
		"If": true, "Loop": true, "Scan": true} // TestBodies
	for _, c := range calls() {
		tried[(&op.Call{Domain: c.domain, Type: c.op}).Name()] = true
	}
	for _, o := range op.All() {
		name := (&op.Call{Domain: o.Domain, Type: o.Name}).Name()
		how := o.Differentiability()
		if how != op.NoRule && how != op.Flat {
			if !tried[name] && !o.Composed() {
				t.Errorf("%s has a rule that no call tries", name)
			}
			continue
		}
		if o.MaxIn == 0 {
			continue
		}
		g, x, y := through(o)
		ds, err := grad.Backward(g, grad.Objective{Of: []*graph.Value{y}, By: []*graph.Value{x}})
		switch {
		case how == op.Flat && (err != nil || ds[0].Producer.Type != "ConstantOfShape"):
			t.Errorf("%s is flat: gradients are %v, %v", name, ds, err)
		case how == op.NoRule && (!errors.Is(err, op.ErrNoGradient) ||
			!errors.Is(err, op.ErrUnsupported)):
			t.Errorf("%s has no rule: gradients are %v, %v", name, ds, err)
		case how == op.NoRule:
			for _, want := range []string{`"asked"`, name} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error does not say %s: %v", name, want, err)
				}
			}
			if !strings.Contains(err.Error(), "docs/") && !strings.Contains(err.Error(), "export") {
				t.Errorf("%s: the error says no next step: %v", name, err)
			}
			if len(g.Nodes) != 2 {
				t.Errorf("%s: a failure leaves %d nodes", name, len(g.Nodes))
			}
		}
	}
}

// through is a graph in which y depends on x through one call of an operator, which need not be one
// that could be evaluated.
func through(o *op.Op) (g *graph.Graph, x, y *graph.Value) {
	x = &graph.Value{Name: "x", Type: op.Concrete(tensor.Float64, 2, 2)}
	n := &graph.Node{Name: "asked", Domain: o.Domain, Type: o.Name,
		Version: o.Since[len(o.Since)-1], In: slices.Repeat([]*graph.Value{x}, max(o.MinIn, 1))}
	for i := range max(o.MinOut, 1) {
		n.Out = append(n.Out, &graph.Value{Name: fmt.Sprint("out", i), Producer: n, Index: i})
	}
	cast := graph.NewNode("cast", "Cast", 13,
		op.Attrs{op.IntAttr("to", int64(tensor.Float64))}, n.Out[:1], "y")
	cast.Out[0].Type = op.Unranked(tensor.Float64)
	return &graph.Graph{Inputs: []*graph.Value{x}, Nodes: []*graph.Node{n, cast},
		Outputs: cast.Out, Opsets: map[string]int{"": newest}}, x, cast.Out[0]
}

// TestShapeOnlyIsFlat: what reads sizes does not change with elements.
func TestShapeOnlyIsFlat(t *testing.T) {
	for _, o := range op.All() {
		if o.Has(op.ShapeOnly) && o.Differentiability() != op.Flat {
			t.Errorf("%s reads shapes only and is not flat", o.Name)
		}
	}
}

// TestRefused: what a rule does not cover is an error, never zero.
func TestRefused(t *testing.T) {
	to8 := fmt.Sprintf(`%%e: float8e5m2[2,2] = Cast@19 "c" (%%x) {to=%d}
%%y: float64[2,2] = Cast@19 "y" (%%e) {to=%d}`, tensor.Float8E5M2, tensor.Float64)
	for name, c := range map[string]struct{ lines, by, says string }{
		"float8":  {to8, "x", "float8e5m2"},
		"integer": {`%y: float64[2,2] = Identity@13 "y" (%x)`, "i", "int64"},
		"scatter that multiplies": {
			`%y: float64[2,2] = ScatterElements@18 "y" (%x, %i, %x) {reduction="mul"}`, "x", "mul"},
		"columns": {`%p: float64[1,2,2] = Unsqueeze@13 "p" (%x, %axis)
%y: float64[1,2,1] = MaxPool@12 "y" (%p) {kernel_shape=[2], storage_order=1}`, "x",
			"storage_order"},
		"rank": {`%y: float64[...] = MatMul@13 "y" (%x, %u)`, "u", "shapes"},
		"sizes that pads depend on": {
			`%y: float64[...] = Conv@11 "y" (%s, %w) {auto_pad="SAME_UPPER", strides=[2]}`, "w",
			"auto_pad"},
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, `input %x: float64[2,2]
input %u: float64[...]
input %s: float64[1,1,N]
input %w: float64[1,1,3]
input %i: int64[2,2]
const %axis: int64[1] = {0}
`+c.lines+"\noutput %y")
			had := len(g.Nodes)
			by := g.Input(c.by)
			ds, err := grad.Backward(g, grad.Objective{Of: values(t, g, "y"),
				By: []*graph.Value{by}})
			if !errors.Is(err, op.ErrNoGradient) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("gradients are %v, error %v; want one that says %q", ds, err, c.says)
			}
			if len(g.Nodes) != had {
				t.Errorf("a failure leaves %d nodes of %d", len(g.Nodes), had)
			}
		})
	}
}

// TestNoElements: gradients of and by tensors without elements have none, of the right shape.
func TestNoElements(t *testing.T) {
	g := parse(t, `input %x: float64[N,3]
%f: float64[...] = Flatten@13 "f" (%x) {axis=0}
%s: float64[...] = ReduceMean@18 "s" (%f)
%y: float64[...] = Exp@13 "y" (%s)
output %y`)
	o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
	got := derive(t, g, o, tensor.From([]float64{}, 0, 3))
	if !slices.Equal(got[0].Shape, []int{0, 3}) {
		t.Errorf("gradient is %v", got[0])
	}
}

// TestMeansOfNothing differentiates means of which there are none: no number of elements is
// divided by how many they are.
func TestMeansOfNothing(t *testing.T) {
	for _, mean := range []string{"ReduceMean@13 (%x) {axes=[2,3]}", "GlobalAveragePool@1 (%x)"} {
		g := parse(t, "input %x: float64[n,2,h,w]\n%y = "+mean+"\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
		got := derive(t, g, o, tensor.From([]float64{}, 0, 2, 3, 4))
		if !slices.Equal(got[0].Shape, []int{0, 2, 3, 4}) {
			t.Errorf("%s: gradient is %v", mean, got[0])
		}
	}
}

// TestMeansOfMany differentiates means over more elements than float16 has numbers for, and over
// one: the gradient of each element is that of the mean over their number.
func TestMeansOfMany(t *testing.T) {
	for _, mean := range []string{"ReduceMean@13 (%x) {axes=[2,3]}", "GlobalAveragePool@1 (%x)"} {
		for _, sides := range [][2]int{{1, 1}, {2, 3}, {300, 250}} {
			n := sides[0] * sides[1]
			for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32} {
				g := parse(t, fmt.Sprintf("input %%x: %v[1,1,h,w]\n%%y = %s\noutput %%y", d, mean))
				x, err := tensor.New(d, 1, 1, sides[0], sides[1])
				if err != nil {
					t.Fatal(err)
				}
				o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
				got := convert(derive(t, g, o, x)[0], tensor.Float64)
				for _, v := range tensor.As[float64](got) {
					if want := 1 / float64(n); math.Abs(v-want) > want/100 {
						t.Fatalf("%s of %d elements of %v: gradient %v, want %v", mean, n, d, v,
							want)
					}
				}
			}
		}
	}
}
