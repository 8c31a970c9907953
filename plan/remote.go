package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// constant is where in the packed weights the steps of a remote device find a constant.
type constant struct {
	slot int
	at   span
}

// remote reports whether the host cannot address the memory of the device that is compiled for.
func (c *compiler) remote() bool {
	return c.opts.Target != nil && c.opts.Target.Features().Remote
}

// onHost reports whether a node has operands that only the host can hold.
func onHost(n *graph.Node) bool {
	return slices.ContainsFunc(slices.Concat(n.In, n.Out), func(v *graph.Value) bool {
		return v != nil && (v.Type.DType == tensor.String || v.Type.DType.IsContainer())
	})
}

// placeConstants gives the constants that steps of a remote device read a place behind the packed
// weights.
func (c *compiler) placeConstants() {
	p := c.plan
	if !p.remote {
		return
	}
	p.consts = nil
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.host {
			continue
		}
		for _, s := range st.In {
			if s < 0 || p.Slots[p.root(s)].Place != Constant || p.constAt(p.root(s)) != nil {
				continue
			}
			n := p.Slots[p.root(s)].Bytes
			p.consts = append(p.consts, constant{p.root(s), span{p.PackedBytes, n}})
			p.PackedBytes += alignUp(n)
		}
	}
}

// constAt is the constant of a slot in the packed weights, nil when it is not there.
func (p *Plan) constAt(slot int) *constant {
	i := slices.IndexFunc(p.consts, func(k constant) bool { return k.slot == slot })
	if i < 0 {
		return nil
	}
	return &p.consts[i]
}

// packConstants writes the constants behind the packed weights.
func (p *Plan) packConstants(dst []byte) error {
	err := fault.Do(func() error {
		for _, k := range p.consts {
			copy(k.at.of(dst), p.Slots[k.slot].Value.Const().Data)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("graph %q: packing constants: %w", p.Graph.Name, err)
	}
	return nil
}

// away is what a program adds on a remote device: where values are there, while its tensors are the
// host's copies of those that pass through the host.
type away struct {
	arena, packed compute.Block
}

// BindRemote ties a plan for a device whose memory the host cannot address to an arena and to its
// packed weights on that device, as [Plan.Bind] does. The program's inputs, outputs and what steps
// on the host read and write have copies on the Go heap, which Run moves in the order of its queue.
func (p *Plan) BindRemote(arena, packed compute.Block) (*Program, error) {
	if !p.remote || arena.N < p.ArenaBytes || packed.N < p.PackedBytes {
		return nil, fmt.Errorf("graph %q: needs %d arena and %d packed bytes of the device it "+
			"was compiled for, given %d and %d", p.Graph.Name, p.ArenaBytes, p.PackedBytes, arena.N,
			packed.N)
	}
	return fault.Value(func() (*Program, error) {
		return p.bindRemote(&away{arena, packed}), nil
	})
}

func (p *Plan) bindRemote(a *away) *Program {
	r := &Program{plan: p, away: a, tensors: make([]*tensor.Tensor, len(p.Slots))}
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.Place == Constant {
			r.tensors[i] = s.Value.Const()
			continue
		}
		r.tensors[i] = &tensor.Tensor{DType: s.Type.DType, Shape: []int{}}
		if shape, ok := s.Type.Ints(); ok {
			r.tensors[i].Shape = shape
		}
	}
	for i := range p.Steps {
		if st := &p.Steps[i]; st.host {
			r.mirror(st.In)
			r.mirror(st.Out)
		}
	}
	for _, c := range p.copies {
		r.mirror([]int{c.from})
	}
	r.mirror(p.Inputs)
	r.mirror(p.Outputs)
	for i := range p.Steps {
		st := &p.Steps[i]
		b := compute.Binding{In: r.pick(st.In), Out: r.pick(st.Out), Workers: p.Threads}
		if !st.host {
			b.In, b.Out = bare(b.In), bare(b.Out)
			b.Places = &compute.Places{In: r.blocks(st.In), Out: r.blocks(st.Out),
				Packed:  a.packed.Part(st.packed.off, st.packed.n),
				Scratch: a.arena.Part(st.scratch.off, st.scratch.n)}
		}
		t := st.Kernel.Bind(b)
		if !st.host {
			t = &namedTask{t, r, i}
		}
		r.tasks = append(r.tasks, t)
	}
	r.Inputs, r.Outputs = r.pick(p.Inputs), r.pick(p.Outputs)
	return r
}

// mirror gives values that lie on the device, or in constants of other shapes, bytes on the host.
func (r *Program) mirror(slots []int) {
	for _, s := range slots {
		if s < 0 || r.tensors[s].Data != nil {
			continue
		}
		switch of := r.plan.root(s); r.plan.Slots[of].Place {
		case InArena:
			r.tensors[s].Data = make([]byte, r.plan.Slots[s].Bytes)
		case Constant:
			at := r.plan.begin(s)
			r.tensors[s].Data = span{at, r.plan.Slots[s].Bytes}.of(r.tensors[of].Data)
		}
	}
}

// bare returns types and shapes alone.
func bare(ts []*tensor.Tensor) []*tensor.Tensor {
	bs := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			bs[i] = &tensor.Tensor{DType: t.DType, Shape: t.Shape}
		}
	}
	return bs
}

