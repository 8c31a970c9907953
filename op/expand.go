package op

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Expansion says what one call is in terms of other operators: steps in order over numbered values.
// Values 0 to NumIn-1 are the call's inputs; those that follow are constants and results of steps.
type Expansion struct {
	Steps  []Step
	Consts map[int]*tensor.Tensor // the values that are constants; they must not be written
	Out    []int                  // the value of each output of the call
}

// Step is one call of an expansion. A value of -1 is an operand or a result that is left out.
type Step struct {
	Call *Call
	In   []int
	Out  []int
}

// DefaultExpansionOpset is the version of ONNX's own operators in which [Expand] speaks when none
// is given.
const DefaultExpansionOpset = 20

// minExpansionOpset is the oldest version that definitions speak: operators that exist only in
// newer ones have theirs.
const minExpansionOpset = 13

// errLater is the kind of error about a definition that depends on what is not known yet of an
// operand.
var errLater = errors.New("not known yet")

// Expand returns what a call is in ONNX's own operators, written in the given opset of ONNX (0 for
// [DefaultExpansionOpset]) or the oldest newer one that has them. ok is false when the operator is
// no composition, or when what is known of the operands does not suffice to write it. A call that
// breaks the operator's contract is an error.
func (o *Op) Expand(call *Call, in []Type, present []bool, opset int) (e *Expansion, ok bool,
	err error) {
	if o.define == nil {
		return nil, false, nil
	}
	defer recoverInto(call, &err)
	x, err := expand(o.define, call, in, present, opset)
	if errors.Is(err, errLater) {
		return nil, false, nil
	}
	return x.e, err == nil, err
}

// value is the number of a value of an expansion.
type value int

const absent value = -1

// expander writes an expansion, inferring types as it goes. The first error ends it: what is asked
// of it afterwards does nothing.
type expander struct {
	*Call
	e       *Expansion
	types   []Type // of all values
	present []bool
	opset   int
	// lookup is [Lookup]. Rows name rules, rules write steps, and a step needs the table of rows: by
	// name that would be a cycle of initialisation.
	lookup func(domain, name string, version int) (*Op, error)
	err    error
}

// composition is the row of an operator that is defined by others. halves tells which outputs stay
// float32 when the operands are float16 or bfloat16: those from number keep on.
func composition(o Op, keep int, define func(*expander)) Op {
	o.Domain, o.Since, o.define = MicrosoftDomain, []int{1}, define
	o.Infer = func(c *Infer) error { return c.inferExpanded(keep, define) }
	o.Eval = func(c *Eval) error {
		in, present := c.types()
		rule := &Infer{Call: c.Call, In: in, Present: present, Out: make([]Type, c.NumOut)}
		if err := rule.inferExpanded(keep, define); err != nil {
			return err
		}
		return c.widening(func(c *Eval) error {
			return c.evalExpanded(define)
		}, func(i int) tensor.DType {
			if d := rule.Out[i].DType; d == tensor.Float16 || d == tensor.BFloat16 {
				return d
			}
			return tensor.Float32
		})
	}
	return o
}

// Composed reports whether the operator is defined by others, so that its evaluation makes values
// beside its outputs.
func (o *Op) Composed() bool { return o.define != nil }

// newExpander starts an expansion over values of the given types.
func newExpander(call *Call, types []Type, present []bool, opset int) *expander {
	if opset == 0 {
		opset = DefaultExpansionOpset
	}
	return &expander{Call: call, types: slices.Clone(types), present: present,
		opset: max(opset, minExpansionOpset), lookup: Lookup,
		e: &Expansion{Consts: map[int]*tensor.Tensor{}}}
}

// expand runs a definition.
func expand(define func(*expander), call *Call, in []Type, present []bool, opset int) (*expander,
	error) {
	x := newExpander(call, in, present, opset)
	define(x)
	if x.err != nil {
		return x, x.err
	}
	for i := range call.NumOut {
		if i >= len(x.e.Out) || x.e.Out[i] < 0 {
			return x, call.Errorf(ErrUnsupported, "output %d", i)
		}
	}
	return x, nil
}

// inferExpanded is the shape rule of a composition: the rules of its parts, one after the other.
func (c *Infer) inferExpanded(keep int, define func(*expander)) error {
	x, err := expand(define, c.Call, c.In, c.Present, 0)
	if errors.Is(err, errLater) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range c.Out {
		c.Out[i] = x.types[x.e.Out[i]]
		c.Out[i].Const, c.Out[i].Elems = nil, nil
		if d := c.Out[i].DType; i >= keep && (d == tensor.Float16 || d == tensor.BFloat16) {
			c.Out[i].DType = tensor.Float32
		}
	}
	return nil
}

