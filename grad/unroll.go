package grad

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// maxUnrolled bounds the nodes that a loop becomes.
const maxUnrolled = 1 << 16

// unrolled carries out the rules of what the iterations of a Loop or a Scan compute, computed anew
// one after the other. How many there are must be known.
func (r *reverse) unrolled(n *graph.Node) error {
	from := len(r.made)
	bodies := n.Bodies()
	if len(bodies) != 1 {
		return fmt.Errorf("%w: it has %d bodies", op.ErrNoGradient, len(bodies))
	}
	u := &unrolling{r: r, n: n, body: bodies[0], results: make([]*graph.Value, len(n.Out))}
	var err error
	if n.Type == "Loop" {
		err = u.loop()
	} else {
		err = u.scan()
	}
	if err != nil {
		return err
	}
	nodes := slices.Clone(r.made[from:])
	r.follow(nodes)
	var ys []*graph.Value
	for i, v := range n.Out {
		if y := u.results[i]; y != nil && r.given(v) {
			if err := r.add(y, r.of[v]); err != nil {
				return err
			}
			ys = append(ys, y)
		}
	}
	r.trace(nodes, ys)
	return r.back(nodes)
}

// unrolling writes the iterations of a node.
type unrolling struct {
	r       *reverse
	n       *graph.Node
	body    *graph.Graph
	results []*graph.Value // of the node; nil for one without elements
}

// loop writes the iterations of a Loop whose count is known and that goes on until then.
func (u *unrolling) loop() error {
	n := u.n
	from := len(n.In) - n.Captures
	count, ok := known(n, 0)
	if !ok || !u.goesOn() {
		return fmt.Errorf("%w: how often it runs depends on data; give it a constant count and "+
			"no condition", op.ErrNoGradient)
	}
	if err := u.bounded(count); err != nil {
		return err
	}
	carried := slices.Clone(n.In[min(2, from):from])
	yes := u.constant(tensor.Scalar(true))
	stacked := make([][]*graph.Value, len(n.Out)-len(carried))
	for i := range count {
		out, err := u.iteration(append([]*graph.Value{u.constant(tensor.Scalar(i)), yes},
			carried...))
		if err != nil {
			return err
		}
		copy(carried, out[1:])
		for k, v := range out[1+len(carried):] {
			stacked[k] = append(stacked[k], v)
		}
	}
	copy(u.results, carried)
	for k, parts := range stacked {
		if err := u.stack(len(carried)+k, parts, 0, false); err != nil {
			return err
		}
	}
	return nil
}

// goesOn reports whether no condition ends a Loop before its count.
func (u *unrolling) goesOn() bool {
	n, b := u.n, u.body
	if given := len(n.In)-n.Captures > 1 && n.In[1] != nil; given && !always(n.In[1]) {
		return false
	}
	if len(b.Outputs) != 1+len(n.Out) || b.NumFormals() < 2 {
		return false
	}
	v := b.Outputs[0]
	for v.Producer != nil && v.Producer.Domain == "" &&
		(v.Producer.Type == "Identity" || v.Producer.Type == "Cast") {
		v = v.Producer.In[0]
	}
	return v == b.Inputs[1] || always(v)
}

// always reports whether a value is a constant that is true.
func always(v *graph.Value) bool {
	if t := v.Const(); t != nil {
		return t.DType == tensor.Bool && t.Len() == 1 && t.Data[0] != 0
	}
	e, ok := v.Type.IntElems()
	return ok && v.Type.DType == tensor.Bool && len(e) == 1 && e[0] != 0
}

// known is the whole number that operand i of a node is, where that is known.
func known(n *graph.Node, i int) (int64, bool) {
	if i >= len(n.In)-n.Captures || n.In[i] == nil {
		return 0, false
	}
	if t := n.In[i].Const(); t != nil && t.DType == tensor.Int64 && t.Len() == 1 {
		return max(tensor.As[int64](t)[0], 0), true
	}
	e, ok := n.In[i].Type.IntElems()
	if !ok || len(e) != 1 {
		return 0, false
	}
	return max(int64(e[0]), 0), true
}

// bounded refuses to write too much.
func (u *unrolling) bounded(count int64) error {
	if most := int64(maxUnrolled / max(len(u.body.Nodes), 1)); count > most {
		return fmt.Errorf("%w of %d iterations of %d nodes: at most %d nodes are written",
			op.ErrNoGradient, count, len(u.body.Nodes), maxUnrolled)
	}
	return nil
}

