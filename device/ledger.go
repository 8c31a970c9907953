package device

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"
)

// Ledger counts the memory of one device to the byte and refuses what exceeds its limit.
// Implementations of [Device] answer Alloc, Held and Close with it. It implements [Quota] and is
// safe for concurrent use.
type Ledger struct {
	id    string
	limit int64
	held  atomic.Int64 // closed once the accounts are
}

// closed is the value of [Ledger].held once the accounts are closed. One word tells both the bytes
// held and whether the accounts are closed, so that nothing can be reserved between a check of the
// one and a change of the other.
const closed = math.MinInt64

var _ Quota = (*Ledger)(nil)

// NewLedger returns the accounts of the device with the given ID and limit bytes of memory. A limit
// of 0 stands for a device whose memory cannot be found out: the only limit is then what an int64
// can count.
func NewLedger(id string, limit int64) *Ledger { return &Ledger{id: id, limit: limit} }

// Reserve counts bytes as held if they fit. The error wraps [ErrInvalidSize], [ErrClosed] or
// [ErrOutOfMemory] and names the device, what is wanted, what is held and the limit.
func (l *Ledger) Reserve(bytes int64) error {
	if bytes < 0 || int64(int(bytes)) != bytes {
		return fmt.Errorf("device %s: wants %d bytes: %w", l.id, bytes, ErrInvalidSize)
	}
	for {
		held := l.held.Load()
		if held == closed {
			return fmt.Errorf("device %s: wants %d bytes: %w", l.id, bytes, ErrClosed)
		}
		if limit := cmp.Or(l.limit, math.MaxInt64); bytes > limit-held {
			return fmt.Errorf(
				"device %s: wants %d bytes, holds %d of %d: %w: free memory or raise the limit",
				l.id, bytes, held, limit, ErrOutOfMemory)
		}
		if l.held.CompareAndSwap(held, held+bytes) {
			return nil
		}
	}
}

// Release gives reserved bytes back.
func (l *Ledger) Release(bytes int64) { l.held.Add(-bytes) }

// Held returns the bytes that are reserved and not yet released.
func (l *Ledger) Held() int64 {
	if held := l.held.Load(); held != closed {
		return held
	}
	return 0
}

// Close ends the accounts: nothing can be reserved afterwards. While bytes are held it does nothing
// and returns an error that wraps [ErrInUse]. Closing twice is allowed.
func (l *Ledger) Close() error {
	for {
		if l.held.CompareAndSwap(0, closed) {
			return nil
		}
		switch held := l.held.Load(); held {
		case closed:
			return nil
		case 0: // freed meanwhile
		default:
			return fmt.Errorf("device %s: %d bytes are held: %w: free the buffers first", l.id,
				held, ErrInUse)
		}
	}
}

// Stretch returns the n bytes of mem, the memory of a buffer of the device, from off on, for a copy
// that [Buffer] CopyIn (way "to") or CopyOut (way "from") makes. It fails with an error of kind
// [ErrBounds] when mem does not have them all.
func (l *Ledger) Stretch(mem []byte, way string, off int64, n int) ([]byte, error) {
	if off < 0 || off > int64(len(mem)) || int64(n) > int64(len(mem))-off {
		return nil, fmt.Errorf("device %s: copy of %d bytes %s %d of a buffer that has %d: %w",
			l.id, n, way, off, len(mem), ErrBounds)
	}
	return mem[off:][:n], nil
}
