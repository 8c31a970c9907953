package grad

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Objective says which values of a graph to differentiate, and with respect to which values.
type Objective struct {
	// Of are values of the graph, of floating-point type. What is differentiated is one number: the
	// sum over all elements of all values of Of, each element multiplied by the corresponding
	// element of the value's seed.
	Of []*graph.Value
	// Seeds are values of the types and shapes of Of, or nil for ones; nil stands for all nil.
	Seeds []*graph.Value
	// By are the values to differentiate by: inputs, constants, or what nodes compute. They vary
	// independently of each other, whatever the graph computes them from.
	By []*graph.Value
	// Held are values that are taken as constant, whatever the graph computes them from.
	Held []*graph.Value
}

// Backward adds to g the nodes that compute the gradients of an objective. It returns one gradient
// for each value of By, of the type and shape of that value, and zeros where the objective does not
// depend on the value. It also infers the types of the values that the nodes of g compute, as far
// as their shape rules allow, and it may add outputs to nodes of g that left them out, such as the
// indices of MaxPool. When it fails, with an error of kind op.ErrNoGradient, g has the same nodes
// as before.
func Backward(g *graph.Graph, o Objective) ([]*graph.Value, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	restore, untyped := hold(g)
	defer restore()
	out, err := backward(g, o)
	if err != nil && untyped != nil {
		return nil,
			fmt.Errorf("graph %q: %w (types are not known beyond: %w)", g.Name, err, untyped)
	}
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	return out, nil
}

// backward is Backward of a graph with types that hold.
func backward(g *graph.Graph, o Objective) ([]*graph.Value, error) {
	r := newReverse(g, o)
	if err := r.run(o); err != nil {
		return nil, err
	}
	out := make([]*graph.Value, len(o.By))
	for i, v := range o.By {
		if out[i] = r.of[v]; out[i] == nil {
			zeros, err := r.full(v, 0)
			if err != nil {
				return nil, err
			}
			out[i] = zeros
		}
	}
	r.commit(out)
	return out, nil
}

// hold gives the values of g types that hold for every run. Gradients need these, since a gradient
// is summed over the axes along which its operand was broadcast, and declared names and shapes may
// be wrong about which axes those are. restore puts the declared types back and, from them, infers
// types for the values that nodes compute, for people to read. untyped says why some types are not
// known; it is nil when all are.
func hold(g *graph.Graph) (restore func(), untyped error) {
	types, untyped := g.HoldingTypes()
	declared := map[*graph.Value]op.Type{}
	for v, t := range types {
		declared[v], v.Type = v.Type, t
	}
	return func() {
		for v, t := range declared {
			v.Type = t
		}
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if _, was := declared[v]; v != nil && !was {
					v.Type = v.Type.TypeOnly()
				}
			}
			_ = n.InferTypes() // what matters of a failure is told when the graph is compiled
		}
	}, untyped
}

// check refuses values that have no gradients.
func (o *Objective) check() error {
	if o.Seeds != nil && len(o.Seeds) != len(o.Of) {
		return fmt.Errorf("%w: %d seeds for %d values", op.ErrInput, len(o.Seeds), len(o.Of))
	}
	for _, v := range slices.Concat(o.Of, o.By) {
		if d := v.Type.DType; d != tensor.Undefined && !smooth(d) {
			return fmt.Errorf("%w of or by value %q, which is %v; derivatives are of float16, "+
				"bfloat16, float32 and float64", op.ErrNoGradient, v.Name, d)
		}
	}
	return nil
}

// smooth reports whether values of an element type have gradients.
func smooth(d tensor.DType) bool { return d.IsFloat() && !d.IsMinifloat() }

// discrete reports whether an element type has only values that cannot change by arbitrarily
// little, so that derivatives with respect to them are zero. Floats of at most 8 bits do not count
// as discrete: they stand for real numbers, but have no gradients here.
func discrete(d tensor.DType) bool {
	return d.IsInteger() || d == tensor.Bool || d == tensor.String
}

