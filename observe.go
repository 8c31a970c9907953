package weir

import "context"

// RunMoment is a moment in a [Model.Run].
type RunMoment int

// The moments, in their order. A Run that fails does not come to all of them.
const (
	// RunBegun is when it is the Run's turn among those of its model, and its shapes are compiled.
	RunBegun RunMoment = iota
	// RunPlaced is when the inputs lie where the model reads them. From here on the Run waits for
	// the device.
	RunPlaced
	// RunGranted is when the device is the Run's; on a [Host] it may be asked back meanwhile.
	RunGranted
	// RunComputed is when the model has run.
	RunComputed
)

// RunObserver is told of the moments of Runs, by the goroutine that called Run, which goes on once
// Reached returns.
type RunObserver interface {
	Reached(RunMoment)
}

// StepObserver is a [RunObserver] that is also told of each step of the model's plan once it has
// run. A Run that is observed so waits for each step before it begins the next.
type StepObserver interface {
	RunObserver
	// Stepped names the node and its operator, as the model has them unless steps were fused, and
	// how it was computed.
	Stepped(node, operator, kernel string)
}

// observerKey is that of a RunObserver in a context.
type observerKey struct{}

// WithRunObserver returns a context under which each [Model.Run] tells o, which may be a
// [StepObserver].
func WithRunObserver(ctx context.Context, o RunObserver) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// reached tells who observes a Run, if anybody does.
func reached(o RunObserver, m RunMoment) {
	if o != nil {
		o.Reached(m)
	}
}
