package recipe_test

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// base is a recipe that is followed as it is written.
const base = `model: m.onnx
data:
  inputs: {x: x.npy}
  labels: y.npy
  batch: 8
loss: huber
optimizer: {adam: {rate: 4e-3}}
epochs: 2
`

// TestParse holds what a recipe is read as, and what stands for what it leaves out.
func TestParse(t *testing.T) {
	r, err := recipe.Parse(strings.NewReader(base))
	if err != nil {
		t.Fatal(err)
	}
	adam := step.Adam.Defaults()
	if r.Optimizer != adam || r.Rate != 4e-3 || r.Loss.Kind != step.Huber || r.Accumulate != 1 ||
		r.Checkpoint.Keep != 3 || r.Start != recipe.FromModel || r.Precision != recipe.FP32 ||
		r.Data.Divide != 1 || r.Data.Batch != 8 || r.Epochs != 2 || r.Shards != 1 {
		t.Errorf("%+v", r)
	}
	text := strings.NewReplacer("loss: huber", "loss: {huber: {delta: 0.5, labels: to}}",
		"{adam: {rate: 4e-3}}", "{momentum: {rate: 1, momentum: 0.8, nesterov: true, decay: 0.1}}",
		"epochs: 2", "steps: 7\nshards: 4\nclip: 3\n"+
			"schedule: {steps: {every: 2, factor: 0.5, warmup: 3}}").
		Replace(base)
	if r, err = recipe.Parse(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]step.Dropout{
		"none": {Given: true}, "0.25": {Given: true, Rate: 0.25},
		"{rate: 0.5, after: [a, b*]}": {Given: true, Rate: 0.5, After: []string{"a", "b*"}},
	} {
		d, err := recipe.Parse(strings.NewReader(base + "dropout: " + text + "\n"))
		if err != nil || !reflect.DeepEqual(d.Dropout, want) {
			t.Errorf("dropout: %s: %+v, %v", text, d, err)
		}
	}
	for _, text := range []string{"1", "-0.1", "much", "{after: [a]}", "{rate: 0.5, before: [a]}",
		".nan", "{rate: 1}"} {
		d, err := recipe.Parse(strings.NewReader(base + "dropout: " + text + "\n"))
		if !errors.Is(err, recipe.ErrRecipe) || !strings.Contains(err.Error(), "dropout") &&
			text != "much" {
			t.Errorf("dropout: %s: %+v, %v", text, d, err)
		}
	}
	momentum := step.Momentum.Defaults()
	momentum.Momentum, momentum.Nesterov, momentum.Decay = 0.8, true, 0.1
	if r.Optimizer != momentum || !reflect.DeepEqual(r.Loss, step.Loss{Kind: step.Huber,
		Labels: "to", Delta: 0.5}) || r.Steps != 7 || r.Shards != 4 || r.Clip != 3 ||
		r.Schedule != (recipe.Schedule{Kind: recipe.Steps, Every: 2, Factor: 0.5, Warmup: 3}) {
		t.Errorf("%+v", r)
	}
}

