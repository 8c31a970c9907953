package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
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

// lacks reports an error of admission, or of a share, for want of memory that others could give:
// more than the device has they could not, or than the job's own cap.
func lacks(err error) bool { return outgrows(err) && !errors.Is(err, core.ErrOverCap) }

// outgrows is lacks of a request, for which the version's cap is raised as far as it may be.
func outgrows(err error) bool {
	return errors.Is(err, weir.ErrMemory) && !errors.Is(err, share.ErrNever)
}

// roomy does what a job is promised memory for, and once more without versions that a rollback
// would serve where there was too little.
func (s *Server) roomy(ctx context.Context, do func() error) error {
	err := do()
	if lacks(err) && s.hurry(ctx, true) {
		return do()
	}
	return err
}

// roomy is Server.roomy of a request, unless the version could have all that it will ever have.
func (v *version) roomy(ctx context.Context, do func() error) error {
	err := do()
	if outgrows(err) && !v.full() && v.server.hurry(ctx, true) {
		return do()
	}
	return err
}

// full reports whether a version has, or finds left, all the memory that it may ever have.
func (v *version) full() bool {
	now := v.job.Usage().Share
	return v.left(&now) >= v.ceiling()-now.Memory
}

// ceiling is the most memory that a version may ever have.
func (v *version) ceiling() weir.Bytes {
	most := v.server.host.Status().Memory
	if own := weir.Bytes(v.most.Load()); own > 0 {
		most = min(most, own)
	}
	return most
}

// bound sets the cap of its own that a version has, 0 for none.
func (v *version) bound(most weir.Bytes) {
	v.most.Store(int64(most))
	seat.Of(v.server.host).Bound(v.job, most)
}
