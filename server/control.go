package server

import (
	"errors"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// Policies are the names of the policies that the device can enforce.
func (s *Server) Policies() []string { return s.host.Policies() }

// SetPolicy makes another policy decide which model computes, while all answer. The error is that
// of weir.Host.SetPolicy.
func (s *Server) SetPolicy(name string) error { return s.host.SetPolicy(name) }

// SetShare gives a model another share while it answers, and returns the one that it had. Of
// several versions it is that of the newest, and of those that follow it; the others share its
// class and limit. A Memory of 0 leaves the cap that it has. The error is that of
// weir.Tenant.SetShare, or an *oip.Fault of kind NotFound or Unavailable.
func (s *Server) SetShare(name string, to weir.Share) (before weir.Share, err error) {
	v, err := s.look(name, "")
	if err != nil {
		return before, err
	}
	err = v.promise(s.life, func(now *weir.Share) error {
		before = *now
		return v.job.SetShare(to)
	})
	if errors.Is(err, weir.ErrClosed) {
		err = oip.Faultf(oip.NotFound, "model %s is no longer served", name)
	}
	if err != nil {
		return before, err
	}
	s.mu.Lock()
	to.Memory = 0
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
