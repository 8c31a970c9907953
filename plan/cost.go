package plan

import (
	"slices"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Cost is what one run of a step has to do at least, whatever the kernel.
type Cost struct {
	// Flops counts floating-point operations, two for a multiply-add, by the operator's definition:
	// a kernel that transforms its operands may do fewer. Those of the integer products of
	// quantised operators count alike.
	Flops int64
	// Bytes counts what has to be read and written, each operand once. Weights that the kernel has
	// packed count in their packed form, and an operand that is looked up in or cut counts only as
	// far as it is read. Operands whose size depends on data count nothing until the size is known.
	Bytes int64
}

// costOf is the cost of a node under the given types.
func costOf(o *op.Op, n *graph.Node, k compute.Kernel, in, out []op.Type) Cost {
	return Cost{Flops: flops(o, n, in, out), Bytes: traffic(o, n, k, in, out)}
}

func flops(o *op.Op, n *graph.Node, in, out []op.Type) int64 {
	if o.Flops != nil {
		return o.Flops(n.Call(), in, out)
	}
	var total int64
	for _, t := range out {
		if k, ok := t.Count().Int(); ok && t.Ranked {
			total += int64(k)
		}
	}
	return total
}

// cuts lists the operators that read no more of input 0 than they write.
var cuts = []string{"Gather", "GatherElements", "GatherND", "Slice"}

// traffic is Cost.Bytes.
func traffic(o *op.Op, n *graph.Node, k compute.Kernel, in, out []op.Type) int64 {
	var read, written int64
	for _, t := range out {
		written += size(t)
	}
	packed := int64(k.PackedBytes())
	for i, t := range in {
		part := size(t)
		switch {
		case o.Has(op.ShapeOnly) || n.In[i] == nil:
			part = 0
		case i == 0 && n.Domain == "" && slices.Contains(cuts, n.Type):
			part = min(part, written)
		case packed > 0 && n.In[i].IsConst() && len(t.Shape) > 1:
			part = 0
		}
		read += part
	}
	return read + packed + written
}

// size is the bytes of a tensor of the type, 0 when they are not known.
func size(t op.Type) int64 {
	shape, ok := t.Ints()
	if !ok || t.DType == tensor.Undefined || t.DType == tensor.String || t.DType.IsContainer() {
		return 0
	}
	n, err := tensor.ByteCount(t.DType, shape)
	if err != nil {
		return 0
	}
	return int64(n)
}

// Estimate is how long one iteration takes on a device that computes so many operations and moves
// so many bytes a second, where each step takes the longer of its operations and its bytes
// (Williams, Waterman and Patterson, "Roofline", CACM 2009), and the part of that time in which
// memory is busy, 0 to 1. Steps whose size depends on data count nothing, so it is a lower bound
// that says more of one plan beside another than of a device.
func (p *Plan) Estimate(flopsPerS, bytesPerS float64) (t time.Duration, memory float64) {
	var seconds, moving float64
	for i := range p.Steps {
		st := &p.Steps[i]
		seconds += st.seconds(flopsPerS, bytesPerS)
		moving += float64(st.Bytes) / bytesPerS
	}
	if seconds > 0 {
		memory = moving / seconds
	}
	return time.Duration(seconds * float64(time.Second)), memory
}

// seconds is how long the step takes at these rates.
func (st *Step) seconds(flopsPerS, bytesPerS float64) float64 {
	return max(float64(st.Flops)/flopsPerS, float64(st.Bytes)/bytesPerS)
}

// Width is how many units of so many an iteration fills in the mean, by how much faster it is on
// all than on one, where a unit computes and moves so much a second, and a step is either done by
// one or cut into even parts for all at the cost of handing them out. It is 1 at least.
func (p *Plan) Width(units int, flopsPerS, bytesPerS float64, handOut time.Duration) float64 {
	var one, all float64
	for i := range p.Steps {
		whole := p.Steps[i].seconds(flopsPerS, bytesPerS)
		one += whole
		all += min(whole, whole/float64(units)+handOut.Seconds())
	}
	if all == 0 {
		return 1
	}
	return one / all
}

// cost is the cost of step i with the shapes that its last run has found.
func (r *Program) cost(i int) Cost {
	st := &r.plan.Steps[i]
	if !st.dynamic {
		return Cost{st.Flops, st.Bytes}
	}
	o, err := st.Node.Op()
	if err != nil {
		return Cost{st.Flops, st.Bytes}
	}
	in, out := types(st.Node.In), types(st.Node.Out)
	r.found(in, st.In)
	r.found(out, st.Out)
	c := costOf(o, st.Node, st.Kernel, in, out)
	if _, ok := st.Kernel.(control); ok {
		c.Flops = st.Flops
	}
	return c
}

// found replaces types that depend on data by those of the tensors there are.
func (r *Program) found(ts []op.Type, slots []int) {
	for i, s := range slots {
		if s >= 0 && !ts[i].Static() && !ts[i].DType.IsContainer() {
			ts[i] = op.Concrete(r.tensors[s].DType, r.tensors[s].Shape...)
		}
	}
}
