package step_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// unfused are optimizers as operators of ONNX write them, by what they become of weight w and
// gradient d. Numbers are those of the update and of the optimizer, each rounded once.
var unfused = map[step.OptimizerKind]string{
	step.SGD: `%dw = Mul@14 (%w, %decay)
%g = Add@14 (%d, %dw)
%s = Mul@14 (%g, %rate)
%w2 = Sub@14 (%w, %s)
`,
	step.Momentum: `%dw = Mul@14 (%w, %decay)
%g = Add@14 (%d, %dw)
%vk = Mul@14 (%v, %momentum)
%v2 = Add@14 (%vk, %g)
%s = Mul@14 (%v2, %rate)
%w2 = Sub@14 (%w, %s)
`,
	step.Adagrad: `%dw = Mul@14 (%w, %decay)
%g = Add@14 (%d, %dw)
%gg = Mul@14 (%g, %g)
%v2 = Add@14 (%v, %gg)
%r = Sqrt@13 (%v2)
%re = Add@14 (%r, %epsilon)
%q = Div@14 (%g, %re)
%s = Mul@14 (%q, %rate)
%w2 = Sub@14 (%w, %s)
`,
	step.Adam: `%dw = Mul@14 (%w, %decay)
%g = Add@14 (%d, %dw)
` + moments + `%wk = Identity@16 (%w)
%q = Div@14 (%m2, %re)
%s = Mul@14 (%q, %rate)
%w2 = Sub@14 (%wk, %s)
`,
	step.AdamW: `%g = Identity@16 (%d)
` + moments + `%wk = Mul@14 (%w, %keep)
%q = Div@14 (%m2, %re)
%s = Mul@14 (%q, %rate)
%w2 = Sub@14 (%wk, %s)
`,
	step.LAMB: `%g = Identity@16 (%d)
` + moments + `%dw = Mul@14 (%w, %decay)
%mf = Mul@14 (%m2, %first)
%q = Div@14 (%mf, %re)
%u = Add@14 (%q, %dw)
%size = ReduceL2@18 (%w) {keepdims=0}
%length = ReduceL2@18 (%u) {keepdims=0}
%ratio = Div@14 (%size, %length)
%ur = Mul@14 (%u, %ratio)
%s = Mul@14 (%ur, %rate)
%w2 = Sub@14 (%w, %s)
`,
}

const moments = `%mk = Mul@14 (%m, %beta1)
%gt = Mul@14 (%g, %take1)
%m2 = Add@14 (%mk, %gt)
%vk = Mul@14 (%v, %beta2)
%gg = Mul@14 (%g, %g)
%ggt = Mul@14 (%gg, %take2)
%v2 = Add@14 (%vk, %ggt)
%r = Sqrt@13 (%v2)
%rr = Mul@14 (%r, %root)
%re = Add@14 (%rr, %epsilon)
`

