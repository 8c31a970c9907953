package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// loop plans a Loop (ONNX 1, 11, 13) whose carried tensors keep their shapes; nil for others.
func (c *compiler) loop(n *graph.Node) control {
	body, ok := n.Attrs.Body("body").(*graph.Graph)
	ins := n.In[:len(n.In)-n.Captures]
	k := &loopKernel{node: n, carried: max(len(ins)-2, 0)}
	k.counted, k.conditional = given(ins, 0), given(ins, 1)
	if !ok || !k.counted && !k.conditional {
		return nil
	}
	formals := []op.Type{op.Concrete(tensor.Int64), op.Concrete(tensor.Bool)}
	for _, v := range ins[min(2, len(ins)):] {
		if v == nil {
			return nil
		}
		t, ok := concreteState(v.Type)
		if !ok {
			return nil
		}
		formals = append(formals, t)
	}
	if body.NumFormals() != len(formals) || body.NumOutputs() != 1+len(n.Out) {
		return nil
	}
	p, err := c.body(n, body, formals)
	if err != nil || !k.setBody(p) {
		return nil
	}
	k.refine(ins)
	return k
}

func given(ins []*graph.Value, i int) bool { return i < len(ins) && ins[i] != nil }

// setBody takes the plan of the body; false when it has outputs whose shape or memory is not known.
func (k *loopKernel) setBody(p *Plan) (ok bool) {
	k.body = p
	for i := range p.Outputs {
		boxed := i > 0 && i <= k.carried && p.Graph.Outputs[i].Type.DType.IsContainer()
		if !boxed && !p.stackable(i) {
			return false
		}
	}
	if cond := p.Graph.Outputs[0].Type; cond.DType != tensor.Bool ||
		p.Slots[p.Outputs[0]].Bytes != 1 {
		return false
	}
	k.carry, ok = newCarry(p, 2, 1, k.carried)
	return ok
}

// refine gives outputs the types that the body's outputs have. A condition that begins true and
// that the body leaves as it is never ends the loop, so a constant trip count then tells the number
// of slices.
func (k *loopKernel) refine(ins []*graph.Value) {
	next := k.body.Graph.Outputs[0]
	if k.conditional && k.counted && isTrue(ins[1]) &&
		(next == k.body.Graph.Inputs[1] || isTrue(next)) {
		k.conditional = false
	}
	trips, known := 0, false
	if k.counted && !k.conditional {
		if v, ok := ins[0].Type.IntElems(); ok && len(v) == 1 {
			trips, known = max(v[0], 0), true
		}
	}
	for i, v := range k.node.Out {
		if v == nil || v.Type.Static() || v.Type.DType.IsContainer() {
			continue
		}
		t, _ := concrete(k.body.Graph.Outputs[1+i].Type)
		if i < k.carried {
			v.Type = t
		} else if known {
			shape, _ := t.Ints()
			v.Type = op.Concrete(t.DType, slices.Concat([]int{trips}, shape)...)
		}
	}
}

func isTrue(v *graph.Value) bool {
	return v.IsConst() && v.Const().DType == tensor.Bool && len(v.Const().Data) == 1 &&
		v.Const().Data[0] != 0
}

// loopKernel runs one plan again and again.
type loopKernel struct {
	node                 *graph.Node
	body                 *Plan
	carry                carry
	carried              int
	counted, conditional bool // whether a trip count, and whether the condition, can end it
}

// Name implements Kernel.
func (k *loopKernel) Name() string { return "loop" }

func (k *loopKernel) bodies() []*Plan { return []*Plan{k.body} }

// flops counts the trips that are known before it runs, or one.
func (k *loopKernel) flops() int64 {
	if !k.counted {
		return k.body.Flops
	}
	if v, ok := k.node.In[0].Type.IntElems(); ok && len(v) == 1 {
		return k.body.Flops * int64(max(v[0], 0))
	}
	return k.body.Flops
}

// PackedBytes implements Kernel.
func (k *loopKernel) PackedBytes() int { return int(k.body.PackedBytes) }

// ScratchBytes implements Kernel: the body's arena, and state on its way from outputs to
// inputs.
func (k *loopKernel) ScratchBytes(int) int { return int(k.body.ArenaBytes + k.carry.bytes) }

// Pack implements Kernel.
func (k *loopKernel) Pack(dst []byte) { packBodies(k.bodies(), dst) }

// Bind implements Kernel.
func (k *loopKernel) Bind(b compute.Binding) compute.Task {
	n := len(b.In) - k.node.Captures
	t := &loopTask{loopKernel: k, in: b.In[:n], out: results(b.Out),
		stage: b.Scratch[k.body.ArenaBytes:]}
	t.program = bindBody(k.body, b.Scratch[:k.body.ArenaBytes], b.Packed, b.In[n:])
	for i := range b.Out[k.carried:] {
		t.stacks = append(t.stacks,
			stack{slice: t.program.Outputs[1+k.carried+i], out: t.out[k.carried+i]})
	}
	return t
}

type loopTask struct {
	*loopKernel
	in      []*tensor.Tensor // trip count, condition and initial state
	out     []compute.Result
	program *Program
	stage   []byte
	stacks  []stack
}

// Run implements Task.
func (t *loopTask) Run(x *compute.Exec) (err error) {
	trips, cond, err := t.limits()
	if err != nil {
		return err
	}
	defer func() {
		for i := range t.stacks {
			t.stacks[i].drop(x)
		}
	}()
	t.carry.start(t.program, t.in[min(2, len(t.in)):])
	count := int64(0)
	for ; count < trips && cond; count++ {
		if cond, err = t.iterate(x, count, cond); err != nil {
			return fmt.Errorf("iteration %d: %w", count, err)
		}
	}
	if err := t.carry.deliver(x, t.program, t.out); err != nil {
		return err
	}
	for i := range t.stacks {
		if err := t.stacks[i].deliver(x, int(count)); err != nil {
			return err
		}
	}
	return nil
}

// limits reads the trip count and the first condition.
func (t *loopTask) limits() (trips int64, cond bool, err error) {
	trips, cond = math.MaxInt64, true
	if t.counted {
		m := t.in[0]
		if m.DType != tensor.Int64 || len(m.Data) != 8 {
			return 0, false, t.node.Call().Errorf(op.ErrInput, "the trip count is %v, want one "+
				"int64", m)
		}
		trips = tensor.As[int64](m)[0]
	}
	if t.conditional {
		cond, err = truth(t.node, t.in[1])
	}
	return trips, cond, err
}

// iterate runs the body once, takes its slices and hands its state on.
func (t *loopTask) iterate(x *compute.Exec, i int64, cond bool) (next bool, err error) {
	r := t.program
	tensor.As[int64](r.Inputs[0])[0] = i
	if r.Inputs[1].Data[0] = 0; cond {
		r.Inputs[1].Data[0] = 1
	}
	if err := r.iteration(x); err != nil {
		return false, err
	}
	next = !t.conditional || r.Outputs[0].Data[0] != 0
	for k := range t.stacks {
		if err := t.stacks[k].push(x, int(i)); err != nil {
			return false, err
		}
	}
	t.carry.next(r, t.stage)
	return next, nil
}
