package compute

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
)

// Exec is what a running task may use. One goroutine owns it.
type Exec struct {
	Ctx  context.Context
	Gate device.Gate
	Pool Pool
	// Queue is where the work goes; nil stands for a [Direct] of its own.
	Queue Queue
	// Memory grants the bytes of values whose shape depends on data; nil grants everything. Dynamic
	// counts those of this run, which the owner of the Exec releases when the run is over.
	Memory  device.Quota
	Dynamic int64
	// Watcher, unless it is nil, is told of steps.
	Watcher Watcher

	direct Direct
}

// Watcher is told of each step of a plan once it has run, also of those in bodies of other steps,
// which come before those that they are in.
type Watcher interface {
	Stepped(node, operator, kernel string)
}

// For runs chunks 0 to n-1 of r on the pool, under the gate.
//
//go:noinline
func (x *Exec) For(n int, r Region) error {
	return x.Pool.Run(x.Ctx, x.Gate, n, r)
}

// Stream is the queue, a [Direct] where none is set.
func (x *Exec) Stream() Queue {
	if x.Queue == nil {
		return &x.direct
	}
	return x.Queue
}

// Pass lets another job have the device if the lease was asked back: it waits until no work of the
// queue is on the device, gives the lease back and waits for the next one. It fails when the
// context is done, and with the error of work of the queue that has failed.
func (x *Exec) Pass() error {
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	if x.Gate.Revoked() {
		if err := x.Stream().Wait(); err != nil {
			return err
		}
		return x.Gate.Renew(x.Ctx)
	}
	return nil
}

// Aside calls wait, which waits for something other than the device, and returns its error. Others
// may have the device meanwhile, where the gate is a [device.Leaver]: the lease is given back once
// no work of the queue is on the device, and asked for again after wait has returned without an
// error. It also fails as [Exec.Pass] does.
func (x *Exec) Aside(wait func() error) error {
	l, leaves := x.Gate.(device.Leaver)
	if !leaves {
		return wait()
	}
	if err := x.Stream().Wait(); err != nil {
		return err
	}
	l.Leave()
	if err := wait(); err != nil {
		return err
	}
	return l.Renew(x.Ctx)
}

// Reserve asks for the bytes of a value whose shape, or the length of whose strings, depends on
// data.
func (x *Exec) Reserve(bytes int64) error {
	if x.Memory != nil {
		if err := x.Memory.Reserve(bytes); err != nil {
			return fmt.Errorf("a value whose shape depends on data: %w", err)
		}
	}
	x.Dynamic += bytes
	return nil
}

// Release gives back, before the run is over, bytes that were asked for.
func (x *Exec) Release(bytes int64) {
	if x.Memory != nil {
		x.Memory.Release(bytes)
	}
	x.Dynamic -= bytes
}
