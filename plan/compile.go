package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// Options say for what a graph is compiled.
type Options struct {
	// Target is the device that prepares the kernels. nil is a host that has none: every step runs
	// the operator's plain evaluation.
	Target compute.Target
	// Shapes gives concrete shapes of inputs by name. Inputs that are not named must have a
	// declared shape that is known once the named ones have bound its symbols.
	Shapes map[string][]int
	// Threads is the number of workers that will run the plan; at least 1.
	Threads int
	// Passes configures the optimiser. Its Features are set to those of Target.
	Passes pass.Options
	// Choices, when not nil, are measured choices of kernels. They change results by rounding, and
	// how weights are packed.
	Choices compute.Choices
	// State, when not nil, is the memory that the plan is bound to beside its arena
	// ([Plan.BindState]): inputs of the names of its variables are read there, and Updates say
	// which variables an iteration replaces.
	State   *State
	Updates []Update
	// MostArena, when not 0, is the most bytes that the arena may have. A plan that would have more
	// is made with another order of steps, and with values computed again that it would keep; its
	// results are the same to the bit. Compile fails with [ErrArena] where that does not suffice.
	MostArena int64
	// Recompute has the arena be smaller where that costs little time.
	Recompute Recompute
	// Placement, when not 0, seeds a random placement of the values in the arena, which takes more
	// memory than the usual one. It is for tests: results must not depend on it, and where they do,
	// a step reads memory that is not yet, or no longer, its own.
	Placement uint64
}

// Compile specialises g to the shapes, optimises it, chooses kernels and places every value. g is
// not changed. The error names the node that has no kernel or whose shape rule refuses. It is also
// of kind [graph.ErrNames] when the shapes contradict the names of dimensions.
//
// Constants may lie in a mapped file. Compile, like everything in this package that may read them,
// fails with fault.ErrFile when the file cannot be read, and with op.ErrPanic in place of a panic.
func Compile(ctx context.Context, g *graph.Graph, o Options) (*Plan, error) {
	p, err := fault.Value(func() (*Plan, error) { return specialised(ctx, g, o) })
	return p, g.Blame(o.Shapes, err)
}

// specialised is Compile that may panic.
func specialised(ctx context.Context, g *graph.Graph, o Options) (*Plan, error) {
	s, report, err := optimised(ctx, g, &o)
	if err != nil {
		return nil, err
	}
	p, err := fit(ctx, s, o)
	if err != nil {
		return nil, err
	}
	p.Passes = report
	return p, nil
}

// optimised is a copy of g for the shapes and after the passes, for which the options get the
// features of their target.
func optimised(ctx context.Context, g *graph.Graph, o *Options) (*graph.Graph, pass.Report,
	error) {
	if o.Target != nil {
		o.Passes.Features = o.Target.Features()
	}
	s, err := g.Specialize(o.Shapes)
	if err != nil {
		return nil, pass.Report{}, err
	}
	if err := static(s); err != nil {
		return nil, pass.Report{}, err
	}
	first, saving, saves := o.Passes.Saving()
	if !saves || o.Recompute.MostTime <= 1 {
		report, err := pass.Run(ctx, s, o.Passes)
		return s, report, err
	}
	report, err := pass.Run(ctx, s, first)
	if err != nil {
		return nil, report, err
	}
	if s, err = againFirst(ctx, s, *o); err != nil {
		return nil, report, err
	}
	o.Recompute = Recompute{}
	more, err := pass.Run(ctx, s, saving)
	return s, append(report, more...), err
}

// static refuses inputs whose shape is not known.
func static(g *graph.Graph) error {
	for _, v := range g.Inputs {
		if !v.Type.Static() && !v.Type.DType.IsContainer() {
			return fmt.Errorf("graph %q: input %q: %w: it is %v; give a shape (--shape %s=...)",
				g.Name, v.Name, ErrShape, v.Type, v.Name)
		}
	}
	return nil
}

// compile plans a graph, or a body, whose input types are static.
func compile(ctx context.Context, g *graph.Graph, o Options, body bool) (*Plan, error) {
	c, err := compiled(ctx, g, o, body)
	if err != nil {
		return nil, err
	}
	return c.placed(), nil
}

