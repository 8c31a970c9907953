package op

import "context"

// Memory grants and takes back bytes of a job's memory. Reserve's error names the job, what it wants and its cap.
type Memory interface {
	Reserve(bytes int64) error
	Release(bytes int64)
}

// Host is who runs an evaluation, as the bodies of the operator see it.
type Host struct {
	// Memory is asked for the bytes of every tensor that a body makes; nil grants everything.
	Memory Memory
	// Pass is called before every node of a body: it may give the device to another job and wait to get it back, and fails when
	// the evaluation must end. nil: the context alone can end it.
	Pass func() error
}

// frame counts what one evaluation of a body has made.
type frame struct {
	host Host
	held int64
}

func (f *frame) reserve(bytes int) error {
	if f.host.Memory == nil {
		return nil
	}
	if err := f.host.Memory.Reserve(int64(bytes)); err != nil {
		return err
	}
	f.held += int64(bytes)
	return nil
}

func (f *frame) end() {
	if f.host.Memory != nil {
		f.host.Memory.Release(f.held)
	}
}

type frameKey struct{}

// WithHost returns a context under which evaluations of bodies, and scanned outputs, ask h for memory and pass the device on, and
// what gives back the memory that is still held. A body takes the memory of one evaluation with [Frame].
func WithHost(ctx context.Context, h Host) (inner context.Context, end func()) {
	f := &frame{host: h}
	return context.WithValue(ctx, frameKey{}, f), f.end
}

// Frame returns a context for one evaluation of a body, and what gives back all that the evaluation has reserved once it is
// over: its results belong to the caller then. Without [WithHost] it does nothing.
func Frame(ctx context.Context) (inner context.Context, end func()) {
	f := frameOf(ctx)
	if f == nil {
		return ctx, func() {}
	}
	return WithHost(ctx, f.host)
}

// Pass is called between the nodes of a body: see [Host].
func Pass(ctx context.Context) error {
	if f := frameOf(ctx); f != nil && f.host.Pass != nil {
		return f.host.Pass()
	}
	return ctx.Err()
}

func frameOf(ctx context.Context) *frame {
	if ctx == nil {
		return nil
	}
	f, _ := ctx.Value(frameKey{}).(*frame)
	return f
}
