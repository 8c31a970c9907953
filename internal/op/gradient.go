package op

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// ErrNoGradient is the kind of error about a derivative that weir cannot compute: the operator has
// no rule, its rule does not cover the operand, or too little is known of the types of the call. It
// is of kind [ErrUnsupported], too.
var ErrNoGradient = fmt.Errorf("%w: no gradient", ErrUnsupported)

// ErrByParts is the kind of error about a call that the rule of its operator does not cover, but
// which can be differentiated through what [Op.Parts] writes.
var ErrByParts = errors.New("differentiated by parts")

// Backward is one call to differentiate in reverse.
type Backward struct {
	Call    *Call
	In      []Type // of the operands
	Present []bool // operands that are given
	Out     []Type // of the results, of those too that are not asked for
	Given   []bool // results whose gradient is there; that of the others is zero
	Want    []bool // operands whose gradient is asked for
	// version of ONNX's operators in which steps are written, or the oldest newer one that has an
	// operator; 0 stands for [DefaultExpansionOpset]
	Opset int
}

// Differentiability says how derivatives go through an operator.
type Differentiability int

const (
	// NoRule: weir has no rule for the operator, and asking for its gradient is an error.
	NoRule Differentiability = iota
	// Flat: results do not change under small changes of the operands, wherever they are
	// differentiable at all (sign, comparison, index, shape), so that derivatives are zero.
	Flat
	// ByRule: [Op.Gradient] writes it.
	ByRule
	// ByParts: by differentiating the calls that [Op.Parts] writes.
	ByParts
	// ByBodies: by differentiating the sub-graphs that it runs, which package grad does: those of
	// If, and of Loop and Scan where it is known how often they run.
	ByBodies
)

// Differentiability says how derivatives go through the operator.
func (o *Op) Differentiability() Differentiability {
	switch {
	case o.flat:
		return Flat
	case o.grad != nil:
		return ByRule
	case o.parts != nil || o.define != nil:
		return ByParts
	case o.Domain == "" && (o.Name == "If" || o.Name == "Loop" || o.Name == "Scan"):
		return ByBodies
	}
	return NoRule
}

// Parts returns a call written as calls of other operators, so that it can be differentiated
// through them. Evaluating the parts may round differently from the operator itself. It fails with
// [ErrNoGradient] when the operator has no parts or too little is known of the operands.
func (o *Op) Parts(call *Call, in []Type, present []bool, opset int) (e *Expansion, err error) {
	define := o.parts
	if define == nil {
		define = o.define
	}
	if define == nil {
		return nil, call.Errorf(ErrNoGradient, "is not made of other operators")
	}
	defer recoverInto(call, &err)
	x, err := expand(define, call, in, present, opset)
	return x.e, known(call, err)
}

// Gradient writes the gradients of a call's operands, the product of a row vector with the
// Jacobian: for operand i, the sum over all results j of the gradient of j times the derivative of
// j by i. Values are numbered as in an [Expansion]: first the operands, then the results
// (len(b.Out) of them), then the results' gradients, then constants and steps. A step may read an
// optional result that the call leaves out; the caller must then add that output to the call. Out
// holds the value of each operand's gradient, of the operand's type and shape, -1 where it is zero
// or not wanted.
//
// It fails with [ErrByParts] where the call is to be differentiated by its parts, and with
// [ErrNoGradient] for an operator without a rule, an operand whose gradient its rule does not give,
// or when what is known of the types does not suffice.
func (o *Op) Gradient(b *Backward) (e *Expansion, err error) {
	if o.grad == nil {
		return nil, b.Call.Errorf(ErrNoGradient, "%s", o.noRule())
	}
	defer recoverInto(b.Call, &err)
	x := newGradient(b)
	if err := x.checkTypes(); err != nil {
		return nil, err
	}
	o.grad(x)
	for i := range b.In {
		if x.Err == nil && x.needs(i) && !x.done[i] {
			x.refuse(i, "its rule does not give it")
		}
	}
	return x.e, known(b.Call, x.Err)
}

// newGradient prepares a rule's run for a call.
func newGradient(b *Backward) *gradient {
	types := slices.Concat(b.In, b.Out)
	for _, t := range b.Out {
		types = append(types, t.withoutContents())
	}
	x := &gradient{Expander: newExpander(b.Call, types, b.Present, b.Opset), b: b,
		done: make([]bool, len(b.In))}
	for range b.In {
		x.e.Out = append(x.e.Out, int(Absent))
	}
	return x
}

