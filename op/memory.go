package op

import "context"

// Memory grants and takes back bytes of a job's memory. Reserve's error names the job, what it wants and its cap.
type Memory interface {
	Reserve(bytes int64) error
	Release(bytes int64)
}

// frame counts what one evaluation of a body has made.
type frame struct {
	memory Memory
	held   int64
}

func (f *frame) reserve(bytes int) error {
	if err := f.memory.Reserve(int64(bytes)); err != nil {
		return err
	}
	f.held += int64(bytes)
	return nil
}

type frameKey struct{}

// WithMemory returns a context under which evaluations of bodies, and scanned outputs, ask m for the bytes of every tensor that
// they make, and what gives back those that are still held. A body takes the memory of one evaluation with [Frame].
func WithMemory(ctx context.Context, m Memory) (inner context.Context, end func()) {
	f := &frame{memory: m}
	return context.WithValue(ctx, frameKey{}, f), func() { m.Release(f.held) }
}

// Frame returns a context for one evaluation of a body, and what gives back all that the evaluation has reserved once it is
// over: its results belong to the caller then. Without [WithMemory] it does nothing.
func Frame(ctx context.Context) (inner context.Context, end func()) {
	f := frameOf(ctx)
	if f == nil {
		return ctx, func() {}
	}
	return WithMemory(ctx, f.memory)
}

func frameOf(ctx context.Context) *frame {
	if ctx == nil {
		return nil
	}
	f, _ := ctx.Value(frameKey{}).(*frame)
	return f
}
