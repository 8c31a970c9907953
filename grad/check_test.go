package grad_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// call is one operator call on operands of float64, which are differentiated by, and of integers
// and conditions, which are not; nil is an absent operand.
type call struct {
	name    string
	domain  string
	op      string
	version int // 0: the newest opset
	attrs   op.Attrs
	in      []*tensor.Tensor
	outs    int // 0: 1
	// held are float operands that are constants of the call, not differentiated by
	held []int
	// static calls need the sizes of their operands
	static bool
	// first calls have rules whose steps have none
	first bool
	// single calls are not made in narrower types: their results jump where elements round
	single bool
}

func (c call) String() string {
	s := c.op
	if c.domain != "" {
		s = c.domain + ":" + s
	}
	if c.name != "" {
		s += "/" + c.name
	}
	return s
}

const newest = 25

// function is a graph of one call with its operands as inputs, of the given element type. Sizes are
// symbols when symbolic is set.
type function struct {
	g    *graph.Graph
	by   []*graph.Value
	at   []*tensor.Tensor // one an input of g
	seed []*tensor.Tensor // one a float result
	of   []*graph.Value   // the float results
}

func isReal(d tensor.DType) bool { return d.IsFloat() }

func convert(t *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	v, err := t.Floats()
	if err != nil {
		panic(err)
	}
	out, err := tensor.New(d, t.Shape...)
	if err != nil {
		panic(err)
	}
	for i, f := range v {
		switch d {
		case tensor.Float64:
			tensor.As[float64](out)[i] = f
		case tensor.Float32:
			tensor.As[float32](out)[i] = float32(f)
		case tensor.Float16:
			tensor.As[tensor.Half](out)[i] = tensor.HalfOf(float32(f))
		case tensor.BFloat16:
			tensor.As[tensor.BHalf](out)[i] = tensor.BHalfOf(float32(f))
		}
	}
	return out
}

func build(t *testing.T, c call, d tensor.DType, symbolic bool) *function {
	t.Helper()
	version := c.version
	if version == 0 {
		version = newest
	}
	f := &function{g: &graph.Graph{Name: c.String(), Opsets: map[string]int{"": newest}}}
	n := &graph.Node{Name: "call", Domain: c.domain, Type: c.op, Version: version, Attrs: c.attrs}
	for i, v := range c.in {
		if v == nil {
			n.In = append(n.In, nil)
			continue
		}
		in := &graph.Value{Name: fmt.Sprintf("in%d", i), Type: op.Concrete(v.DType, v.Shape...)}
		if isReal(v.DType) && !slices.Contains(c.held, i) {
			v = convert(v, d)
			in.Type.DType = d
			if symbolic {
				for k := range in.Type.Shape {
					in.Type.Shape[k] = op.Sym(fmt.Sprintf("s%d_%d", i, k))
				}
			}
			f.by = append(f.by, in)
		} else {
			if isReal(v.DType) {
				v = convert(v, d)
			}
			in = graph.NewConst(in.Name, v)
		}
		n.In = append(n.In, in)
		if !in.IsConst() {
			f.g.Inputs, f.at = append(f.g.Inputs, in), append(f.at, v)
		}
	}
	for i := range max(c.outs, 1) {
		out := &graph.Value{Name: fmt.Sprintf("out%d", i), Producer: n, Index: i}
		n.Out, f.g.Outputs = append(n.Out, out), append(f.g.Outputs, out)
	}
	f.g.Nodes = []*graph.Node{n}
	if err := f.g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	f.realOutputs(t, rand.New(rand.NewPCG(3, 5)))
	return f
}

// realOutputs keeps the results that have gradients and draws a seed for each.
func (f *function) realOutputs(t *testing.T, r *rand.Rand) {
	t.Helper()
	for i, v := range f.eval(t, f.at) {
		if isReal(v.DType) {
			f.of = append(f.of, f.g.Outputs[i])
			f.seed = append(f.seed, convert(normal(r, v.Shape...), v.DType))
		}
	}
	f.g.Outputs = f.of
}