// checkTypes checks that derivatives are wanted only by what has them.
func (x *gradient) checkTypes() error {
	for i, t := range x.b.In {
		if x.needs(i) && t.DType != tensor.Undefined && !differentiable(t.DType) {
			return x.Errorf(ErrNoGradient, "by input %d, of type %v; derivatives are of "+
				"float16, bfloat16, float32 and float64: cast it", i, t.DType)
		}
	}
	return nil
}

// noRule says why an operator has no gradient.
func (o *Op) noRule() string {
	if o.Domain == "" && o.Name == "SequenceMap" {
		return "derivatives do not go through sequences; export the model with its loops unrolled"
	}
	return "weir has no rule for it; write it with others that have one (docs/operators.md lists " +
		"them), or add its rule: docs/recipes/operator.md"
}

// known turns [errLater], which says that too little is known yet, into an [ErrNoGradient]: for a
// gradient nothing more becomes known later.
func known(call *Call, err error) error {
	if errors.Is(err, errLater) {
		return call.Errorf(ErrNoGradient,
			"the ranks and element types of its operands are not known well enough; give the "+
				"model's inputs shapes")
	}
	return err
}

// differentiable reports whether gradients may have an element type.
func differentiable(d tensor.DType) bool { return d.IsFloat() && !d.IsMinifloat() }

// gradient is the context in which a rule writes the gradients of a call's operands. A rule asks
// with needs which gradients are wanted. It passes each of them to set, or calls zero for one that
// is zero.
type gradient struct {
	*Expander
	b    *Backward
	done []bool
}

// needs reports whether the gradient of operand i is wanted.
//
//go:noinline
func (x *gradient) needs(i int) bool { return i < len(x.b.Want) && x.b.Want[i] }

// out is result i of the call.
//
//go:noinline
func (x *gradient) out(i int) Var { return Var(len(x.b.In) + i) }

// d is the gradient of result i, zeros when there is none.
func (x *gradient) d(i int) Var {
	if !x.b.Given[i] {
		return x.full(x.out(i), x.out(i), 0)
	}
	return Var(len(x.b.In) + len(x.b.Out) + i)
}

// set gives the gradient of operand i. When its type or shape differs from the operand's, the
// operands of the call do not fit each other, which is an error.
func (x *gradient) set(i int, v Var) {
	if x.Err != nil || !x.needs(i) {
		return
	}
	have, want := x.TypeOf(v), x.b.In[i]
	if have.DType != want.DType && have.DType != tensor.Undefined &&
		want.DType != tensor.Undefined ||
		have.Ranked && want.Ranked && !sameSizes(have.Shape, want.Shape) {
		x.Fail(ErrInput, "input %d is %v and its gradient %v; the operands do not fit each other",
			i, want, have)
		return
	}
	x.e.Out[i], x.done[i] = int(v), true
}

func sameSizes(a, b []Dim) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].MayEqual(b[i]) {
			return false
		}
	}
	return true
}

// summed gives the gradient of operand i, which the call broadcast, as the sum of v, the gradient
// of the broadcast operand, over the axes that broadcasting repeated.
func (x *gradient) summed(i int, v Var) {
	if x.needs(i) {
		x.set(i, x.unbroadcast(v, x.Input(i)))
	}
}

// zero says that results do not change with operand i.
func (x *gradient) zero(i int) {
	if i < len(x.done) {
		x.done[i] = true
	}
}

// refuse ends the rule when the gradient of operand i is wanted.
func (x *gradient) refuse(i int, why string) {
	if x.needs(i) {
		x.Fail(ErrNoGradient,
			"by input %d: %s; make it a constant, or a Var that does not depend on what you "+
				"differentiate by", i, why)
	}
}

// byParts ends the rule: the call is differentiated by its parts.
func (x *gradient) byParts() {
	if x.Err == nil {
		x.Err = ErrByParts
	}
}

// unary is the rule of an operator whose result depends on operand 0 alone: f makes its gradient of
// that of result 0.
//
//go:noinline
func unary(f func(x *gradient, g Var) Var) func(*gradient) {
	return func(x *gradient) {
		if x.needs(0) {
			x.set(0, f(x, x.d(0)))
		}
	}
}

// slope is unary for an element-wise operator: f makes the derivative of operand v and result y.
func slope(f func(x *gradient, v, y Var) Var) func(*gradient) {
	return unary(func(x *gradient, g Var) Var { return x.mul(g, f(x, x.Input(0), x.out(0))) })
}

// derived is a row with a rule for its gradient.
//
//go:noinline
func (o Op) derived(rule func(*gradient)) Op {
	o.grad = rule
	return o
}

// constantAlmostEverywhere is a row whose results are integers, conditions or steps, so that their
// derivatives are zero wherever they exist.
func (o Op) constantAlmostEverywhere() Op {
	o.flat = true
	return o
}
