package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/share/policy"
)

// This file keeps what a rollback serves as it was: compiled, with its weights, and having learned
// how requests are put together, so that it answers at once. It holds memory, and leaves as soon as
// something of this server wants that.

// retained is for how long a version stays that a rollback would serve.
const retained = 10 * time.Minute

// keepable reports whether a version can be served again once it has left: not where that depends
// on what it is made of, or on sequences that it is not to know. The server's mu is held.
func (v *version) keepable() bool {
	return v.on != nil && v.source.Mark != "" && v.ensemble == nil && v.sequences == nil &&
		v.server.keeps
}

// keepsUnder reports whether versions are kept under a policy: not where a job has a part of the
// device, or a place on it, that it has no work for.
func keepsUnder(spec string) bool {
	s, err := policy.ParseSpec(cmp.Or(spec, policy.Default))
	if err != nil {
		return false
	}
	row, err := policy.Find(s.Name)
	if err != nil || row.Honours.Static {
		return false
	}
	lends, err := s.Conserving()
	return err == nil && lends
}

// setAside keeps a version that has no requests for a rollback. It reports whether there is nothing
// to end: it is kept, or served again already.
func (s *Server) setAside(v *version, d *departure) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.going != d {
		return true
	}
	if !d.aside || d.cut {
		return false
	}
	v.model.unlist(v)
	v.job.Shelve(true)
	d.late = time.AfterFunc(s.retained, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.going == d {
			v.cut()
		}
	})
	return true
}

// takeBack is the version that has left and is what a source has, to be served again; nil where
// there is none. The model's turn is held.
func (s *Server) takeBack(m *model, src *Source) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range m.left {
		d := v.going
		if !d.aside || d.cut || v.n != src.Version || v.source.Mark != src.Mark ||
			weir.Bytes(v.most.Load()) != m.terms.Memory ||
			v.job.Usage().Share.Keep < m.terms.Keep {
			continue
		}
		v.going, m.left = nil, without(m.left, v)
		if d.late != nil {
			d.late.Stop()
		}
		close(d.gone)
		v.job.Shelve(false)
		if m.others[v.n].state == stateUnloading {
			delete(m.others, v.n)
		}
		return v
	}
	return nil
}

// clear has versions leave that a rollback would serve; the server's mu is held.
func (m *model) clear() {
	for _, v := range m.left {
		if v.sequences == nil {
			v.cut()
		}
	}
}

// forgo has no version leave by itself any more, as the server ends; its mu is held.
func (m *model) forgo() {
	for _, v := range m.left {
		if v.going.late != nil {
			v.going.late.Stop()
		}
	}
}

// ending are the departures of versions that were served last, and of those that a rollback would
// have served.
func (s *Server) ending(m *model, served []*version) (list []*departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range served {
		list = append(list, v.going)
	}
	for _, v := range m.left {
		if v.sequences == nil {
			list = append(list, v.going)
		}
	}
	return list
}

// freed is Free, after versions have left that a rollback would serve if else less than want is
// free.
func (s *Server) freed(ctx context.Context, want weir.Bytes) weir.Bytes {
	if n := s.Free(); n >= want || !s.hurry(ctx, true) {
		return n
	}
	return s.Free()
}

// roomy does what takes memory, and once more without versions that a rollback would serve where
// there was too little.
func (s *Server) roomy(ctx context.Context, do func() error) error {
	err := do()
	if errors.Is(err, weir.ErrMemory) && s.hurry(ctx, true) {
		return do()
	}
	return err
}

// roomy is Server.roomy, unless the version has all that its cap lets it have.
func (v *version) roomy(ctx context.Context, do func() error) error {
	if most := weir.Bytes(v.most.Load()); most > 0 && v.job.Usage().Share.Memory >= most {
		return do()
	}
	return v.server.roomy(ctx, do)
}
