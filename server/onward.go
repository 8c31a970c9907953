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
	if len(m.left) == 0 || p["sequence_id"] == nil {
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

// departure is how a version leaves that takes no more requests of its own. What is not said of a
// field is under the server's mu.
type departure struct {
	idle  chan struct{} // closed once its requests are answered and its sequences are over
	hurry chan struct{} // closed by cut
	gone  chan struct{} // closed once it holds nothing beside open answers, or is served again
	// aside says that a rollback may serve it again, and late ends that; nil before it is idle
	aside      bool
	late       *time.Timer
	idles, cut bool // idle is closed, hurry is
}

// leaves begins that a version is no longer served; aside says that a rollback may serve it again.
// s.mu is held.
func (m *model) leaves(v *version, aside bool) *departure {
	d := &departure{idle: make(chan struct{}), hurry: make(chan struct{}),
		gone: make(chan struct{}), aside: aside && v.keepable()}
	v.going = d
	if v.rest(); v.sequences == nil && !d.aside {
		return d
	}
	if m.left = append(m.left, v); len(m.left) > mostLeft {
		m.left[0].cut()
	}
	return d
}

// rest tells who waits for it that a version which takes no more requests has none, and no
// sequences either; the server's mu is held.
func (v *version) rest() {
	if d := v.going; d != nil && !d.idles && v.under == 0 && !v.sequences.some() {
		d.idles = true
		close(d.idle)
	}
}

// cut ends sequences of a version that is no longer served as soon as their requests are answered,
// and that it is there for a rollback; the server's mu is held.
func (v *version) cut() {
	d := v.going
	if d.cut {
		return
	}
	d.cut = true
	close(d.hurry)
	if d.late != nil {
		d.late.Stop()
		v.server.beside(func() { v.server.finish(v, d) })
	}
}

// last waits until a version that is no longer served has neither requests nor sequences, and
// reports whether it has: not where it is served again, or the server ends.
func (s *Server) last(v *version, d *departure) bool {
	late := time.NewTimer(onward)
	defer late.Stop()
	select {
	case <-d.idle:
		return true
	case <-d.gone:
		return false
	case <-s.life.Done():
		return false
	case <-d.hurry:
	case <-late.C:
	}
	v.sequences.finish(v)
	select {
	case <-d.idle:
		return true
	case <-d.gone:
		return false
	case <-s.life.Done():
		return false
	}
}

// depart has versions leave that are no longer served, since somebody needs the memory: those that
// a rollback would serve, or else those of sequences.
func (s *Server) depart(aside bool) (list []*departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		for _, v := range m.left {
			if (v.sequences == nil) == aside {
				v.cut()
				list = append(list, v.going)
			}
		}
	}
	return list
}

// hurry is depart, and waits a moment until the memory is given back. It reports whether there were
// any.
func (s *Server) hurry(ctx context.Context, aside bool) bool {
	list := s.depart(aside)
	late := time.NewTimer(linger)
	defer late.Stop()
	for _, d := range list {
		select {
		case <-d.gone:
		case <-late.C:
			return true
		case <-s.life.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
	return len(list) > 0
}
