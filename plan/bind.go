package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// SamePacking reports whether Pack writes the same bytes for p as for q, so that one copy serves
// both. It is false for two different plans when either holds a kernel that does not implement
// [compute.Packing].
func (p *Plan) SamePacking(q *Plan) bool {
	if p == q || p.PackedBytes != q.PackedBytes {
		return p == q
	}
	a, ok := p.packings()
	b, ok2 := q.packings()
	return ok && ok2 && slices.Equal(a, b) && sameConstants(p, q)
}

// packing is what lies at one place of a plan's packed weights.
type packing struct {
	at  span
	key any
}

// packings lists what kernels pack; false when one cannot tell.
func (p *Plan) packings() (list []packing, ok bool) {
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.packed.n == 0 {
			continue
		}
		k, ok := st.Kernel.(compute.Packing)
		if !ok {
			return nil, false
		}
		list = append(list, packing{st.packed, k.Packing()})
	}
	return list, true
}

// Program is a plan bound to one arena. It belongs to one goroutine at a time.
type Program struct {
	// Inputs and Outputs are in the order of the graph's. They are views of the arena, or lie on
	// the heap: values whose shape depends on data, values that are no tensors of numbers, and all
	// values when the host cannot address the arena. Inputs are filled before Run with
	// [tensor.Tensor.Set]; outputs are valid until the next Run.
	Inputs, Outputs []*tensor.Tensor

	plan    *Plan
	tasks   []compute.Task
	tensors []*tensor.Tensor
	remote  *remoteSide // nil where the host addresses the memory
	arrival Arrival     // nil where all weights are there
	follow  func(step int)
}

// Bind ties the plan to an arena of ArenaBytes and to its packed weights; both must be aligned to
// [Align] and outlive the program. Nothing is computed.
func (p *Plan) Bind(arena, packed []byte) (*Program, error) {
	if p.State.Bytes() > 0 {
		return nil, fmt.Errorf("graph %q: compiled with a state: bind it with BindState",
			p.Graph.Name)
	}
	return p.bindAll(arena, packed, nil, nil)
}

func (p *Plan) bindAll(arena, packed, state []byte, captures []*tensor.Tensor) (*Program, error) {
	return fault.Value(func() (*Program, error) { return p.bind(arena, packed, state, captures) })
}

// bind is Bind with a state, and for a body, whose captured values are tensors of the enclosing
// program.
func (p *Plan) bind(arena, packed, state []byte, captures []*tensor.Tensor) (*Program, error) {
	if p.remote {
		return nil, fmt.Errorf("graph %q: compiled for a device whose memory the host cannot "+
			"address: bind it with BindRemote", p.Graph.Name)
	}
	if int64(len(arena)) < p.ArenaBytes || int64(len(packed)) < p.PackedBytes {
		return nil, fmt.Errorf("graph %q: needs %d arena and %d packed bytes, given %d and %d",
			p.Graph.Name, p.ArenaBytes, p.PackedBytes, len(arena), len(packed))
	}
	r := &Program{plan: p, tensors: make([]*tensor.Tensor, len(p.Slots))}
	for i, t := range captures {
		r.tensors[p.Inputs[p.Graph.NumFormals()+i]] = t
	}
	for i := range p.Slots {
		if r.tensors[i] == nil {
			r.tensors[i] = r.view(i, arena, state)
		}
	}
	for i := range p.Steps {
		st := &p.Steps[i]
		r.tasks = append(r.tasks, st.Kernel.Bind(compute.Binding{In: r.pick(st.In),
			Out: r.pick(st.Out), Packed: st.packed.of(packed), Scratch: st.scratch.of(
				arena), Workers: p.Threads}))
	}
	r.Inputs, r.Outputs = r.pick(p.Inputs), r.pick(p.Outputs)
	return r, nil
}

func (r *Program) view(i int, arena, state []byte) *tensor.Tensor {
	s := &r.plan.Slots[i]
	t := &tensor.Tensor{DType: s.Type.DType, Shape: []int{}}
	if shape, ok := s.Type.Ints(); ok {
		t.Shape = shape
	}
	switch s.Place {
	case Constant:
		return s.Value.Const()
	case InArena:
		t.Data = span{s.Offset, s.Bytes}.of(arena)
		if t.Data == nil { // an arena of no bytes: the value is planned all the same
			t.Data = []byte{}
		}
	case InState:
		t.Data = span{s.Offset, s.Bytes}.of(state)
	case Alias:
		of := r.tensors[s.Of]
		if of == nil { // a whole comes after its parts
			of = r.view(s.Of, arena, state)
			r.tensors[s.Of] = of
		}
		if t.Data = of.Data; s.Bytes != r.plan.Slots[s.Of].Bytes {
			t.Data = span{s.At, s.Bytes}.of(of.Data)
		}
	}
	return t
}