func (f *function) eval(t *testing.T, at []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	out, err := f.g.Eval(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gradients adds the gradients of the chosen results by the chosen operands to a copy of the
// function and evaluates them.
func (f *function) gradients(t *testing.T, of, by []int) []*tensor.Tensor {
	t.Helper()
	c := f.differentiated(t, of, by)
	return c.eval(t, c.at)
}

// differentiated is the function from the same inputs to the gradients.
func (f *function) differentiated(t *testing.T, of, by []int) *function {
	t.Helper()
	c := &function{g: f.g.Clone(), at: f.at}
	var o grad.Objective
	for _, i := range of {
		o.Of = append(o.Of, c.g.Outputs[i])
		o.Seeds = append(o.Seeds,
			graph.NewConst(fmt.Sprintf("seed%d_%d", len(f.g.Nodes), i), f.seed[i]))
	}
	for _, v := range f.by {
		c.by = append(c.by, c.g.Input(v.Name))
	}
	for _, i := range by {
		o.By = append(o.By, c.by[i])
	}
	ds, err := grad.Backward(c.g, o)
	if err != nil {
		t.Fatal(err)
	}
	c.g.Outputs = ds
	if err := c.g.Sort(); err != nil {
		t.Fatal(err)
	}
	if err := c.g.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// objective is the sum of the chosen results, each element times that of its seed.
func (f *function) objective(t *testing.T, of []int, at []*tensor.Tensor) float64 {
	t.Helper()
	out := f.eval(t, at)
	sum := 0.0
	for _, i := range of {
		sum += dot(out[i], f.seed[i])
	}
	return sum
}

func dot(a, b *tensor.Tensor) float64 {
	x, err := a.Floats()
	y, err2 := b.Floats()
	if err != nil || err2 != nil || len(x) != len(y) {
		panic(fmt.Sprint(a, b, err, err2))
	}
	sum := 0.0
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func normal(r *rand.Rand, shape ...int) *tensor.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return tensor.From(v, shape...)
}

// moved is the point at a step along a direction of the operand that input i is.
func moved(at []*tensor.Tensor, i int, along *tensor.Tensor, step float64) []*tensor.Tensor {
	at = slices.Clone(at)
	v := at[i].Clone()
	for k, d := range tensor.As[float64](along) {
		tensor.As[float64](v)[k] += step * d
	}
	at[i] = v
	return at
}

// step of central differences: the third root of the rounding of float64, about where the error of
// rounding, eps/step, meets that of the third derivative, step².
const step = 6e-6

// agree bounds the difference of a directional derivative from its central difference, in parts of
// their size: step² of a third derivative of some tens, and rounding over step.
const agree = 2e-7

// compare holds the gradients of the chosen results by the chosen operands against central
// differences along random directions.
func (f *function) compare(t *testing.T, of, by []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 11))
	ds := f.gradients(t, of, by)
	for k, i := range by {
		at := slices.Index(f.g.Inputs, f.by[i])
		if !slices.Equal(ds[k].Shape, f.at[at].Shape) {
			t.Errorf("gradient of %s is %v, the operand %v", f.by[i].Name, ds[k], f.at[at])
			continue
		}
		for range 2 {
			along := normal(r, f.at[at].Shape...)
			want := (f.objective(t, of, moved(f.at, at, along, step)) -
				f.objective(t, of, moved(f.at, at, along, -step))) / (2 * step)
			got := dot(ds[k], along)
			scale := 1 + math.Abs(want) + math.Abs(f.objective(t, of, f.at))
			if !(math.Abs(got-want) <= agree*scale) {
				t.Errorf("results %v by %s: derivative %v, differences say %v", of, f.by[i].Name,
					got, want)
			}
		}
	}
}

func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestRules holds the rule of every operator against central differences in float64: all results by
// all operands, each result alone (so that the gradients of the others are absent), each operand
// alone, with sizes that are only symbols, and the gradient of the gradient.
func TestRules(t *testing.T) {
	for _, c := range calls() {
		t.Run(c.String(), func(t *testing.T) {
			f := build(t, c, tensor.Float64, false)
			of, by := every(len(f.of)), every(len(f.by))
			f.compare(t, of, by)
			for _, i := range of {
				if len(of) > 1 {
					f.compare(t, []int{i}, by)
				}
			}
			for _, i := range by {
				if len(by) > 1 {
					f.compare(t, of, []int{i})
				}
			}
			if !c.static {
				build(t, c, tensor.Float64, true).compare(t, of, by)
			}
			if !c.first {
				f.twice(t)
			}
		})
	}
}

// twice compares the gradient of the gradients.
func (f *function) twice(t *testing.T) {
	t.Helper()
	d := f.differentiated(t, every(len(f.of)), every(len(f.by)))
	d.of = nil
	d.realOutputs(t, rand.New(rand.NewPCG(13, 17)))
	d.compare(t, every(len(d.of)), every(len(d.by)))
}

// TestNarrowTypes computes every gradient in float32, float16 and bfloat16 and bounds the distance
// from that in float64, taken at the same rounded operands, in parts of its norm: some roundings of
// the type an element.
func TestNarrowTypes(t *testing.T) {
	for d, bound := range map[tensor.DType]float64{
		tensor.Float32: 1e-5, tensor.Float16: 0.02, tensor.BFloat16: 0.15,
	} {
		for _, c := range calls() {
			if c.single {
				continue
			}
			t.Run(fmt.Sprintf("%v/%v", d, c), func(t *testing.T) {
				narrow := build(t, c, d, false)
				wide := c
				wide.in = slices.Clone(c.in)
				for i, v := range c.in {
					if v != nil && isReal(v.DType) {
						wide.in[i] = convert(convert(v, d), tensor.Float64)
					}
				}
				exact := build(t, wide, tensor.Float64, false)
				for i, s := range narrow.seed {
					exact.seed[i] = convert(s, tensor.Float64)
				}
				of, by := every(len(exact.of)), every(len(exact.by))
				want := exact.gradients(t, of, by)
				for i, got := range narrow.gradients(t, of, by) {
					if got.DType != d {
						t.Errorf("gradient of operand %d is %v", i, got.DType)
					}
					diff := convert(got, tensor.Float64)
					for k, w := range tensor.As[float64](want[i]) {
						tensor.As[float64](diff)[k] -= w
					}
					far, size := math.Sqrt(dot(diff, diff)), math.Sqrt(dot(want[i], want[i]))
					if !(far <= bound*(size+1e-2)) {
						t.Errorf("gradient of operand %d is %v of %v away", i, far, size)
					}
				}
			})
		}
	}
}
