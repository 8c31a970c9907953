package op

import (
	"errors"
	"fmt"
	"math"
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

// DefaultExpansionOpset is the version of ONNX's own operators in which [Op.Expand] writes an
// expansion when the caller gives none.
const DefaultExpansionOpset = 20

// minExpansionOpset is the oldest version of ONNX's operators that definitions use. Operators that
// came later are used in the version in which they came.
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

// Var is the number of a value of an expansion.
type Var int

// Absent stands for an operand that is not given, and for a result that is left out.
const Absent Var = -1

// Expander writes an expansion, inferring types as it goes. The first error ends it: what is asked
// of it afterwards does nothing.
type Expander struct {
	*Call
	Opset int   // of ONNX, for what the definition calls
	Err   error // the first one

	e       *Expansion
	types   []Type // of all values
	present []bool
	// lookup is [Lookup], held in a field because Go refuses a cycle of initialisation: rows refer
	// to rules, rules write steps, and a step looks its operator up in the table of rows.
	lookup func(domain, name string, version int) (*Op, error)
}

// AllRounded is a composition all of whose outputs have the type of its first operand.
const AllRounded = math.MaxInt

// Composition completes the row of an operator that is defined by others: define writes it as calls
// of those, and rule, evaluation and [Op.Expand] follow from that. define runs as soon as the rule
// does, when little may be known of the operands; it calls [Expander.Later] when that is not
// enough. When the operands are float16 or bfloat16, everything is computed in float32, and the
// outputs before number keep are rounded in the end ([AllRounded]: all of them).
func Composition(o Op, keep int, define func(*Expander)) Op {
	o.define = define
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
func newExpander(call *Call, types []Type, present []bool, opset int) *Expander {
	if opset == 0 {
		opset = DefaultExpansionOpset
	}
	return &Expander{Call: call, types: slices.Clone(types), present: present,
		Opset: max(opset, minExpansionOpset), lookup: Lookup,
		e: &Expansion{Consts: map[int]*tensor.Tensor{}}}
}

// expand runs a definition.
func expand(define func(*Expander), call *Call, in []Type, present []bool, opset int) (*Expander,
	error) {
	x := newExpander(call, in, present, opset)
	define(x)
	if x.Err != nil {
		return x, x.Err
	}
	for i := range call.NumOut {
		if i >= len(x.e.Out) || x.e.Out[i] < 0 {
			return x, call.Errorf(ErrUnsupported, "output %d", i)
		}
	}
	return x, nil
}

// inferExpanded is the shape rule of a composition: the rules of its parts, one after the other.
func (c *Infer) inferExpanded(keep int, define func(*Expander)) error {
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
func (c *Eval) evalExpanded(define func(*Expander)) error {
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

// Fail ends the expansion with an error of that kind.
//
//go:noinline
func (x *Expander) Fail(kind error, format string, args ...any) {
	if x.Err == nil {
		x.Err = x.Errorf(kind, format, args...)
	}
}

// Input returns input i of the call, absent when it is not given.
//
//go:noinline
func (x *Expander) Input(i int) Var {
	if i >= x.NumIn || !x.present[i] {
		return Absent
	}
	return Var(i)
}

// Wants reports whether the call has output i.
//
//go:noinline
func (x *Expander) Wants(i int) bool { return i < x.NumOut }

// Give sets output i of the call.
//
//go:noinline
func (x *Expander) Give(i int, v Var) {
	for len(x.e.Out) <= i {
		x.e.Out = append(x.e.Out, int(Absent))
	}
	x.e.Out[i] = int(v)
}

// TypeOf returns what is known of a value.
//
//go:noinline
func (x *Expander) TypeOf(v Var) Type {
	if v == Absent || x.Err != nil {
		return Type{}
	}
	return x.types[v]
}

// Shape returns the dimensions of a value; the definition has to wait when its rank is not known.
func (x *Expander) Shape(v Var) []Dim {
	t := x.TypeOf(v)
	if !t.Ranked {
		x.Later()
	}
	return t.Shape
}

// Rank returns the rank of a value; the definition has to wait when it is not known.
//
//go:noinline
func (x *Expander) Rank(v Var) int { return len(x.Shape(v)) }

// Later ends the expansion until more is known of the operands.
func (x *Expander) Later() {
	if x.Err == nil {
		x.Err = fmt.Errorf("%s: %w", x.Name(), errLater)
	}
}

// Ranked returns the dimensions of a value and refuses any other rank than the given ones.
func (x *Expander) Ranked(v Var, what string, ranks ...int) []Dim {
	s := x.Shape(v)
	if x.Err == nil && !slices.Contains(ranks, len(s)) {
		x.Fail(ErrInput, "%s is %v, must have rank %s", what, x.types[v], oneOf(ranks))
	}
	if x.Err != nil {
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

// DType returns the element type of a value; the definition has to wait when it is not known.
func (x *Expander) DType(v Var) tensor.DType {
	d := x.TypeOf(v).DType
	if d == tensor.Undefined {
		x.Later()
	}
	return d
}

// Constant adds a constant.
func (x *Expander) Constant(t *tensor.Tensor) Var {
	if x.Err != nil {
		return Absent
	}
	v := len(x.types)
	x.types = append(x.types, TypeOf(t))
	x.e.Consts[v] = t
	return Var(v)
}

// Scalar adds a constant of the element type of another value.
func (x *Expander) Scalar(like Var, f float64) Var {
	d := x.DType(like)
	if x.Err != nil {
		return Absent
	}
	t, err := tensor.New(d)
	if err != nil || !narrowFloats(t, 0, []float64{f}) {
		x.Fail(ErrInput, "operand is %v, which the operator does not take", d)
		return Absent
	}
	return x.Constant(t)
}

// Ints adds a vector of integers, as shapes and axes are given.
//
//go:noinline
func (x *Expander) Ints(v ...int64) Var { return x.Constant(tensor.From(v, len(v))) }

// Op adds a call of one of ONNX's operators with one output. The version is the expansion's opset,
// or the first one that has the operator.
//
//go:noinline
func (x *Expander) Op(typ string, attrs Attrs, in ...Var) Var {
	return x.Ops("", typ, x.Opset, 1, attrs, in...)[0]
}

// Ops adds a call of an operator with any number of outputs.
func (x *Expander) Ops(domain, typ string, version, outputs int, attrs Attrs, in ...Var) []Var {
	out := slices.Repeat([]Var{Absent}, outputs)
	if x.Err != nil {
		return out
	}
	for len(in) > 0 && in[len(in)-1] == Absent {
		in = in[:len(in)-1]
	}
	o, err := x.lookup(domain, typ, 0)
	if err != nil {
		x.Err = err
		return out
	}
	s := Step{Call: &Call{Domain: domain, Type: typ, Version: max(version, o.Since[0]),
		Attrs: attrs, NumIn: len(in), NumOut: outputs}}
	types, present := x.typesOf(in)
	results, err := InferTypes(o, s.Call, types, present)
	if err != nil {
		x.Err = fmt.Errorf("%s: %w", x.Name(), err)
		return out
	}
	for _, v := range in {
		s.In = append(s.In, int(v))
	}
	for i := range out {
		out[i] = Var(len(x.types))
		s.Out = append(s.Out, int(out[i]))
		x.types = append(x.types, results[i])
	}
	x.e.Steps = append(x.e.Steps, s)
	return out
}

// typesOf returns the types of values, and which of them are given.
func (x *Expander) typesOf(vars []Var) (types []Type, present []bool) {
	types, present = make([]Type, len(vars)), make([]bool, len(vars))
	for i, v := range vars {
		if v >= 0 {
			types[i], present[i] = x.types[v], true
		}
	}
	return types, present
}

// Add is the sum of two values, of which an [Absent] one counts as zero.
//
//go:noinline
func (x *Expander) Add(a, b Var) Var {
	switch {
	case a == Absent:
		return b
	case b == Absent:
		return a
	}
	return x.Op("Add", nil, a, b)
}

// Scale is a value times a number, the value itself for 1.
//
//go:noinline
func (x *Expander) Scale(v Var, by float64) Var {
	if by == 1 {
		return v
	}
	return x.Op("Mul", nil, v, x.Scalar(v, by))
}

// Cast converts a value to an element type.
//
//go:noinline
func (x *Expander) Cast(v Var, d tensor.DType) Var {
	if x.TypeOf(v).DType == d {
		return v
	}
	return x.Op("Cast", Attrs{IntAttr("to", int64(d))}, v)
}

// Reshape gives a value another shape: 0 keeps a dimension, -1 is what remains.
//
//go:noinline
func (x *Expander) Reshape(v Var, shape ...int64) Var {
	return x.Op("Reshape", nil, v, x.Ints(shape...))
}

// Transpose permutes the dimensions of a value.
//
//go:noinline
func (x *Expander) Transpose(v Var, perm ...int64) Var {
	return x.Op("Transpose", Attrs{IntsAttr("perm", perm...)}, v)
}

// Unsqueeze adds dimensions of size 1 at the given places of the result.
//
//go:noinline
func (x *Expander) Unsqueeze(v Var, axes ...int64) Var {
	return x.Op("Unsqueeze", nil, v, x.Ints(axes...))
}

// Dim is one dimension of a value as a vector of one int64.
//
//go:noinline
func (x *Expander) Dim(v Var, axis int64) Var {
	if d, ok := x.Known(v, axis); ok {
		return x.Ints(int64(d))
	}
	return x.Op("Gather", Attrs{IntAttr("axis", 0)}, x.Op("Shape", nil, v), x.Ints(axis))
}

// Known is one dimension of a value as a number.
//
//go:noinline
func (x *Expander) Known(v Var, axis int64) (int, bool) {
	s := x.Shape(v)
	if x.Err != nil || axis < 0 || int(axis) >= len(s) {
		return 0, false
	}
	return s[axis].Int()
}

// Count is 0, 1, 2, … as many as n, a vector of one int64, says.
func (x *Expander) Count(n Var) Var {
	zero, one := x.Constant(tensor.Scalar[int64](0)), x.Constant(tensor.Scalar[int64](1))
	return x.Op("Range", nil, zero, x.Op("Squeeze", nil, n, x.Ints(0)), one)
}
