package recipe_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
)

// parsed is base with a change.
func parsed(from, to string) (*recipe.Recipe, error) {
	return recipe.Parse(strings.NewReader(strings.Replace(base, from, to, 1)))
}

// TestSources holds what the sources of a recipe are read as.
func TestSources(t *testing.T) {
	for text, want := range map[string]recipe.Source{
		"x.npy":         {File: "x.npy"},
		"{images: dir}": {Images: "dir"},
		"{images: d, fit: cover, mean: [0.5], std: [1, 2, 3]}": {Images: "d", Cover: true,
			Mean: []float64{0.5}, Std: []float64{1, 2, 3}},
		"{text: a.tsv, vocabulary: v}": {Text: "a.tsv", Column: 1, Vocabulary: "v"},
		"{text: a, column: 2, vocabulary: v, merges: m, cased: true, around: end, unknown: keep, " +
			"mask: k, types: s}": {Text: "a", Column: 2, Vocabulary: "v", Merges: "m", Cased: true,
			Keep: true, Around: data.End, Mask: "k", Types: "s"},
		"{text: a, vocabulary: v, unknown: refuse}": {Text: "a", Column: 1, Vocabulary: "v"},
		"{noise: normal}": {Noise: data.Normal},
	} {
		r, err := parsed("x.npy", text)
		if err != nil || !reflect.DeepEqual(r.Data.Inputs["x"], want) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	r, err := parsed("labels: y.npy", "labels: {text: a.tsv, names: n}")
	if err != nil || !reflect.DeepEqual(r.Data.Labels, recipe.Source{Text: "a.tsv", Column: 1,
		Names: "n"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = parsed("{x: x.npy}\n  labels: y.npy", "{x: {images: d}}\n  "+
		"augment: [resize 0.25 1, flip]\n  eval: {inputs: {x: {images: e}}}"); err != nil ||
		r.Data.Labels.Given() || r.Data.Eval.Inputs["x"].Images != "e" {
		t.Errorf("%+v, %v", r, err)
	}
	if c, err := recipe.ParseChange("resize 0.25 1"); err != nil || c != (recipe.Change{
		Kind: "resize", Least: 0.25, Most: 1}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestSourcesRefused: a source that means nothing is refused with what it should be.
func TestSourcesRefused(t *testing.T) {
	for _, c := range []struct{ old, by, want string }{
		{"x.npy", "{images: d, fits: cover}", `line 3: data: images: unknown key "fits": want im`},
		{"x.npy", "{text: d, mean: [1]}", `line 3: data: text: unknown key "mean"`},
		{"x.npy", "{image: d}", "line 3: data: want a file of numbers, or keys with images"},
		{"x.npy", "{images: d, fit: crop}", `data: images: fit "crop": want one of stretch, cover`},
		{"x.npy", "{text: d, vocabulary: v, around: all}", `around "all": want one of both`},
		{"x.npy", "{text: d, vocabulary: v, unknown: drop}", `unknown "drop": want one of refuse`},
		{"x.npy", "{noise: pink}", `noise "pink": want one of normal, uniform`},
		{"x.npy", "{text: d}", "data: inputs: x: text: want a vocabulary"},
		{"x.npy", "{text: d, vocabulary: v, column: -1}", "column -1: want at least 1"},
		{"x.npy", "{text: d, vocabulary: v, names: n}", "want a vocabulary or names"},
		{"x.npy", "{images: d, std: [0]}", "std: samples are divided by it"},
		{"x.npy", "{images: d, mean: [.nan]}", "mean and std: NaN: want numbers"},
		{"y.npy", "{images: d}", "data: labels: images are an input"},
		{"y.npy", "{text: d, merges: m}", "want a vocabulary"},
		{"y.npy", "{text: d, vocabulary: v, mask: m}", "mask and types are those of an input"},
		{"y.npy", `""`, "data: want labels, a file"},
		{"x.npy", `""`, "data: inputs: x: want a file"},
		{"batch: 8", "batch: 8\n  augment: [resize 0.5 1]", "want an input of images"},
		{"batch: 8", "batch: 8\n  augment: [resize 1.5 1]", `"resize 1.5 1": want flip`},
		{"batch: 8", "batch: 8\n  augment: [resize 0.5 0.4]", `"resize 0.5 0.4": want flip`},
		{"batch: 8", "batch: 8\n  augment: [resize 0 1]", `"resize 0 1": want flip`},
		{"batch: 8", "batch: 8\n  augment: [flip, resize 0.5 1]", "it comes first"},
		{"x.npy}", "{images: d}}\n  divide: 255", "data: divide: images are numbers from 0 to 1"},
		{"batch: 8", "batch: 8\n  eval: {inputs: {x: {text: d}}, labels: y}", "eval: inputs: x"},
	} {
		_, err := parsed(c.old, c.by)
		if !errors.Is(err, recipe.ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.by, err, c.want)
		}
	}
}
