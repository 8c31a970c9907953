package step_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// attending is a model of two samples of five positions, with attention of two heads as exporters
// write it, in which what is done to %scaled gives %scores, and to %weights gives %kept.
func attending(t *testing.T, scores, kept string, outputs ...string) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 9))
	matrix := func(name string, rows, cols int) string {
		v := make([]string, rows*cols)
		for i := range v {
			v[i] = fmt.Sprint(float32(r.NormFloat64()) / 2)
		}
		return fmt.Sprintf("const %%%s: float32[%d,%d] = {%s}\n", name, rows, cols,
			strings.Join(v, ", "))
	}
	text := `graph "attending" {
opset "" 18
input %x: float32[2,5,8]
` + matrix("wq", 8, 8) + matrix("wk", 8, 8) + matrix("wv", 8, 8) + matrix("wo", 8, 2) +
		matrix("places", 5, 5) + `const %heads: int64[4] = {0, 0, 2, 4}
const %flat: int64[3] = {0, 0, 8}
const %four: float32[] = {4}
const %ratio: float32[] = {0.25}
const %yes: bool[] = {true}
const %low: float32[] = {-3.4028235e38}
const %see: bool[5,5] = {` + see + `}
const %hide: float32[2,1,1,5] = {0, 0, 0, -10000, -10000, 0, 0, 0, 0, 0}
const %one: int64[1] = {1}
`
	for _, of := range []string{"q", "k", "v"} {
		perm := "[0,2,1,3]"
		if of == "k" {
			perm = "[0,2,3,1]"
		}
		text += strings.ReplaceAll("%A.p = MatMul@13 (%x, %wA)\n%A.h = Reshape@14 (%A.p, %heads)\n"+
			"%A = Transpose@13 (%A.h) {perm="+perm+"}\n", "A", of)
	}
	text += `%root = Sqrt@13 (%four)
%product = MatMul@13 (%q, %k)
%scaled = Div@14 (%product, %root)
` + scores + `
%weights = Softmax@13 (%scores) {axis=-1}
` + kept + `
%mixed = MatMul@13 (%kept, %v)
%back = Transpose@13 (%mixed) {perm=[0,2,1,3]}
%joined = Reshape@14 (%back, %flat)
%each = MatMul@13 (%joined, %wo)
%y = ReduceMean@18 (%each, %one) {keepdims=0}
output %y
`
	for _, o := range outputs {
		text += "output %" + o + "\n"
	}
	g, err := graph.Parse(text + "}")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// see hides from each position those after it.
const see = "true, false, false, false, false, true, true, false, false, false, " +
	"true, true, true, false, false, true, true, true, true, false, true, true, true, true, true"

const asItIs = "%scores = Identity@13 (%scaled)"

// attentionOptions are those of a step of such a model.
func attentionOptions() step.Options {
	return step.Options{Loss: step.Loss{Kind: step.SquaredError, Scores: "y"},
		Optimizer: step.SGD.Defaults()}
}

// TestAttentionIsWhole: attention is differentiated as one operator, so that no value has an
// element for each score, unless something else reads scores, drops weights, or is learnt of them.
func TestAttentionIsWhole(t *testing.T) {
	const all = "%kept = Identity@13 (%weights)"
	for name, c := range map[string]struct {
		scores, kept string
		outputs      []string
		dropout      step.Dropout
		whole        bool
	}{
		"plain": {scores: asItIs, kept: all, whole: true},
		"causal": {scores: "%scores = Where@16 (%see, %scaled, %low)", kept: all,
			whole: true},
		"padding": {scores: "%scores = Add@14 (%scaled, %hide)", kept: all, whole: true},
		"both": {scores: "%seen = Where@16 (%see, %scaled, %low)\n" +
			"%scores = Add@14 (%seen, %hide)", kept: all, whole: true},
		"learnt": {scores: "%scores = Add@14 (%scaled, %places)", kept: all},
		"learnt beneath a mask": {scores: "%biased = Add@14 (%scaled, %places)\n" +
			"%scores = Add@14 (%biased, %hide)", kept: all},
		"read":    {scores: asItIs, kept: all, outputs: []string{"weights"}},
		"dropout": {scores: asItIs, kept: "%kept, _ = Dropout@13 (%weights, %ratio, %yes)"},
		"no dropout": {scores: asItIs, kept: "%kept, _ = Dropout@13 (%weights, %ratio, %yes)",
			dropout: step.Dropout{Given: true}, whole: true},
		"dropout by name": {scores: asItIs, kept: all,
			dropout: step.Dropout{Given: true, Rate: 0.5, After: []string{"weights"}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := attentionOptions()
			o.Dropout = c.dropout
			s, err := step.Build(attending(t, c.scores, c.kept, c.outputs...), o)
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, n := range s.Train.Nodes {
				count[n.Type]++
				for _, v := range n.Out {
					shape, _ := v.Type.Ints()
					if c.whole && slices.Equal(shape, []int{2, 2, 5, 5}) {
						t.Errorf("%v is %v", n, v.Type)
					}
				}
			}
			want := map[bool]int{true: 1}[c.whole]
			if count["Attention"] != want || count[op.AttentionGradient] != want ||
				count["Softmax"] != 1-want {
				t.Errorf("%v: want %d whole", count, want)
			}
		})
	}
}

// TestAttentionTrains: updates are those of the same model whose attention is differentiated by
// parts, because its scores are an output, too.
func TestAttentionTrains(t *testing.T) {
	const all = "%kept = Identity@13 (%weights)"
	for name, scores := range map[string]string{"plain": asItIs,
		"both": "%seen = Where@16 (%see, %scaled, %low)\n%scores = Add@14 (%seen, %hide)"} {
		t.Run(name, func(t *testing.T) {
			var weights [2]map[string]*tensor.Tensor
			for i, outputs := range [][]string{nil, {"scores", "weights"}} {
				s, err := step.Build(attending(t, scores, all, outputs...), attentionOptions())
				if err != nil {
					t.Fatal(err)
				}
				r, state := rand.New(rand.NewPCG(3, 4)), map[string]*tensor.Tensor{}
				for _, p := range s.Params {
					state[p.Name] = p.Start
				}
				for range 5 {
					x := random(r, 10, 8)
					x.Shape = []int{2, 5, 8}
					iterate(t, s.Train, map[string]*tensor.Tensor{"x": x,
						"labels":    random(r, 2, 2),
						"weir.rate": tensor.Scalar(float32(0.1))}, state)
				}
				weights[i] = state
			}
			for _, name := range []string{"wq", "wk", "wv", "wo"} {
				want, err := weights[1][name].Floats()
				if err != nil {
					t.Fatal(err)
				}
				near(t, name, weights[0][name], want)
			}
		})
	}
}
