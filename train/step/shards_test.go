package step_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// TestShards: an update in shards, each of two batches, is that of one batch of all their samples,
// within 2e-5: gradients are means over shards and batches.
func TestShards(t *testing.T) {
	g, err := graph.Parse(strings.Replace(two, "[4,3]", "[N,3]", 1))
	if err != nil {
		t.Fatal(err)
	}
	o := step.Options{Loss: step.Loss{Kind: step.SquaredError},
		Optimizer: step.Momentum.Defaults()}
	rng := rand.New(rand.NewPCG(7, 8))
	x, labels := random(rng, 12, 3), random(rng, 12, 2)
	build := func(batch, shards, accumulate int) (*step.Step, map[string]*tensor.Tensor) {
		o.Shards, o.Accumulate, o.Shapes = shards, accumulate, map[string][]int{"x": {batch, 3}}
		o.Slots = 1
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
		return s, state
	}
	samples := func(from, n int) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{
			"x": tensor.From(tensor.As[float32](x)[3*from:3*(from+n)], n, 3),
			"labels": tensor.From(tensor.As[float32](labels)[2*from:2*(from+n)], n,
				2)}
	}
	whole, want := build(12, 1, 1)
	s, state := build(6, 3, 2)
	if s.Kept != len(s.State.Variables())-len(s.Shards.Parts)-1 || whole.Shards != nil ||
		whole.Kept != len(whole.State.Variables()) {
		t.Errorf("%d of %d variables outlive an update", s.Kept, len(s.State.Variables()))
	}
	for update := range int64(3) {
		in := samples(0, 12)
		numbers := map[string]*tensor.Tensor{}
		for name, v := range o.Optimizer.Scalars(0.1, update+1) {
			in[name], numbers[name] = tensor.Scalar(v), tensor.Scalar(v)
		}
		iterate(t, whole.Train, in, want)
		total := map[string][]float32{}
		for shard := range 3 {
			for _, name := range s.Sums {
				clear(state[name].Data)
			}
			for i := range 2 {
				iterate(t, s.Train, samples(6*i+2*shard, 2), state)
			}
			for _, name := range s.Shards.Parts {
				for i, v := range tensor.As[float32](state[name]) {
					if shard == 0 && i == 0 {
						total[name] = make([]float32, state[name].Len())
					}
					total[name][i] += v
				}
			}
		}
		for name, sum := range total {
			copy(tensor.As[float32](state[name]), sum)
		}
		iterate(t, s.Shards.Apply, numbers, state)
	}
	for _, name := range []string{"w", "b"} {
		v, err := want[name].Floats()
		if err != nil {
			t.Fatal(err)
		}
		near(t, name, state[name], v)
	}
	o.Shards, o.Shapes = 5, map[string][]int{"x": {12, 3}}
	if _, err := step.Build(g, o); !errors.Is(err, step.ErrShards) {
		t.Errorf("5 shards of 12 samples: %v", err)
	}
}