// scan writes the iterations of a Scan over values whose sizes are known.
func (u *unrolling) scan() error {
	n := u.n
	from := len(n.In) - n.Captures
	ins := int(n.Attrs.Int("num_scan_inputs", 0))
	states := from - ins
	if n.Version < 9 || ins < 1 || states < 0 || len(n.Out) < states {
		return fmt.Errorf("%w of version %d", op.ErrNoGradient, n.Version)
	}
	axes := make([]int64, ins)
	copy(axes, n.Attrs.Ints("scan_input_axes"))
	back := n.Attrs.Ints("scan_input_directions")
	length := int64(-1)
	for i, v := range n.In[states:from] {
		rank := int64(len(v.Type.Shape))
		if axes[i] < 0 {
			axes[i] += rank
		}
		size, ok := 0, v.Type.Ranked && axes[i] >= 0 && axes[i] < rank
		if ok {
			size, ok = v.Type.Shape[axes[i]].Int()
		}
		if !ok || length >= 0 && int64(size) != length {
			return fmt.Errorf("%w: how often it runs is not known; give the model's inputs shapes",
				op.ErrNoGradient)
		}
		length = int64(size)
	}
	if err := u.bounded(length); err != nil {
		return err
	}
	state := slices.Clone(n.In[:states])
	stacked := make([][]*graph.Value, len(n.Out)-states)
	for i := range length {
		given := slices.Clone(state)
		for k, v := range n.In[states:from] {
			at := i
			if k < len(back) && back[k] == 1 {
				at = length - 1 - i
			}
			part, err := u.r.apply("Gather", op.Attrs{op.IntAttr("axis", axes[k])}, v,
				u.constant(tensor.Scalar(at)))
			if err != nil {
				return err
			}
			given = append(given, part)
		}
		out, err := u.iteration(given)
		if err != nil {
			return err
		}
		copy(state, out)
		for k, v := range out[states:] {
			stacked[k] = append(stacked[k], v)
		}
	}
	copy(u.results, state)
	return u.scanned(states, stacked)
}

// scanned puts together the results of a Scan that follow its states.
func (u *unrolling) scanned(states int, stacked [][]*graph.Value) error {
	axes, back := u.n.Attrs.Ints("scan_output_axes"), u.n.Attrs.Ints("scan_output_directions")
	for k, parts := range stacked {
		axis := int64(0)
		if k < len(axes) {
			axis = axes[k]
		}
		err := u.stack(states+k, parts, axis, k < len(back) && back[k] == 1)
		if err != nil {
			return err
		}
	}
	return nil
}

// iteration writes the nodes of the body for what it is given, and returns its outputs.
func (u *unrolling) iteration(given []*graph.Value) ([]*graph.Value, error) {
	n, b := u.n, u.body.Clone()
	given = append(given, n.In[len(n.In)-n.Captures:]...)
	if len(given) != len(b.Inputs) {
		return nil, fmt.Errorf("%w: the body takes %d values, is given %d", op.ErrInput,
			len(b.Inputs), len(given))
	}
	wire := map[*graph.Value]*graph.Value{}
	for i, v := range b.Inputs {
		wire[v] = given[i]
	}
	for _, m := range b.Nodes {
		m.Name = u.r.fresh(n.Name + "/" + m.Name)
		exchange(m.In, wire)
		for _, v := range m.Out {
			if v != nil {
				v.Name, v.Type = u.r.fresh(n.Name+"/"+v.Name), v.Type.TypeOnly()
			}
		}
		if err := u.r.make(m); err != nil {
			return nil, err
		}
	}
	exchange(b.Outputs, wire)
	return b.Outputs, nil
}

// exchange puts what values stand for in their place.
func exchange(vs []*graph.Value, wire map[*graph.Value]*graph.Value) {
	for i, v := range vs {
		if to := wire[v]; to != nil {
			vs[i] = to
		}
	}
}

// stack makes result i of its parts, one an iteration, along a new axis. Without parts it has no
// elements.
func (u *unrolling) stack(i int, parts []*graph.Value, axis int64, back bool) error {
	if len(parts) == 0 || u.n.Out[i] == nil || !u.r.given(u.n.Out[i]) {
		return nil
	}
	parts = slices.Clone(parts)
	if back {
		slices.Reverse(parts)
	}
	at := u.constant(tensor.From([]int64{axis}, 1))
	for k, v := range parts {
		var err error
		if parts[k], err = u.r.apply("Unsqueeze", nil, v, at); err != nil {
			return err
		}
	}
	var err error
	u.results[i], err = u.r.apply("Concat", op.Attrs{op.IntAttr("axis", axis)}, parts...)
	return err
}

func (u *unrolling) constant(t *tensor.Tensor) *graph.Value {
	return graph.NewConst(u.r.fresh(u.n.Name+"_constant"), t)
}
