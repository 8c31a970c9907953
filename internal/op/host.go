package op

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/tensor"
)

// Host is the runner of an evaluation, such as a job on a device, as far as bodies of operators
// depend on it.
type Host struct {
	// Memory is asked for the bytes of every tensor that a body makes; nil grants everything.
	Memory device.Quota
	// Pass is called before every node of a body. It may give the device to another job and wait
	// until it gets the device back. It fails when the evaluation must end. When Pass is nil, only
	// the context can end the evaluation.
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

// become replaces the carried values: it reserves the bytes that values take beyond those of the
// values before, or releases the bytes by which they are smaller.
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

// WithHost returns a context under which evaluations of bodies reserve memory with h, also for
// scanned outputs, and call h.Pass. The function end releases the memory that is still reserved;
// the caller calls it after the evaluation. A body accounts for the memory of one evaluation of its
// own with [Frame].
func WithHost(ctx context.Context, h Host) (inner context.Context, end func()) {
	f := &frame{host: h}
	return context.WithValue(ctx, frameKey{}, f), f.end
}

// Frame returns a context for one evaluation of a body. The function end, called when the
// evaluation is over, releases all memory that it has reserved; whoever keeps its results accounts
// for them from then on. Under a context without [WithHost], Frame does nothing.
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
