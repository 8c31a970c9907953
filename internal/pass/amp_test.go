package pass_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// ampGraph holds one product for each rule: one that pays, one with too few columns, a depthwise
// convolution, a transposed one that pays and one that is depthwise, and one that no product
// follows.
func ampGraph(t *testing.T) *graph.Graph {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	weights := func(name string, shape ...int) *graph.Value {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		return graph.NewConst(name, tensor.From(x, shape...))
	}
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 64, 96)}
	image := &graph.Value{Name: "image", Type: op.Concrete(tensor.Float32, 1, 64, 16, 16)}
	wide := graph.NewNode("product", "MatMul", 13, nil, []*graph.Value{x, weights("w1", 96, 128)},
		"a")
	relu := graph.NewNode("wide", "Relu", 14, nil, wide.Out, "b")
	head := graph.NewNode("head", "MatMul", 13, nil,
		[]*graph.Value{relu.Out[0], weights("w2", 128, 64)}, "y")
	narrow := graph.NewNode("narrow", "MatMul", 13, nil, []*graph.Value{x, weights("w3", 96, 4)},
		"z")
	depth := graph.NewNode("depth", "Conv", 11, op.Attrs{op.IntAttr("group", 64)},
		[]*graph.Value{image, weights("w4", 64, 1, 3, 3)}, "c")
	two := op.IntsAttr("strides", 2, 2)
	turned := graph.NewNode("turned", "ConvTranspose", 11, op.Attrs{two},
		[]*graph.Value{image, weights("w5", 64, 96, 3, 3)}, "d")
	apart := graph.NewNode("apart", "ConvTranspose", 11, op.Attrs{two, op.IntAttr("group", 64)},
		[]*graph.Value{image, weights("w6", 64, 1, 3, 3)}, "e")
	attend := func(name string, queries int) *graph.Node {
		q := &graph.Value{Name: name + "q", Type: op.Concrete(tensor.Float32, 1, 2, queries, 64)}
		k := &graph.Value{Name: name + "k", Type: op.Concrete(tensor.Float32, 1, 200, 2, 64)}
		n := graph.NewNode(name, "Attention", 1, op.Attrs{op.IntsAttr("rows_first", 0, 1, 1, 0)},
			[]*graph.Value{q, k, k}, name+"y")
		n.Domain = op.FusedDomain
		return n
	}
	many, few := attend("many", 64), attend("few", 3)
	g := &graph.Graph{Name: "amp",
		Inputs: []*graph.Value{x, image, many.In[0], many.In[1], few.In[0], few.In[1]},
		Nodes:  []*graph.Node{wide, relu, head, narrow, depth, turned, apart, many, few},
		Outputs: []*graph.Value{head.Out[0], narrow.Out[0], depth.Out[0], turned.Out[0],
			apart.Out[0], many.Out[0], few.Out[0]},
		Opsets: map[string]int{"": 17, op.FusedDomain: 1}}
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAmpChoosesByCostAndPlace(t *testing.T) {
	for _, tc := range []struct {
		precision pass.Precision
		want      map[string]bool
	}{
		{pass.FP32, map[string]bool{"wide": false, "narrow": false, "depth": false, "head": false}},
		{pass.BF16, map[string]bool{"wide": true, "narrow": false, "depth": false, "head": true,
			"many": true, "few": false, "turned": true, "apart": false}},
		{pass.Auto, map[string]bool{"wide": true, "narrow": false, "depth": false,
			"head": false}},
	} {
		g := ampGraph(t)
		optimise(t, g, pass.Options{Check: true, Precision: tc.precision})
		got := map[string]bool{}
		r := pass.Amp(g, tc.precision, able)
		for _, c := range r.Nodes {
			got[c.Node] = c.Chosen
			if c.Why == "" || c.List == "" || (c.Cost != nil) != (c.List == pass.AmpAllow) ||
				(c.Casts != nil) != c.Chosen {
				t.Errorf("%s: %s is explained by %+v", tc.precision, c.Node, c)
			}
		}
		if r.Precision != tc.precision || len(r.Nodes) != len(g.Nodes) || r.Casts.Left() != 0 ||
			(r.Casts.Inserted > 0) != got["wide"] {
			t.Errorf("%q: report %+v of %d nodes", tc.precision, r, len(g.Nodes))
		}
		// The product in bfloat16 and the activation inside it feed the head, which reads no more
		// than bfloat16 only with BF16.
		if want := tc.precision == pass.BF16; (r.NarrowValues == 1 &&
			r.NarrowBytes == 4*64*128) != want {
			t.Errorf("%q: %d values of %d bytes in bfloat16 only", tc.precision, r.NarrowValues,
				r.NarrowBytes)
		}
		for name, want := range tc.want {
			if chosen, ok := got[name]; !ok || chosen != want {
				t.Errorf("%q: %s chosen: %v (a product: %v), want %v in %v", tc.precision, name,
					chosen, ok, want, got)
			}
		}
	}
}
