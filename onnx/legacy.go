package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// numpyOpset is the version of ONNX's operator set that gave binary operators NumPy's broadcasting
// and dropped the attributes that told training from inference.
const numpyOpset = 7

// raisers rewrite one node from the form of opset 6 to that of 7, for the operators that opset 7
// changed and whose new form can say the same (ONNX, Changelog.md, versions 1, 6 and 7 of each).
var raisers = map[string]func(*raiser, *graph.Node) error{
	"Add": (*raiser).broadcast, "Sub": (*raiser).broadcast, "Mul": (*raiser).broadcast,
	"Div": (*raiser).broadcast,
	"Pow": (*raiser).broadcast, "And": (*raiser).broadcast, "Or": (*raiser).broadcast,
	"Xor":   (*raiser).broadcast,
	"Equal": (*raiser).broadcast, "Greater": (*raiser).broadcast, "Less": (*raiser).broadcast,
	"PRelu": (*raiser).slope, "BatchNormalization": (*raiser).batchNorm,
	"AveragePool": (*raiser).drop, "Dropout": (*raiser).drop, "Gemm": (*raiser).drop,
	"GRU": (*raiser).drop, "LSTM": (*raiser).drop, "RNN": (*raiser).drop,
	"Cast": (*raiser).castTo,
}

// raiser brings a graph of an older operator set to opset 7 where that changes no result. Nodes
// that it does not know keep their version, and the operator table tells whether weir has it.
type raiser struct {
	g   *graph.Graph
	out []*graph.Node
	b   *builder
}

// raise rewrites g, whose nodes are in topological order, and the graphs nested in it. Ranks decide
// where an operand's dimensions go, so types are inferred along the way as far as that is possible.
func (b *builder) raise(g *graph.Graph) error {
	r := &raiser{g: g, b: b}
	for _, n := range g.Nodes {
		if n.Domain == "" && n.Version < numpyOpset {
			if err := r.node(n); err != nil {
				return fmt.Errorf("%v: %w", n, err)
			}
		}
		for _, body := range n.Bodies() {
			if err := b.raise(body); err != nil {
				return err
			}
		}
		r.out = append(r.out, n)
		guess(n)
	}
	g.Nodes = r.out
	return nil
}

// node brings one node to opset 7.
func (r *raiser) node(n *graph.Node) error {
	if err := r.reform(n); err != nil {
		return err
	}
	f := raisers[n.Type]
	if f == nil {
		return nil
	}
	if err := f(r, n); err != nil {
		return err
	}
	n.Version = max(n.Version, numpyOpset)
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a op.Attr) bool {
		return slices.Contains(dropped, a.Name)
	})
	return nil
}

// dropped are the attributes that opset 7 no longer has. No operator that is raised has one of
// these names in opset 7 for something else.
var dropped = []string{"axis", "broadcast", "is_test", "output_sequence"}

// guess infers the types of a node's outputs and leaves them as they are when that fails: checking
// comes later.
func guess(n *graph.Node) {
	o, err := n.Op()
	if err != nil {
		return
	}
	in, present := make([]op.Type, len(n.In)), make([]bool, len(n.In))
	for i, v := range n.In {
		if v != nil {
			in[i], present[i] = v.Type, true
		}
	}
	out, err := op.InferTypes(o, n.Call(), in, present)
	if err != nil {
		return
	}
	for i, v := range n.Out {
		if v != nil && out[i].Ranked {
			v.Type = out[i]
		}
	}
}

// drop leaves a node whose meaning for inference did not change. Dropout without is_test would
// train: a model that is run is not trained.
func (r *raiser) drop(*graph.Node) error { return nil }

// broadcast aligns the second operand: with broadcast = 1 and an axis, its dimensions stand for
// those of the first from that axis on; without an axis for the last ones, as in NumPy.
func (r *raiser) broadcast(n *graph.Node) error {
	axis := n.Attrs.Find("axis")
	if !n.Attrs.Bool("broadcast", false) || axis == nil || len(n.In) != 2 {
		return nil
	}
	a, b, err := ranks(n)
	if err != nil {
		return err
	}
	at := int(n.Attrs.Int("axis", 0))
	if at < 0 {
		at += a
	}
	if at < 0 || at+b > a {
		return formatErr("axis %d does not fit operands of rank %d and %d", at, a, b)
	}
	return r.unsqueeze(n, b, a-at-b)
}

// slope gives one slope per channel the shape that broadcasts against [N, C, ...].
func (r *raiser) slope(n *graph.Node) error {
	if len(n.In) != 2 || n.In[1] == nil {
		return nil
	}
	if t := n.In[1].Type; !t.Ranked || len(t.Shape) != 1 || t.Shape[0].Is(1) {
		return nil
	}
	a, b, err := ranks(n)
	if err != nil || a <= 2 {
		return err
	}
	return r.unsqueeze(n, b, a-2)
}

// castTo makes a number of the attribute to, which before opset 6 is the name of a
// TensorProto.DataType.
func (r *raiser) castTo(n *graph.Node) error {
	to := n.Attrs.Find("to")
	if to == nil || to.Kind != op.AttrString {
		return nil
	}
	name := strings.ToLower(to.Strings[0])
	if own := typeNames[name]; own != "" {
		name = own
	}
	d, err := tensor.ParseDType(name)
	if err != nil {
		return formatErr("Cast to %q: %v", to.Strings[0], err)
	}
	*to = op.IntAttr("to", int64(d))
	return nil
}

// typeNames gives package tensor's names of types that ONNX calls otherwise.
var typeNames = map[string]string{"float": "float32", "double": "float64"}

func ranks(n *graph.Node) (a, b int, err error) {
	for _, v := range n.In {
		if v == nil || !v.Type.Ranked {
			return 0, 0, fmt.Errorf("%w: broadcasting of opset %d needs known ranks; convert the "+
				"model with ONNX's version converter",
				op.ErrUnsupported, n.Version)
		}
	}
	return len(n.In[0].Type.Shape), len(n.In[1].Type.Shape), nil
}

// unsqueeze puts count dimensions of size 1 behind the rank dimensions of a node's second operand.
func (r *raiser) unsqueeze(n *graph.Node, rank, count int) error {
	v := n.In[1]
	if count == 0 {
		return nil
	}
	name := r.b.fresh(v.Name + "_unsqueezed")
	if c := v.Const(); c != nil && v.IsConst() {
		t, err := c.Reshaped(append(slices.Clone(c.Shape), slices.Repeat([]int{1}, count)...)...)
		if err != nil {
			return err
		}
		n.In[1] = graph.NewConst(name, t)
		return nil
	}
	axes := make([]int64, count)
	for i := range axes {
		axes[i] = int64(rank + i)
	}
	u := graph.NewNode(n.Name+"_unsqueeze", "Unsqueeze", n.Version,
		op.Attrs{op.IntsAttr("axes", axes...)}, []*graph.Value{v}, name)
	r.out = append(r.out, u)
	guess(u)
	n.In[1] = u.Out[0]
	return nil
}
