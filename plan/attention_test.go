package plan

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// TestSavedAttention: where attention is one operator, no score waits for the backward half in any
// precision, results are as near to those by parts in float32 as rounding lets them be, and what
// weights are computed of again is not rounded.
func TestSavedAttention(t *testing.T) {
	apart, weights := training(t, encoder(3), one)
	g := parse(t, encoder(3))
	off := slices.DeleteFunc(pass.Names(), func(name string) bool { return name == "attention" })
	if _, err := pass.Run(t.Context(), g, pass.Options{Off: off}); err != nil {
		t.Fatal(err)
	}
	g, _ = trainingOf(t, g, one)
	in := operands(t, apart, one, 1)
	parts, want := trained(t, apart, pass.FP32, in)
	wide := int64(0)
	for _, c := range []struct {
		precision pass.Precision
		bound     float64
	}{{pass.FP32, 1e-4}, {pass.BF16, 0.03}, {pass.FP16, 0.01}} {
		whole, got := trained(t, g, c.precision, in)
		if c.precision == pass.FP32 {
			wide = whole.ArenaBytes
		}
		for i := range 2 * weights {
			if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > c.bound {
				t.Errorf("%v: output %d: relative distance %g, %v", c.precision, i, d, err)
			}
		}
		backs := 0
		for _, n := range whole.Graph.Nodes {
			for _, v := range n.Out {
				if shape, _ := v.Type.Ints(); slices.Equal(shape, []int{4, 4, 32, 32}) {
					t.Errorf("%v: %v is %v", c.precision, n, v.Type)
				}
			}
			if n.Type != op.AttentionGradient {
				continue
			}
			backs++
			if from := n.In[op.AttentionGradientStats].Producer; from.Type != "Attention" {
				t.Errorf("%v: %v reads the result of %v", c.precision, n, from)
			}
			p := n.Attrs.String("precision", "")
			if c.precision == pass.BF16 && p != "bf16" && cpuinfo.HasAVX512BF16() {
				t.Errorf("%v multiplies in %q", n, p)
			}
		}
		if backs != 3 {
			t.Errorf("%v: %d gradients of attention, want 3", c.precision, backs)
		}
	}
	if t.Logf("%d bytes by parts, %d whole", parts.ArenaBytes, wide); wide >= parts.ArenaBytes {
		t.Errorf("%d bytes by parts, %d whole", parts.ArenaBytes, wide)
	}
}