// reverse is one differentiation. Which values are varied and which are useful is activity
// analysis (Hascoët and Pascual, "The Tapenade automatic differentiation tool", ACM TOMS 2013):
// only those that are both have a gradient.
type reverse struct {
	opset  int
	g      *graph.Graph
	names  map[string]bool
	made   []*graph.Node
	extra  []*graph.Value                // results that nodes of g are to be asked for
	of     map[*graph.Value]*graph.Value // gradients, as far as they are summed
	varied map[*graph.Value]bool         // values that depend on what is differentiated by
	ends   map[*graph.Value]bool         // values beyond which nothing is followed
	useful map[*graph.Value]bool         // values that the objective depends on
}

func newReverse(g *graph.Graph, o Objective) *reverse {
	r := &reverse{opset: g.Opsets[""], g: g, names: map[string]bool{},
		of: map[*graph.Value]*graph.Value{}, varied: map[*graph.Value]bool{},
		ends: map[*graph.Value]bool{}, useful: map[*graph.Value]bool{}}
	g.Walk(func(g *graph.Graph) {
		for _, v := range g.Inputs {
			r.names[v.Name] = true
		}
		for _, n := range g.Nodes {
			r.names[n.Name] = true
			for _, v := range slices.Concat(n.In, n.Out) {
				if v != nil {
					r.names[v.Name] = true
				}
			}
		}
	})
	for _, v := range slices.Concat(g.Outputs, o.Of, o.Seeds, o.By, o.Held) {
		if v != nil {
			r.names[v.Name] = true
		}
	}
	for _, v := range o.By {
		r.varied[v], r.ends[v] = true, true
	}
	for _, v := range o.Held {
		r.ends[v] = true
	}
	return r
}

// run finds the gradients of an objective.
func (r *reverse) run(o Objective) error {
	nodes := r.g.Nodes
	r.follow(nodes)
	for i, y := range o.Of {
		var seed *graph.Value
		if o.Seeds != nil {
			seed = o.Seeds[i]
		}
		if !r.varied[y] {
			continue
		}
		if seed == nil {
			ones, err := r.full(y, 1)
			if err != nil {
				return err
			}
			seed = ones
		}
		if err := r.add(y, seed); err != nil {
			return err
		}
	}
	r.trace(nodes, o.Of)
	return r.back(nodes)
}

// follow marks the values that depend on those of Objective.By. Integers, conditions and the
// results of operators whose row is flat are left out, since small changes of the operands do not
// change them. All results of an operator without a rule are marked, since they might change.
func (r *reverse) follow(nodes []*graph.Node) {
	for _, n := range nodes {
		if !slices.ContainsFunc(n.In, func(v *graph.Value) bool { return r.varied[v] }) {
			continue
		}
		how := op.NoRule
		if o, err := n.Op(); err == nil {
			how = o.Differentiability()
		}
		for _, v := range n.Out {
			if v != nil && !r.ends[v] && how != op.Flat &&
				(how == op.NoRule || !discrete(v.Type.DType)) {
				r.varied[v] = true
			}
		}
	}
}

// trace marks what values depend on.
func (r *reverse) trace(nodes []*graph.Node, ys []*graph.Value) {
	for _, y := range ys {
		r.useful[y] = true
	}
	for _, n := range slices.Backward(nodes) {
		if slices.ContainsFunc(n.Out,
			func(v *graph.Value) bool { return r.useful[v] && !r.ends[v] }) {
			for _, v := range n.In {
				if v != nil {
					r.useful[v] = true
				}
			}
		}
	}
}

// back goes through nodes from the last to the first and adds to the gradients of their operands.
// It fails for an operator without a rule before it carries out any rule.
func (r *reverse) back(nodes []*graph.Node) error {
	var on []*graph.Node
	for _, n := range nodes {
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool {
			return v != nil && r.varied[v] && r.useful[v] && !r.ends[v]
		}) {
			on = append(on, n)
		}
	}
	for _, n := range on {
		o, err := n.Op()
		if err == nil && o.Differentiability() == op.NoRule {
			_, err = o.Gradient(&op.Backward{Call: n.Call()})
		}
		if err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
	}
	for _, n := range slices.Backward(on) {
		if err := r.node(n); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
	}
	return nil
}

