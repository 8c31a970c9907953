package op

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

var (
	// ErrUnsupported is the kind of error about an operator, version or attribute value that weir
	// does not have.
	ErrUnsupported = errors.New("unsupported")
	// ErrInput is the kind of error about a missing, surplus, wrongly typed or wrongly shaped
	// operand.
	ErrInput = errors.New("bad input")
	// ErrAttr is the kind of error about a missing or meaningless attribute.
	ErrAttr = errors.New("bad attribute")
	// ErrPanic is the kind of error about a rule or an evaluation that panicked on what it failed
	// to check: a bug of weir. The error is of kind [ErrInput], too, since something about the call
	// was beyond what the operator takes.
	ErrPanic = fault.ErrPanic
)

// Traits are facts about an operator that passes and planners use.
type Traits uint16

const (
	// Impure marks operators whose result is not a function of their inputs (random numbers): they
	// are never folded or merged.
	Impure Traits = 1 << iota
	// View marks operators whose first output is the bytes of the first input under another shape.
	View
	// Elementwise marks operators whose outputs have the (broadcast) shape of their inputs and
	// depend on them element by element, so that an output may share memory with an input of as
	// many elements of the same size.
	Elementwise
	// Commutative marks binary operators whose two inputs may be exchanged.
	Commutative
	// ShapeOnly marks operators that read the shape of their input and not its elements.
	ShapeOnly
	// Containers marks operators that take sequences, optionals or maps; all others take tensors
	// only.
	Containers
)

// Op is one row of the operator table.
type Op struct {
	Domain string
	Name   string
	// Since lists the opset versions at which ONNX changed the operator and which Infer and Eval
	// implement, ascending.
	Since []int
	// MinIn and MaxIn bound the inputs (captures not counted); MaxIn < 0 means any number.
	MinIn, MaxIn int
	// Optional lists the inputs below MinIn that may be left out by name.
	Optional []int
	// MinOut and MaxOut bound the outputs; MaxOut < 0 means any number; both 0 mean exactly one.
	MinOut, MaxOut int
	Traits         Traits
	// Infer is the shape rule. It sets what it can know of each output.
	Infer func(c *Infer) error
	// Eval computes the outputs: the definition.
	Eval func(c *Eval) error
	// Evaluator, when set, reads the attributes of a call once and returns an evaluation that gives
	// what Eval gives, for calls that are evaluated many times; several goroutines may run it. It
	// fails where Eval would fail for any inputs.
	Evaluator func(call *Call) (func(*Eval) error, error)
	// Draws reports whether a call draws random numbers, so that its evaluations differ. When it is
	// nil, no call does, unless the row is Impure.
	Draws func(call *Call) bool
	// Flops returns the floating-point operations of one evaluation on concrete types; nil means
	// one an output element.
	Flops func(call *Call, in, out []Type) int64

	define func(*Expander) // what the operator is in others; nil when it is no composition
	// parts, when set, writes the operator as calls of others. It serves only to differentiate an
	// operator that has no gradient rule: unlike a composition, the operator itself is evaluated as
	// a whole.
	parts func(*Expander)
	grad  func(*gradient) // the rule of [Op.Gradient]; nil when there is none
	// flat marks operators whose results are integers, conditions or steps of the operands, so that
	// derivatives are zero wherever they exist.
	flat bool
}

// Has reports whether the operator has all of the given traits.
func (o *Op) Has(t Traits) bool { return o.Traits&t == t }

// Pure reports whether the results of a call are a function of its inputs, so that it may be folded
// and merged with others.
func (o *Op) Pure(call *Call) bool {
	return !o.Has(Impure) && (o.Draws == nil || !o.Draws(call))
}

// Requires reports whether input i must be given.
func (o *Op) Requires(i int) bool { return i < o.MinIn && !slices.Contains(o.Optional, i) }

// Infer is the context of a shape rule.
type Infer struct {
	*Call
	In  []Type // one an input, captures included; an absent optional input is the zero Type
	Out []Type // one an output, to be set by the rule
	// Present tells which inputs are given.
	Present []bool
}

// Has reports whether optional input i is given.
//
//go:noinline
func (c *Infer) Has(i int) bool { return i < len(c.In) && c.Present[i] }

// Const returns input i as a constant, nil when it is absent or not constant.
func (c *Infer) Const(i int) *tensor.Tensor {
	if !c.Has(i) {
		return nil
	}
	return c.In[i].Const
}

// Elems returns the known element expressions of integer input i, nil when unknown or absent.
func (c *Infer) Elems(i int) []Dim {
	if !c.Has(i) {
		return nil
	}
	return c.In[i].Elems
}

