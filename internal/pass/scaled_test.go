package pass_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// TestLargeWeightsStay holds that normalisation and arithmetic after a convolution leave its large
// weights where they are, and small ones and graphs for other runtimes have them in the weights.
func TestLargeWeightsStay(t *testing.T) {
	for _, tt := range []struct {
		channels int
		portable bool
		want     string
	}{{256, false, "weir:Conv"}, {256, true, "Conv"}, {8, false, "Conv"}} {
		rng := rand.New(rand.NewPCG(1, 5))
		constant := func(name string, shape ...int) *graph.Value {
			v := graph.NewConst(name, fill(t, rng, tensor.Float32, shape))
			for i, x := range tensor.As[float32](v.Const()) {
				tensor.As[float32](v.Const())[i] = x*x + 0.1
			}
			return v
		}
		c := tt.channels
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 1, c, 3, 2)}
		w := constant("w", c, c, 1, 1)
		conv := graph.NewNode("conv", "Conv", 11, nil, []*graph.Value{x, w}, "a")
		norm := graph.NewNode("norm", "BatchNormalization", 15, nil,
			[]*graph.Value{conv.Out[0], constant("g", c), constant("b", c), constant("m", c),
				constant("v", c)}, "n")
		mul := graph.NewNode("mul", "Mul", 14, nil,
			[]*graph.Value{norm.Out[0], constant("k", 1, c, 1, 1)}, "k2")
		add := graph.NewNode("add", "Add", 14, nil, []*graph.Value{mul.Out[0], x}, "s")
		relu := graph.NewNode("relu", "Relu", 14, nil, []*graph.Value{add.Out[0]}, "y")
		g := &graph.Graph{Name: "g", Inputs: []*graph.Value{x},
			Nodes: []*graph.Node{conv, norm, mul, add, relu}, Outputs: []*graph.Value{relu.Out[0]},
			Opsets: map[string]int{"": 17}}
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := g.Clone()
		optimise(t, g, pass.Options{Check: true, Portable: tt.portable,
			Off: []string{"activation", "residual"}})
		first := g.Nodes[0]
		if got := first.Call().Name(); got != tt.want || len(g.Nodes) != 3 {
			t.Errorf("%+v: became\n%v", tt, g)
		}
		if kept := first.In[1].Const() == w.Const(); kept != (tt.want == "weir:Conv") {
			t.Errorf("%+v: the weights are kept: %v", tt, kept)
		}
		equivalent(t, before, g, false)
		if optimise(t, g, pass.Options{Check: true, Portable: tt.portable}); !tt.portable &&
			len(g.Nodes) != 1 {
			t.Errorf("%+v: residual and activation left\n%v", tt, g)
		}
		equivalent(t, before, g, false)
	}
}

// TestScaleThatDoesNotFitStays holds that a normalisation of other channels than the convolution
// before it has, which no rule for types notices while the rank is not known, is left as it is,
// also where the weights have a scale already: the error of a run then names the model's operator.
func TestScaleThatDoesNotFitStays(t *testing.T) {
	const c = 256
	for _, tt := range []struct {
		name     string
		channels []int // of each normalisation
		left     int   // nodes
	}{
		{"fits", []int{c, c}, 1},
		{"does not fit", []int{c / 2}, 2},
		{"the second does not fit", []int{c, c / 2}, 2},
	} {
		rng := rand.New(rand.NewPCG(1, 6))
		constant := func(name string, shape ...int) *graph.Value {
			return graph.NewConst(name, fill(t, rng, tensor.Float32, shape))
		}
		x := &graph.Value{Name: "x", Type: op.Unranked(tensor.Float32)}
		nodes := []*graph.Node{graph.NewNode("conv", "Conv", 11, nil,
			[]*graph.Value{x, constant("w", c, c, 1, 1)}, "y0")}
		for i, n := range tt.channels {
			var in []*graph.Value
			for _, name := range []string{"g", "b", "m", "v"} {
				in = append(in, constant(fmt.Sprint(name, i), n))
			}
			for i, f := range tensor.As[float32](in[3].Const()) {
				tensor.As[float32](in[3].Const())[i] = f*f + 0.1
			}
			nodes = append(nodes, graph.NewNode("", "BatchNormalization", 15, nil,
				append([]*graph.Value{nodes[i].Out[0]}, in...), fmt.Sprint("y", i+1)))
		}
		g := &graph.Graph{Name: "g", Inputs: []*graph.Value{x}, Nodes: nodes,
			Outputs: []*graph.Value{nodes[len(nodes)-1].Out[0]}, Opsets: map[string]int{"": 17}}
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		if optimise(t, g, pass.Options{Check: true}); len(g.Nodes) != tt.left {
			t.Errorf("%s: became\n%v", tt.name, g)
		}
	}
}
