package step_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
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
		{"Sigmoid@13(%s)", step.Dice, true},
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

// TestLosses holds losses, and the gradients that plain descent at a rate of 1 takes off, to their
// definitions in float64.
func TestLosses(t *testing.T) {
	scores := []float64{2, -1, 0.5, -3, 0.25, 4}
	for _, tc := range []struct {
		loss   step.Loss
		labels *tensor.Tensor
		want   func(i int, x, y float64) (loss, slope float64)
	}{
		{step.Loss{Kind: step.SquaredError}, tensor.From([]float32{1, 1, 0, 0, 2, -1}, 3, 2),
			func(_ int, x, y float64) (float64, float64) { return (x - y) * (x - y), 2 * (x - y) }},
		{step.Loss{Kind: step.Huber, Delta: 2}, tensor.From([]float32{1, 1, 0, 0, 2, -1}, 3, 2),
			func(_ int, x, y float64) (float64, float64) {
				if d := math.Abs(x - y); d > 2 {
					return 2 * (d - 1), math.Copysign(2, x-y)
				}
				return (x - y) * (x - y) / 2, x - y
			}},
		{step.Loss{Kind: step.BinaryCrossEntropy},
			tensor.From([]float32{1, 0, 0.5, 1, 0, 0.25}, 3, 2),
			func(_ int, x, y float64) (float64, float64) {
				p := 1 / (1 + math.Exp(-x))
				return -y*math.Log(p) - (1-y)*math.Log(1-p), p - y
			}},
		{step.Loss{Kind: step.Dice}, tensor.From([]float32{1, 0, 1, 1, 0, 0}, 3, 2),
			func(i int, x, y float64) (float64, float64) {
				sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
				labels := []float64{1, 0, 1, 1, 0, 0}
				p, q := sigmoid(x), sigmoid(scores[i^1]) // the two of a sample
				above, below := 2*(p*y+q*labels[i^1])+1, p+q+y+labels[i^1]+1
				slope := p * (1 - p) * (above - 2*y*below) / (below * below)
				return 1 - above/below, 2 * slope // a mean over half as many
			}},
		{step.Loss{Kind: step.CrossEntropy}, tensor.From([]int64{0, 1, 1}, 3),
			func(i int, x, _ float64) (float64, float64) {
				p := 1 / (1 + math.Exp(scores[i^1]-x))
				if is := []bool{true, false, false, true, false, true}[i]; is {
					return -2 * math.Log(p), 2 * (p - 1) // a mean over half as many
				}
				return 0, 2 * p
			}},
	} {
		g, err := graph.Parse(`graph "scores" {
 opset "" 18
 input %x: float32[3,3]
 const %w: float32[3,2] = {2, -1, 0.5, -3, 0.25, 4}
 %y = MatMul@13 (%x, %w)
 output %y
}`)
		if err != nil {
			t.Fatal(err)
		}
		s, err := step.Build(g, step.Options{Loss: tc.loss, Optimizer: step.SGD.Defaults()})
		if err != nil {
			t.Fatal(err)
		}
		one := tensor.From([]float32{1, 0, 0, 0, 1, 0, 0, 0, 1}, 3, 3)
		state := map[string]*tensor.Tensor{"w": s.Params[0].Start}
		in := map[string]*tensor.Tensor{"x": one, "labels": tc.labels}
		for name, v := range step.SGD.Defaults().Scalars(1, 1) {
			in[name] = tensor.Scalar(v)
		}
		got := iterate(t, s.Train, in, state)
		loss, w := 0.0, make([]float64, 6)
		for i, x := range scores {
			y := 0.0
			if tc.labels.DType == tensor.Float32 {
				y = float64(tensor.As[float32](tc.labels)[i])
			}
			l, slope := tc.want(i, x, y)
			loss += l / 6
			w[i] = x - slope/6
		}
		near(t, string(tc.loss.Kind), got, []float64{loss})
		near(t, string(tc.loss.Kind)+": weights", state["w"], w)
	}
}
