package plan

import (
	"errors"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// branches plans an If (ONNX 1, 11, 13): the arenas of its branches share the step's scratch, since
// only one of them runs. A branch that cannot be planned for these shapes (models hold branches for
// other sampling rates) is an error only when it is taken.
func (c *compiler) branches(n *graph.Node) (control, error) {
	k := &ifKernel{node: n}
	for i, name := range [...]string{"else_branch", "then_branch"} {
		body, ok := n.Attrs.Body(name).(*graph.Graph)
		if !ok {
			return nil, nil
		}
		p, err := c.body(n, body, nil)
		if k.errs[i] = err; err == nil {
			k.index[i] = len(k.plans)
			k.plans = append(k.plans, p)
		}
	}
	if len(k.plans) == 0 {
		return nil, errors.Join(k.errs[0], k.errs[1])
	}
	k.refine()
	return k, nil
}

// refine gives outputs of unknown shape the type that all branches that can be planned agree on. A
// branch that cannot be planned has no say: for these shapes it is never taken, or taking it is an
// error.
func (k *ifKernel) refine() {
	for i, v := range k.node.Out {
		if v == nil || v.Type.Static() {
			continue
		}
		first, last := k.plans[0].Graph.Outputs[i].Type,
			k.plans[len(k.plans)-1].Graph.Outputs[i].Type
		if sameStatic(first, last) {
			v.Type = withoutContents(first)
		}
	}
}

// sameStatic reports whether two types are one known shape and element type.
func sameStatic(a, b op.Type) bool {
	x, okA := a.Ints()
	y, okB := b.Ints()
	return okA && okB && a.DType == b.DType && slices.Equal(x, y)
}

// ifKernel runs one of two plans.
type ifKernel struct {
	node  *graph.Node
	plans []*Plan // those that could be made
	index [2]int  // by condition, false and true: the plan
	errs  [2]error
}

// Name implements Kernel.
func (k *ifKernel) Name() string { return "if" }

func (k *ifKernel) bodies() []*Plan { return k.plans }

func (k *ifKernel) flops() int64 {
	var most int64
	for _, p := range k.plans {
		most = max(most, p.Flops)
	}
	return most
}

// PackedBytes implements Kernel: both branches' weights.
func (k *ifKernel) PackedBytes() int {
	_, n := packedSpans(k.plans)
	return int(n)
}

// ScratchBytes implements Kernel: the larger of the branches' arenas.
func (k *ifKernel) ScratchBytes(int) int {
	var n int64
	for _, p := range k.plans {
		n = max(n, p.ArenaBytes)
	}
	return int(n)
}

// Pack implements Kernel.
func (k *ifKernel) Pack(dst []byte) { packBodies(k.plans, dst) }

// Bind implements Kernel.
func (k *ifKernel) Bind(b compute.Binding) compute.Task {
	t := &ifTask{kernel: k, cond: b.In[0]}
	for _, o := range b.Out {
		t.out = append(t.out, compute.NewResult(o))
	}
	spans, _ := packedSpans(k.plans)
	for i := range t.programs {
		if k.errs[i] == nil {
			j := k.index[i]
			t.programs[i] = bindBody(k.plans[j], b.Scratch, spans[j].of(b.Packed),
				b.In[len(b.In)-k.node.Captures:])
		}
	}
	return t
}

type ifTask struct {
	kernel   *ifKernel
	cond     *tensor.Tensor
	out      []compute.Result
	programs [2]*Program
}

// Run implements Task.
func (t *ifTask) Run(x *compute.Exec) error {
	return t.run(func(branch *Program) error { return branch.Run(x) }, x)
}

// profile is Run that shows the steps of the branch.
func (t *ifTask) profile(x *compute.Exec, visit func(s *Step, c Cost)) error {
	return t.run(func(branch *Program) error { return branch.Profile(x, visit) }, x)
}

func (t *ifTask) run(runBranch func(*Program) error, x *compute.Exec) error {
	cond, err := truth(t.kernel.node, t.cond)
	if err != nil {
		return err
	}
	which := 0
	if cond {
		which = 1
	}
	r := t.programs[which]
	if r == nil {
		return t.kernel.errs[which]
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