func (r *Program) blocks(slots []int) []compute.Block {
	bs := make([]compute.Block, len(slots))
	for i, s := range slots {
		if s >= 0 {
			bs[i] = r.block(s)
		}
	}
	return bs
}

// block is where on the device a value that a step there uses lies.
func (r *Program) block(s int) compute.Block {
	p := r.plan
	of, at, n := p.root(s), p.begin(s), p.Slots[s].Bytes
	if k := p.constAt(of); k != nil {
		return r.away.packed.Part(k.at.off+at, n)
	}
	return r.away.arena.Part(p.Slots[of].Offset+at, n)
}

// onDevice reports whether the bytes of a slot lie in the arena.
func (r *Program) onDevice(s int) bool {
	return s >= 0 && r.plan.Slots[r.plan.root(s)].Place == InArena
}

// toDevice gives copies of values to the device, and toHost from it.
func (r *Program) toDevice(q compute.Queue, slots []int) error {
	for _, s := range slots {
		if r.onDevice(s) {
			if err := q.CopyIn(r.block(s), r.tensors[s].Data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Program) toHost(q compute.Queue, slots []int) error {
	for _, s := range slots {
		if r.onDevice(s) {
			if err := q.CopyOut(r.tensors[s].Data, r.block(s)); err != nil {
				return err
			}
		}
	}
	return q.Wait()
}

// runStep runs step i: in the order of the queue, or on the host between copies of its operands.
func (r *Program) runStep(x *compute.Exec, i int) error {
	st := &r.plan.Steps[i]
	q := x.Stream()
	if r.away == nil || !st.host {
		return q.Run(x, r.tasks[i])
	}
	if err := r.toHost(q, st.In); err != nil {
		return err
	}
	if err := r.tasks[i].Run(x); err != nil {
		return err
	}
	return r.toDevice(q, st.Out)
}

// namedTask is a task of a program whose errors name its node: they may come with another's.
type namedTask struct {
	compute.Task
	program *Program
	step    int
}

// Run implements compute.Task. A panic is an error here, while it is known whose it is.
func (t *namedTask) Run(x *compute.Exec) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = compute.TaskPanic(r)
		}
		if err != nil {
			err = &nodeError{t.program.plan, t.step, err}
		}
	}()
	return t.Task.Run(x)
}

// nodeError is an error of a step.
type nodeError struct {
	plan *Plan
	step int
	err  error
}

// Error names the graph and the node.
func (e *nodeError) Error() string {
	return fmt.Sprintf("graph %q: %v: %v", e.plan.Graph.Name, e.plan.Steps[e.step].Node, e.err)
}

// Unwrap returns what the step says.
func (e *nodeError) Unwrap() error { return e.err }

// failed names the node of an error that names none yet.
func (r *Program) failed(i int, err error) error {
	if n := (*nodeError)(nil); r.away != nil && errors.As(err, &n) && n.plan == r.plan {
		return err
	}
	return &nodeError{r.plan, i, err}
}