// evalExpanded evaluates the parts of a composition.
func (c *Eval) evalExpanded(define func(*expander)) error {
	in, present := c.types()
	x, err := expand(define, c.Call, in, present, 0)
	if err != nil {
		return err
	}
	values := make([]*tensor.Tensor, len(x.types))
	copy(values, c.In)
	for i, t := range x.e.Consts {
		values[i] = t
	}
	for _, s := range x.e.Steps {
		if err := c.part(s, values); err != nil {
			return err
		}
	}
	for i := range c.NumOut {
		if err := c.give(i, values[x.e.Out[i]]); err != nil {
			return err
		}
	}
	return nil
}

// types are the types of the operands, with their contents, and which are there.
func (c *Eval) types() (in []Type, present []bool) {
	in, present = make([]Type, len(c.In)), make([]bool, len(c.In))
	for i, t := range c.In {
		if t != nil {
			in[i], present[i] = Concrete(t.DType, t.Shape...), true
			in[i].Const = t
		}
	}
	return in, present
}

// part evaluates one step.
func (c *Eval) part(s Step, values []*tensor.Tensor) error {
	o, err := Lookup(s.Call.Domain, s.Call.Type, s.Call.Version)
	if err != nil {
		return err
	}
	e := &Eval{Call: s.Call, Ctx: c.Ctx, In: make([]*tensor.Tensor, len(s.In)),
		Out: make([]*tensor.Tensor, len(s.Out))}
	for i, v := range s.In {
		if v >= 0 {
			e.In[i] = values[v]
		}
	}
	if err := RunIn(o, e); err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	for i, v := range s.Out {
		if v >= 0 {
			values[v] = e.Out[i]
		}
	}
	return nil
}

// give makes output i equal to t.
func (c *Eval) give(i int, t *tensor.Tensor) error {
	out, err := c.Output(i, t.DType, t.Shape)
	if err != nil {
		return err
	}
	copy(out.Data, t.Data)
	copy(out.Strings, t.Strings)
	return nil
}

// fail ends the expansion with an error of that kind.
func (x *expander) fail(kind error, format string, args ...any) {
	if x.err == nil {
		x.err = x.Errorf(kind, format, args...)
	}
}

// input returns input i of the call, absent when it is not given.
func (x *expander) input(i int) value {
	if i >= x.NumIn || !x.present[i] {
		return absent
	}
	return value(i)
}

// wants reports whether the call has output i.
func (x *expander) wants(i int) bool { return i < x.NumOut }

// give sets output i of the call.
func (x *expander) give(i int, v value) {
	for len(x.e.Out) <= i {
		x.e.Out = append(x.e.Out, int(absent))
	}
	x.e.Out[i] = int(v)
}

// typ returns what is known of a value.
func (x *expander) typ(v value) Type {
	if v == absent || x.err != nil {
		return Type{}
	}
	return x.types[v]
}

// shape returns the dimensions of a value; the definition has to wait when its rank is not known.
func (x *expander) shape(v value) []Dim {
	t := x.typ(v)
	if !t.Ranked {
		x.later()
	}
	return t.Shape
}

func (x *expander) rank(v value) int { return len(x.shape(v)) }

// later ends the expansion until more is known of the operands.
func (x *expander) later() {
	if x.err == nil {
		x.err = fmt.Errorf("%s: %w", x.Name(), errLater)
	}
}

// ranked returns the dimensions of a value and refuses any other rank than the given ones.
func (x *expander) ranked(v value, what string, ranks ...int) []Dim {
	s := x.shape(v)
	if x.err == nil && !slices.Contains(ranks, len(s)) {
		x.fail(ErrInput, "%s is %v, must have rank %s", what, x.types[v], oneOf(ranks))
	}
	if x.err != nil {
		return unknownDims(slices.Max(ranks))
	}
	return s
}

func oneOf(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint(ranks[0])
	}
	return fmt.Sprintf("one of %v", ranks)
}

// dtype returns the element type of a value; the definition has to wait when it is not known.
func (x *expander) dtype(v value) tensor.DType {
	d := x.typ(v).DType
	if d == tensor.Undefined {
		x.later()
	}
	return d
}

