package step_test

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/train/step"
)

// TestApart: layers that share the constants of an untrained model are trained each on its own, and
// weights that are tied stay so.
func TestApart(t *testing.T) {
	g, err := graph.Parse(`graph "g" {
 opset "" 18
 input %x: float32[4,2,3,3]
 const %w: float32[2,2,1,1] = {0.5, -0.5, 1, 2}
 const %one: float32[2] = {1, 1}
 const %zero: float32[2] = {0, 0}
 %a = Conv@18 (%x, %w, %zero)
 %b = BatchNormalization@15 (%a, %one, %zero, %zero, %one)
 %c = Conv@18 (%b, %w)
 %y = BatchNormalization@15 (%c, %one, %zero, %zero, %one)
 output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	o := step.Options{Loss: step.Loss{Kind: step.SquaredError}, Optimizer: step.SGD.Defaults()}
	s, err := step.Build(step.Apart(g), o)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[step.Role]int{}
	for _, p := range s.Params {
		roles[p.Role]++
	}
	if len(s.Params) != 10 || roles[step.Product] != 1 || roles[step.Variance] != 2 ||
		len(s.Train.Updates) != len(s.Params) {
		t.Errorf("weights %+v", s.Params)
	}
	if _, err := step.Build(g, o); err == nil {
		t.Error("a statistic that is a weight, too, is taken")
	}
}

// TestMasks: constants that are all or nothing are masks, also with values that weights might have.
func TestMasks(t *testing.T) {
	const text = `graph "g" {
 opset "" 18
 input %x: float32[4,2]
 const %w: float32[2,2] = {0.5, -0.5, 1, 2}
 const %add: float32[2] = {ADDED}
 const %times: float32[2] = {FACTORS}
 %a = MatMul@13 (%x, %w)
 %b = Add@14 (%a, %add)
 %y = Mul@14 (%b, %times)
 output %y
}`
	for _, tc := range []struct {
		add, times string
		weights    int
	}{{"0, -100", "0, 1", 1}, {"-100, 0", "1, 0", 1}, {"0, 0", "1, 1", 3}, {"0, -1", "0, 0.5", 3},
		{"-20, -20", "1, 2", 3}, {"-100, 3", "0, 0", 3}} {
		with := strings.NewReplacer("ADDED", tc.add, "FACTORS", tc.times)
		g, err := graph.Parse(with.Replace(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := step.Build(g, step.Options{Loss: step.Loss{Kind: step.SquaredError},
			Optimizer: step.SGD.Defaults()})
		if err != nil || len(s.Params) != tc.weights {
			t.Errorf("%+v: weights %+v, %v", tc, s.Params, err)
		}
	}
}

// TestTrainedByAll: a loss that names no weights trains all of them, also beside one that does.
func TestTrainedByAll(t *testing.T) {
	g, err := graph.Parse(`graph "g" {
 opset "" 18
 input %x: float32[4,2]
 const %v: float32[2,2] = {0.5, -0.5, 1, 2}
 const %w: float32[2,2] = {0.25, -3, 1, 2}
 %y = MatMul@13 (%x, %v)
 %z = MatMul@13 (%y, %w)
 output %y
 output %z
}`)
	if err != nil {
		t.Fatal(err)
	}
	first := step.Loss{Kind: step.SquaredError, Scores: "y", Labels: "a", Train: []string{"v"}}
	all := step.Loss{Kind: step.SquaredError, Scores: "z", Labels: "b"}
	o := step.Options{Loss: first, Others: []step.Loss{all}, Optimizer: step.SGD.Defaults()}
	s, err := step.Build(g, o)
	if err != nil || len(s.Train.Updates) != 2 {
		t.Errorf("%+v, %v: want updates of both weights", s, err)
	}
	o.Others[0].Train = []string{"v"}
	if _, err := step.Build(g, o); err == nil || !strings.Contains(err.Error(),
		`no loss trains weight "w"`) {
		t.Errorf("a weight that no loss trains: %v", err)
	}
}
