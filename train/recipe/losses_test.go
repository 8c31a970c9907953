package recipe_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// TestLosses holds what losses, and a teacher, are read as.
func TestLosses(t *testing.T) {
	nine, one := 9.0, 1.0
	r, err := recipe.Parse(strings.NewReader(strings.NewReplacer("labels: y.npy",
		"labels: {a: a.npy, b: {text: b.tsv}}", "loss: huber", `loss:
  - softmax-cross-entropy: {scores: s, labels: a, ignore: 9, weight: 0.5}
  - ctc: {labels: b, length: 7, blank: 2, train: [x, y*]}
  - huber: {scores: q, value: 1}
distil: {teacher: big.onnx, weight: 0, attention: {u: v}, attending: 3}`).Replace(base)))
	if err != nil {
		t.Fatal(err)
	}
	if want := (step.Loss{Kind: step.CrossEntropy, Scores: "s", Labels: "a", Ignore: &nine,
		Weight: 0.5}); !reflect.DeepEqual(r.Loss, want) {
		t.Errorf("%+v, want %+v", r.Loss, want)
	}
	if want := []step.Loss{{Kind: step.CTC, Labels: "b", Length: 7, Blank: 2,
		Train: []string{"x", "y*"}}, {Kind: step.Huber, Scores: "q", Value: &one}}; !reflect.
		DeepEqual(r.Others, want) {
		t.Errorf("%+v, want %+v", r.Others, want)
	}
	if want := (&recipe.Distil{Teacher: "big.onnx", Distil: step.Distil{Temperature: 1,
		Attention: map[string]string{"u": "v"}, AttentionWeight: 3}}); !reflect.DeepEqual(r.Distil,
		want) {
		t.Errorf("%+v, want %+v", r.Distil, want)
	}
	if r.Data.Targets["b"].Text != "b.tsv" || r.Data.Targets["a"].File != "a.npy" {
		t.Errorf("%+v", r.Data.Targets)
	}
}

// TestLossesRefused: losses and teachers that mean nothing are refused with what they should be.
func TestLossesRefused(t *testing.T) {
	const two = "loss: [huber, {huber: {labels: b}}]"
	for _, c := range []struct{ old, by, want string }{
		{"loss: huber", "loss: {ctc: {blank: 1}}", "line 6: loss: ctc: want length"},
		{"loss: huber", "loss: {huber: {length: 1}}", "line 6: loss: length is for ctc alone"},
		{"loss: huber", "loss: {huber: {blank: 1}}", "line 6: loss: blank is for ctc alone"},
		{"loss: huber", "loss: {huber: {weight: 0}}", "line 6: loss: weight 0: want a number"},
		{"loss: huber", "loss: {huber: {weight: .inf}}", "weight +Inf: want a number"},
		{"loss: huber", "loss: [huber, {huber: {delta: -1, value: 0}}]", "loss: delta -1: want"},
		{"loss: huber", "loss: [huber, {huber: {delta: .nan, value: 0}}]", "loss: delta NaN: want"},
		{"loss: huber", "loss: {huber: {value: .nan}}", "loss: value NaN: want a number"},
		{"loss: huber", "loss: {huber: {ignore: .inf}}", "loss: ignore +Inf: want a number"},
		{"loss: huber", "loss: {binary-cross-entropy: {value: 7}}", "loss: value 7: labels of bin"},
		{"loss: huber", "loss: {dice: {value: -1}}", "loss: value -1: labels of dice"},
		{"loss: huber", "loss: {softmax-cross-entropy: {ignore: 0.5}}",
			"loss: ignore 0.5: labels of softmax-cross-entropy are whole"},
		{"loss: huber", "loss: {softmax-cross-entropy: {ignore: 1e30}}", "loss: ignore 1e+30: lab"},
		{"loss: huber", two, "data: labels: several losses: want a file for each by name"},
		{"y.npy\n  batch: 8\nloss: huber", "{b: y, c: z}\n  batch: 8\n" + two,
			`data: labels: no loss has labels "c"`},
		{"y.npy\n  batch: 8\nloss: huber", "{b: y}\n  batch: 8\n" + two,
			`data: labels: want "labels", of loss huber`},
		{"loss: huber", "loss: huber\ndistil: {weight: 0.5}", "distil: want teacher"},
		{"loss: huber", "loss: huber\ndistil: {temperature: 4}", "distil: want teacher"},
		{"loss: huber", "loss: huber\ndistil: {scores: s}", "distil: want teacher"},
		{"loss: huber", "loss: huber\ndistil: {attending: 2}", "distil: want teacher"},
		{"loss: huber", "loss: huber\ndistil: {teach: t}", `line 7: unknown key "teach": want tea`},
		{"loss: huber", "loss: huber\ndistil: {teacher: t}", "are those of softmax-cross-entropy"},
		{"loss: huber", "loss: softmax-cross-entropy\ndistil: {teacher: t, weight: 2}", "weight 2"},
		{"loss: huber", "loss: huber\ndistil: {teacher: t, weight: 0}", "weight 0: want attention"},
		{"loss: huber", "loss: softmax-cross-entropy\ndistil: {teacher: t, temperature: 0}",
			"temperature 0: want a number above 0"},
		{"loss: huber", "loss: huber\ndistil: {teacher: t, weight: 0, attention: {a: b}, " +
			"attending: -1}", "attending -1"},
	} {
		_, err := parsed(c.old, c.by)
		if !errors.Is(err, recipe.ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.by, err, c.want)
		}
	}
}
