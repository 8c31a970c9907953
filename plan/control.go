package plan

import (
	"context"
	"errors"
	"slices"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/tensor"
)

// control returns a kernel for operators with bodies that are worth planning, nil for all others.
//
// If (ONNX 1, 11, 13): both branches become plans of their own; their arenas share the step's scratch, since only one
// branch runs. A branch that cannot be planned for these shapes (models hold branches for other sampling rates) is an
// error only when it is taken. An If that captures a value whose shape depends on data, Loop and Scan run by the reference
// evaluation.
func (c *compiler) control(n *graph.Node) (cpu.Kernel, error) {
	if n.Domain != "" || n.Type != "If" || c.opts.Reference {
		return nil, nil
	}
	for _, v := range n.In[len(n.In)-n.Captures:] {
		if !v.Type.Static() {
			return nil, nil
		}
	}
	k := &ifKernel{node: n}
	for i, name := range [...]string{"else_branch", "then_branch"} {
		body, ok := n.Attrs.Body(name).(*graph.Graph)
		if !ok {
			return nil, nil
		}
		k.plans[i], k.errs[i] = c.branch(n, body)
	}
	if k.errs[0] != nil && k.errs[1] != nil {
		return nil, errors.Join(k.errs[0], k.errs[1])
	}
	k.refine()
	return k, nil
}

// refine gives outputs of unknown shape the type that the branches which can be planned agree on: one that cannot is never
// taken for these shapes, or an error.
func (k *ifKernel) refine() {
	for i, v := range k.node.Out {
		if v == nil || v.Type.Static() {
			continue
		}
		var types []op.Type
		for _, p := range k.plans {
			if p != nil {
				types = append(types, p.Graph.Outputs[i].Type)
			}
		}
		first, ok := types[0].Ints()
		if last, same := types[len(types)-1].Ints(); ok && same && slices.Equal(first, last) && types[0].DType == types[len(types)-1].DType {
			v.Type = op.Concrete(types[0].DType, first...)
		}
	}
}

// branch plans a body whose inputs are all captures.
func (c *compiler) branch(n *graph.Node, body *graph.Graph) (*Plan, error) {
	b := body.Clone()
	for i, v := range n.In[len(n.In)-n.Captures:] {
		b.Inputs[i].Type = v.Type
		b.Inputs[i].Type.Const, b.Inputs[i].Type.Elems = nil, v.Type.Elems
	}
	b, err := b.Specialize(nil)
	if err != nil {
		return nil, err
	}
	if _, err := pass.Run(context.Background(), b, c.opts.Passes); err != nil {
		return nil, err
	}
	return compile(b, c.opts)
}

// ifKernel runs one of two plans.
type ifKernel struct {
	node  *graph.Node
	plans [2]*Plan // by condition: false, true
	errs  [2]error
}

// Name implements cpu.Kernel.
func (k *ifKernel) Name() string { return "if" }

// PackedBytes implements cpu.Kernel: both branches' weights, one after the other.
func (k *ifKernel) PackedBytes() int { return int(k.packed(0).n + k.packed(1).n) }

func (k *ifKernel) packed(i int) span {
	var s span
	for j := range i + 1 {
		s.off, s.n = s.off+s.n, 0
		if k.plans[j] != nil {
			s.n = k.plans[j].PackedBytes
		}
	}
	return s
}

// ScratchBytes implements cpu.Kernel: the larger of the branches' arenas.
func (k *ifKernel) ScratchBytes(int) int {
	var n int64
	for _, p := range k.plans {
		if p != nil {
			n = max(n, p.ArenaBytes)
		}
	}
	return int(n)
}

// Pack implements cpu.Kernel.
func (k *ifKernel) Pack(dst []byte) { k.pack(dst, nil) }

func (k *ifKernel) pack(dst []byte, packed func(c *tensor.Tensor)) {
	for i, p := range k.plans {
		if p != nil && p.Pack(k.packed(i).of(dst), nil, packed) != nil {
			panic("plan: packed span shorter than its plan")
		}
	}
}

// Bind implements cpu.Kernel.
func (k *ifKernel) Bind(b cpu.Binding) cpu.Task {
	t := &ifTask{kernel: k, cond: b.In[0], captures: b.In[len(b.In)-k.node.Captures:]}
	for _, o := range b.Out {
		t.out = append(t.out, cpu.NewResult(o))
	}
	for i, p := range k.plans {
		if p == nil {
			continue
		}
		var err error
		if t.programs[i], err = p.Bind(b.Scratch, k.packed(i).of(b.Packed)); err != nil {
			panic(err) // both sizes come from the same plan
		}
	}
	return t
}

type ifTask struct {
	kernel   *ifKernel
	cond     *tensor.Tensor
	captures []*tensor.Tensor
	out      []cpu.Result
	programs [2]*Program
}

// Run implements cpu.Task.
func (t *ifTask) Run(x *cpu.Exec) error {
	return t.run(func(branch *Program) error { return branch.Run(x) }, x)
}

// profile is Run that shows the steps of the branch.
func (t *ifTask) profile(x *cpu.Exec, visit func(s *Step)) error {
	return t.run(func(branch *Program) error { return branch.Profile(x, visit) }, x)
}

func (t *ifTask) run(runBranch func(*Program) error, x *cpu.Exec) error {
	if t.cond.DType != tensor.Bool || len(t.cond.Data) != 1 {
		return t.kernel.node.Call().Errorf(op.ErrInput, "the condition is %v, want one bool", t.cond)
	}
	which := 0
	if t.cond.Data[0] != 0 {
		which = 1
	}
	r := t.programs[which]
	if r == nil {
		return t.kernel.errs[which]
	}
	for i, in := range r.Inputs {
		copy(in.Data, t.captures[i].Data)
		in.Strings = t.captures[i].Strings
	}
	if err := runBranch(r); err != nil {
		return err
	}
	for i, o := range t.out {
		if o.Tensor == nil {
			continue
		}
		if err := o.Deliver(x, r.Outputs[i]); err != nil {
			return err
		}
	}
	return nil
}
