package train_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
)

// TestPrecisions trains in each precision and with each scale: in float32 a scale that is a power
// of two changes no bit of the loss, and others stay near it.
func TestPrecisions(t *testing.T) {
	accumulate := 1
	run := func(p recipe.Precision, o scale.Options) *train.Result {
		t.Helper()
		r := short(t)
		r.Precision, r.Scale, r.Accumulate = p, o, accumulate
		r.Steps = 40 / accumulate
		res, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if err != nil {
			t.Fatalf("%s, %+v: %v", p, o, err)
		}
		t.Logf("%s, scale %s: loss %v, scale %g, %d skipped, arena of %d bytes", p, o.Kind,
			res.Loss, res.Scale, res.SkippedSteps, res.ArenaBytes)
		return res
	}
	full := run(recipe.FP32, scale.Options{})
	for _, o := range []scale.Options{{Kind: scale.Constant, Init: 1024}, {Kind: scale.Torch},
		{Kind: scale.Auto}} {
		if res := run(recipe.FP32, o); res.Loss != full.Loss || res.SkippedSteps > 0 {
			t.Errorf("%+v: loss %v with %d steps skipped, want %v", o, res.Loss, res.SkippedSteps,
				full.Loss)
		}
	}
	accumulate = 4
	if a, b := run(recipe.FP32, scale.Options{}), run(recipe.FP32, scale.Options{
		Kind: scale.Constant, Init: 64}); a.Loss != b.Loss {
		t.Errorf("sums of gradients: loss %v, scaled %v", a.Loss, b.Loss)
	}
	accumulate = 1
	one := scale.Options{Kind: scale.Constant, Init: 1}
	for _, tc := range []struct {
		p recipe.Precision
		o scale.Options
	}{{recipe.Auto, one}, {recipe.FP16, scale.Options{Kind: scale.Constant, Init: 1024}},
		{recipe.FP16, scale.Options{Kind: scale.Torch}},
		{recipe.FP16, scale.Options{Kind: scale.Auto}}} {
		res := run(tc.p, tc.o)
		if math.Abs(res.Loss-full.Loss) > 0.03*full.Loss || res.SkippedSteps > 8 {
			t.Errorf("%s, %+v: loss %v with %d steps skipped, in float32 %v", tc.p, tc.o, res.Loss,
				res.SkippedSteps, full.Loss)
		}
	}
}

// TestSkipped: moments are corrected by the updates that were added to them, not by those that
// overflowed, so the first that counts moves weights by the rate, as the first of all does.
func TestSkipped(t *testing.T) {
	const rate = 1e-3
	trained := func(steps int) []float32 {
		t.Helper()
		r := short(t)
		r.Steps, r.Rate, r.Schedule.Kind = steps, rate, recipe.Constant
		r.Precision = recipe.FP16
		r.Scale = scale.Options{Kind: scale.Torch, Init: 0x1p40, Backoff: 0x1p-30}
		res, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if err != nil || res.SkippedSteps != 1 {
			t.Fatalf("%+v, %v: want one update to overflow", res, err)
		}
		m, err := onnx.Open(r.Output, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		for _, v := range m.Graph.Constants() {
			if v.Name == "conv1.weight" {
				return tensor.As[float32](v.Const())
			}
		}
		t.Fatal("no conv1.weight")
		return nil
	}
	was, is := trained(1), trained(2)
	most := 0.0
	for i := range was {
		most = max(most, math.Abs(float64(is[i]-was[i])))
	}
	if math.Abs(most/rate-1) > 1e-3 {
		t.Errorf("the first update that counts moves weights by %g, the rate is %g", most, rate)
	}
}

// TestSkippedLeaves: an update that overflows changes neither weights nor what is kept of them, as
// moments and running averages are, for any optimizer.
func TestSkippedLeaves(t *testing.T) {
	for _, kind := range step.Optimizers() {
		r := short(t)
		r.Steps, r.Average, r.Optimizer = 1, 0.5, kind.Defaults()
		r.Precision = recipe.FP16
		r.Scale = scale.Options{Kind: scale.Torch, Init: 0x1p40, Backoff: 0x1p-30}
		run := open(t, r, 2, train.Options{})
		was := map[string][]float32{}
		for k, of := range []string{"", "/average", "/first", "/second", "/momentum",
			"/squares"} {
			name := "conv1.weight" + of
			if !run.Has(name) {
				continue
			}
			for i := range run.Variable(name) {
				run.Variable(name)[i] += float32(k+1) / 4 // an average that is not the weight
			}
			was[name] = slices.Clone(run.Variable(name))
		}
		if err := run.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(was) < 2 {
			t.Fatalf("%s: no average", kind)
		}
		for name, v := range was {
			if !slices.Equal(v, run.Variable(name)) {
				t.Errorf("%s: an update that overflows changes %s", kind, name)
			}
		}
	}
}

// TestScaledApart: a scale is of losses that say which weights they train as it is of others: one
// that is a power of two changes no bit.
func TestScaledApart(t *testing.T) {
	trained := func(o scale.Options) float64 {
		r := short(t)
		r.Steps, r.Loss.Train, r.Optimizer, r.Rate = 8, []string{"*"}, step.SGD.Defaults(), 0.1
		r.Scale = o
		res, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res.Loss
	}
	want := trained(scale.Options{})
	if got := trained(scale.Options{Kind: scale.Constant, Init: 1024}); got != want {
		t.Errorf("a loss of %v, without a scale %v", got, want)
	}
}

// TestPrecisionOfRecipes holds what the keys precision and scale are read as.
func TestPrecisionOfRecipes(t *testing.T) {
	const rest = "model: m.onnx\ndata: {inputs: {x: x.npy}, labels: y.npy, batch: 4}\n" +
		"loss: softmax-cross-entropy\noptimizer: {adam: {rate: 1e-3}}\nepochs: 1\n"
	one := scale.Options{Kind: scale.Constant, Init: 1}
	for text, want := range map[string]scale.Options{
		"":                                 {},
		"scale: 512":                       {Kind: scale.Constant, Init: 512},
		"precision: bf16":                  one,
		"precision: auto\nscale: none":     one,
		"precision: fp16":                  {Kind: scale.Auto},
		"precision: fp16\nscale: torch":    {Kind: scale.Torch},
		"precision: fp16\nscale: 65536":    {Kind: scale.Constant, Init: 65536},
		"precision: fp16\nscale: none":     one,
		"precision: fp32\nscale: \"auto\"": {Kind: scale.Auto},
	} {
		if r, err := recipe.Parse(strings.NewReader(rest + text)); err != nil || r.Scale != want {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	for _, text := range []string{"precision: fp8", "scale: -1", "scale: dynamic"} {
		if _, err := recipe.Parse(strings.NewReader(rest + text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
