package engine

import (
	"context"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// batched plans a network, simplified once, for a batch.
func batched(t *testing.T, g *graph.Graph, batch int) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(context.Background(), g, plan.Options{Shapes: map[string][]int{"input": {batch, 3, 224, 224}}, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWeightsAreShared loads plans of one model for two batches: the second uses the weights of the first, which live as long as
// either.
func TestWeightsAreShared(t *testing.T) {
	g, err := zoo.New("mobilenetv2", zoo.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pass.Run(context.Background(), g, pass.Options{}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	one, two := batched(t, g, 1), batched(t, g, 2)
	if !one.SamePacking(two) || !two.SamePacking(one) {
		t.Fatal("plans for two batches pack differently")
	}
	first := b.load(t, one)
	o := b.options()
	o.Like = first
	second, err := Load(two, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.quota.sum(); got != one.PackedBytes {
		t.Errorf("%d bytes granted for weights of %d", got, one.PackedBytes)
	}
	x := make([]float32, 2*3*224*224)
	for i := range x {
		x[i] = float32(i%251)/251 - 0.5
	}
	i, j := take(t, first), take(t, second)
	copy(tensor.As[float32](i.Inputs()[0]), x)
	copy(tensor.As[float32](j.Inputs()[0]), x)
	for _, in := range []*Instance{i, j} {
		if err := in.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
	}
	want := append([]float32(nil), tensor.As[float32](i.Outputs()[0])...)
	got := append([]float32(nil), tensor.As[float32](j.Outputs()[0])[:len(want)]...)
	if d, err := tensor.RelL2(tensor.From(got, len(got)), tensor.From(want, len(want))); err != nil || d > 1e-5 {
		t.Errorf("the first image of two gives another result: relative distance %g, %v", d, err)
	}
	i.Put()
	first.Close()
	if err := j.Run(context.Background(), device.Open); err != nil {
		t.Fatalf("after the other session was closed: %v", err)
	}
	j.Put()
	second.Close()
	b.nothingHeld(t)
	o.Like = second
	third, err := Load(two, o)
	if err != nil {
		t.Fatalf("like a closed session: %v", err)
	}
	third.Close()
}
