package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// controlOps run sub-graphs: If and Loop. Scan has a file of its own.
var controlOps = []Op{
	{Name: "If", Since: []int{1, 11, 13, 16, 19, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1, MinOut: 1,
		MaxOut: -1,
		Traits: Containers, Infer: inferIf, Eval: evalIf},
	{Name: "Loop", Since: []int{1, 11, 13, 16, 19, 21, 23, 24, 25}, MinIn: 0, MaxIn: -1, MinOut: 1,
		MaxOut: -1,
		Traits: Containers, Infer: inferLoop, Eval: evalLoop},
}

// body returns a sub-graph attribute, checked against the numbers of inputs and outputs that its
// operator gives it.
func (c *Call) body(name string, formals, outputs int) (Body, error) {
	b := c.Attrs.Body(name)
	if b == nil {
		return nil, c.Errorf(ErrAttr, "has no %s", name)
	}
	if b.NumFormals() != formals || b.NumOutputs() != outputs {
		return nil, c.Errorf(ErrAttr, "%s takes %d inputs and gives %d outputs, wants %d and %d",
			name, b.NumFormals(), b.NumOutputs(), formals, outputs)
	}
	return b, nil
}

// branches returns then_branch and else_branch.
func branches(c *Call) (then, els Body, err error) {
	if then, err = c.body("then_branch", 0, c.NumOut); err != nil {
		return nil, nil, err
	}
	els, err = c.body("else_branch", 0, c.NumOut)
	return then, els, err
}

func inferIf(c *Infer) error {
	then, els, err := branches(c.Call)
	if err != nil {
		return err
	}
	captures := c.In[1:]
	cond, known := c.Ints(0)
	var out []Type
	switch {
	case !known:
		out, err = inferBranches(c.Call, then, els, captures)
	case len(cond) != 1:
		return c.Errorf(ErrInput, "condition has %d elements, wants one", len(cond))
	case cond[0] != 0:
		out, err = then.Infer(captures)
	default:
		out, err = els.Infer(captures)
	}
	if err != nil {
		return err
	}
	return c.setOut(out, captures)
}

// inferBranches is what is certain of the outputs of an If whose condition is not known.
func inferBranches(c *Call, then, els Body, captures []Type) ([]Type, error) {
	a, errA := then.Infer(captures)
	b, errB := els.Infer(captures)
	switch {
	case errA != nil && errB != nil:
		return nil, errA
	case errA != nil:
		// a branch that cannot run for these shapes is never taken: the exporter's condition sees
		// to that
		a = typesOnly(b)
	case errB != nil:
		b = typesOnly(a)
	}
	if len(a) != len(b) {
		return nil, c.Errorf(ErrAttr, "branches give %d and %d outputs", len(a), len(b))
	}
	out := make([]Type, len(a))
	for i := range a {
		var err error
		if out[i], err = joinTypes(c, a[i], b[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func typesOnly(ts []Type) []Type {
	out := make([]Type, len(ts))
	for i, t := range ts {
		out[i] = t.TypeOnly()
	}
	return out
}

// joinTypes is what is certain of a value that has one type or the other. Types with element types
// that differ have no join.
func joinTypes(c *Call, a, b Type) (Type, error) {
	t, ok := joined(a, b)
	if !ok {
		return Type{}, c.Errorf(ErrInput, "a value is %v on one way and %v on another", a, b)
	}
	if t.Ranked && a.Elems != nil && slices.EqualFunc(a.Elems, b.Elems, Dim.Equal) {
		t.Elems = a.Elems
	}
	return t, nil
}

// setOut sets the outputs to types that a body gives for the inputs in. Symbols that the body made
// up are its own: the same name may stand for another size outside, so that only those of the
// inputs get out.
func (c *Infer) setOut(out, in []Type) error {
	if len(out) != len(c.Out) {
		return c.Errorf(ErrAttr, "body gives %d outputs, wants %d", len(out), len(c.Out))
	}
	outer := symbols(in)
	for i, t := range out {
		c.Out[i] = t.restrict(outer)
	}
	return nil
}

// symbols collects the names in shapes and elements.
func symbols(ts []Type) map[string]bool {
	m := map[string]bool{}
	for _, t := range ts {
		t.symbols(m)
	}
	return m
}

func (t Type) symbols(m map[string]bool) {
	for _, d := range slices.Concat(t.Shape, t.Elems) {
		for _, a := range d.atoms() {
			m[a] = true
		}
	}
	if t.Elem != nil {
		t.Elem.symbols(m)
	}
}

// restrict replaces every dimension that has a symbol outside names by Unknown.
func (t Type) restrict(names map[string]bool) Type {
	keep := func(ds []Dim) []Dim {
		if ds == nil {
			return nil
		}
		out := make([]Dim, len(ds))
		for i, d := range ds {
			if out[i] = d; slices.ContainsFunc(d.atoms(), func(a string) bool {
				return !names[a]
			}) {
				out[i] = Unknown()
			}
		}
		return out
	}
	t.Shape, t.Elems = keep(t.Shape), keep(t.Elems)
	if t.Elem != nil {
		t.Elem = t.Elem.restrict(names).held()
	}
	return t
}

func evalIf(c *Eval) error {
	then, els, err := branches(c.Call)
	if err != nil {
		return err
	}
	b := els
	if cond, err := c.condition(0); err != nil {
		return err
	} else if cond {
		b = then
	}
	out, err := b.Eval(c.Ctx, c.CaptureTensors())
	if err != nil {
		return err
	}
	copy(c.Out, out)
	return c.reserve(c.newBytes(out))
}

// condition reads a Bool input of one element.
func (c *Eval) condition(i int) (bool, error) {
	v, err := c.truth(c.In[i])
	if err != nil {
		return false, fmt.Errorf("input %d: %w", i, err)
	}
	return v, nil
}

func (c *Call) truth(t *tensor.Tensor) (bool, error) {
	if t.DType != tensor.Bool || t.Len() != 1 {
		return false, c.Errorf(ErrInput, "condition is %v%v, wants one bool", t.DType, t.Shape)
	}
	return t.Data[0] != 0, nil
}

// loop is how a Loop is wired: its inputs are M, cond and the carried values; the body takes
// iteration number, condition and carried values, and gives condition, carried values and scanned
// values.
type loop struct {
	body           Body
	carried, scans int
}

func loopOf(c *Call) (loop, error) {
	carried := max(c.NumIn-c.Captures-2, 0)
	l := loop{carried: carried, scans: c.NumOut - carried}
	if l.scans < 0 {
		return l, c.Errorf(ErrInput, "%d carried values, %d outputs", carried, c.NumOut)
	}
	var err error
	l.body, err = c.body("body", 2+carried, 1+c.NumOut)
	return l, err
}

// operands splits the inputs of a Loop, which may leave out M and cond, both or from the end.
func operands[T any](c *Call, in []T) (carried, captures []T) {
	n := len(in) - c.Captures
	return in[min(2, n):n], in[n:]
}

// inferLoop finds types of the carried values that hold before every iteration: it starts from the
// initial ones and forgets what an iteration changes until nothing changes any more.
func inferLoop(c *Infer) error {
	l, err := loopOf(c.Call)
	if err != nil {
		return err
	}
	if d := c.tripType(); d != tensor.Int64 && d != tensor.Undefined {
		return c.Errorf(ErrInput, "the trip count is %v, want int64", d)
	}
	initial, captures := operands(c.Call, c.In)
	state := make([]Type, len(initial))
	for i, t := range initial {
		state[i] = t.withoutContents()
	}
	for round := 0; ; round++ {
		out, changed, err := l.iterate(c, state, captures, round)
		if err != nil {
			return err
		}
		if changed {
			continue
		}
		return l.setTypes(c, state, out[1:])
	}
}

// setTypes sets the types of the outputs once state holds for every iteration.
func (l *loop) setTypes(c *Infer, state, out []Type) error {
	copy(c.Out, state)
	for i, t := range out {
		switch {
		case i >= l.carried && t.DType.IsContainer():
			return c.Errorf(ErrInput, "scanned output %d is a %v; only tensors can be stacked",
				i-l.carried, t)
		case i >= l.carried:
			c.Out[i] = c.stacked(t)
		case unwraps(state[i], t):
			c.Out[i] = t
		}
	}
	return nil
}

// unwraps reports whether a body that takes an optional gives a plain value for it, which is then
// the loop's result, too.
func unwraps(state, out Type) bool {
	return state.DType == tensor.Optional && out.DType != tensor.Optional &&
		out.DType != tensor.Undefined
}

// iterate types one iteration, returns its outputs, and joins the carried ones into state, telling
// whether that changed anything.
func (l *loop) iterate(c *Infer, state, captures []Type, round int) (out []Type, changed bool,
	err error) {
	in := append([]Type{Ranked(tensor.Int64), Ranked(tensor.Bool)},
		slices.Concat(state, captures)...)
	if out, err = l.body.Infer(in); err != nil {
		return nil, false, err
	}
	if len(out) != 1+len(c.Out) {
		return nil, false, c.Errorf(ErrAttr, "body gives %d outputs, wants %d", len(out),
			1+len(c.Out))
	}
	outer := symbols(c.In)
	for i := range out {
		out[i] = out[i].restrict(outer)
	}
	changed, err = widen(c.Call, state, slices.Clone(out[1:]), round)
	return out, changed, err
}

// widen joins types into state, telling whether that changed anything.
func widen(c *Call, state, by []Type, round int) (changed bool, err error) {
	for i := range state {
		if unwraps(state[i], by[i]) {
			by[i] = OptionalOf(by[i])
		}
		t, err := joinTypes(c, state[i], by[i])
		if err != nil {
			return false, err
		}
		t.Elems = nil
		if round > maxWiden {
			t = t.TypeOnly()
		}
		changed = changed || !sameKnowledge(t, state[i])
		state[i] = t
	}
	return changed, nil
}

// maxWiden bounds the rounds in which single dimensions are forgotten, before ranks are.
const maxWiden = 16

// sameKnowledge is equality for which an unknown dimension equals itself.
func sameKnowledge(a, b Type) bool {
	return a.same(b, func(x, y Dim) bool { return x.Equal(y) || x.IsUnknown() && y.IsUnknown() })
}

// stacked is the type of a scanned output: one slice an iteration. Their number is known when M is
// and nothing else can end the loop.
func (c *Infer) stacked(slice Type) Type {
	if !slice.Ranked {
		return Unranked(slice.DType)
	}
	trips := Unknown()
	given := func(i int) bool { return i < c.NumIn-c.Captures && c.Has(i) }
	if m := c.Dims(0); given(0) && !given(1) && len(m) == 1 {
		trips = m[0]
		if n, ok := trips.Int(); ok {
			trips = Known(max(n, 0))
		}
	}
	return Ranked(slice.DType, slices.Concat([]Dim{trips}, slice.Shape)...)
}

// loopLimits reads what ends a Loop: how many iterations it makes at most, and whether a condition
// is looked at, with its first value. One without either would never end.
func loopLimits(c *Eval) (trips int64, conditional, cond bool, err error) {
	given := func(i int) bool { return i < c.NumIn-c.Captures && c.Has(i) }
	trips, conditional, cond = math.MaxInt64, given(1), true
	if given(0) {
		if d := c.In[0].DType; d != tensor.Int64 {
			return 0, false, false, c.Errorf(ErrInput, "the trip count is %v, want int64", d)
		}
		if trips, err = c.Int(0); err != nil {
			return 0, false, false, err
		}
	}
	if conditional {
		cond, err = c.condition(1)
	} else if trips == math.MaxInt64 {
		err = c.Errorf(ErrInput, "has neither a trip count nor a condition that could end it")
	}
	return trips, conditional, cond, err
}

// tripType is the element type of a Loop's trip count, Undefined without one.
func (c *Infer) tripType() tensor.DType {
	if c.NumIn-c.Captures > 0 && c.Has(0) {
		return c.In[0].DType
	}
	return tensor.Undefined
}

func evalLoop(c *Eval) error {
	l, err := loopOf(c.Call)
	if err != nil {
		return err
	}
	trips, conditional, cond, err := loopLimits(c)
	if err != nil {
		return err
	}
	state, captures := operands(c.Call, c.In)
	if slices.Contains(state, nil) || slices.Contains(captures, nil) {
		return c.Errorf(ErrInput, "a carried or captured value is left out")
	}
	state = slices.Clone(state)
	if (trips <= 0 || !cond) && slices.Contains(optionals(state), true) {
		if err := l.unwrapInitial(c, state); err != nil {
			return err
		}
	}
	scans, err := l.run(c, state, captures, trips, conditional, cond)
	if err != nil {
		return err
	}
	copy(c.Out, state)
	return c.putScans(l, scans)
}

// run iterates the body until there were trips, or the condition ends it where the loop is
// conditional. It leaves the last values in state and returns what the iterations gave to collect.
func (l *loop) run(c *Eval, state, captures []*tensor.Tensor, trips int64,
	conditional, cond bool) ([]stack, error) {
	optional, held, scans := optionals(state), carried{c: c}, make([]stack, l.scans)
	for i := int64(0); i < trips && cond; i++ {
		head := []*tensor.Tensor{tensor.Scalar(i), tensor.Scalar(cond)}
		out, err := c.iterate(l.body, i, slices.Concat(head, wrapped(state, optional), captures))
		if err != nil {
			return nil, err
		}
		if conditional {
			if cond, err = c.truth(out[0]); err != nil {
				return nil, err
			}
		}
		copy(state, out[1:])
		if err := held.become(state); err != nil {
			return nil, err
		}
		if err := pushAll(c, scans, out[1+l.carried:]); err != nil {
			return nil, err
		}
	}
	return scans, nil
}

// optionals tells which initial values of a loop are optionals. Its body may give a plain value for
// one, which the next iteration takes as an optional with that value.
func optionals(state []*tensor.Tensor) []bool {
	out := make([]bool, len(state))
	for i, t := range state {
		out[i] = t.DType == tensor.Optional
	}
	return out
}

func wrapped(state []*tensor.Tensor, optional []bool) []*tensor.Tensor {
	out := slices.Clone(state)
	for i, t := range out {
		if optional[i] && t.DType != tensor.Optional {
			out[i] = tensor.NewOptional(t)
		}
	}
	return out
}

// unwrapInitial gives the results of a loop without iterations the types that its body would give
// them: where the initial value is an optional and the body gives a plain value, the result is the
// value in the optional.
func (l *loop) unwrapInitial(c *Eval, state []*tensor.Tensor) error {
	types, err := l.body.Infer(loopTypes(c))
	if err != nil {
		return err
	}
	for i, t := range state {
		if !unwraps(ValueType(t), types[1+i]) {
			continue
		}
		if len(t.Items) == 0 {
			return c.Errorf(ErrInput, "makes no iteration, and its carried value %d is an "+
				"optional without a value", i)
		}
		state[i] = t.Items[0]
	}
	return nil
}

// iterate runs iteration i of a body unless the host ends the evaluation.
func (c *Eval) iterate(b Body, i int64, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	err := Pass(c.Ctx)
	if err == nil {
		var out []*tensor.Tensor
		if out, err = b.Eval(c.Ctx, in); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s: iteration %d: %w", c.Name(), i, err)
}

// stack collects the slices of a scanned output.
type stack struct {
	slices []*tensor.Tensor
	bytes  int
}

// pushAll pushes one slice on each stack.
func pushAll(c *Eval, to []stack, slices []*tensor.Tensor) error {
	for k := range to {
		if err := to[k].push(c, slices[k]); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) push(c *Eval, t *tensor.Tensor) error {
	if t.DType.IsContainer() {
		return c.Errorf(ErrInput, "scanned output is a %v; only tensors can be stacked", t.DType)
	}
	if len(s.slices) > 0 {
		if first := s.slices[0]; t.DType != first.DType || !slices.Equal(t.Shape, first.Shape) {
			return c.Errorf(ErrInput, "scanned output changes from %v%v to %v%v", first.DType,
				first.Shape, t.DType, t.Shape)
		}
	}
	n, err := tensor.ByteCount(t.DType, t.Shape)
	if err != nil {
		return err
	}
	if s.bytes += n; int64(s.bytes) > tensor.MaxHeapBytes {
		return c.Errorf(tensor.ErrShape, "scanned output outgrows %d bytes",
			int64(tensor.MaxHeapBytes))
	}
	if err := c.reserve(int64(n)); err != nil {
		return fmt.Errorf("%s: scanned output: %w", c.Name(), err)
	}
	s.slices = append(s.slices, t)
	return nil
}

// sliceType is the type and shape of the slices. When there are none, that of output i of the body
// tells, with 0 for what it leaves open.
func (s *stack) sliceType(i int, types func() ([]Type, error)) (tensor.DType, []int, error) {
	if len(s.slices) > 0 {
		return s.slices[0].DType, s.slices[0].Shape, nil
	}
	ts, err := types()
	if err != nil {
		return 0, nil, err
	}
	return ts[i].DType, openAsZero(ts[i]), nil
}

// putScans stacks the slices of each scanned output along a new first axis.
func (c *Eval) putScans(l loop, scans []stack) error {
	for k, s := range scans {
		d, slice, err := s.sliceType(1+l.carried+k, func() ([]Type, error) {
			return l.body.Infer(loopTypes(c))
		})
		if err != nil {
			return err
		}
		out, err := c.Output(l.carried+k, d, append([]int{len(s.slices)}, slice...))
		if err != nil {
			return err
		}
		for i, t := range s.slices {
			copyElems(out, i*t.Len(), t, 0, t.Len())
		}
		c.release(int64(s.bytes))
	}
	return nil
}

// loopTypes are the types of a Loop's operands as its body takes them.
func loopTypes(c *Eval) []Type {
	carried, captures := operands(c.Call, c.In)
	ts := []Type{Ranked(tensor.Int64), Ranked(tensor.Bool)}
	for _, t := range slices.Concat(carried, captures) {
		ts = append(ts, ValueType(t))
	}
	return ts
}
