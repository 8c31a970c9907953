package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// ErrDropout is the kind of error about dropout that a model has no place for.
var ErrDropout = errors.New("dropout does not fit the model")

// InputDraw is the input of a step that drops elements: two int64, the seed of the run and the
// number of the batch, from which the elements follow.
const InputDraw = prefix + "draw"

// Dropout says which elements a step drops while it trains; none are dropped while a model is
// tried. Without anything said, those dropouts of a model that it has in training mode drop, at
// their own ratios.
type Dropout struct {
	// Given says that Rate, from 0 to before 1, is that of every dropout of the model, in whichever
	// mode it was exported.
	Given bool
	Rate  float64
	// After names values, with * for any text, of which elements are dropped, too, before they are
	// read: exporters leave dropout out of models that are to run.
	After []string
}

// drop has a graph drop elements by numbers from counters. Dropouts are numbered in the order of
// the model's nodes, whether they drop or not, and those after values in that order from there on.
func (b *builder) drop(o Dropout) error {
	number := 0
	for _, n := range b.g.Nodes {
		if !drops(n) {
			continue
		}
		rate, err := o.of(n)
		if err == nil && rate > 0 {
			err = b.counted(n, rate, number)
		}
		if err != nil {
			return fmt.Errorf("graph %q: node %q: %w", b.g.Name, n.Name, err)
		}
		if rate == 0 {
			letThrough(n)
		}
		number++
	}
	if o.Given && o.Rate > 0 && number == 0 && len(o.After) == 0 {
		return fmt.Errorf("graph %q: %w: it has no Dropout, which exporters leave out: name "+
			"values after which to drop", b.g.Name, ErrDropout)
	}
	return b.dropAfter(o, number)
}

// drops reports whether a node is a Dropout of ONNX.
func drops(n *graph.Node) bool { return n.Domain == "" && n.Type == "Dropout" }

// letThrough takes a Dropout out of training mode.
func letThrough(n *graph.Node) { n.In = n.In[:1] }

// Still takes the dropouts of a model out of training mode.
func Still(g *graph.Graph) {
	for _, n := range g.Nodes {
		if drops(n) {
			letThrough(n)
		}
	}
}

// of is the rate of a Dropout.
func (o Dropout) of(n *graph.Node) (float64, error) {
	operand := func(i int) *graph.Value {
		if n.Version < 12 || i >= len(n.In) {
			return nil
		}
		return n.In[i]
	}
	training := operand(2)
	switch {
	case o.Given:
		return o.Rate, nil
	case training == nil || training.IsConst() && !anyTrue(training.Const()):
		return 0, nil
	case operand(1) == nil:
		return 0.5, nil
	case !operand(1).IsConst():
		return 0, fmt.Errorf("%w: its ratio is computed: say a rate for it", ErrDropout)
	}
	ratio, err := operand(1).Const().Floats()
	if err == nil && (len(ratio) != 1 || !(ratio[0] >= 0 && ratio[0] < 1)) {
		err = fmt.Errorf("%w: its ratio is %v: want a number from 0 to before 1", ErrDropout, ratio)
	}
	if err != nil {
		return 0, err
	}
	return ratio[0], nil
}

func anyTrue(t *tensor.Tensor) bool {
	return t.DType == tensor.Bool && slices.Contains(t.Data, 1)
}

// counted makes a Dropout one that draws from counters.
func (b *builder) counted(n *graph.Node, rate float64, number int) error {
	if len(n.Out) > 1 && n.Out[1] != nil && b.read(n.Out[1]) {
		return fmt.Errorf("%w: its mask is read, which training does not keep", ErrDropout)
	}
	n.Domain, n.Type, n.Version, n.Attrs = op.FusedDomain, op.CountedDropout, 1,
		droppingAttrs(rate, number)
	n.In, n.Out = []*graph.Value{n.In[0], b.drawn()}, n.Out[:1]
	return nil
}

func droppingAttrs(rate float64, number int) op.Attrs {
	return op.Attrs{op.FloatAttr(op.DropRatio, float32(rate)),
		op.IntAttr(op.DropNode, int64(number))}
}

// drawn is the input that says what is drawn.
func (b *builder) drawn() *graph.Value {
	if v := b.g.Input(InputDraw); v != nil {
		return v
	}
	v := &graph.Value{Name: InputDraw, Type: op.Concrete(tensor.Int64, 2)}
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// read reports whether a node or the graph's caller reads a value.
func (b *builder) read(v *graph.Value) bool {
	return slices.Contains(b.g.Outputs, v) || slices.ContainsFunc(b.g.Nodes,
		func(n *graph.Node) bool { return slices.Contains(n.In, v) })
}

// dropAfter drops elements of the values that are named.
func (b *builder) dropAfter(o Dropout, number int) error {
	used := make([]bool, len(o.After))
	for _, n := range slices.Clone(b.g.Nodes) {
		for _, v := range n.Out {
			if v == nil || v.Type.DType != tensor.Float32 || !matchesOne(o.After, v.Name, used) {
				continue
			}
			if !b.dropOf(v, o.Rate, number) {
				return fmt.Errorf("graph %q: %w: after %q: no node reads it", b.g.Name, ErrDropout,
					v.Name)
			}
			number++
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("graph %q: %w: after %q: no node gives a float32 value of that name; "+
			"some are %s", b.g.Name, ErrDropout, o.After[i], b.someValues())
	}
	return b.g.Sort()
}

// matchesOne reports whether one of the patterns matches, and notes which.
func matchesOne(patterns []string, name string, used []bool) (is bool) {
	for i, p := range patterns {
		if Matches(p, name) {
			is, used[i] = true, true
		}
	}
	return is
}

// dropOf has all nodes that read v read what is not dropped of it, and reports whether any do.
func (b *builder) dropOf(v *graph.Value, rate float64, number int) (any bool) {
	var kept *graph.Value
	for _, n := range slices.Clone(b.g.Nodes) {
		for i, in := range n.In {
			if in != v {
				continue
			}
			if kept == nil {
				name := b.fresh("Dropout")
				d := graph.NewNode(name, op.CountedDropout, 1, droppingAttrs(rate, number),
					[]*graph.Value{v, b.drawn()}, name)
				d.Domain = op.FusedDomain
				kept = d.Out[0]
				kept.Type = v.Type
				b.g.Nodes = append(b.g.Nodes, d)
			}
			n.In[i] = kept
		}
	}
	return kept != nil
}

// someValues names some values that a graph computes.
func (b *builder) someValues() string {
	var names []string
	for _, n := range b.g.Nodes {
		if len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Type.DType != tensor.Float32 {
			continue
		}
		if names = append(names, n.Out[0].Name); len(names) == 5 {
			break
		}
	}
	return strings.Join(names, ", ")
}