// node adds to the gradients of a node's operands.
func (r *reverse) node(n *graph.Node) error {
	if !slices.ContainsFunc(n.Out, r.given) {
		return nil // every reader says that it does not change with what it reads
	}
	o, err := n.Op()
	if err != nil {
		return err
	}
	switch o.Differentiability() {
	case op.ByParts:
		return r.parts(n, o)
	case op.ByBodies:
		return r.bodies(n)
	}
	return r.rule(n, o)
}

// given reports whether a result has a gradient that its node passes on.
func (r *reverse) given(v *graph.Value) bool { return v != nil && r.of[v] != nil && !r.ends[v] }

// rule carries out the rule of a node's operator.
func (r *reverse) rule(n *graph.Node, o *op.Op) error {
	in, present := typesOf(n.In)
	outs := results(n, o, in, present)
	b := &op.Backward{Call: n.Call(), In: in, Present: present, Opset: r.opset,
		Out: make([]op.Type, len(outs)), Given: make([]bool, len(outs)),
		Want: make([]bool, len(in))}
	values := slices.Concat(n.In, outs)
	for i, v := range outs {
		b.Out[i], b.Given[i] = v.Type, r.given(v)
		values = append(values, r.of[v])
	}
	for i, v := range n.In {
		b.Want[i] = r.varied[v]
	}
	e, err := o.Gradient(b)
	if errors.Is(err, op.ErrByParts) {
		return r.parts(n, o)
	}
	if err != nil {
		return err
	}
	all, err := r.write(n, e, values)
	if err != nil {
		return err
	}
	for i, v := range e.Out {
		if v >= 0 {
			if err := r.add(n.In[i], all(v)); err != nil {
				return err
			}
		}
	}
	for i, v := range outs {
		if i >= len(n.Out) || n.Out[i] == nil {
			r.extra = append(r.extra, v)
		}
	}
	return nil
}

// parts carries out the rules of what an operator is made of, computed anew.
func (r *reverse) parts(n *graph.Node, o *op.Op) error {
	in, present := typesOf(n.In)
	e, err := o.Parts(n.Call(), in, present, r.opset)
	if err != nil {
		return err
	}
	from := len(r.made)
	all, err := r.write(n, e, n.In)
	if err != nil {
		return err
	}
	nodes := slices.Clone(r.made[from:])
	r.follow(nodes)
	var ys []*graph.Value
	for i, v := range n.Out {
		if !r.given(v) {
			continue
		}
		y := all(e.Out[i])
		if err := r.add(y, r.of[v]); err != nil {
			return err
		}
		ys = append(ys, y)
	}
	r.trace(nodes, ys)
	return r.back(nodes)
}

func typesOf(vs []*graph.Value) (types []op.Type, present []bool) {
	types, present = make([]op.Type, len(vs)), make([]bool, len(vs))
	for i, v := range vs {
		if v != nil {
			types[i], present[i] = v.Type, true
		}
	}
	return types, present
}

// results returns the outputs of a node, including those that it leaves out but could compute.
func results(n *graph.Node, o *op.Op, in []op.Type, present []bool) []*graph.Value {
	outs := make([]*graph.Value, max(len(n.Out), o.MaxOut))
	copy(outs, n.Out)
	call := n.Call()
	call.NumOut = len(outs)
	types, err := op.InferTypes(o, call, in, present)
	for i, v := range outs {
		if v == nil {
			outs[i] = &graph.Value{Producer: n, Index: i}
			if err == nil {
				outs[i].Type = types[i]
			}
		}
	}
	return outs
}

