package web_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// plain is a source whose state tests write down. A real server computes in real time, which these
// tests do not have.
type plain struct {
	mu     sync.Mutex
	slow   time.Duration // that it takes to load a model
	ready  bool
	status weir.HostStatus
	index  []oip.IndexEntry
}

// served returns a source with these models.
func served(names ...string) *plain {
	s := &plain{ready: true, status: weir.HostStatus{Device: "cpu:0", Policy: "fair",
		Memory: weir.GiB, Promised: 64 * weir.MiB}}
	for _, n := range names {
		s.index = append(s.index, oip.IndexEntry{Name: n, Version: "1", State: "READY"})
		s.status.Jobs = append(s.status.Jobs, weir.Usage{Name: n + "/1", Share: weir.Share{
			Memory: 8 * weir.MiB}, Memory: weir.MiB, Peak: 2 * weir.MiB})
	}
	return s
}

// change changes what the job of a model, or another job, has.
func (s *plain) change(name string, f func(*weir.Usage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.status.Jobs {
		if job := s.status.Jobs[i].Name; job == name+"/1" || job == name {
			f(&s.status.Jobs[i])
		}
	}
}

// remove takes a model away.
func (s *plain) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = slices.DeleteFunc(s.index, func(e oip.IndexEntry) bool { return e.Name == name })
	s.status.Jobs = slices.DeleteFunc(s.status.Jobs, func(u weir.Usage) bool {
		return u.Name == name+"/1"
	})
}

// add adds a model that has no job.
func (s *plain) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = append(s.index, oip.IndexEntry{Name: name, Version: "1", State: "LOADING"})
}

func (s *plain) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *plain) Status() weir.HostStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Jobs = slices.Clone(st.Jobs)
	return st
}

func (s *plain) Index(bool) []oip.IndexEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.index)
}

func (s *plain) Metadata(name, _ string) (oip.Metadata, error) {
	return oip.Metadata{Name: name, Versions: []string{"1"}}, nil
}

func (s *plain) Policies() []string { return []string{"fair", "priority"} }

func (s *plain) SetPolicy(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.Policies(), name) {
		return fmt.Errorf("%w: there is no policy %s", weir.ErrOption, name)
	}
	s.status.Policy = name
	return nil
}

func (s *plain) SetShare(name string, to weir.Share) (before weir.Share, err error) {
	if to.Memory > weir.GiB {
		return before, fmt.Errorf("%w: %v", weir.ErrMemory, to.Memory)
	}
	s.change(name, func(u *weir.Usage) {
		before = u.Share
		to.Memory = cmp.Or(to.Memory, before.Memory)
		u.Share = to
	})
	return before, nil
}

func (s *plain) LoadModel(_ context.Context, name string, _ oip.Parameters) error {
	time.Sleep(s.slow)
	return s.turn(name, "READY")
}

func (s *plain) UnloadModel(_ context.Context, name string, _ oip.Parameters) error {
	return s.turn(name, "UNAVAILABLE")
}

func (s *plain) turn(name, state string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.index {
		if s.index[i].Name == name {
			s.index[i].State = state
			return nil
		}
	}
	return fmt.Errorf("%w: there is no model %s", weir.ErrOption, name)
}

// work has a model compute for the whole device for so long.
func (s *plain) work(name string, d time.Duration) {
	s.change(name, func(u *weir.Usage) { u.Used += d; u.Runs++ })
}
