package broker

import (
	"fmt"

	"github.com/weirgpu/weir/share"
)

// MemoryKind is what memory is held for.
type MemoryKind uint8

const (
	// Persistent memory is held over iterations: weights, optimizer state.
	Persistent MemoryKind = iota
	// Ephemeral memory is held within an iteration: activations, workspace.
	Ephemeral
)

// String returns "persistent" or "ephemeral".
func (k MemoryKind) String() string {
	if k == Persistent {
		return "persistent"
	}
	return "ephemeral"
}

// Reserve counts n more bytes as held by the job. It refuses with [ErrOverCap] what would take the
// job over its cap, by a byte or more, and then counts nothing.
func (j *Job) Reserve(kind MemoryKind, n share.Bytes) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return j.endedError()
	}
	s := &j.state
	held := s.Persistent + s.Ephemeral
	if n < 0 || n > s.Cap-held {
		return fmt.Errorf("job %s: wants %v more %v memory, holds %v of its cap %v: %w: raise "+
			"memory or lower the batch",
			j.spec.Name, n.About(), kind, held.About(), s.Cap.About(), ErrOverCap)
	}
	*j.holding(kind) += n
	j.peak = max(j.peak, held+n)
	return nil
}

// Free counts n bytes as given back. More than is reserved is an error, [ErrNotReserved], and
// changes nothing. After the job's end, which frees everything, Free does nothing.
func (j *Job) Free(kind MemoryKind, n share.Bytes) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return nil
	}
	held := j.holding(kind)
	if n < 0 || n > *held {
		return fmt.Errorf("job %s: frees %v of %v memory, holds %v: %w",
			j.spec.Name, n, kind, *held, ErrNotReserved)
	}
	*held -= n
	return nil
}

func (j *Job) holding(kind MemoryKind) *share.Bytes {
	if kind == Persistent {
		return &j.state.Persistent
	}
	return &j.state.Ephemeral
}