// Eval is the context of an evaluation: inputs given, outputs to be made with [Eval.Output].
type Eval struct {
	*Call
	Ctx context.Context
	In  []*tensor.Tensor // nil for an absent optional input; never written
	// set by Output; an evaluation may also set an entry to a tensor of its own or an input
	Out []*tensor.Tensor
	// Alloc, when set, provides the storage of output i (a planned place in an arena). Its bytes
	// are not zeroed. When nil, or when it returns nil, nil, outputs are made on the Go heap.
	Alloc func(i int, d tensor.DType, shape []int) (*tensor.Tensor, error)
	// Reserve, when set, is asked for the bytes of strings that the evaluation makes; their headers
	// are counted with their tensors. When nil, the host of ctx is asked ([WithHost]), if there is
	// one.
	Reserve func(bytes int64) error
}

// Has reports whether optional input i is given.
//
//go:noinline
func (c *Eval) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// Want reports whether output i is asked for.
func (c *Eval) Want(i int) bool { return i < c.NumOut }

// Output makes output i with the given type and shape and returns it. Its contents are undefined:
// the evaluation writes every element.
func (c *Eval) Output(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if i >= len(c.Out) {
		c.Out = append(c.Out, make([]*tensor.Tensor, i+1-len(c.Out))...)
	}
	if c.Alloc != nil {
		t, err := c.Alloc(i, d, shape)
		if err != nil {
			return nil, fmt.Errorf("%s: output %d: %w", c.Name(), i, err)
		}
		if t != nil {
			c.Out[i] = t
			return t, nil
		}
	}
	t, err := c.New(d, shape)
	if err != nil {
		return nil, fmt.Errorf("%s: output %d: %w", c.Name(), i, err)
	}
	c.Out[i] = t
	return t, nil
}

// New makes a tensor on the Go heap, with the memory that the context grants.
func (c *Eval) New(d tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.ByteCount(d, shape)
	if err == nil {
		err = c.reserve(int64(n))
	}
	if err != nil {
		return nil, err
	}
	return tensor.New(d, shape...)
}

// text reserves memory for strings of that many bytes in all. Evaluations call it before they make
// the strings, since a few operators can make from one string more text than any memory holds.
// Strings that are parts of other strings take no memory of their own.
func (c *Eval) text(bytes int) error {
	if int64(bytes) > tensor.MaxHeapBytes {
		return c.Errorf(ErrInput, "makes %d bytes of text, limit %d", bytes,
			int64(tensor.MaxHeapBytes))
	}
	if c.Reserve != nil {
		return c.Reserve(int64(bytes))
	}
	return c.reserve(int64(bytes))
}

// CaptureTensors returns the inputs that are captures of the call's bodies.
func (c *Eval) CaptureTensors() []*tensor.Tensor { return c.In[len(c.In)-c.Captures:] }

// UnknownError tells of an operator that has no row. It is of kind [ErrUnsupported].
type UnknownError struct {
	// Name is that of the operator, as [Call.Name] writes it.
	Name string
	// Why is the reason, or what may have been meant; "" when nothing is known of it.
	Why string
}

// Error says what to do where nothing is known of the operator.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("operator %s: %v: weir has no operator of that name", e.Name,
		ErrUnsupported)
	if e.Why == "" {
		return text + "; " + Advice
	}
	return text + "; " + e.Why
}

// Unwrap returns ErrUnsupported.
func (e *UnknownError) Unwrap() error { return ErrUnsupported }

// Advice is what errors about operators without a row end with.
const Advice = "export the model with ONNX's own operators, or give weir this one: " +
	"docs/recipes/operator.md"

// Lookup finds the row of an operator. It fails with [ErrUnsupported] when there is none
// ([UnknownError]) or none for that version.
func Lookup(domain, name string, version int) (*Op, error) {
	if domain == "ai.onnx" {
		domain = ""
	}
	o := table()[key{domain, name}]
	if o == nil {
		return nil, &UnknownError{Name: (&Call{Domain: domain, Type: name}).Name(),
			Why: reason(domain, name, version)}
	}
	if version > 0 && version < o.Since[0] {
		return nil, fmt.Errorf(
			"operator %s: %w: opset %d is older than version %d, the oldest that weir has", o.Name,
			ErrUnsupported, version, o.Since[0])
	}
	return o, nil
}

// Find returns, of rows that are not in the table, the newest for an operator that is no newer than
// the version; nil when there is none.
func Find(rows []*Op, domain, name string, version int) *Op {
	var found *Op
	for _, o := range rows {
		if o.Domain == domain && o.Name == name && o.Since[0] <= version &&
			(found == nil || o.Since[0] > found.Since[0]) {
			found = o
		}
	}
	return found
}

// SinceVersion returns the version of the operator's definition that is in force at the given opset
// version.
func (o *Op) SinceVersion(opset int) int {
	v := o.Since[0]
	for _, s := range o.Since {
		if s <= opset {
			v = s
		}
	}
	return v
}