// constant adds a constant.
func (x *expander) constant(t *tensor.Tensor) value {
	if x.err != nil {
		return absent
	}
	v := len(x.types)
	x.types = append(x.types, TypeOf(t))
	x.e.Consts[v] = t
	return value(v)
}

// scalar adds a constant of the element type of another value.
func (x *expander) scalar(like value, f float64) value {
	d := x.dtype(like)
	if x.err != nil {
		return absent
	}
	t, err := tensor.New(d)
	if err != nil || !narrowFloats(t, 0, []float64{f}) {
		x.fail(ErrInput, "operand is %v, which the operator does not take", d)
		return absent
	}
	return x.constant(t)
}

// ints adds a vector of integers, as shapes and axes are given.
func (x *expander) ints(v ...int64) value { return x.constant(tensor.From(v, len(v))) }

// op adds a call of one of ONNX's operators with one output. The version is the expansion's opset,
// or the first one that has the operator.
func (x *expander) op(typ string, attrs Attrs, in ...value) value {
	return x.ops("", typ, x.opset, 1, attrs, in...)[0]
}

// ops adds a call of an operator with any number of outputs.
func (x *expander) ops(domain, typ string, version, outputs int, attrs Attrs, in ...value) []value {
	out := slices.Repeat([]value{absent}, outputs)
	if x.err != nil {
		return out
	}
	for len(in) > 0 && in[len(in)-1] == absent {
		in = in[:len(in)-1]
	}
	o, err := x.lookup(domain, typ, 0)
	if err != nil {
		x.err = err
		return out
	}
	s := Step{Call: &Call{Domain: domain, Type: typ, Version: max(version, o.Since[0]),
		Attrs: attrs, NumIn: len(in), NumOut: outputs}}
	types, present := make([]Type, len(in)), make([]bool, len(in))
	for i, v := range in {
		if s.In = append(s.In, int(v)); v >= 0 {
			types[i], present[i] = x.types[v], true
		}
	}
	results, err := InferTypes(o, s.Call, types, present)
	if err != nil {
		x.err = fmt.Errorf("%s: %w", x.Name(), err)
		return out
	}
	for i := range out {
		out[i] = value(len(x.types))
		s.Out = append(s.Out, int(out[i]))
		x.types = append(x.types, results[i])
	}
	x.e.Steps = append(x.e.Steps, s)
	return out
}

// add is the sum of two values; an absent one counts nothing.
func (x *expander) add(a, b value) value {
	switch {
	case a == absent:
		return b
	case b == absent:
		return a
	}
	return x.op("Add", nil, a, b)
}

// scale is a value times a number, the value itself for 1.
func (x *expander) scale(v value, by float64) value {
	if by == 1 {
		return v
	}
	return x.op("Mul", nil, v, x.scalar(v, by))
}

// cast converts a value to an element type.
func (x *expander) cast(v value, d tensor.DType) value {
	if x.typ(v).DType == d {
		return v
	}
	return x.op("Cast", Attrs{IntAttr("to", int64(d))}, v)
}

// reshape gives a value another shape: 0 keeps a dimension, -1 is what remains.
func (x *expander) reshape(v value, shape ...int64) value {
	return x.op("Reshape", nil, v, x.ints(shape...))
}

func (x *expander) transpose(v value, perm ...int64) value {
	return x.op("Transpose", Attrs{IntsAttr("perm", perm...)}, v)
}

func (x *expander) unsqueeze(v value, axes ...int64) value {
	return x.op("Unsqueeze", nil, v, x.ints(axes...))
}

// dim is one dimension of a value as a vector of one int64.
func (x *expander) dim(v value, axis int64) value {
	if d, ok := x.known(v, axis); ok {
		return x.ints(int64(d))
	}
	return x.op("Gather", Attrs{IntAttr("axis", 0)}, x.op("Shape", nil, v), x.ints(axis))
}

// known is one dimension of a value as a number.
func (x *expander) known(v value, axis int64) (int, bool) {
	s := x.shape(v)
	if x.err != nil || axis < 0 || int(axis) >= len(s) {
		return 0, false
	}
	return s[axis].Int()
}

// count is 0, 1, 2, … as many as n, a vector of one int64, says.
func (x *expander) count(n value) value {
	zero, one := x.constant(tensor.Scalar[int64](0)), x.constant(tensor.Scalar[int64](1))
	return x.op("Range", nil, zero, x.op("Squeeze", nil, n, x.ints(0)), one)
}
