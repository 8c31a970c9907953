package step_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// TestWhole: an update of three batches is that of one batch of all their samples, within 2e-5.
func TestWhole(t *testing.T) {
	text := strings.Replace(two, "[4,3]", "[N,3]", 1)
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	// not clipped, which would hide a sum that is taken for a mean
	o := step.Options{Loss: step.Loss{Kind: step.SquaredError},
		Optimizer: step.Momentum.Defaults()}
	rng := rand.New(rand.NewPCG(7, 8))
	x, labels := random(rng, 12, 3), random(rng, 12, 2)
	train := func(accumulate int) map[string]*tensor.Tensor {
		n := 12 / accumulate
		o.Accumulate, o.Shapes = accumulate, map[string][]int{"x": {n, 3}}
		s, err := step.Build(g, o)
		if err != nil {
			t.Fatal(err)
		}
		state := map[string]*tensor.Tensor{}
		for _, v := range s.State.Variables() {
			if state[v.Name], err = tensor.New(v.DType, v.Shape...); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range s.Params {
			state[p.Name] = p.Start
		}
		for update := range int64(5) {
			for _, name := range s.Sums {
				clear(state[name].Data)
			}
			for i := range accumulate {
				in := map[string]*tensor.Tensor{
					"x": tensor.From(tensor.As[float32](x)[3*n*i:3*n*(i+1)], n, 3),
					"labels": tensor.From(tensor.As[float32](labels)[2*n*i:2*n*(i+1)], n,
						2)}
				for name, v := range o.Optimizer.Scalars(0.1, update+1) {
					in[name] = tensor.Scalar(v)
				}
				by := s.Train
				if i < accumulate-1 {
					by = s.Add
				}
				iterate(t, by, in, state)
			}
		}
		return state
	}
	whole, parts := train(1), train(3)
	for _, name := range []string{"w", "b"} {
		want, err := whole[name].Floats()
		if err != nil {
			t.Fatal(err)
		}
		near(t, name, parts[name], want)
	}
}

// TestFar: scores far from what labels want give finite losses and gradients.
func TestFar(t *testing.T) {
	g, err := graph.Parse(`graph "far" {
 opset "" 18
 input %x: float32[1,1]
 const %w: float32[1,2] = {1, -1}
 %y = MatMul@13 (%x, %w)
 output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind   step.LossKind
		labels *tensor.Tensor
		want   float64
	}{
		{step.CrossEntropy, tensor.From([]int64{1}, 1), 2000},
		{step.BinaryCrossEntropy, tensor.From([]float32{0, 1}, 1, 2), 1000},
	} {
		s, err := step.Build(g, step.Options{Loss: step.Loss{Kind: c.kind},
			Optimizer: step.SGD.Defaults()})
		if err != nil {
			t.Fatal(err)
		}
		state := map[string]*tensor.Tensor{"w": s.Params[0].Start}
		in := map[string]*tensor.Tensor{"x": tensor.From([]float32{1000}, 1, 1),
			"labels": c.labels}
		for name, v := range step.SGD.Defaults().Scalars(1, 1) {
			in[name] = tensor.Scalar(v)
		}
		near(t, string(c.kind), iterate(t, s.Train, in, state), []float64{c.want})
		for _, v := range tensor.As[float32](state["w"]) {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Errorf("%s: a weight became %v", c.kind, v)
			}
		}
	}
}