// compiled chooses the kernels of compile, and which values have a place in which memory.
func compiled(ctx context.Context, g *graph.Graph, o Options, body bool) (*compiler, error) {
	c := &compiler{ctx: ctx, opts: o, inner: body, slot: map[*graph.Value]int{},
		variable: map[string]int{}, plan: &Plan{Graph: g, Threads: max(1, o.Threads)}}
	c.plan.remote = c.remote()
	if !body {
		c.plan.State = o.State
	}
	for i, v := range g.Inputs {
		s := c.newSlot(v, -1)
		c.plan.Inputs = append(c.plan.Inputs, s)
		if i >= g.NumFormals() && c.plan.Slots[s].Place == InArena {
			c.plan.Slots[s].Place = Outer
		}
		if err := c.stateInput(s); err != nil {
			return nil, fmt.Errorf("graph %q: %w", g.Name, err)
		}
	}
	for _, n := range g.Nodes {
		// Passes leave alone what a rule refuses, since it may be in a branch that is never taken;
		// here it would be computed. And the kernels of If, Loop and Scan know more of their
		// outputs than inference did.
		if err := n.InferTypes(); err != nil {
			return nil, fmt.Errorf("graph %q: %w", g.Name, err)
		}
		if err := c.step(n); err != nil {
			return nil, fmt.Errorf("graph %q: %v: %w", g.Name, n, err)
		}
	}
	for _, v := range g.Outputs {
		s := c.use(v, len(c.plan.Steps))
		c.plan.Outputs = append(c.plan.Outputs, c.outputSlot(s))
	}
	if err := cmp.Or(c.uncountable, c.countable(), c.stateOutputs()); err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	return c, nil
}

// placed gives each value its place.
func (c *compiler) placed() *Plan {
	c.join()
	c.moveUpdates()
	return c.plan
}

// outputSlot returns the slot that an output of the graph is read from. For the bytes of a constant
// that is a new slot of the arena, to which they are copied: the constant may lie in a mapped file
// that somebody cuts short, and callers read outputs on goroutines of their own, where a fault
// would end the process.
func (c *compiler) outputSlot(s int) int {
	of := c.plan.Slots[s]
	if c.inner || c.plan.Slots[c.plan.root(s)].Place != Constant || of.Type.DType.Bits() == 0 {
		return s
	}
	c.plan.copies = append(c.plan.copies, copied{from: s, to: len(c.plan.Slots)})
	c.plan.Slots = append(c.plan.Slots, Slot{Value: of.Value, Type: of.Type, Bytes: of.Bytes,
		Over: -1, First: len(c.plan.Steps), Last: len(c.plan.Steps)})
	return len(c.plan.Slots) - 1
}

// countable refuses values whose bytes cannot be added up: a peak that overflows would look small
// to admission.
func (c *compiler) countable() error {
	var total int64
	for i := range c.plan.Slots {
		s := &c.plan.Slots[i]
		if s.Place != InArena {
			continue
		}
		if total += min(s.Bytes, math.MaxInt64/2); total >= math.MaxInt64/2 {
			return fmt.Errorf("value %q: %w: %v and the values before it have more bytes than an "+
				"address space: give smaller shapes",
				s.Value.Name, tensor.ErrShape, s.Type)
		}
	}
	return nil
}

type compiler struct {
	ctx   context.Context // of the passes over bodies
	opts  Options
	inner bool // a body of a node, whose kernel copies the outputs
	plan  *Plan
	slot  map[*graph.Value]int

	variable map[string]int // slots of the variables of the state
	updates  []copied       // values and the slots of the variables that they become

	uncountable error // about the first value whose bytes cannot be counted
}

func (c *compiler) newSlot(v *graph.Value, step int) int {
	s := Slot{Value: v, Type: v.Type, Over: -1, First: step, Last: step}
	switch shape, ok := v.Type.Ints(); {
	case v.IsConst():
		t := v.Const()
		if s.Place = Constant; t.DType.IsContainer() || t.DType == tensor.String {
			s.Bytes = t.Size()
		} else { // whose contents may have been left out (Plan.Absorbed)
			s.Bytes = c.counted(v, t.DType, t.Shape)
		}
		c.plan.ConstBytes += s.Bytes
	case ok && v.Type.Static() && v.Type.DType != tensor.String:
		s.Bytes = c.counted(v, v.Type.DType, shape)
	default:
		s.Place = Dynamic
	}
	c.plan.Slots = append(c.plan.Slots, s)
	c.slot[v] = len(c.plan.Slots) - 1
	return c.slot[v]
}

// counted returns the bytes of a value. A value with more bytes than can be counted makes the
// compilation fail in the end, because the 0 returned for it would look small to admission.
func (c *compiler) counted(v *graph.Value, d tensor.DType, shape []int) int64 {
	n, err := tensor.ByteCount(d, shape)
	if err != nil && c.uncountable == nil {
		c.uncountable = fmt.Errorf("value %q: %w: give smaller shapes", v.Name, err)
	}
	return int64(n)
}

