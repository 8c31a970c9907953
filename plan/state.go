package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// ErrState is the kind of error about a graph that does not fit the state that it is compiled with.
var ErrState = errors.New("graph does not fit its state")

// State is memory that outlives iterations, beside the arena: values that one iteration leaves for
// the next, such as weights that are trained and the moments of their optimizer. Where each value
// lies follows from the list of variables alone, so plans of several graphs, such as one that
// trains and one that evaluates, are bound to the same memory. It is immutable.
type State struct {
	vars  []Variable
	index map[string]int
	bytes int64
}

// Variable is one value of a state.
type Variable struct {
	Name  string
	DType tensor.DType // of numbers or conditions
	Shape []int

	at span
}

// NewState lays variables out in their order. It refuses two of one name, and those whose bytes
// cannot be counted.
func NewState(vars []Variable) (*State, error) {
	s := &State{vars: slices.Clone(vars), index: map[string]int{}}
	for i := range s.vars {
		v := &s.vars[i]
		if _, twice := s.index[v.Name]; twice {
			return nil, fmt.Errorf("variable %q: %w: two have that name", v.Name, ErrState)
		}
		n, err := tensor.ByteCount(v.DType, v.Shape)
		if err == nil && (v.DType == tensor.String || v.DType.IsContainer()) {
			err = fmt.Errorf("%w: %v has no place in memory", ErrState, v.DType)
		}
		if err != nil {
			return nil, fmt.Errorf("variable %q: %w", v.Name, err)
		}
		v.at = span{s.bytes, int64(n)}
		s.index[v.Name] = i
		if s.bytes += alignUp(int64(n)); s.bytes < 0 {
			return nil, fmt.Errorf("variable %q: %w: it and those before it have more bytes than "+
				"an address space", v.Name, tensor.ErrShape)
		}
	}
	return s, nil
}

// Bytes is the memory that the variables take.
func (s *State) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// Variables lists the variables in their order; it must not be written.
func (s *State) Variables() []Variable { return s.vars }

// Views returns the variables in memory of Bytes bytes, in their order.
func (s *State) Views(mem []byte) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(s.vars))
	for i := range s.vars {
		v := &s.vars[i]
		out[i] = &tensor.Tensor{DType: v.DType, Shape: v.Shape, Data: v.at.of(mem)}
	}
	return out
}

// Range returns where a variable lies in the memory of the state; ok is false where it has none of
// that name. Variables lie in their order, each on a boundary of [Align].
func (s *State) Range(variable string) (from, to int64, ok bool) {
	i, ok := s.index[variable]
	if !ok {
		return 0, 0, false
	}
	v := s.vars[i].at
	return v.off, v.off + v.n, true
}

// Update says that an iteration replaces a variable.
type Update struct {
	Output   int    // of the graph, by its number: what the variable is afterwards
	Variable string // its name
}

// variable returns the variable of a name, for an input or output of that type.
func (s *State) variable(name string, d tensor.DType, shape []int, static bool) (*Variable, error) {
	i, ok := s.index[name]
	if !ok {
		return nil, fmt.Errorf("%w: it has no variable %q", ErrState, name)
	}
	v := &s.vars[i]
	if !static || v.DType != d || !slices.Equal(v.Shape, shape) {
		return nil, fmt.Errorf("%w: variable %q is %v%v, in the graph %v%v", ErrState, name,
			v.DType, v.Shape, d, shape)
	}
	return v, nil
}

// stateInput gives an input its place in the state, if it is a variable.
func (c *compiler) stateInput(slot int) error {
	s, state := &c.plan.Slots[slot], c.opts.State
	if c.inner || state == nil {
		return nil
	}
	if _, ok := state.index[s.Value.Name]; !ok {
		return nil
	}
	shape, ok := s.Type.Ints()
	v, err := state.variable(s.Value.Name, s.Type.DType, shape, ok)
	if err != nil {
		return err
	}
	s.Place, s.Offset = InState, v.at.off
	c.variable[v.Name] = slot
	return nil
}

// stateOutputs notes which values become variables.
func (c *compiler) stateOutputs() error {
	if c.inner {
		return nil
	}
	if c.plan.remote && c.opts.State != nil {
		return fmt.Errorf("%w: state lies where the host cannot address it: train on cpu:0",
			ErrState)
	}
	done := map[string]bool{}
	for _, u := range c.opts.Updates {
		if u.Output < 0 || u.Output >= len(c.plan.Outputs) || done[u.Variable] {
			return fmt.Errorf("%w: variable %q has no output of its own", ErrState, u.Variable)
		}
		done[u.Variable] = true
		slot := c.plan.Outputs[u.Output]
		of := c.plan.Slots[slot]
		shape, ok := of.Type.Ints()
		v, err := c.opts.State.variable(u.Variable, of.Type.DType, shape, ok && of.Type.Static())
		if err != nil {
			return err
		}
		to, ok := c.variable[v.Name]
		if !ok { // it is written and never read
			to = len(c.plan.Slots)
			c.plan.Slots = append(c.plan.Slots, Slot{Value: of.Value, Type: of.Type,
				Place: InState, Offset: v.at.off, Bytes: v.at.n, Over: -1, First: -1, Last: -1})
			c.variable[v.Name] = to
			c.settle(slot, to)
		}
		c.updates = append(c.updates, copied{from: slot, to: to})
	}
	return c.kept(done)
}