// TestRefused: each fault is told by its key, what it is, and the line where there is one.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ old, by, want string }{
		{"epochs: 2", "epoch: 2", `line 8: unknown key "epoch": want model`},
		{"  batch: 8", "  bach: 8", `line 5: unknown key "bach": want inputs`},
		{"  batch: 8", "  bach: 8", "batch, sizes, augment"},
		{"epochs: 2", "epochs: 9223372036854775807", "want at most 2147483647"},
		{"rate: 4e-3", "rate: 1e-60", "rate 1e-60: want a number above 0"},
		{"rate: 4e-3", "rate: 1e60", "rate 1e+60: want a number above 0"},
		{"  batch: 8", "  batch: 8\n  divide: 1e300", "divide 1e+300: want a number above 0"},
		{"epochs: 2", "epochs: 2\nclip: .inf", "clip +Inf: want a norm"},
		{"rate: 4e-3", "rate: 4e-3, decay: .inf", "decay +Inf: want"},
		{"epochs: 2", "epochs: 2\nschedule: {steps: {every: 2, factor: .inf}}", "factor +Inf"},
		{"loss: huber", "loss: {huber: {delt: 1}}", `line 6: loss: huber: unknown key "delt"`},
		{"rate: 4e-3", "rat: 4e-3", `line 7: optimizer: adam: unknown key "rat"`},
		{"epochs: 2", "schedule: {cosine: {warm: 1}}",
			`line 8: schedule: cosine: unknown key "warm"`},
		{"epochs: 2", "checkpoint: {at: x}", `line 8: unknown key "at": want to`},
		{"epochs: 2", "epochs: 2\nepochs: 3", "line 9"},
		{"huber", "hinge", `line 6: loss: unknown "hinge"`},
		{"adam", "sgdd", `line 7: optimizer: unknown "sgdd"`},
		{"epochs: 2", "schedule: cosin", `line 8: schedule: unknown "cosin"`},
		{"rate: 4e-3", "momentum: 0.9", "line 7: optimizer: adam has no momentum"},
		{"{adam: {rate: 4e-3}}", "{sgd: {nesterov: true}}",
			"line 7: optimizer: sgd has no nesterov"},
		{"loss: huber", "loss: {mean-squared-error: {delta: 1}}", "delta is for huber alone"},
		{"loss: huber", "loss: {huber: {delta: -1}}", "loss: delta -1"},
		{"loss: huber", "loss: {huber: {delta: .nan}}", "loss: delta NaN"},
		{"4e-3", "0", "optimizer: rate 0"},
		{"4e-3", "-1", "optimizer: rate -1"},
		{"4e-3", ".nan", "optimizer: rate NaN"},
		{"4e-3", ".inf", "optimizer: rate +Inf"},
		{"4e-3", "much", "line 7"},
		{"rate: 4e-3", "beta1: 1", "optimizer: beta1 1: want a number from 0 to before 1"},
		{"rate: 4e-3", "beta2: -0.1", "optimizer: beta2 -0.1"},
		{"rate: 4e-3", "epsilon: -1", "epsilon -1"},
		{"rate: 4e-3", "decay: -1", "decay -1"},
		{"batch: 8", "batch: 0", "data: batch 0"},
		{"batch: 8", "batch: 1.5", "line 5"},
		{"batch: 8", "batch: 8\n  sizes: {n: 0}", "data: sizes: n: 0: want at least 1"},
		{"batch: 8", "batch: 8\n  sizes: {n: 1.5}", "line 6"},
		{"batch: 8", "batch: 8\n  divide: 0", "data: divide 0"},
		{"batch: 8", "batch: 8\n  divide: .inf", "data: divide +Inf"},
		{"batch: 8", "batch: 8\n  augment: [spin]", `data: augment: "spin": want flip`},
		{"batch: 8", "batch: 8\n  augment: [crop 0]", `data: augment: "crop 0": want flip`},
		{"batch: 8", "batch: 8\n  eval: {part: 1}", "data: eval: part 1"},
		{"batch: 8", "batch: 8\n  eval: {part: 0.1, rows: r}", "want one of inputs, rows and part"},
		{"batch: 8", "batch: 8\n  eval: {inputs: {x: e}}", "want inputs and labels together"},
		{"epochs: 2", "", "want epochs or steps"},
		{"epochs: 2", "epochs: -2", "epochs -2"},
		{"epochs: 2", "epochs: 2\npatience: 1", "patience: want data to evaluate on"},
		{"epochs: 2", "epochs: 2\nclip: -1", "clip -1"},
		{"epochs: 2", "epochs: 2\naccumulate: -1", "accumulate -1"},
		{"epochs: 2", "epochs: 2\nshards: 3", "shards 3: want at least 1, and batches, of 8"},
		{"epochs: 2", "epochs: 2\nshards: -1", "shards -1"},
		{"epochs: 2", "epochs: 2\naverage: 1", "average 1"},
		{"epochs: 2", "epochs: 2\nstart: again", `start "again"`},
		{"epochs: 2", "epochs: 2\nprecision: fp8", `precision "fp8"`},
		{"epochs: 2", "epochs: 2\nscale: big", "scale"},
		{"epochs: 2", "epochs: 2\ncheckpoint: {keep: -1}", "checkpoint: keep -1"},
		{"epochs: 2", "epochs: 2\ncheckpoint: {steps: -1}", "checkpoint: every and steps"},
		{"epochs: 2", "epochs: 2\nschedule: {linear: {warmup: -1}}", "schedule: warmup -1"},
		{"epochs: 2", "epochs: 2\nschedule: {linear: {floor: 2}}", "schedule: floor 2"},
		{"epochs: 2", "epochs: 2\nschedule: steps", "schedule: steps: every 0"},
		{"epochs: 2", "epochs: 2\nschedule: {steps: {every: 1, factor: 0}}", "factor 0"},
		{"model: m.onnx", "", "model: want an ONNX file"},
		{"  labels: y.npy\n", "", "data: want labels"},
		{"  inputs: {x: x.npy}\n", "", "data: want inputs"},
		{"loss: huber\n", "", "loss: want one of"},
		{"optimizer: {adam: {rate: 4e-3}}\n", "", "optimizer: want one of"},
	} {
		text := strings.Replace(base, c.old, c.by, 1)
		if text == base {
			t.Fatalf("%q is not in the recipe", c.old)
		}
		_, err := recipe.Parse(strings.NewReader(text))
		if !errors.Is(err, recipe.ErrRecipe) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: %v, want %q", c.by, c.old, err, c.want)
		}
	}
}

// TestLoad: paths of a recipe are from where it lies.
func TestLoad(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "digits")
	r, err := recipe.Load(filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for got, name := range map[string]string{r.Model: "digits.onnx",
		r.Data.Labels.File:          "labels.npy",
		r.Data.Inputs["image"].File: "images.npy.gz", r.Data.Eval.Rows: "heldout.npy",
		r.Checkpoint.To: "run", r.Report: ""} {
		if want := filepath.Join(dir, name); got != want && (name != "" || got != "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzParse: no text breaks the reader, and what it takes can be asked for its rates.
func FuzzParse(f *testing.F) {
	f.Add(base)
	f.Add(strings.Replace(base, "epochs: 2",
		"schedule: {steps: {every: 2, warmup: 3}}\nsteps: 5", 1))
	f.Add("data: {inputs: [x]}")
	f.Add("loss: {huber: {delta: {}}}\noptimizer: [adam]\nschedule: {}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := recipe.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, at := range []int64{1, 2, 1000} {
			if v := r.Rate * r.Schedule.At(at, 1000); math.IsNaN(v) || v < 0 {
				t.Errorf("update %d has rate %v of %q", at, v, text)
			}
		}
	})
}
