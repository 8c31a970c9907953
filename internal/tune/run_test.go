package tune_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/tune"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestRun measures a small image network for real. Whatever is faster, every problem gets a way
// that it has, and the memory of all plans is given back.
func TestRun(t *testing.T) {
	g, err := zoo.New("resnet50", zoo.Options{Layers: 1, Width: 0.125, Resolution: 32, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	compile := func(ctx context.Context, c compute.Choices) (*plan.Plan, error) {
		return plan.Compile(
			ctx,
			g,
			plan.Options{Target: kernels.Target(device.Info{}),
				Shapes: map[string][]int{g.Inputs[0].Name: {1, 3, 32, 32}}, Choices: c},
		)
	}
	fill := func(i *engine.Instance) error {
		for k, x := 0, tensor.As[float32](i.Inputs()[0]); k < len(x); k++ {
			x[k] = float32(k%7) - 3
		}
		return nil
	}
	r, err := tune.Run(
		t.Context(),
		tune.Options{
			Compile: compile,
			Fill:    fill,
			Time:    time.Millisecond,
			Engine:  engine.Options{Device: dev, Pool: pool},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) < 3 || len(r.Choices) != len(r.Problems) || r.Rounds != tune.MinRounds ||
		r.BeforeMS <= 0 ||
		r.AfterMS > r.BeforeMS {
		t.Errorf("%+v", r)
	}
	for _, p := range r.Problems {
		if len(p.Candidates) < 2 || len(p.Steps) == 0 || r.Choices[p.Problem] != p.Chosen ||
			!slices.ContainsFunc(p.Candidates,
				func(w tune.Candidate) bool { return w.Algorithm == p.Chosen && w.MS > 0 }) {
			t.Errorf("%+v, chosen %s", p, r.Choices[p.Problem])
		}
	}
	if held := dev.Held(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
	// Every way gives the results of the cost model's, to some dozens of roundings.
	outputs := func(c compute.Choices) []float32 {
		p, err := compile(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for i := range p.Steps {
			k, ok := p.Steps[i].Kernel.(compute.Choosing)
			if ok && c[k.Problem()] == k.Algorithm() {
				taken++
			}
		}
		if taken < len(c) {
			t.Errorf("%d of %d choices were taken", taken, len(c))
		}
		s, err := engine.Load(p, engine.Options{Device: dev, Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		i, err := s.Take()
		if err != nil {
			t.Fatal(err)
		}
		defer i.Put()
		if err := fill(i); err != nil {
			t.Fatal(err)
		}
		if err := i.Run(t.Context(), device.Open); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(tensor.As[float32](i.Outputs()[0]))
	}
	want := outputs(nil)
	for way := range 3 {
		c := compute.Choices{}
		for _, p := range r.Problems {
			c[p.Problem] = p.Candidates[min(way, len(p.Candidates)-1)].Algorithm
		}
		got := outputs(c)
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 0x1p-17*max(1, math.Abs(float64(want[i]))) {
				t.Fatalf("way %d: output %d is %g, want %g", way, i, got[i], want[i])
			}
		}
		if again := outputs(c); !slices.Equal(got, again) {
			t.Errorf("way %d: other bits the second time", way)
		}
	}
}
