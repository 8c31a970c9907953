package server

import (
	"cmp"
	"errors"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// Policies are the names of the policies that the device can enforce.
func (s *Server) Policies() []string { return s.host.Policies() }

// SetPolicy makes another policy decide which model computes, while all answer. The error is that
// of weir.Host.SetPolicy.
func (s *Server) SetPolicy(name string) error {
	keeps := keepsUnder(name)
	s.mu.Lock()
	was := s.keeps
	s.keeps = keeps
	s.mu.Unlock()
	err := s.host.SetPolicy(name)
	admits := err == nil || errors.Is(err, weir.ErrOption) || errors.Is(err, weir.ErrClosed)
	if !admits && s.hurry(s.life, true) {
		err = s.host.SetPolicy(name)
	}
	if err != nil {
		s.mu.Lock()
		s.keeps = was
		s.mu.Unlock()
	} else if !keeps {
		s.hurry(s.life, true)
	}
	return err
}

// SetShare gives a model another share while it answers, and returns the one that it had. Of
// several versions it is that of the newest, and of those that follow it; the others share its
// class and limit. A Memory of 0 leaves the cap that it has; another than the model is promised
// now is a cap that its requests do not raise, for versions that are loaded later too. The error
// is that of weir.Tenant.SetShare, or an *oip.Fault of kind NotFound or Unavailable.
func (s *Server) SetShare(name string, to weir.Share) (before weir.Share, err error) {
	err = s.roomy(s.life, func() (err error) {
		before, err = s.setShare(name, to)
		return err
	})
	return before, err
}

func (s *Server) setShare(name string, to weir.Share) (before weir.Share, err error) {
	v, err := s.look(name, "")
	if err != nil {
		return before, err
	}
	m := v.model
	m.sharing <- struct{}{}
	defer func() { <-m.sharing }()
	if v, err = s.look(name, ""); err != nil { // another may have taken over meanwhile
		return before, err
	}
	if v.job == nil {
		return before, oip.Faultf(oip.Invalid, "model %s is a pipeline of %s: give those shares",
			name, v.ensemble.names())
	}
	err = v.promise(s.life, func(now *weir.Share) error {
		before = *now
		to.Elastic = now.Elastic
		to.Memory = cmp.Or(to.Memory, now.Memory) // with 0 nothing of memory would change
		err := v.job.SetShare(to)
		if s.o.Lend && errors.Is(err, weir.ErrMemory) {
			s.tighten() // caps are raised as requests need it
			err = v.job.SetShare(to)
		}
		if err == nil && to.Memory > 0 && to.Memory != now.Memory {
			v.bound(to.Memory)
			if to.Memory > now.Memory {
				v.widen()
			}
		}
		return err
	})
	if errors.Is(err, weir.ErrClosed) {
		err = oip.Faultf(oip.NotFound, "model %s is no longer served", name)
	}
	if err != nil {
		return before, err
	}
	s.mu.Lock()
	to.Memory = weir.Bytes(v.most.Load())
	v.model.terms = to
	served := v.model.served
	s.mu.Unlock()
	for _, other := range served {
		if other != v {
			_ = other.setTerms(beside(to)) // which guarantee nothing
		}
	}
	return before, nil
}

// Expect gives a model another share that is known and not served, such as one that is being loaded
// or was unloaded: its next version begins with it. It returns the one that was expected. known is
// false of a model of which [Options.Terms] is still to be asked.
func (s *Server) Expect(name string, to weir.Share) (before weir.Share, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	if m == nil {
		return before, false
	}
	before, m.terms = m.terms, to
	return before, true
}
