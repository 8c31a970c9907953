package far

import (
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Target is the device as something to compile for.
func (d *Device) Target() compute.Target { return target{d} }

type target struct{ device *Device }

// Info implements [compute.Target].
func (t target) Info() device.Info { return t.device.info }

// Identity implements [compute.Target].
func (t target) Identity() string { return "far, plain evaluation" }

// Features implements [compute.Target].
func (t target) Features() compute.Features { return compute.Features{Remote: true} }

// Prepare implements [compute.Target].
func (t target) Prepare(r *compute.Request) (compute.Kernel, error) {
	row, err := op.Lookup(r.Call.Domain, r.Call.Type, r.Call.Version)
	if err != nil {
		return nil, err
	}
	bodied := slices.ContainsFunc(r.Call.Attrs, func(a op.Attr) bool { return a.Body != nil })
	if row.Composed() || bodied || slices.ContainsFunc(r.In, hosted) ||
		slices.ContainsFunc(r.Out, hosted) {
		return nil, nil
	}
	return &kernel{compute.Reference(row, r.Call), t.device}, nil
}

// hosted reports whether values of a type can be on the host only.
func hosted(t op.Type) bool { return t.DType == tensor.String || t.DType.IsContainer() }

// kernel is a plain evaluation that reads and writes memory of the device.
type kernel struct {
	compute.Kernel
	device *Device
}

// Name implements [compute.Kernel].
func (k *kernel) Name() string { return "far" }

// Bind implements [compute.Kernel].
func (k *kernel) Bind(b compute.Binding) compute.Task {
	t := &task{device: k.device, places: b.Places, in: typed(b.In), out: typed(b.Out)}
	t.eval = k.Kernel.Bind(compute.Binding{In: t.in, Out: t.out, Workers: 1})
	return t
}

// typed returns tensors like ts with memory, as the evaluation takes it, that is not there yet.
func typed(ts []*tensor.Tensor) []*tensor.Tensor {
	own := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			own[i] = &tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: []byte{}}
		}
	}
	return own
}

type task struct {
	device  *Device
	places  *compute.Places
	in, out []*tensor.Tensor
	eval    compute.Task
}

// Run implements [compute.Task], on a goroutine of the device.
func (t *task) Run(x *compute.Exec) error {
	if err := t.resolve(t.in, t.places.In); err != nil {
		return err
	}
	if err := t.resolve(t.out, t.places.Out); err != nil {
		return err
	}
	return t.eval.Run(x)
}

// resolve gives tensors the memory at their addresses.
func (t *task) resolve(ts []*tensor.Tensor, at []compute.Block) (err error) {
	for i, v := range ts {
		if v == nil {
			continue
		}
		if v.Data, err = t.device.memory(at[i].At, at[i].N); err != nil {
			return err
		}
	}
	return nil
}
