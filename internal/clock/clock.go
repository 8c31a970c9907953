package clock

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Clock tells the time that has passed since an origin of its own. Readings of one clock may be
// compared with each other; readings of two may not.
type Clock interface {
	// Now returns the time since the clock's origin. It never goes backwards, from whichever
	// goroutine it is called.
	Now() time.Duration
}

// Real is a Clock that follows the machine's monotonic clock. Its origin is the call of [NewReal];
// the zero value is not usable.
type Real struct{ origin time.Time }

// NewReal returns a clock that starts at zero and runs.
func NewReal() *Real { return &Real{origin: time.Now()} }

// Now returns the time since NewReal.
func (c *Real) Now() time.Duration { return time.Since(c.origin) }

// Origin returns the moment of NewReal, for whoever must write a date beside a reading.
func (c *Real) Origin() time.Time { return c.origin }

// Manual is a Clock that stands still until it is moved. The zero value stands at zero and is ready
// to use; it must not be copied after first use.
type Manual struct{ now atomic.Int64 }

// Now returns the time the clock was last moved to.
func (c *Manual) Now() time.Duration { return time.Duration(c.now.Load()) }

// Advance moves the clock forward by d and returns the new time. It panics if d is negative,
// because a clock never goes backwards.
func (c *Manual) Advance(d time.Duration) time.Duration {
	if d < 0 {
		panic(fmt.Sprintf("clock: advance by %v: a clock never goes backwards", d))
	}
	return time.Duration(c.now.Add(int64(d)))
}

// MoveTo moves the clock forward to t and returns the time it then shows: t, or a later time that
// it had already reached.
func (c *Manual) MoveTo(t time.Duration) time.Duration {
	for {
		now := c.now.Load()
		if int64(t) <= now {
			return time.Duration(now)
		}
		if c.now.CompareAndSwap(now, int64(t)) {
			return t
		}
	}
}
