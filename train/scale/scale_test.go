package scale_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
)

// namer makes names.
func namer() func(string) string {
	n := 0
	return func(base string) string {
		n++
		return fmt.Sprint(base, ".", n)
	}
}

// steps is a graph that is given two gradients and keeps a weight, and the variables of its scale
// from one step to the next.
type steps struct {
	t     *testing.T
	g     *graph.Graph
	state map[string]*tensor.Tensor
	next  []string // names of the variables that the outputs after the first two become
}

func newSteps(t *testing.T, o scale.Options) *steps {
	t.Helper()
	input := func(name string) *graph.Value {
		return &graph.Value{Name: name, Type: op.Concrete(tensor.Float32, 2)}
	}
	a, b, w := input("a"), input("b"), input("w")
	g := &graph.Graph{Name: "steps", Inputs: []*graph.Value{a, b, w},
		Opsets: map[string]int{"": 18}}
	s, err := scale.New(g, o, namer())
	if err != nil {
		t.Fatal(err)
	}
	ds := s.Gradients([]*graph.Value{a, b})
	g.Outputs = append(g.Outputs, ds...)
	r := &steps{t: t, g: g, next: []string{"w"},
		state: map[string]*tensor.Tensor{"w": tensor.From([]float32{1, 1}, 2)}}
	g.Outputs = append(g.Outputs, s.Keep(ds[0], w))
	for _, v := range s.Variables() {
		r.state[v.Name] = v.Start
		r.next = append(r.next, v.Name)
		g.Outputs = append(g.Outputs, v.Next)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

// step gives scaled gradients whose greatest magnitudes are a and b.
func (s *steps) step(a, b float32) {
	s.t.Helper()
	s.state["a"] = tensor.From([]float32{-a, 0}, 2)
	s.state["b"] = tensor.From([]float32{b / 2, b}, 2)
	var in []*tensor.Tensor
	for _, v := range s.g.Inputs {
		in = append(in, s.state[v.Name])
	}
	out, err := s.g.Eval(s.t.Context(), in)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, name := range s.next {
		s.state[name] = out[i+2].Clone()
	}
}

func (s *steps) number(name string) float32 { return tensor.As[float32](s.state[name])[0] }

func (s *steps) skipped() int64 { return tensor.As[int64](s.state[scale.VarSkipped])[0] }

// TestTorch holds growth and back-off against GradScaler's rule, written down once more; bench/amp
// compares with PyTorch itself.
func TestTorch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, o := range []scale.Options{
		{Kind: scale.Torch, Interval: 3},
		{Kind: scale.Torch, Init: 3, Growth: 1.5, Backoff: 0.25, Interval: 2},
		{Kind: scale.Torch, Init: 0x1p126, Interval: 1}, // stays finite
	} {
		s := newSteps(t, o)
		want := map[bool]float32{true: 0x1p16, false: float32(o.Init)}[o.Init == 0]
		growth, backoff := float32(2), float32(0.5)
		if o.Growth != 0 {
			growth, backoff = float32(o.Growth), float32(o.Backoff)
		}
		good, skipped := 0, int64(0)
		for i := range 60 {
			a, b := float32(1), float32(2)
			bad := rng.IntN(5) == 0 && i > 6
			if bad {
				b = []float32{float32(math.Inf(1)), float32(math.NaN())}[rng.IntN(2)]
			}
			if rng.IntN(2) == 0 {
				a, b = b, a
			}
			s.step(a, b)
			if bad {
				want, good = want*backoff, 0
				skipped++
			} else if good++; good == o.Interval {
				if up := want * growth; !math.IsInf(float64(up), 0) {
					want = up
				}
				good = 0
			}
			if got := s.number(scale.VarScale); got != want || s.skipped() != skipped {
				t.Fatalf("%+v, step %d: scale %g after %d skipped, want %g, %d", o, i, got,
					s.skipped(), want, skipped)
			}
		}
	}
}

// TestConstant: the scale stays, and a step that overflows changes no weight.
func TestConstant(t *testing.T) {
	s := newSteps(t, scale.Options{Kind: scale.Constant, Init: 8})
	s.step(16, 2)
	if w := s.number("w"); w != -2 {
		t.Errorf("the weight became %g, want the gradient without its scale, -2", w)
	}
	s.step(1, float32(math.Inf(1)))
	s.step(float32(math.NaN()), 1)
	if w := s.number("w"); w != -2 || s.skipped() != 2 || s.number(scale.VarScale) != 8 {
		t.Errorf("after two overflows: weight %g, %d skipped, scale %g", w, s.skipped(),
			s.number(scale.VarScale))
	}
}

// TestAuto: gradients of weights come and go by a factor of 4 around a level, and those of values,
// which nobody sees, are so many times greater. After the first steps none overflows, and the scale
// is the largest power of two with its margin.
func TestAuto(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, level := range []float32{1e-9, 1e-4, 1, 300} {
		for _, hidden := range []float32{1, 40, 1000} {
			s := newSteps(t, scale.Options{Kind: scale.Auto})
			var early int64
			for i := range 600 {
				g := level * float32(math.Exp2(2*rng.Float64()-1))
				a := g * s.number(scale.VarScale)
				if a*hidden > 65504 {
					a = float32(math.Inf(1))
				}
				s.step(a, a/3)
				if i == 100 {
					early = s.skipped()
				}
				if now := s.number(scale.VarScale); i > 100 {
					room := float64(s.number(scale.VarPeak) * s.number(scale.VarMargin))
					if top := float64(now) * room; top > 65504 || top*2 <= 65504 && now < 0x1p24 {
						t.Fatalf("level %g, hidden %g: scale %g leaves %g of 65504", level, hidden,
							now, top)
					}
				}
				if frac, _ := math.Frexp(float64(s.number(scale.VarScale))); frac != 0.5 {
					t.Fatalf("scale %g is no power of two", s.number(scale.VarScale))
				}
			}
			if late := s.skipped() - early; late > 0 || early > 40 {
				t.Errorf("level %g, hidden %g: %d steps skipped of the first 100, %d of the other "+
					"500", level, hidden, early, late)
			}
		}
	}
}

// perceptron is a net whose loss is "loss", of inputs x and the weights p and q.
const perceptron = `graph "g" {
	opset "" 17
	input %x: float32[5,6]
	input %p: float32[6,8]
	input %q: float32[8,3]
	input %labels: int64[5]
	%a = MatMul@13 (%x, %p)
	%b = Tanh@13 (%a)
	%c = MatMul@13 (%b, %q)
	%loss = SoftmaxCrossEntropyLoss@13 (%c, %labels)
	output %loss
}`

// TestSameBits: in float32 a scale that is a power of two changes no bit of a gradient.
func TestSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	floats := func(shape ...int) *tensor.Tensor {
		x := make([]float32, shape[0]*shape[1])
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return tensor.From(x, shape...)
	}
	in := []*tensor.Tensor{floats(5, 6), floats(6, 8), floats(8, 3),
		tensor.From([]int64{0, 2, 1, 1, 0}, 5)}
	gradients := func(o scale.Options) []*tensor.Tensor {
		g, err := graph.Parse(perceptron)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scale.New(g, o, namer())
		if err != nil {
			t.Fatal(err)
		}
		loss := s.Loss(g.Outputs[0])
		ds, err := grad.Backward(g, grad.Objective{Of: []*graph.Value{loss}, By: g.Inputs[1:3]})
		if err != nil {
			t.Fatal(err)
		}
		g.Outputs = s.Gradients(ds)
		args := in
		for _, v := range s.Variables() {
			args = append(args[:len(args):len(args)], v.Start)
		}
		if err := g.Sort(); err != nil {
			t.Fatal(err)
		}
		out, err := g.Eval(t.Context(), args)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := gradients(scale.Options{})
	for _, o := range []scale.Options{{Kind: scale.Constant, Init: 1024}, {Kind: scale.Torch},
		{Kind: scale.Auto, Init: 0x1p-9}} {
		for i, d := range gradients(o) {
			if !tensor.Equal(d, want[i]) {
				t.Errorf("%+v: gradient %d is %v, want %v", o, i, d, want[i])
			}
		}
	}
	for i, d := range gradients(scale.Options{Kind: scale.Constant, Init: 1000}) {
		if err := tensor.Close(d, want[i], 1e-5, 1e-7); err != nil {
			t.Errorf("scale 1000: %v", err)
		}
	}
}

// TestOptions holds what settings are read as, and which are refused.
func TestOptions(t *testing.T) {
	for text, want := range map[string]scale.Options{"": {}, "none": {Kind: scale.None},
		"auto": {Kind: scale.Auto}, "torch": {Kind: scale.Torch},
		"1024": {Kind: scale.Constant, Init: 1024}} {
		if got, err := scale.Parse(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "inf", "nan", "1e60", "dynamic", "constant"} {
		if _, err := scale.Parse(text); !errors.Is(err, scale.ErrOptions) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, o := range []scale.Options{{Kind: "x"}, {Kind: scale.Torch, Backoff: 2},
		{Kind: scale.Torch, Growth: 0.5}, {Kind: scale.Torch, Interval: -1},
		{Kind: scale.Auto, Margin: 0.5}, {Kind: scale.Auto, Decay: 1.5},
		{Kind: scale.Auto, Largest: -1}} {
		if _, err := scale.New(&graph.Graph{}, o, namer()); !errors.Is(err, scale.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	g := &graph.Graph{}
	s, err := scale.New(g, scale.Options{}, namer())
	if err != nil {
		t.Fatal(err)
	}
	v := &graph.Value{Name: "v"}
	if s.Loss(v) != v || s.Keep(v, nil) != v || s.Gradients([]*graph.Value{v})[0] != v ||
		len(g.Nodes)+len(g.Inputs)+len(s.Variables()) > 0 {
		t.Error("no scale adds something to a graph")
	}
}

// TestMark: a constant scale of 1 only marks where gradients end. Nothing waits for all of them,
// and what one overflow spoils is spoiled as without a scale.
func TestMark(t *testing.T) {
	s := newSteps(t, scale.Options{Kind: scale.Constant, Init: 1})
	marks := 0
	for _, n := range s.g.Nodes {
		if n.Type != op.Unscale || len(n.Out) != 1 {
			t.Errorf("%s: a step of no scale has nothing but marks", n)
		}
		marks++
	}
	if marks != 2 || len(s.next) != 1 {
		t.Errorf("%d marks and variables %q, want a mark for each gradient, and no variable", marks,
			s.next[1:])
	}
	s.step(3, 4)
	if w := s.number("w"); w != -3 {
		t.Errorf("weight %g, want -3", w)
	}
	s.step(float32(math.Inf(1)), 4)
	if w := s.number("w"); !math.IsInf(float64(w), -1) {
		t.Errorf("weight %g, want -Inf", w)
	}
}
