package cache

import (
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
)

// ratedTarget is a target whose two rates of bfloat16 a test measures, as a new process has it.
func ratedTarget(measure func() float64) compute.Target {
	f := host.Features()
	f.BF16, f.Costs.ShortSteps = true, 32
	f.Costs.BF16Rate, f.Costs.BF16Short = compute.RateOf(measure), compute.RateOf(measure)
	return compute.WithFeatures(host, f)
}

// TestRateIsMeasuredOnceForAll holds that the first plan that wants the rate of bfloat16 has it
// measured, that other models and processes take what was kept, and that plans in float32 neither
// measure nor keep one.
func TestRateIsMeasuredOnceForAll(t *testing.T) {
	withoutTiles(t)
	c := newCache(t)
	one, other := filepath.Join(t.TempDir(), "1.onnx"), filepath.Join(t.TempDir(), "2.onnx")
	smallModel(t, one, 1)
	smallModel(t, other, 2)
	measured := 0
	measure := func(rate float64) compute.Target {
		return ratedTarget(func() float64 { measured++; return rate })
	}
	begin := func(name, path string, p pass.Precision, on compute.Target, want int) {
		t.Helper()
		start(t, c, path, plan.Options{Target: on, Shapes: oneImage,
			Passes: pass.Options{Precision: p}})
		if measured != want {
			t.Errorf("%s: measured %d times, want %d", name, measured, want)
		}
	}
	begin("float32", one, pass.FP32, measure(3), 0)
	if kept := c.Choices(measure(3)); kept[rateProblem] != "" {
		t.Errorf("float32 keeps %v", kept)
	}
	begin("the first in bfloat16", one, pass.Auto, measure(3), 2)
	begin("another process", other, pass.Auto, measure(5), 2)
	if _, cached := start(t, c, one, plan.Options{Target: measure(5), Shapes: oneImage,
		Passes: pass.Options{Precision: pass.Auto}}); !cached {
		t.Error("a plan is made anew where the rate is kept")
	}
	if kept := c.Choices(measure(7)); kept[rateProblem] != "3" ||
		kept[shortProblem] != "3" {
		t.Errorf("kept %v", kept)
	}
	if err := c.KeepChoices(measure(7), compute.Choices{"a problem": "way"}); err != nil {
		t.Fatal(err)
	}
	on := measure(5)
	restoreRates(plan.Options{Target: on, Choices: c.Choices(on)})
	if rate := on.Features().Costs.BF16Rate.Times(); rate != 3 || measured != 2 {
		t.Errorf("after a choice was kept: %v, measured %d times", rate, measured)
	}
}
