package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// remoteSide is what a program has besides on a remote device: where its values lie there. The
// program's tensors are then the host's copies of the values that pass through the host.
type remoteSide struct {
	arena, packed compute.Block
	consts        map[int]compute.Block // by slot

	// what a run copies, in the order in which it does: inputs to the device before the first step;
	// by step, in copies operands from the device and out copies results to it; outputs from the
	// device after the last step
	inputs  []transfer
	in, out [][]transfer
	outputs []transfer
}

// transfer is a copy between a value on the device and the host's of it.
type transfer struct {
	at    compute.Block
	host  []byte
	value string
}

// BindRemote ties a plan for a device whose memory the host cannot address to an arena and to its
// packed weights on that device, as [Plan.Bind] does for memory of the host. [Plan.Preset] must
// have filled the arena. The program allocates HostBytes of its own on the Go heap for inputs,
// outputs and what steps on the host read and write. Run copies these values from and to the device
// in the order of its queue, each value once.
func (p *Plan) BindRemote(arena, packed compute.Block) (*Program, error) {
	if !p.remote || arena.N < p.ArenaBytes || packed.N < p.PackedBytes {
		return nil, fmt.Errorf("graph %q: needs %d arena and %d packed bytes of the device it "+
			"was compiled for, given %d and %d", p.Graph.Name, p.ArenaBytes, p.PackedBytes, arena.N,
			packed.N)
	}
	return fault.Value(func() (*Program, error) {
		return p.bindRemote(&remoteSide{arena: arena, packed: packed})
	})
}

func (p *Plan) bindRemote(a *remoteSide) (*Program, error) {
	r := &Program{plan: p, remote: a, tensors: make([]*tensor.Tensor, len(p.Slots))}
	if err := r.mirror(); err != nil {
		return nil, err
	}
	a.consts = map[int]compute.Block{}
	for _, k := range p.consts {
		of := a.packed
		if k.arena {
			of = a.arena
		}
		a.consts[k.slot] = of.Part(k.at.off, k.at.n)
	}
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
	r.listTransfers()
	return r, nil
}

