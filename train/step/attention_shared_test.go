package step_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// TestAttentionInUse: updates of models that use attention in ways of their own are those of the
// same models whose attention is differentiated by parts.
func TestAttentionInUse(t *testing.T) {
	const projections = `%hv = MatMul@13 (%x, %wv)
%rv = Reshape@14 (%hv, %heads)
%v = Transpose@13 (%rv) {perm=[0,2,1,3]}
`
	const own = `%hq = MatMul@13 (%x, %wq)
%rq = Reshape@14 (%hq, %heads)
%q = Transpose@13 (%rq) {perm=[0,2,1,3]}
`
	const keys = `%hk = MatMul@13 (%x, %wk)
%rk = Reshape@14 (%hk, %heads)
%k = Transpose@13 (%rk) {perm=[0,2,3,1]}
`
	const attend = `%product = MatMul@13 (%q, %k)
%scores = Mul@14 (%product, %ratio)
%weights = Softmax@13 (%scores) {axis=-1}
%mixed = MatMul@13 (%weights, %v)
`
	const end = `%back = Transpose@13 (%mixed) {perm=[0,2,1,3]}
%joined = Reshape@14 (%back, %flat)
%each = MatMul@13 (%joined, %wo)
%y = ReduceMean@18 (%each, %one) {keepdims=0}
`
	const other = `%each2 = MatMul@13 (%joined, %wp)
%z = ReduceMean@18 (%each2, %one) {keepdims=0}
`
	squared := step.Loss{Kind: step.SquaredError, Scores: "y", Labels: "a"}
	both := step.Options{Loss: squared, Others: []step.Loss{{Kind: step.SquaredError, Scores: "z",
		Labels: "b"}}}
	apart := both
	apart.Loss.Train = []string{"wq", "wk", "wv", "wo"}
	apart.Others = []step.Loss{both.Others[0]}
	apart.Others[0].Train = []string{"wq", "wk", "wp"}
	for name, c := range map[string]struct {
		text string
		outs []string
		step.Options
		backs int
	}{
		"itself": {text: projections + "%q = Identity@13 (%v)\n" +
			"%k = Transpose@13 (%v) {perm=[0,1,3,2]}\n" + attend + end, outs: []string{"y"},
			Options: step.Options{Loss: squared}, backs: 1},
		"keys are values": {text: projections + own +
			"%k = Transpose@13 (%v) {perm=[0,1,3,2]}\n" + attend + end, outs: []string{"y"},
			Options: step.Options{Loss: squared}, backs: 1},
		"frozen keys": {text: projections + own + keys + attend + end, outs: []string{"y"},
			Options: step.Options{Loss: squared, Freeze: []string{"wk"}}, backs: 1},
		"frozen values": {text: projections + own + keys + attend + end, outs: []string{"y"},
			Options: step.Options{Loss: squared, Freeze: []string{"wv"}}, backs: 1},
		"two losses": {text: projections + own + keys + attend + end + other,
			outs: []string{"y", "z"}, Options: both, backs: 1},
		"two losses apart": {text: projections + own + keys + attend + end + other,
			outs: []string{"y", "z"}, Options: apart, backs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var weights [2]map[string]*tensor.Tensor
			for i, more := range [][]string{nil, {"scores", "weights"}} {
				g := using(t, c.text, append(c.outs, more...)...)
				o := c.Options
				o.Optimizer = step.SGD.Defaults()
				s, err := step.Build(g, o)
				if err != nil {
					t.Fatal(err)
				}
				backs := 0
				s.Train.Walk(func(g *graph.Graph) {
					for _, n := range g.Nodes {
						if n.Type == op.AttentionGradient {
							backs++
						}
					}
				})
				if want := c.backs * (1 - i); backs != want {
					t.Errorf("%d gradients of attention, want %d", backs, want)
				}
				r, state := rand.New(rand.NewPCG(3, 4)), map[string]*tensor.Tensor{}
				for _, p := range s.Params {
					state[p.Name] = p.Start
				}
				for range 3 {
					x := random(r, 10, 8)
					x.Shape = []int{2, 5, 8}
					iterate(t, s.Train, map[string]*tensor.Tensor{"x": x, "a": random(r, 2, 2),
						"b": random(r, 2, 2), "weir.rate": tensor.Scalar(float32(0.1))}, state)
				}
				weights[i] = state
			}
			for name, v := range weights[1] {
				want, err := v.Floats()
				if err != nil {
					t.Fatal(err)
				}
				near(t, name, weights[0][name], want)
			}
		})
	}
}

// using is a model of two samples of five positions with weights to attend by.
func using(t *testing.T, text string, outs ...string) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 9))
	all := `graph "using" {
opset "" 18
input %x: float32[2,5,8]
`
	for _, w := range []string{"wq", "wk", "wv", "wo", "wp"} {
		if !strings.Contains(text, "%"+w) {
			continue
		}
		cols := 8
		if w > "wl" && w < "wq" {
			cols = 2
		}
		v := make([]string, 8*cols)
		for i := range v {
			v[i] = fmt.Sprint(float32(r.NormFloat64()) / 2)
		}
		all += fmt.Sprintf("const %%%s: float32[8,%d] = {%s}\n", w, cols, strings.Join(v, ", "))
	}
	all += `const %heads: int64[4] = {0, 0, 2, 4}
const %flat: int64[3] = {0, 0, 8}
const %ratio: float32[] = {0.5}
const %one: int64[1] = {1}
` + text
	for _, o := range outs {
		all += "output %" + o + "\n"
	}
	g, err := graph.Parse(all + "}")
	if err != nil {
		t.Fatal(err)
	}
	return g
}
