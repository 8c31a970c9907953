package scenario

import (
	"context"

	"github.com/weirgpu/weir/device"
)

// seater is how a job gets device time: from a broker ([seat.Seat]), or, in the comparisons, from
// nobody.
type seater interface {
	// Acquire waits for the device and returns the gate of the hold.
	Acquire(ctx context.Context) (device.Gate, error)
	// Release gives the device back.
	Release()
	// Arrive and Complete bracket a request, Begin and End an iteration.
	Arrive()
	Complete()
	Begin()
	End()
	// Fail ends the job with a cause.
	Fail(err error)
}

// unmanaged is the seat of a job that the operating system alone schedules.
type unmanaged struct{}

func (unmanaged) Acquire(ctx context.Context) (device.Gate, error) { return device.Open, ctx.Err() }
func (unmanaged) Release()                                         {}
func (unmanaged) Arrive()                                          {}
func (unmanaged) Complete()                                        {}
func (unmanaged) Begin()                                           {}
func (unmanaged) End()                                             {}
func (unmanaged) Fail(error)                                       {}