// use notes that a value is read by a step and returns its slot.
func (c *compiler) use(v *graph.Value, step int) int {
	i, ok := c.slot[v]
	if !ok {
		i = c.newSlot(v, -1)
	}
	for j := i; ; j = c.plan.Slots[j].Of {
		c.plan.Slots[j].Last = max(c.plan.Slots[j].Last, step)
		if c.plan.Slots[j].Place != Alias {
			return i
		}
	}
}

// operands returns the slots that slot gives values at step i, -1 for those that are left out, and
// notes whether any is dynamic.
func (c *compiler) operands(st *Step, values []*graph.Value, i int,
	slot func(v *graph.Value, i int) int) (slots []int) {
	for _, v := range values {
		if v == nil {
			slots = append(slots, -1)
			continue
		}
		s := slot(v, i)
		slots = append(slots, s)
		st.dynamic = st.dynamic || c.plan.Slots[s].Place == Dynamic
	}
	return slots
}

func (c *compiler) step(n *graph.Node) error {
	i := len(c.plan.Steps)
	o, err := n.Op()
	if err != nil {
		return err
	}
	if c.alias(o, n, i) {
		return nil
	}
	st := Step{Node: n}
	body, err := c.control(n)
	// a body that is not planned is no failure, unless it is the caller who does not want to wait
	if err := cmp.Or(err, c.ctx.Err()); err != nil {
		return err
	}
	st.In = c.operands(&st, n.In, i, c.use)
	st.Out = c.operands(&st, n.Out, i, c.newSlot)
	if body != nil {
		st.Kernel = body
	} else if st.Kernel, st.host, err = c.kernel(o, n, st.dynamic); err != nil {
		return err
	}
	if c.views(&st) {
		return nil
	}
	cost := costOf(o, n, st.Kernel, types(n.In), types(n.Out))
	st.Flops, st.Bytes = cost.Flops, cost.Bytes
	if body != nil {
		st.Flops = body.flops()
	}
	c.plan.Flops += st.Flops
	c.plan.Steps = append(c.plan.Steps, st)
	return nil
}

// alias makes the output of a view operator share its input's bytes, which makes the operator no
// step at all.
func (c *compiler) alias(o *op.Op, n *graph.Node, step int) bool {
	if !o.Has(op.View) || len(n.Out) == 0 || n.Out[0] == nil || n.In[0] == nil {
		return false
	}
	of := c.use(n.In[0], step)
	out := n.Out[0].Type
	if c.plan.Slots[of].Place == Dynamic || !out.Static() || out.DType == tensor.String {
		return false
	}
	if shape, _ := out.Ints(); !c.holds(of, out.DType, shape) { // the evaluation says what is wrong
		return false
	}
	s := c.newSlot(n.Out[0], step)
	c.plan.Slots[s].Place, c.plan.Slots[s].Of = Alias, of
	return true
}

// holds reports whether a slot has the bytes of such a tensor.
func (c *compiler) holds(slot int, d tensor.DType, shape []int) bool {
	n, err := tensor.ByteCount(d, shape)
	return err == nil && c.plan.Slots[slot].Bytes == int64(n)
}

// maxTabled is the size in bytes of a value up to which fast kernels are prepared. Some keep tables
// in proportion to the values that they read and write, and a plan that no device can hold must
// still cost nothing to make, so that admission refuses it with its size.
const maxTabled = 16 << 30

func tabled(n *graph.Node) bool {
	for _, v := range slices.Concat(n.In, n.Out) {
		if v == nil {
			continue
		}
		shape, _ := v.Type.Ints()
		size, err := tensor.ByteCount(v.Type.DType, shape)
		if err != nil || int64(size) > maxTabled {
			return false
		}
	}
	return true
}

// kernel returns the target's kernel for a node, or the node's plain evaluation, which runs on the
// host if the plan is for a device whose memory the host cannot address.
func (c *compiler) kernel(o *op.Op, n *graph.Node, dynamic bool) (k compute.Kernel, host bool,
	err error) {
	call, remote := n.Call(), c.plan.remote
	if !dynamic && c.opts.Target != nil && tabled(n) && !(remote && onHost(n)) {
		k, err := c.opts.Target.Prepare(&compute.Request{Call: call, In: types(n.In),
			Out:     types(n.Out),
			Choices: c.opts.Choices})
		if k != nil || err != nil {
			return k, false, err
		}
	}
	return compute.Reference(o, call), remote, nil
}

func types(vs []*graph.Value) []op.Type {
	ts := make([]op.Type, len(vs))
	for i, v := range vs {
		if v != nil {
			ts[i] = v.Type
		}
	}
	return ts
}
