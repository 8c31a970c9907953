package server

import (
	"context"
	"time"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// This file lets sequences go on where they began: a version that is replaced or unloaded takes no
// new ones, and answers those that are under way until they end, as tritonserver does
// (sequence_batch_scheduler.cc: Stop). The next version knows nothing of their state.

// onward is for how long sequences of a version go on at most that is no longer served, and
// mostLeft is how many such versions of a model there are: they hold memory.
const (
	onward   = 5 * time.Minute
	mostLeft = 4
)

// going is the version, of those that are served or were, that has the sequence of a request which
// does not begin one: nil for other requests. A version is what the request would have else, nil
// for none. s.mu is held.
func (m *model) going(ctx context.Context, v *version, number string, p oip.Parameters) *version {
	if len(m.left) == 0 {
		return nil
	}
	at, err := placeOf(p)
	if err != nil || at.id == "" || at.start {
		return nil
	}
	name := sequenceID{auth.Owner(ctx), at.id, at.text}
	if v != nil && v.sequences.has(name) {
		return nil
	}
	for i := len(m.left) - 1; i >= 0; i-- {
		old := m.left[i]
		if (number == "" || number == old.number) && old.sequences.has(name) {
			return old
		}
	}
	return nil
}

// leaves notes that a version of sequences is no longer served; s.mu is held.
func (m *model) leaves(v *version) {
	if v.sequences == nil {
		return
	}
	if m.left = append(m.left, v); len(m.left) > mostLeft {
		m.left[0].cut()
	}
}

// cut ends sequences of a version that is no longer served as soon as their requests are answered.
func (v *version) cut() { v.once.Do(func() { close(v.hurry) }) }

// last waits until a version that is no longer served has neither requests nor sequences, and
// reports whether it has: not where the server ends.
func (s *Server) last(v *version) bool {
	late := time.NewTimer(onward)
	defer late.Stop()
	select {
	case <-v.idle:
		return true
	case <-s.life.Done():
		return false
	case <-v.hurry:
	case <-late.C:
	}
	v.sequences.finish(v)
	select {
	case <-v.idle:
		return true
	case <-s.life.Done():
		return false
	}
}

// hurry ends the sequences of versions that are no longer served, since somebody needs the memory,
// and waits a moment until that is given back. It reports whether there were any.
func (s *Server) hurry(ctx context.Context) bool {
	s.mu.Lock()
	var list []*version
	for _, m := range s.models {
		list = append(list, m.left...)
	}
	s.mu.Unlock()
	for _, v := range list {
		v.cut()
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	for _, v := range list {
		select {
		case <-v.gone:
		case <-late.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return len(list) > 0
}