// write makes nodes of the steps of an expansion for n, whose first values are given, and returns
// what finds its values.
func (r *reverse) write(n *graph.Node, e *op.Expansion,
	values []*graph.Value) (func(int) *graph.Value, error) {
	known := map[int]*graph.Value{}
	for i, v := range values {
		known[i] = v
	}
	find := func(i int) *graph.Value {
		if i < 0 {
			return nil
		}
		if known[i] == nil && e.Consts[i] != nil {
			known[i] = graph.NewConst(r.fresh(n.Name+"_constant"), e.Consts[i])
		}
		return known[i]
	}
	for _, s := range e.Steps {
		m := &graph.Node{Name: r.fresh(n.Name + "_gradient"), Domain: s.Call.Domain,
			Type: s.Call.Type, Version: s.Call.Version, Attrs: s.Call.Attrs}
		for _, v := range s.In {
			m.In = append(m.In, find(v))
		}
		for i, v := range s.Out {
			known[v] = &graph.Value{Name: r.fresh(m.Name), Producer: m, Index: i}
			m.Out = append(m.Out, known[v])
		}
		if err := r.make(m); err != nil {
			return nil, err
		}
	}
	return find, nil
}

// make adds a node.
func (r *reverse) make(m *graph.Node) error {
	r.made = append(r.made, m)
	return m.InferTypes()
}

// apply adds a node with one result.
func (r *reverse) apply(typ string, attrs op.Attrs, in ...*graph.Value) (*graph.Value, error) {
	name := r.fresh("gradient_" + typ)
	version := r.opset
	if version == 0 {
		version = op.DefaultExpansionOpset
	}
	n := graph.NewNode(name, typ, max(version, 13), attrs, in, name)
	return n.Out[0], r.make(n)
}

// full is a tensor of the type and shape of v with one number in it.
func (r *reverse) full(v *graph.Value, f float64) (*graph.Value, error) {
	one, err := number(v.Type.DType, f)
	if err != nil {
		return nil, fmt.Errorf("value %q: %w", v.Name, err)
	}
	shape, err := r.apply("Shape", nil, v)
	if err != nil {
		return nil, err
	}
	return r.apply("ConstantOfShape", op.Attrs{op.TensorAttr("value", one)}, shape)
}

// number is a vector of one number.
func number(d tensor.DType, f float64) (*tensor.Tensor, error) {
	switch d {
	case tensor.Float64:
		return tensor.From([]float64{f}, 1), nil
	case tensor.Float32:
		return tensor.From([]float32{float32(f)}, 1), nil
	case tensor.Float16:
		return tensor.From([]tensor.Half{tensor.HalfOf(float32(f))}, 1), nil
	case tensor.BFloat16:
		return tensor.From([]tensor.BHalf{tensor.BHalfOf(float32(f))}, 1), nil
	}
	return nil, fmt.Errorf("%w of type %v; give the model's inputs types", op.ErrNoGradient, d)
}

// add adds a part to the gradient of a value.
func (r *reverse) add(v, part *graph.Value) error {
	if v == nil || !r.varied[v] {
		return nil
	}
	if was := r.of[v]; was != nil {
		sum, err := r.apply("Add", nil, was, part)
		if err != nil {
			return err
		}
		part = sum
	}
	r.of[v] = part
	return nil
}

// fresh returns a name that no value or node has: base, or base with a number.
func (r *reverse) fresh(base string) string {
	name := base
	for i := len(r.names); r.names[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	r.names[name] = true
	return name
}

// commit adds to the graph the nodes that results need, and asks for what these need.
func (r *reverse) commit(results []*graph.Value) {
	needed := map[*graph.Value]bool{}
	for _, v := range results {
		needed[v] = true
	}
	var keep []*graph.Node
	for _, n := range slices.Backward(r.made) {
		wanted := func(v *graph.Value) bool { return v != nil && v.Producer == n && needed[v] }
		if slices.ContainsFunc(n.Out, wanted) || slices.ContainsFunc(r.extra, wanted) {
			keep = append(keep, n)
			for _, v := range n.In {
				needed[v] = true
			}
		}
	}
	slices.Reverse(keep)
	r.g.Nodes = append(r.g.Nodes, keep...)
	for _, v := range r.extra {
		if needed[v] {
			r.ask(v)
		}
	}
}

// ask makes v a result of its node.
func (r *reverse) ask(v *graph.Value) {
	n := v.Producer
	for len(n.Out) <= v.Index {
		n.Out = append(n.Out, nil)
	}
	v.Name = r.fresh(n.Name + "_result")
	n.Out[v.Index] = v
}
