package weir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// The kinds of errors, for errors.Is. An error is of one kind at most; those of the context and of
// the file system are of none. The error of a context has its cause, too ([context.Cause]).
var (
	// ErrInput is the kind of error about what a caller gave to [Model.Run] or [NewTensor]: a name,
	// type, shape or element that the model, or an operator of it, does not take.
	ErrInput = errors.New("wrong model input")
	// ErrOutput is the kind of error about reading a value as what it is not: an output that the
	// model does not have, another type, a result that is closed.
	ErrOutput = errors.New("wrong model output")
	// ErrOption is the kind of error about an option that a model cannot be opened with, or a share
	// that nothing can be admitted with.
	ErrOption = errors.New("wrong option")
	// ErrClosed is the kind of error about a model or a host that was closed.
	ErrClosed = errors.New("model closed")
	// ErrModel is the kind of error about a model that is broken whatever its inputs are, or whose
	// file was changed in place while it was in use.
	ErrModel = errors.New("bad model")
	// ErrUnsupported is the kind of error about what ONNX has and weir does not.
	ErrUnsupported = op.ErrUnsupported
	// ErrMemory is the kind of error about memory that the machine, or a control group of this
	// process, does not have, or that a job may not have beside others or above its cap.
	ErrMemory = device.ErrOutOfMemory
	// ErrCompute is the kind of error about a guarantee of compute that a device cannot give beside
	// those that it has given.
	ErrCompute = share.ErrNoCompute
	// ErrFault is the kind of error about a panic within weir: a bug of it, or of an [Operator] of
	// the caller's. The model can be used on.
	ErrFault = errors.New("internal fault")
)

// kindError gives an error, whose text says all, a kind.
type kindError struct{ kind, err error }

func (e *kindError) Error() string { return e.err.Error() }

// Unwrap returns the kind and the error.
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// kinds are the kinds of the errors of the packages below, in the order in which they are looked
// for: an operator that panicked says both that and that it was given something bad.
var kinds = []struct{ of, is error }{
	{fault.ErrFile, ErrModel},
	{fault.ErrPanic, ErrFault},
	{compute.ErrPanic, ErrFault},
	{engine.ErrFault, ErrFault},
	{engine.ErrClosed, ErrClosed},
	{broker.ErrClosed, ErrClosed},
	{core.ErrEnded, ErrClosed},
	{core.ErrOverCap, ErrMemory},
	{core.ErrNoMemory, ErrMemory},
	{core.ErrName, ErrOption},
	{share.ErrInvalid, ErrOption},
	{share.ErrCannot, ErrOption},
	{policy.ErrUnknown, ErrOption},
	{policy.ErrParam, ErrOption},
	{device.ErrUnknownDevice, ErrOption},
	{graph.ErrNames, ErrInput},
	{onnx.ErrFormat, ErrModel},
	{onnx.ErrExternalData, ErrModel},
	{onnx.ErrOpset, ErrModel},
	{graph.ErrInvalid, ErrModel},
	{op.ErrAttr, ErrModel},
	{compute.ErrPlan, ErrModel},
	{plan.ErrShape, ErrModel},
}

// classify gives an error of the packages below its kind; operand is the kind of those about the
// operands of an operator.
func classify(err, operand error) error {
	if err == nil || hasKind(err) {
		return err
	}
	for _, k := range kinds {
		if errors.Is(err, k.of) {
			return &kindError{k.is, err}
		}
	}
	if isOperand(err) {
		return &kindError{operand, err}
	}
	return err
}

// isOperand reports whether an error is about the operands of an operator, or a shape.
func isOperand(err error) bool {
	return errors.Is(err, op.ErrInput) || errors.Is(err, tensor.ErrShape) ||
		errors.Is(err, tensor.ErrDType)
}

// hasKind reports whether an error has its kind already.
func hasKind(err error) bool {
	for _, k := range []error{ErrInput, ErrOutput, ErrOption, ErrClosed, ErrModel, ErrUnsupported,
		ErrMemory, ErrCompute, ErrFault, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// withCause adds the cause of a context that is done to the error that this led to.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// ofShapes gives an error of compiling the model for the shapes of in its kind. What an operator
// does not take is the model's fault where these shapes are all that there can be.
func (m *model) ofShapes(ctx context.Context, in Inputs, err error) error {
	if changed := m.source.Unchanged(); changed != nil {
		return classify(changed, ErrModel) // whatever was made of it
	}
	free := slices.ContainsFunc(m.graph.Inputs,
		func(v *graph.Value) bool { return !v.Type.Static() })
	return m.ofOperand(ctx, in, err, free)
}

// ofData gives an error of a run its kind.
func (m *model) ofData(ctx context.Context, in Inputs, err error) error {
	return m.ofOperand(ctx, in, err, len(m.graph.Inputs) > 0)
}

// ofOperand gives an error its kind; free says whether another request may change what operators
// are given.
func (m *model) ofOperand(ctx context.Context, in Inputs, err error, free bool) error {
	err = m.blame(in, err)
	if !isOperand(err) {
		return classify(err, ErrInput)
	}
	if !free {
		return classify(err, ErrModel)
	}
	broken, late := m.broken(ctx)
	switch {
	case late != nil:
		return fmt.Errorf("%w, before it was known whose fault this is: %w", late, err)
	case broken:
		return classify(err, ErrModel)
	}
	return classify(err, ErrInput)
}

// broken reports whether an operator refuses operands that depend on no input. That is found out
// once, unless ctx is done first, whose error it then returns.
func (m *model) broken(ctx context.Context) (bool, error) {
	if err := enter(ctx, m.searching); err != nil {
		return false, err
	}
	defer func() { <-m.searching }()
	if m.searched {
		return m.refuses, nil
	}
	refuses := m.search(ctx)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.searched, m.refuses = true, refuses
	return refuses, nil
}

// search looks for such an operator.
func (m *model) search(ctx context.Context) bool {
	src, err := m.source.Source()
	if err != nil {
		return false
	}
	g, err := plan.Simplify(ctx, src.Graph)
	if err != nil {
		return errors.Is(err, op.ErrInput)
	}
	found, _ := fault.Value(func() (bool, error) { // of a file that cannot be read, nothing
		return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
			return pass.Refuses(ctx, n)
		}), nil
	})
	return found
}

// blame says of an error that arose from input shapes which contradict the model's names of
// dimensions what they contradict; other errors it returns as they are.
func (m *model) blame(in Inputs, err error) error {
	shapes := map[string][]int{}
	for name, t := range in {
		shapes[name] = t.Shape
	}
	return m.graph.Blame(shapes, err)
}