// settle has a value be computed where a variable lies that the graph does not read.
func (c *compiler) settle(from, to int) {
	p := c.plan
	s := &p.Slots[p.root(from)]
	if s.Place == InArena && s.First >= 0 && p.begin(from) == 0 && s.Bytes == p.Slots[to].Bytes {
		s.Place, s.Offset = InState, p.Slots[to].Offset
	}
}

// kept refuses variables that take over what another was before the iteration, which has replaced
// it by then.
func (c *compiler) kept(replaced map[string]bool) error {
	p := c.plan
	for i, u := range c.updates {
		root := p.root(u.from)
		if s := &p.Slots[root]; s.Place == InState && s.First < 0 && root != u.to &&
			replaced[s.Value.Name] {
			return fmt.Errorf("%w: variable %q is to become what %q was, which is replaced, too",
				ErrState, c.opts.Updates[i].Variable, s.Value.Name)
		}
	}
	return nil
}

// over lists the inputs that output k of a kernel may be written over where it is what a variable
// becomes.
func over(kernel compute.Kernel, k int) (inputs []int) {
	if ip, ok := kernel.(compute.InPlace); ok && k == 0 {
		inputs = ip.InPlace()
	}
	if r, ok := kernel.(compute.Renewing); ok {
		if all := r.Renewing(); k < len(all) && !slices.Contains(inputs, all[k]) {
			inputs = append(inputs[:len(inputs):len(inputs)], all[k])
		}
	}
	return inputs
}

// replaces is the input of a step, one of those over which output k may be written, whose place
// that takes since the variable becomes it; -1 for none. Nobody may read the variable afterwards.
func (c *compiler) replaces(st *Step, k int) int {
	p := c.plan
	if k >= len(st.Out) || st.Out[k] < 0 {
		return -1
	}
	out := st.Out[k]
	for _, u := range c.updates {
		if p.root(u.from) != out || p.begin(u.from) != 0 ||
			p.Slots[u.from].Bytes != p.Slots[out].Bytes {
			continue
		}
		for _, n := range over(st.Kernel, k) {
			if n >= len(st.In) || st.In[n] < 0 || p.root(st.In[n]) != u.to {
				continue
			}
			to := &p.Slots[u.to]
			if p.readers(st, u.to) == 1 && to.Bytes == p.Slots[out].Bytes &&
				to.Last < len(p.Steps) && &p.Steps[to.Last] == st {
				return n
			}
		}
	}
	return -1
}

// replace lets outputs of step i that variables become take the variables' places, where the kernel
// may write over them and nobody reads them afterwards.
func (c *compiler) replace(i int, of []*block) {
	p := c.plan
	st := &p.Steps[i]
	for k, out := range st.Out {
		if out < 0 || p.Slots[out].Place != InArena {
			continue
		}
		if n := c.replaces(st, k); n >= 0 {
			p.Slots[out].Place, p.Slots[out].Offset = InState, p.Slots[p.root(st.In[n])].Offset
			of[out] = nil
		}
	}
}

// moveUpdates lists what a run copies to variables after its steps, and when each is replaced.
func (c *compiler) moveUpdates() {
	p := c.plan
	p.replaced = map[string]int{}
	for i, u := range c.updates {
		name := c.opts.Updates[i].Variable
		from := &p.Slots[p.root(u.from)]
		if from.Place == InState && from.Offset+p.begin(u.from) == p.Slots[u.to].Offset {
			p.replaced[name] = from.First
			continue
		}
		p.updates = append(p.updates, u)
		p.replaced[name] = len(p.Steps)
	}
}

// Replaced returns the number of the step that gives a variable its new value, and that of all
// steps where a run does so after its last; -1 is for a variable that the plan does not replace,
// and for one that stays what it is.
func (p *Plan) Replaced(variable string) int {
	if i, ok := p.replaced[variable]; ok {
		return i
	}
	return -1
}

// Follow has runs of the program, until it is called again, call f after each step with its number,
// on the goroutine that runs it; nobody where f is nil. Steps within bodies are not told of.
func (r *Program) Follow(f func(step int)) { r.follow = f }

// copyUpdates replaces the variables whose new values lie elsewhere.
func (r *Program) copyUpdates() {
	for _, u := range r.plan.updates {
		copy(r.tensors[u.to].Data, r.tensors[u.from].Data)
	}
}

// BindState is [Plan.Bind] for a plan that was compiled with a state, whose memory of State.Bytes
// bytes is aligned as the arena is. Inputs that are variables are read there: they are not filled
// before a run, and a run that succeeds has replaced them. After a run that fails some may have
// been replaced, and others not.
func (p *Plan) BindState(arena, packed, state []byte) (*Program, error) {
	if int64(len(state)) < p.State.Bytes() {
		return nil, fmt.Errorf("graph %q: needs %d bytes of state, given %d", p.Graph.Name,
			p.State.Bytes(), len(state))
	}
	return p.bindAll(arena, packed, state, nil)
}