// Check reports whether a call fits the row: number of inputs and outputs.
func (o *Op) Check(c *Call) error {
	in := c.NumIn - c.Captures
	if in < o.MinIn || o.MaxIn >= 0 && in > o.MaxIn {
		return c.Errorf(ErrInput, "has %d inputs, takes %s", in, span(o.MinIn, o.MaxIn))
	}
	minOut, maxOut := o.MinOut, o.MaxOut
	if minOut == 0 && maxOut == 0 {
		minOut, maxOut = 1, 1
	}
	if c.NumOut < minOut || maxOut >= 0 && c.NumOut > maxOut {
		return c.Errorf(ErrInput, "has %d outputs, gives %s", c.NumOut, span(minOut, maxOut))
	}
	return nil
}

// needs reports whether input i of a call must be given. The inputs that the row requires must be,
// and so must all inputs of an operator that takes any number of them. Calls with a body are
// excepted from the latter, since a Loop takes any number of inputs of which the first ones are
// optional.
func (o *Op) needs(c *Call, i int) bool {
	return o.Requires(i) || o.MaxIn < 0 && !slices.ContainsFunc(c.Attrs, func(a Attr) bool {
		return a.Body != nil
	})
}

func span(lo, hi int) string {
	switch {
	case hi < 0:
		return fmt.Sprintf("%d or more", lo)
	case lo == hi:
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// InferTypes runs the shape rule of a call. present tells absent optional inputs apart; nil means
// all are given. A rule's panic on input that it failed to check is returned as an error, since
// models come from strangers.
func InferTypes(o *Op, call *Call, in []Type, present []bool) (out []Type, err error) {
	if err := o.Check(call); err != nil {
		return nil, err
	}
	if err := call.checkAttrs(); err != nil {
		return nil, err
	}
	if present == nil {
		present = slices.Repeat([]bool{true}, len(in))
	}
	if err := o.checkInputs(call, in, present); err != nil {
		return nil, err
	}
	c := &Infer{Call: call, In: in, Present: present, Out: make([]Type, call.NumOut)}
	defer recoverInto(call, &err)
	if o.Infer != nil {
		if err := o.Infer(c); err != nil {
			return nil, err
		}
	}
	for i := range c.Out {
		c.Out[i].wrapElems()
	}
	return c.Out, checkSizes(call, c.Out)
}

// checkInputs checks that what the operator needs is given, and no container where it takes
// tensors.
func (o *Op) checkInputs(call *Call, in []Type, present []bool) error {
	for i, there := range present {
		if !there && o.needs(call, i) {
			return call.Errorf(ErrInput, "input %d is required", i)
		}
	}
	for i, t := range in[:len(in)-call.Captures] {
		if err := o.checkContainer(call, i, t.DType); err != nil {
			return err
		}
	}
	return nil
}

// checkContainer refuses a value that is no tensor where the operator takes only those.
func (o *Op) checkContainer(call *Call, i int, d tensor.DType) error {
	if d.IsContainer() && !o.Has(Containers) {
		return call.Errorf(ErrInput, "input %d is a %v, the operator takes tensors", i, d)
	}
	return nil
}

// checkSizes refuses outputs that could never be held, before anyone tries.
func checkSizes(call *Call, out []Type) error {
	for i, t := range out {
		shape, ok := t.Ints()
		if !ok {
			continue
		}
		if _, err := tensor.ByteCount(t.DType, shape); err != nil {
			return fmt.Errorf("%s: output %d: %w", call.Name(), i, err)
		}
	}
	return nil
}

// Run evaluates a call by the reference evaluation of its operator. in holds nil for absent
// optional inputs. A panic of the evaluation on input that it failed to check is returned as an
// error.
func Run(ctx context.Context, o *Op, call *Call, in []*tensor.Tensor) (out []*tensor.Tensor,
	err error) {
	c := &Eval{Call: call, Ctx: ctx, In: in, Out: make([]*tensor.Tensor, call.NumOut)}
	if err := RunIn(o, c); err != nil {
		return nil, err
	}
	return c.Out, nil
}

// RunIn evaluates in a context that the caller has prepared, which lets it place the outputs and
// reuse the context.
func RunIn(o *Op, c *Eval) (err error) {
	if err := o.Check(c.Call); err != nil {
		return err
	}
	if o.Eval == nil {
		return c.Errorf(ErrUnsupported, "has no evaluation")
	}
	for i, v := range c.In {
		if v == nil && o.needs(c.Call, i) {
			return c.Errorf(ErrInput, "input %d is required", i)
		}
	}
	for i, t := range c.In[:len(c.In)-c.Captures] {
		if t == nil {
			continue
		}
		if err := o.checkContainer(c.Call, i, t.DType); err != nil {
			return err
		}
	}
	defer recoverInto(c.Call, &err)
	return o.Eval(c)
}

// recoverInto turns a panic into an error about the call. The fault of a mapped file that cannot be
// read is not the fault of the call: that panic goes on to the caller.
func recoverInto(call *Call, err *error) {
	if r := fault.Explain(recover()); r != nil {
		if file, ok := r.(*fault.FileError); ok {
			panic(file)
		}
		*err = fmt.Errorf("%s: %w: %w: %v: please report it with the model", call.Name(), ErrInput,
			ErrPanic, r)
	}
}
