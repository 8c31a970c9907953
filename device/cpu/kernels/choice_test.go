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

// TestProductChoices holds that a product which is to multiply in bfloat16 does not where float32
// was measured to be faster, and that others have no choice.
func TestProductChoices(t *testing.T) {
	prepare := func(precision string, c compute.Choices) compute.Kernel {
		attrs := op.Attrs{}
		if precision != "" {
			attrs = op.Attrs{op.StringAttr("precision", precision)}
		}
		k, err := kernels.Target(device.Info{}).Prepare(&compute.Request{Choices: c,
			Call: &op.Call{Domain: op.FusedDomain, Type: "MatMul", Version: 1, NumIn: 2, NumOut: 1,
				Attrs: attrs},
			In:  []op.Type{op.Concrete(tensor.Float32, 6, 8), op.Concrete(tensor.Float32, 8, 40)},
			Out: []op.Type{op.Concrete(tensor.Float32, 6, 40)}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if _, ok := prepare("", nil).(compute.Choosing); ok {
		t.Error("a product in float32 has a choice")
	}
	by := prepare("bf16", nil).(compute.Choosing)
	if by.Measured() || by.Algorithm() != "bf16" || by.(compute.Kernel).Name() != "gemm.bf16" {
		t.Errorf("%s, measured %v", by.Algorithm(), by.Measured())
	}
	for way, name := range map[string]string{"bf16": "gemm.bf16", "f32": "gemm"} {
		k := prepare("bf16", compute.Choices{by.Problem(): way})
		if c := k.(compute.Choosing); c.Algorithm() != way || !c.Measured() ||
			c.Problem() != by.Problem() || k.Name() != name {
			t.Errorf("asked for %s: %s is called %s, measured %v", way, c.Algorithm(), k.Name(),
				c.Measured())
		}
	}
	for _, c := range []compute.Choices{{by.Problem(): "none"}, {by.Problem() + " ": "f32"}} {
		if k := prepare("bf16", c).(compute.Choosing); k.Algorithm() != "bf16" || k.Measured() {
			t.Errorf("%v: %s, measured %v", c, k.Algorithm(), k.Measured())
		}
	}
}
