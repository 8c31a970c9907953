package server

import (
	"sync"
	"time"
)

// This file bounds what requests that fail cost others. A batch that fails is computed once more
// one by one, so that the others in it have their answers. The account that was why then has its
// requests computed alone for a while: it pays for them, and no others wait twice.

// suspicion is for how long, and mostSuspects how many accounts are remembered of a version.
const (
	suspicion    = 10 * time.Second
	mostSuspects = 256
)

// suspects are accounts whose requests share no batch.
type suspects struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add remembers an account; nobody is none.
func (s *suspects) add(account string) {
	if account == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil || len(s.until) >= mostSuspects {
		s.until = map[string]time.Time{}
	}
	s.until[account] = time.Now().Add(suspicion)
}

// has reports whether an account is suspected.
func (s *suspects) has(account string) bool {
	if account == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.until[account]
	if ok && !time.Now().Before(end) {
		delete(s.until, account)
		return false
	}
	return ok
}
