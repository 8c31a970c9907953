package device

import "context"

// Gate is what running work asks for device time. One Gate belongs to one job on one device; the
// job's iteration runs only while it holds a lease from it.
type Gate interface {
	// Revoked reports whether the lease was asked back or has run out. Any goroutine may call it,
	// as often as once per chunk of a parallel loop: it costs a few nanoseconds and never blocks.
	// Once true it stays true until Renew is called.
	Revoked() bool

	// Renew gives the lease back and blocks until the job holds one again. When ctx is done or the
	// job may not run any more, it returns an error, and the job holds no lease. Only the goroutine
	// that runs the iteration calls it, and only when none of its work is on the device.
	Renew(ctx context.Context) error
}

// Open is a Gate that is never revoked: the gate of work that has a device to itself. Its Renew
// returns ctx.Err() at once.
var Open Gate = open{}

type open struct{}

func (open) Revoked() bool                   { return false }
func (open) Renew(ctx context.Context) error { return ctx.Err() }
