package step_test

import (
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
	"github.com/weirgpu/weir/zoo"
)

// TestHalves: an update of MiniLM takes less memory in bfloat16 than in float32, where every value
// is computed once and where there is time to compute some again; what is computed again does not
// depend on how many threads there are.
func TestHalves(t *testing.T) {
	if !kernels.Target(device.Info{}).Features().BF16 {
		t.Skip("this processor multiplies no faster in bfloat16")
	}
	g, err := zoo.New("minilm-l6", zoo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := step.Options{Shapes: map[string][]int{}, Optimizer: step.AdamW.Defaults(),
		Loss: step.Loss{Kind: step.CrossEntropy, Scores: "pooler_output"}}
	for _, a := range zoo.All() {
		for _, in := range a.Inputs {
			if a.Name == "minilm-l6" {
				o.Shapes[in.Name] = append([]int{8}, in.Shape[1:]...)
			}
		}
	}
	made := func(p pass.Precision, threads int, again plan.Recompute) *plan.Plan {
		if o.Scale = (scale.Options{}); p != pass.FP32 {
			o.Scale = scale.Options{Kind: scale.Constant, Init: 1}
		}
		s, err := step.Build(g, o)
		if err != nil {
			t.Fatal(err)
		}
		pl, err := plan.Compile(t.Context(), s.Train.Graph, plan.Options{
			Target: kernels.Target(device.Info{}), Threads: threads, State: s.State,
			Updates: s.Train.Updates, Recompute: again, Passes: pass.Options{Precision: p}})
		if err != nil {
			t.Fatal(err)
		}
		return pl
	}
	for name, again := range map[string]plan.Recompute{"once": {}, "again": step.Recompute()} {
		wide, narrow := made(pass.FP32, 2, again), made(pass.BF16, 2, again)
		r := float64(narrow.ArenaBytes) / float64(wide.ArenaBytes)
		t.Logf("%s: %d bytes in float32, %d in bfloat16: %.2f", name, wide.ArenaBytes,
			narrow.ArenaBytes, r)
		if r > 0.7 {
			t.Errorf("%s: %.2f of the bytes in float32, want at most 0.7", name, r)
		}
		if one := made(pass.BF16, 7, again); one.Graph.String() != narrow.Graph.String() {
			t.Errorf("%s: on seven threads other nodes are computed than on two", name)
		}
	}
}
