package kernels_test

import (
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestChoices holds that a kernel takes the way that was measured of its own problem and no other,
// and only one that it has.
func TestChoices(t *testing.T) {
	call := &op.Call{
		Type:    "Conv",
		Version: 11,
		NumOut:  1,
		Attrs:   op.Attrs{{Name: "pads", Ints: []int64{1, 1, 1, 1}}},
	}
	w := tensor.From(make([]float32, 8*4*3*3), 8, 4, 3, 3)
	prepare := func(c compute.Choices) compute.Choosing {
		weights := op.Concrete(tensor.Float32, w.Shape...)
		weights.Const = w
		k, err := kernels.Target(device.Info{}).Prepare(
			&compute.Request{
				Call:    call,
				Choices: c,
				In:      []op.Type{op.Concrete(tensor.Float32, 1, 4, 9, 9), weights},
				Out:     []op.Type{op.Concrete(tensor.Float32, 1, 8, 9, 9)},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return k.(compute.Choosing)
	}
	by := prepare(nil)
	ways := by.Algorithms()
	if len(ways) < 2 || by.Algorithm() != ways[0] || by.Measured() {
		t.Fatalf("ways %v, chosen %s, measured %v", ways, by.Algorithm(), by.Measured())
	}
	for _, way := range ways {
		k := prepare(compute.Choices{by.Problem(): way})
		if k.Algorithm() != way || !k.Measured() || k.Problem() != by.Problem() {
			t.Errorf("asked for %s: %s, measured %v, problem %s", way, k.Algorithm(), k.Measured(),
				k.Problem())
		}
		if k.(compute.Kernel).Name() != "conv."+way {
			t.Errorf("%s is called %s", way, k.(compute.Kernel).Name())
		}
	}
	for name, c := range map[string]compute.Choices{
		"another problem": {by.Problem() + " bias": ways[1]}, "no way": {by.Problem(): "none"},
		"a way of others": {by.Problem(): "depthwise"},
	} {
		if k := prepare(c); k.Algorithm() != ways[0] || k.Measured() {
			t.Errorf("%s: %s, measured %v", name, k.Algorithm(), k.Measured())
		}
	}
}
