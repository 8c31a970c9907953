package recipe_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/train/recipe"
)

// whole is a recipe of all that is wanted.
const whole = `model: m.onnx
data: {inputs: {x: x.npy}, labels: y.npy, batch: 4, eval: {part: 0.2}, augment: [crop 1]}
loss: {huber: {delta: 1}}
optimizer: {adam: {rate: 1e-3}}
accumulate: 2
epochs: 1
`

// TestNumbers: numbers with which nothing can be computed are refused.
func TestNumbers(t *testing.T) {
	if _, err := recipe.Parse(strings.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	for from, all := range map[string][]string{
		"part: 0.2":     {"part: .nan", "part: 1", "part: -1"},
		"crop 1":        {"crop 9223372036854775807", "crop 0"},
		"delta: 1":      {"delta: -1", "delta: .nan", "delta: .inf"},
		"rate: 1e-3":    {"rate: .inf", "rate: .nan", "rate: 0"},
		"accumulate: 2": {"accumulate: 4611686018427387904", "accumulate: -1"},
		"batch: 4":      {"batch: 4, divide: .inf", "batch: 0", "batch: 9223372036854775807"},
	} {
		for _, to := range all {
			r, err := recipe.Parse(strings.NewReader(strings.Replace(whole, from, to, 1)))
			if !errors.Is(err, recipe.ErrRecipe) {
				t.Errorf("%s: %+v, %v", to, r, err)
			}
		}
	}
}
