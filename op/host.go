package op

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/tensor"
)

// Host is who runs an evaluation, as the bodies of the operator see it.
type Host struct {
	// Memory is asked for the bytes of every tensor that a body makes; nil grants everything.
	Memory device.Quota
	// Pass is called before every node of a body: it may give the device to another job and wait to
	// get it back, and fails when the evaluation must end. nil: the context alone can end it.
	Pass func() error
}

// frame counts what one evaluation of a body has made.
type frame struct {
	host Host
	held int64
}

func (f *frame) reserve(bytes int64) error {
	if f.host.Memory == nil {
		return nil
	}
	if err := f.host.Memory.Reserve(bytes); err != nil {
		return err
	}
	f.held += bytes
	return nil
}

func (f *frame) end() {
	if f.host.Memory != nil {
		f.host.Memory.Release(f.held)
	}
}

// release gives back bytes that were reserved.
func (f *frame) release(bytes int64) {
	if f.host.Memory != nil {
		f.held -= bytes
		f.host.Memory.Release(bytes)
	}
}

// reserve asks the context for bytes that the evaluation keeps beside its outputs, until the
// context ends.
func (c *Eval) reserve(bytes int64) error {
	if f := frameOf(c.Ctx); f != nil {
		return f.reserve(bytes)
	}
	return nil
}

func (c *Eval) release(bytes int64) {
	if f := frameOf(c.Ctx); f != nil {
		f.release(bytes)
	}
}

// newBytes are the bytes of distinct values that are not among the inputs.
func (c *Eval) newBytes(values []*tensor.Tensor) int64 {
	seen := make(map[*tensor.Tensor]bool, len(values)+len(c.In))
	for _, t := range c.In {
		seen[t] = true
	}
	var n int64
	for _, t := range values {
		if t != nil && !seen[t] {
			seen[t] = true
			n += t.Size()
		}
	}
	return n
}

// carried is the memory of the values that a loop hands from one iteration to the next.
type carried struct {
	c     *Eval
	bytes int64
}

// become asks for what values hold more than those before, or gives back what they hold less.
func (k *carried) become(values []*tensor.Tensor) error {
	n := k.c.newBytes(values)
	if n > k.bytes {
		if err := k.c.reserve(n - k.bytes); err != nil {
			return fmt.Errorf("%s: carried values: %w", k.c.Name(), err)
		}
	} else {
		k.c.release(k.bytes - n)
	}
	k.bytes = n
	return nil
}

type frameKey struct{}

// WithHost returns a context under which evaluations of bodies, and scanned outputs, ask h for
// memory and pass the device on, and what gives back the memory that is still held. A body takes
// the memory of one evaluation with [Frame].
func WithHost(ctx context.Context, h Host) (inner context.Context, end func()) {
	f := &frame{host: h}
	return context.WithValue(ctx, frameKey{}, f), f.end
}

// Frame returns a context for one evaluation of a body, and what gives back all that the evaluation
// has reserved once it is over: its results belong to the caller then. Without [WithHost] it does
// nothing.
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
