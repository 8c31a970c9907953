package server

import (
	"context"
	"errors"
)

// This file takes back the memory of what runs beside the models: it is lent to that only.

// ErrRecalled is of a [Beside] whose memory was needed for a model or its requests. Its work may go
// on with another one, once memory is left.
var ErrRecalled = errors.New("its memory was needed by a model")

// keep remembers a Beside until it is closed.
func (s *Server) keep(b *Beside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.besides == nil {
		s.besides = map[*Beside]bool{}
	}
	s.besides[b] = true
}

func (s *Server) forget(b *Beside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.besides, b)
}

// makeRoom has those give up memory that are not served: who runs beside, and versions that are
// left with their sequences. It reports whether there were any.
func (s *Server) makeRoom(ctx context.Context) bool {
	left := s.hurry(ctx)
	return s.recall(ctx) || left
}

// recall asks for the memory of all that runs beside, and waits until it is given back. It reports
// whether there was any.
func (s *Server) recall(ctx context.Context) bool {
	s.mu.Lock()
	var list []*Beside
	for b := range s.besides {
		list = append(list, b)
	}
	s.mu.Unlock()
	for _, b := range list {
		b.end(ErrRecalled)
	}
	for _, b := range list {
		select {
		case <-b.closed:
		case <-ctx.Done():
			return false
		}
	}
	return len(list) > 0
}
