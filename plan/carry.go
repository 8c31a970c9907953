package plan

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// carry is the state that a body hands from one iteration to the next: its outputs from one index
// on become its inputs from another on. Tensors are copied; sequences, optionals and maps lie on
// the heap and are handed on as they are.
type carry struct {
	body    *Plan
	in, out int // first input and output
	n       int // how many
	// some output lies where another value's input does, so all are copied out before any is copied
	// in
	staged bool
	bytes  int64 // of the staging area
	boxed  []int // which are sequences, optionals or maps
}

// newCarry plans the copies; ok is false when the types of state change from iteration to iteration
// or have no planned memory.
func newCarry(body *Plan, in, out, n int) (c carry, ok bool) {
	c = carry{body: body, in: in, out: out, n: n}
	for k := range n {
		i, o := c.slots(k)
		if i.Type.DType.IsContainer() && i.Type.DType == o.Type.DType {
			c.boxed = append(c.boxed, k)
			continue
		}
		if i.Place != InArena || !sameStatic(i.Type, o.Type) || o.Place == Dynamic {
			return c, false
		}
		c.bytes += alignUp(i.Bytes)
		for j := range n {
			other, _ := c.slots(j)
			c.staged = c.staged || j != k && o.Place == InArena && overlap(o, other)
		}
	}
	if !c.staged {
		c.bytes = 0
	}
	return c, true
}

// slots are those of the bytes of state value k, as input and as output.
func (c *carry) slots(k int) (in, out *Slot) {
	p := c.body
	in, out = &p.Slots[p.Inputs[c.in+k]], &p.Slots[p.Outputs[c.out+k]]
	if out.Place == Alias {
		slot := p.Outputs[c.out+k]
		root := p.Slots[p.root(slot)]
		root.Type, root.Offset, root.Bytes = out.Type, root.Offset+p.begin(slot), out.Bytes
		out = &root
	}
	return in, out
}

func overlap(a, b *Slot) bool { return a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes }

// start copies the initial state into the body's inputs.
func (c *carry) start(r *Program, initial []*tensor.Tensor) {
	for k, t := range initial {
		hand(r.Inputs[c.in+k], t)
	}
}

// hand makes the state value to what from is.
func hand(to, from *tensor.Tensor) {
	if from.DType.IsContainer() {
		to.Shape, to.Items = from.Shape, from.Items
		return
	}
	copy(to.Data, from.Data)
}

// next makes the outputs of an iteration the inputs of the next one. stage holds c.bytes.
func (c *carry) next(r *Program, stage []byte) {
	c.nextBoxed(r)
	if !c.staged {
		for k := range c.n {
			copy(r.Inputs[c.in+k].Data, r.Outputs[c.out+k].Data)
		}
		return
	}
	at := stage
	for k := range c.n {
		at = at[alignUp(int64(copy(at, r.Outputs[c.out+k].Data))):]
	}
	for k := range c.n {
		stage = stage[alignUp(int64(copy(r.Inputs[c.in+k].Data, stage))):]
	}
}

// nextBoxed hands on what is no tensor: all at once, since a body may give one as another.
func (c *carry) nextBoxed(r *Program) {
	if len(c.boxed) == 0 {
		return
	}
	held := make([]tensor.Tensor, len(c.boxed))
	for i, k := range c.boxed {
		held[i] = *r.Outputs[c.out+k]
	}
	for i, k := range c.boxed {
		hand(r.Inputs[c.in+k], &held[i])
	}
}

// deliver makes the state the results.
func (c *carry) deliver(x *compute.Exec, r *Program, out []compute.Result) error {
	for k := range c.n {
		if out[k].Tensor == nil {
			continue
		}
		v := r.Inputs[c.in+k]
		if v.DType.IsContainer() {
			if err := x.Reserve(v.Size()); err != nil {
				return err
			}
		}
		if err := out[k].Deliver(x, v); err != nil {
			return err
		}
	}
	return nil
}

// stackable reports whether an output of a body has planned memory or is a constant, as loops want
// it, and elements of whole bytes: strings have none, and slices of smaller elements would share
// bytes.
func (p *Plan) stackable(out int) bool {
	s := &p.Slots[p.Outputs[out]]
	return s.Place != Dynamic && s.Type.Static() && s.Type.DType.Size() > 0
}

// results wraps the outputs of a binding.
func results(out []*tensor.Tensor) []compute.Result {
	rs := make([]compute.Result, len(out))
	for i, t := range out {
		rs[i] = compute.NewResult(t)
	}
	return rs
}

// concrete is a type without symbols or contents; ok is false for what is no tensor of known shape.
func concrete(t op.Type) (c op.Type, ok bool) {
	shape, ok := t.Ints()
	if !ok || !t.Static() || t.DType == tensor.String || t.DType.IsContainer() {
		return c, false
	}
	return op.Concrete(t.DType, shape...), true
}

// concreteState is the type of a carried value as a body takes it: concrete, or a container's
// without shapes, which iterations may change.
func concreteState(t op.Type) (c op.Type, ok bool) {
	if t.DType.IsContainer() {
		return t.TypeOnly(), true
	}
	return concrete(t)
}
