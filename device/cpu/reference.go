package cpu

import (
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// Reference returns the kernel that runs the operator's plain evaluation: what any call without a fast kernel uses, and
// what fast kernels are tested against. It takes any types, data-dependent shapes included, and may allocate.
func Reference(o *op.Op, call *op.Call) Kernel { return &reference{row: o, call: call} }

type reference struct {
	plain
	row  *op.Op
	call *op.Call
}

// Name implements Kernel.
func (k *reference) Name() string { return "reference" }

// Bind implements Kernel.
func (k *reference) Bind(b Binding) Task {
	t := &referenceTask{kernel: k, out: b.Out}
	t.eval = op.Eval{Call: k.call, In: b.In, Out: make([]*tensor.Tensor, k.call.NumOut), Alloc: t.alloc}
	return t
}

type referenceTask struct {
	kernel *reference
	eval   op.Eval
	out    []*tensor.Tensor
	exec   *Exec
}

// Run implements Task.
func (t *referenceTask) Run(x *Exec) error {
	t.exec, t.eval.Ctx = x, x.Ctx
	clear(t.eval.Out)
	if err := op.RunIn(t.kernel.row, &t.eval); err != nil {
		return err
	}
	for i, o := range t.out {
		got := t.eval.Out[i]
		if o == nil || got == o {
			continue
		}
		if got == nil {
			return t.kernel.call.Errorf(op.ErrInput, "output %d was not computed", i)
		}
		if err := x.Deliver(o, got); err != nil {
			return err
		}
	}
	return nil
}

// alloc places an output where the plan wants it; a shape that differs from the planned one lives on the heap, counted.
func (t *referenceTask) alloc(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if i < len(t.out) && t.out[i] != nil {
		if o := t.out[i]; o.Data != nil && o.DType == d && sameShape(o.Shape, shape) {
			return o, nil
		}
	}
	n, err := tensor.ByteCount(d, shape)
	if err != nil {
		return nil, err
	}
	return nil, t.exec.Reserve(int64(n))
}