// TestDescentBits: updates by one operator have the bits of those by operators of ONNX.
func TestDescentBits(t *testing.T) {
	for kind, text := range unfused {
		t.Run(string(kind), func(t *testing.T) {
			o := kind.Defaults()
			o.Decay = 0.1
			m, err := graph.Parse(`graph "one" {
 opset "" 18
 input %x: float32[1,300]
 const %w: float32[300,1] = {` + strings.TrimSuffix(strings.Repeat("0.5, ", 300), ", ") + `}
 %y = MatMul@13 (%x, %w)
 output %y
}`)
			if err != nil {
				t.Fatal(err)
			}
			s, err := step.Build(m, step.Options{Loss: step.Loss{Kind: step.SquaredError},
				Optimizer: o})
			if err != nil {
				t.Fatal(err)
			}
			state := map[string]*tensor.Tensor{}
			for _, v := range s.State.Variables() {
				if state[v.Name], err = tensor.New(v.DType, v.Shape...); err != nil {
					t.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(5, 6))
			state["w"] = tensor.From(tensor.As[float32](random(rng, 300, 1)), 300, 1)
			for update := range int64(4) {
				follow(t, s, o, state, rng, text, update+1)
			}
		})
	}
}

// follow makes one update by a step's graph and by the text of its optimizer.
func follow(t *testing.T, s *step.Step, o step.Optimizer, state map[string]*tensor.Tensor,
	rng *rand.Rand, text string, update int64) {
	t.Helper()
	in := map[string]*tensor.Tensor{"x": random(rng, 1, 300), "labels": random(rng, 1, 1)}
	rate := 0.05
	for name, v := range o.Scalars(rate, update) {
		in[name] = tensor.Scalar(v)
	}
	was := map[string]*tensor.Tensor{}
	for name, v := range state {
		was[name] = v.Clone()
	}
	d := gradientOf(t, s, in, was)
	iterate(t, s.Train, in, state)
	numbers := map[string]float64{"decay": o.Decay, "momentum": o.Momentum, "beta1": o.Beta1,
		"take1": 1 - o.Beta1, "beta2": o.Beta2, "take2": 1 - o.Beta2, "epsilon": o.Epsilon}
	var b strings.Builder
	fmt.Fprintf(&b, "graph \"text\" {\n opset \"\" 18\n")
	all := map[string]*tensor.Tensor{"w": was["w"], "d": d}
	for name, suffix := range map[string]string{"m": "/first", "v": "/second"} {
		if v := was["w"+suffix]; v != nil {
			all[name] = v
		}
	}
	for _, suffix := range []string{"/momentum", "/squares"} {
		if v := was["w"+suffix]; v != nil {
			all["v"] = v
		}
	}
	for name, v := range o.Scalars(rate, update) {
		all[map[string]string{"weir.rate": "rate", "weir.root": "root", "weir.decay": "keep",
			"weir.first": "first"}[name]] = tensor.Scalar(v)
	}
	for name, v := range numbers {
		all[name] = tensor.Scalar(float32(v))
	}
	var ins []*tensor.Tensor
	for name, v := range all {
		fmt.Fprintf(&b, " input %%%s: float32%s\n", name, strings.ReplaceAll(
			fmt.Sprint(v.Shape), " ", ","))
		ins = append(ins, v)
	}
	outs := []string{"w2"}
	for _, name := range []string{"m2", "v2"} {
		if strings.Contains(text, "%"+name+" =") {
			outs = append(outs, name)
		}
	}
	fmt.Fprintf(&b, "%s output %%%s\n}", text, strings.Join(outs, "\n output %"))
	g, err := graph.Parse(b.String())
	if err != nil {
		t.Fatal(err, b.String())
	}
	want, err := g.Eval(t.Context(), ins)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{"w2": {"w"}, "m2": {"w/first"},
		"v2": {"w/second", "w/momentum", "w/squares"}}
	for i, out := range outs {
		for _, name := range names[out] {
			if got := state[name]; got != nil && !bytes.Equal(got.Data, want[i].Data) {
				t.Errorf("update %d: %s has other bits", update, name)
			}
		}
	}
}

// gradientOf is the gradient of the weight: what plain descent at a rate of 1 takes of zero.
func gradientOf(t *testing.T, s *step.Step, in, state map[string]*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	for _, n := range s.Train.Nodes {
		if len(n.In) < 2 || n.In[0].Name != "w" || n.Domain != "weir" {
			continue
		}
		g := s.Train.Graph.Clone()
		for _, m := range g.Nodes {
			if m.Name == n.Name {
				g.Outputs = append(g.Outputs, m.In[1])
			}
		}
		var ins []*tensor.Tensor
		for _, v := range g.Inputs {
			if ins = append(ins, in[v.Name]); in[v.Name] == nil {
				ins[len(ins)-1] = state[v.Name]
			}
		}
		outs, err := g.Eval(t.Context(), ins)
		if err != nil {
			t.Fatal(err)
		}
		return outs[len(outs)-1]
	}
	t.Fatal("no optimizer changes w")
	return nil
}
