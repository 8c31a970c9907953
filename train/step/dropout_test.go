package step_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/kernel/philox"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// dropping is a model with what stands between its input and its product %y of %d.
func dropping(t *testing.T, between string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(`graph "dropping" {
 opset "" 18
 input %x: float32[4,3]
 const %r: float32[] = {0.25}
 const %two: float32[] = {2}
 const %t: bool[] = {true}
 const %w: float32[3,2] = {0.5, -0.25, 1, 0.125, 2, -1}
 ` + between + `
 %y = MatMul@13 (%d, %w)
 output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func dropped(t *testing.T, g *graph.Graph, o step.Dropout) (*step.Step, error) {
	t.Helper()
	return step.Build(g, step.Options{Dropout: o, Optimizer: step.SGD.Defaults(),
		Loss: step.Loss{Kind: step.SquaredError}})
}

// TestDropoutUpdate: an update is that of a network whose input lacks the elements that seed, batch
// and dropout draw, forwards and backwards, and the model is tried without dropout.
func TestDropoutUpdate(t *testing.T) {
	s, err := dropped(t, dropping(t, "%d = Dropout@13 (%x, %r, %t)"), step.Dropout{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	in := map[string]*tensor.Tensor{"x": random(rng, 4, 3), "labels": random(rng, 4, 2),
		step.InputDraw: tensor.From([]int64{5, 6}, 2), "weir.rate": tensor.Scalar(float32(0.1))}
	state := map[string]*tensor.Tensor{"w": s.Params[0].Start}
	tried := iterate(t, s.Eval, in, map[string]*tensor.Tensor{"w": state["w"]})
	iterate(t, s.Train, in, state)

	x, labels := tensor.As[float32](in["x"]), tensor.As[float32](in["labels"])
	w := tensor.As[float32](s.Params[0].Start)
	kept := make([]float32, len(x))
	philox.Drop(kept, x, philox.Stream{Seed: 5, Step: 6}, 0, 1<<30, 1/0.75)
	if zeros := len(slices.DeleteFunc(slices.Clone(kept), func(v float32) bool {
		return v != 0
	})); zeros == 0 || zeros == len(kept) {
		t.Fatalf("%v: choose another seed", kept)
	}
	want, errs := make([]float64, 6), make([]float64, 4)
	for i := range want {
		want[i] = float64(w[i])
	}
	for n := range 4 {
		for j := range 2 {
			y, whole := 0.0, 0.0
			for k := range 3 {
				y += float64(kept[n*3+k]) * float64(w[k*2+j])
				whole += float64(x[n*3+k]) * float64(w[k*2+j])
			}
			of := float64(labels[n*2+j])
			errs[n] += (whole - of) * (whole - of) / 2
			for k := range 3 {
				want[k*2+j] -= 0.1 * 2 * (y - of) / 8 * float64(kept[n*3+k])
			}
		}
	}
	near(t, "w", state["w"], want)
	near(t, "loss of evaluation", tried, errs)
}

// TestDropoutPlaces: which dropouts of a model drop, and at which rates, follows from how it was
// exported and from what a recipe says.
func TestDropoutPlaces(t *testing.T) {
	const sleeping = "%d = Dropout@13 (%x, %r)"
	const waking = "%d = Dropout@13 (%x, %r, %t)"
	const plain = "%d = Relu@14 (%x)"
	const pair = "%c = Dropout@13 (%x)\n%d = Dropout@13 (%c, _, %t)"
	named := step.Dropout{Given: true, Rate: 0.125, After: []string{"d*"}}
	for _, c := range []struct {
		between string
		o       step.Dropout
		rates   []float32
	}{
		{sleeping, step.Dropout{}, nil},
		{waking, step.Dropout{}, []float32{0.25}},
		{waking, step.Dropout{Given: true}, nil},
		{"%d = Dropout@10 (%x) {ratio=0.5}", step.Dropout{}, nil},
		{sleeping, step.Dropout{Given: true, Rate: 0.5}, []float32{0.5}},
		{waking, step.Dropout{Given: true, Rate: 0.5}, []float32{0.5}},
		{pair, step.Dropout{}, []float32{0.5}},
		{pair, step.Dropout{Given: true, Rate: 0.75}, []float32{0.75, 0.75}},
		{plain, named, []float32{0.125}},
		{waking, named, []float32{0.125, 0.125}},
		{"%d2 = Relu@14 (%x)\n%d = Relu@14 (%d2)", named, []float32{0.125, 0.125}},
		{"%d = Identity@14 (%x)\n%q = Relu@14 (%d)", step.Dropout{Given: true}, nil},
	} {
		s, err := dropped(t, dropping(t, c.between), c.o)
		if err != nil {
			t.Fatalf("%s: %v", c.between, err)
		}
		var rates []float32
		numbers := map[int64]bool{}
		for _, n := range s.Train.Nodes {
			if n.Type != op.CountedDropout {
				continue
			}
			if n.Domain != op.FusedDomain {
				if len(n.In) > 1 {
					t.Errorf("%s, %+v: left in training mode", c.between, c.o)
				}
				continue
			}
			if n.In[0].Name == "x" || n.In[0].Producer.Type != "MatMul" {
				rates = append(rates, float32(n.Attrs.Float(op.DropRatio, -1)))
				numbers[n.Attrs.Int(op.DropNode, -1)] = true
			}
		}
		if !slices.Equal(rates, c.rates) || len(numbers) != len(rates) {
			t.Errorf("%s, %+v: drops at %v by numbers %v, want %v", c.between, c.o, rates, numbers,
				c.rates)
		}
		if s.Eval.Input(step.InputDraw) != nil {
			t.Errorf("%s, %+v: evaluation draws", c.between, c.o)
		}
		if (s.Train.Input(step.InputDraw) != nil) != (len(rates) > 0) {
			t.Errorf("%s, %+v: draws %v", c.between, c.o, rates)
		}
	}
}

// TestDropoutRefused: dropout without a place, or that cannot be computed, is refused.
func TestDropoutRefused(t *testing.T) {
	given := func(after ...string) step.Dropout {
		return step.Dropout{Given: true, Rate: 0.5, After: after}
	}
	for between, o := range map[string]step.Dropout{
		"%d = Relu@14 (%x)":    given(),
		"%d = Relu@14 (%x)\n":  given("none"),
		"%d = Relu@14 (%x)\n ": given("y"),
		"%c, %m = Dropout@13 (%x, %r, %t)\n%d = Where@16 (%m,%c,%x)":              {},
		"%d = Dropout@13 (%x, %two, %t)":                                          {},
		"%two2 = ReduceMax@13 (%x) {keepdims=0}\n%d = Dropout@13 (%x, %two2, %t)": {},
	} {
		if _, err := dropped(t, dropping(t, between), o); !errors.Is(err, step.ErrDropout) {
			t.Errorf("%q, %+v: %v", between, o, err)
		}
	}
}
