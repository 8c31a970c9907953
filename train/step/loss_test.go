package step_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/train/step"
)

// masks is a model that gives a number, or numbers of two classes, for each pixel.
const masks = `graph "masks" {
 opset "" 18
 input %x: float32[2,1,3,3]
 const %w: float32[2,1,1,1] = {0.5, -0.5}
 %s = Conv@18(%x, %w)
 %p = LAST
 output %p
}`

// TestProbabilities: a softmax or sigmoid at the end is part of the loss, of images as of vectors,
// unless it is over another axis.
func TestProbabilities(t *testing.T) {
	for _, tc := range []struct {
		last string
		kind step.LossKind
		want bool
	}{
		{"Sigmoid@13(%s)", step.BinaryCrossEntropy, true},
		{"Sigmoid@13(%s)", step.SquaredError, false},
		{"Softmax@13(%s) {axis=1}", step.CrossEntropy, true},
		{"Softmax@13(%s) {axis=-3}", step.CrossEntropy, true},
		{"LogSoftmax@13(%s) {axis=1}", step.CrossEntropy, true},
		{"Softmax@13(%s) {axis=-1}", step.CrossEntropy, false},
		{"Softmax@13(%s)", step.CrossEntropy, false},
	} {
		g, err := graph.Parse(strings.Replace(masks, "LAST", tc.last, 1))
		if err != nil {
			t.Fatal(err)
		}
		s, err := step.Build(g, step.Options{Loss: step.Loss{Kind: tc.kind},
			Optimizer: step.SGD.Defaults()})
		if err != nil || s.Labels.Probabilities != tc.want {
			t.Errorf("%s under %s: %+v, %v", tc.last, tc.kind, s, err)
		}
	}
}

// TestNames: a name that no weight has is an error, not a weight that is trained all the same.
func TestNames(t *testing.T) {
	g, err := graph.Parse(strings.Replace(masks, "LAST", "Sigmoid@13(%s)", 1))
	if err != nil {
		t.Fatal(err)
	}
	o := step.Options{Loss: step.Loss{Kind: step.SquaredError}, Optimizer: step.SGD.Defaults(),
		Freeze: []string{"v"}}
	if _, err := step.Build(g, o); !errors.Is(err, step.ErrName) {
		t.Errorf("freeze of no weight: %v", err)
	}
	o.Freeze = []string{"w*"}
	if _, err := step.Build(g, o); !errors.Is(err, step.ErrNothing) {
		t.Errorf("freeze of all weights: %v", err)
	}
}