func (r *Program) pick(slots []int) []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(slots))
	for i, s := range slots {
		if s >= 0 {
			ts[i] = r.tensors[s]
		}
	}
	return ts
}

// Plan returns the plan that the program runs.
func (r *Program) Plan() *Plan { return r.plan }

// Run computes the outputs from the inputs. Between steps it asks the gate of x, so a lease that
// was asked back is given back there at the latest. An error names the node; the program can be run
// again after an error.
func (r *Program) Run(x *compute.Exec) error {
	if err := r.begin(x); err != nil {
		return err
	}
	here := r.arrived()
	for i := range r.tasks {
		if err := r.await(x, i, &here); err != nil {
			return r.failed(i, err)
		}
		if err := x.Pass(); err != nil {
			return r.failed(i, err)
		}
		if err := r.runStep(x, i); err != nil {
			return r.failed(i, err)
		}
		if x.Watcher != nil {
			if err := r.watched(x, i); err != nil {
				return r.failed(i, err)
			}
		}
		if r.follow != nil {
			r.follow(i)
		}
	}
	return r.end(x)
}

// watched waits for a step and tells of it.
func (r *Program) watched(x *compute.Exec, i int) error {
	if err := x.Stream().Wait(); err != nil {
		return err
	}
	s := &r.plan.Steps[i]
	x.Watcher.Stepped(s.Node.Name, s.Node.Type, s.Kernel.Name())
	return nil
}

// begin admits the inputs and brings them to the device, before weights that are away: the first
// step needs them.
func (r *Program) begin(x *compute.Exec) error {
	if err := r.admit(x); err != nil {
		return err
	}
	if r.remote != nil {
		if err := r.bringInputs(x.Stream()); err != nil {
			return r.outside(err)
		}
	}
	if r.arrival != nil {
		r.arrival.Begin()
	}
	return nil
}

// end brings the outputs to where the caller finds them.
func (r *Program) end(x *compute.Exec) error {
	if r.remote != nil {
		if err := r.toHost(x.Stream(), r.remote.outputs); err != nil {
			return r.outside(err)
		}
	}
	r.copyConstants()
	r.copyUpdates()
	return nil
}

// copyConstants writes the outputs that are constants.
func (r *Program) copyConstants() {
	for _, c := range r.plan.copies {
		copy(r.tensors[c.to].Data, r.tensors[c.from].Data)
	}
}

// Profile is Run without the gate. After each step it calls visit with what the step cost under the
// shapes of this run. The steps of the branch that an If takes come before the If itself, which
// then costs only the handing on of its outputs.
func (r *Program) Profile(x *compute.Exec, visit func(s *Step, c Cost)) error {
	if err := r.begin(x); err != nil {
		return err
	}
	here := r.arrived()
	for i, t := range r.tasks {
		if err := r.await(x, i, &here); err != nil {
			return r.failed(i, err)
		}
		run := func(x *compute.Exec) error { return r.RunStep(x, i) }
		if b, ok := t.(*ifTask); ok {
			run = func(x *compute.Exec) error { return b.profile(x, visit) }
		}
		if err := run(x); err != nil {
			return r.failed(i, err)
		}
		c := r.cost(i)
		if _, branch := t.(*ifTask); branch {
			c.Flops = 0
		}
		visit(&r.plan.Steps[i], c)
	}
	return r.end(x)
}

// admit asks for the memory of inputs that no arena holds: sequences, optionals and maps.
func (r *Program) admit(x *compute.Exec) error {
	for i, t := range r.Inputs[:r.plan.Graph.NumFormals()] {
		if !t.DType.IsContainer() {
			continue
		}
		if err := x.Reserve(t.Size()); err != nil {
			return fmt.Errorf("graph %q: input %q: %w", r.plan.Graph.Name,
				r.plan.Graph.Inputs[i].Name, err)
		}
	}
	return nil
}

// RunStep runs step i alone and returns when it has run; the steps before it must have run. Outputs
// of the program that are constants stay unwritten. The gate is not asked.
func (r *Program) RunStep(x *compute.Exec, i int) error {
	if err := cmp.Or(r.runStep(x, i), x.Stream().Wait()); err != nil {
		return r.failed(i, err)
	}
	return nil
}
