package compute

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Reference returns the kernel that runs the operator's plain evaluation: what any call without a
// fast kernel uses, and what fast kernels are tested against. It takes any types, data-dependent
// shapes included, and may allocate.
func Reference(o *op.Op, call *op.Call) Kernel {
	if o.Evaluator != nil {
		// else the evaluation says the same when it runs
		if eval, err := o.Evaluator(call); err == nil {
			prepared := *o
			prepared.Eval = eval
			o = &prepared
		}
	}
	return &reference{row: o, call: call}
}

type reference struct {
	Unpacked
	row  *op.Op
	call *op.Call
}

// Name implements Kernel.
func (k *reference) Name() string { return "reference" }

// Bind implements Kernel.
func (k *reference) Bind(b Binding) Task {
	t := &referenceTask{kernel: k, out: make([]Result, len(b.Out))}
	t.hosted = k.row.Composed() ||
		slices.ContainsFunc(k.call.Attrs, func(a op.Attr) bool { return a.Body != nil })
	for i, o := range b.Out {
		t.out[i] = NewResult(o)
		// also what a half type is computed in is then of any size
		t.hosted = t.hosted || o != nil && !t.out[i].Planned()
	}
	t.eval = op.Eval{
		Call:    k.call,
		In:      b.In,
		Out:     make([]*tensor.Tensor, k.call.NumOut),
		Alloc:   t.alloc,
		Reserve: func(bytes int64) error { return t.exec.Reserve(bytes) },
	}
	return t
}

type referenceTask struct {
	kernel *reference
	eval   op.Eval
	// the evaluation makes values beside its outputs, whose memory and time are the job's too
	hosted bool
	out    []Result
	exec   *Exec
}

// Run implements Task.
func (t *referenceTask) Run(x *Exec) error {
	t.exec, t.eval.Ctx = x, x.Ctx
	end := func() {}
	if t.hosted {
		var ctx context.Context
		ctx, end = op.WithHost(x.Ctx, op.Host{Memory: x.Memory, Pass: x.Pass})
		t.eval.Ctx = ctx
	}
	defer func() { end() }()
	clear(t.eval.Out)
	if err := op.RunIn(t.kernel.row, &t.eval); err != nil {
		return err
	}
	for i, o := range t.out {
		got := t.eval.Out[i]
		switch {
		case o.Tensor == nil || got == o.Tensor:
			continue
		case got == nil:
			return t.kernel.call.Errorf(op.ErrInput, "output %d was not computed", i)
		case got.DType.IsContainer():
			continue
		}
		if err := o.Deliver(x, got); err != nil {
			return t.failed(i, err)
		}
	}
	// Containers are kept as they are, so the evaluation's claim on their memory passes on, where
	// tensors were copied.
	end()
	end = func() {}
	return t.keep(x)
}

// keep delivers the outputs that are no tensors.
func (t *referenceTask) keep(x *Exec) error {
	for i, o := range t.out {
		got := t.eval.Out[i]
		if o.Tensor == nil || got == o.Tensor || !got.DType.IsContainer() {
			continue
		}
		kept, err := keep(x, t.eval.In, got)
		if err == nil {
			err = o.Deliver(x, kept)
		}
		if err != nil {
			return t.failed(i, err)
		}
	}
	return nil
}

func (t *referenceTask) failed(i int, err error) error {
	return fmt.Errorf("%s: output %d: %w", t.kernel.call.Name(), i, err)
}

// alloc places an output that is asked for where the plan wants it.
func (t *referenceTask) alloc(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if i >= len(t.out) || t.out[i].Tensor == nil {
		return nil, nil
	}
	return t.out[i].Tensor, t.out[i].Shape(t.exec, d, shape)
}