// mirror makes the program's tensors, and gives those that the host has bytes.
func (r *Program) mirror() error {
	p := r.plan
	mem, err := tensor.New(tensor.Uint8, int(p.HostBytes))
	if err != nil {
		return fmt.Errorf("graph %q: copies on the host: %w", p.Graph.Name, err)
	}
	at := map[mirror][]byte{}
	for _, m := range p.mirrors {
		at[mirror{root: m.root, at: m.at}] = span{m.off, m.at.n}.of(mem.Data)
	}
	for i := range p.Slots {
		s, of := &p.Slots[i], p.root(i)
		t := &tensor.Tensor{DType: s.Type.DType, Shape: []int{}}
		if shape, ok := s.Type.Ints(); ok {
			t.Shape = shape
		}
		r.tensors[i] = t
		switch p.Slots[of].Place {
		case Constant:
			if s.Place == Constant {
				r.tensors[i] = s.Value.Const()
			} else if whole := p.Slots[of].Value.Const(); whole.Data != nil {
				t.Data = span{p.begin(i), s.Bytes}.of(whole.Data)
			}
		case OnHost:
			t.Data = span{p.begin(i), s.Bytes}.of(at[p.mirrorOf(of)])
		case InArena:
			t.Data = at[p.mirrorOf(i)]
		}
		if t.Data == nil && s.Place != Dynamic { // of no bytes, or on the device alone
			t.Data = []byte{}
		}
	}
	return nil
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

// block is where on the device a value that a step there uses lies; nowhere for a constant that the
// step has in its packed weights.
func (r *Program) block(s int) compute.Block {
	p := r.plan
	of, at, n := p.root(s), p.begin(s), p.Slots[s].Bytes
	if p.Slots[of].Place == InArena {
		return r.remote.arena.Part(p.Slots[of].Offset+at, n)
	}
	if whole, ok := r.remote.consts[of]; ok {
		return whole.Part(at, n)
	}
	return compute.Block{}
}

// listTransfers finds the copies of a run: of values that the one side has and the other needs.
func (r *Program) listTransfers() {
	p, a := r.plan, r.remote
	here := map[mirror]bool{} // on the host, too
	list := func(slots []int, fetch bool) (ts []transfer) {
		for _, s := range slots {
			if s < 0 || p.Slots[p.root(s)].Place != InArena {
				continue
			}
			m := p.mirrorOf(s)
			if fetch && here[m] {
				continue
			}
			here[m] = true
			ts = append(ts, transfer{r.block(s), r.tensors[s].Data, p.Slots[s].Value.Name})
		}
		return ts
	}
	a.inputs = list(p.Inputs, false)
	a.in, a.out = make([][]transfer, len(p.Steps)), make([][]transfer, len(p.Steps))
	for i := range p.Steps {
		if st := &p.Steps[i]; st.host {
			a.in[i], a.out[i] = list(st.In, true), list(st.Out, false)
		}
	}
	a.outputs = list(p.Outputs, true)
}

// bringInputs gives the copies of the inputs to the device. Where weights are away it waits for
// those that would wait for them.
func (r *Program) bringInputs(q compute.Queue) error {
	err := r.toDevice(q, r.remote.inputs)
	waits := func(t transfer) bool { return len(t.host) > device.Small }
	if err != nil || r.arrival == nil || !slices.ContainsFunc(r.remote.inputs, waits) {
		return err
	}
	return q.Wait()
}

// toDevice gives copies of values to the device, and toHost from it, for which it waits.
func (r *Program) toDevice(q compute.Queue, ts []transfer) error {
	for i := range ts {
		if err := q.CopyIn(ts[i].at, ts[i].host); err != nil {
			return fmt.Errorf("copy of %q to the device: %w", ts[i].value, err)
		}
	}
	return nil
}

func (r *Program) toHost(q compute.Queue, ts []transfer) error {
	for i := range ts {
		if err := q.CopyOut(ts[i].host, ts[i].at); err != nil {
			return fmt.Errorf("copy of %q from the device: %w", ts[i].value, err)
		}
	}
	err := q.Wait()
	if _, copied := r.copied(err); err == nil || copied || r.named(err) {
		return err
	}
	return fmt.Errorf("copies between the host and the device: %w", err)
}

// outside names the graph of an error that no step met, and the value of a copy.
func (r *Program) outside(err error) error {
	if err == nil || r.named(err) {
		return err
	}
	if value, ok := r.copied(err); ok {
		return &valueError{r.plan, value, err}
	}
	return fmt.Errorf("graph %q: %w", r.plan.Graph.Name, err)
}

// copied names the value of a copy of this program that failed. Whoever waits for the queue next is
// told of it, which may be another step.
func (r *Program) copied(err error) (value string, ok bool) {
	c := (*compute.CopyError)(nil)
	if r.remote == nil || !errors.As(err, &c) {
		return "", false
	}
	ends := [][]transfer{r.remote.inputs, r.remote.outputs}
	lists := slices.Concat(r.remote.in, r.remote.out, ends)
	for _, t := range slices.Concat(lists...) {
		if len(t.host) > 0 && len(t.host) == len(c.Host) && &t.host[0] == &c.Host[0] {
			return t.value, true
		}
	}
	return "", false
}

// valueError is an error of a copy of a value.
type valueError struct {
	plan  *Plan
	value string
	err   error
}

// Error names the graph and the value.
func (e *valueError) Error() string {
	return fmt.Sprintf("graph %q: copy of %q: %v", e.plan.Graph.Name, e.value, e.err)
}

// Unwrap returns what the queue says.
func (e *valueError) Unwrap() error { return e.err }

// runStep runs step i: in the order of the queue, or on the host between copies of those operands
// that only the device has.
func (r *Program) runStep(x *compute.Exec, i int) error {
	q := x.Stream()
	if r.remote == nil || !r.plan.Steps[i].host {
		return q.Run(x, r.tasks[i])
	}
	if ts := r.remote.in[i]; len(ts) > 0 {
		if err := r.toHost(q, ts); err != nil {
			return err
		}
	}
	if err := r.tasks[i].Run(x); err != nil {
		return err
	}
	return r.toDevice(q, r.remote.out[i])
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

// named reports whether an error names a node of this program, or a value that it copies.
func (r *Program) named(err error) bool {
	n, v := (*nodeError)(nil), (*valueError)(nil)
	return r.remote != nil && (errors.As(err, &n) && n.plan == r.plan ||
		errors.As(err, &v) && v.plan == r.plan)
}

// failed names the node of an error that names none yet, or the value of a copy.
func (r *Program) failed(i int, err error) error {
	if r.named(err) {
		return err
	}
	if value, ok := r.copied(err); ok {
		return &valueError{r.plan, value, err}
	}
	return &nodeError{r.plan, i, err}
}
