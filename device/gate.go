package device

import (
	"context"
	"math/bits"
)

// Gate is what running work asks for device time. One Gate belongs to one job on one device; the
// job's iteration runs only while it holds a lease from it. A gate that is not [Confined] lends all
// of the device, and its lease may be asked back within a kernel.
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

// Leaver is implemented by gates whose lease can be given back while work waits for something else.
type Leaver interface {
	Gate

	// Leave gives the lease back and asks for no other: the next Renew does, before which nothing
	// runs under the gate. Only the goroutine that runs the iteration calls it, and only when none
	// of its work is on the device. It does not block.
	Leave()
}

// Confined is implemented by gates whose leases can be narrower than the device. Only the goroutine
// that runs the iteration calls its methods, at the begin of each parallel loop and after each
// Renew; neither blocks.
type Confined interface {
	Gate

	// Units returns the compute units that the lease covers: at least one while it is held. They
	// may become more from one call to the next, and fewer only by Renew.
	Units() Units

	// Splits reports whether the lease is to be given back within a kernel. Otherwise a kernel that
	// has begun runs to its end, whatever Revoked says meanwhile. It changes only by Renew.
	Splits() bool
}

// Deferent is implemented by gates of jobs for which nobody waits.
type Deferent interface {
	Gate

	// Defers reports whether other threads of the machine go before the job's on the cores that it
	// computes on: between two parts of a kernel a core is offered to those that wait for it, such
	// as one that answers a client, which else wait until the system takes the core away. Any
	// goroutine may call it; it costs as little as Revoked.
	Defers() bool
}

// MaxUnits is the most compute units that a [Units] can name.
const MaxUnits = 512

// Units is a set of compute units of one device, numbered from 0: bit u%64 of word u/64 is set when
// unit u is among them.
type Units [MaxUnits / 64]uint64

// Has reports whether unit u is in the set.
func (s *Units) Has(u int) bool {
	return uint(u) < MaxUnits && s[u/64]>>(u%64)&1 != 0
}

// First returns the lowest unit of the set, or -1 if it has none.
func (s *Units) First() int {
	for i, w := range s {
		if w != 0 {
			return 64*i + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Covers reports whether the units 0 to n-1 are all in the set; units beyond [MaxUnits] are in
// none.
func (s *Units) Covers(n int) bool {
	if n > MaxUnits {
		return false
	}
	for i := 0; n > 0; i, n = i+1, n-64 {
		if want := ^uint64(0) >> max(0, 64-n); s[i]&want != want {
			return false
		}
	}
	return true
}

// Open is a Gate that is never revoked: the gate of work that has a device to itself. Its Renew
// returns ctx.Err() at once.
var Open Gate = open{}

type open struct{}

func (open) Revoked() bool                   { return false }
func (open) Renew(ctx context.Context) error { return ctx.Err() }
