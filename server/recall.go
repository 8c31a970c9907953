package server

import (
	"context"
	"errors"
)

// This file takes back the memory of what runs beside the models: it is lent to that only.

// ErrRecalled is of a [Beside] or [Workplace] whose memory was needed for a model or its requests.
// Its work may go on with another one, once memory is left.
var ErrRecalled = errors.New("its memory was needed by a model")

// mostRooms is how often a model that is loaded has others give memory up.
const mostRooms = 3

// lodger is what has memory of a server that is lent.
type lodger struct {
	server *Server
	life   context.Context // done once it was recalled
	end    context.CancelCauseFunc
	closed chan struct{}
}

func (s *Server) lodger() lodger {
	l := lodger{server: s, closed: make(chan struct{})}
	l.life, l.end = context.WithCancelCause(s.life)
	return l
}

// keep remembers a lodger until it leaves.
func (s *Server) keep(l *lodger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.besides == nil {
		s.besides = map[*lodger]bool{}
	}
	s.besides[l] = true
}

// leave is called once it has given its memory back.
func (l *lodger) leave() {
	l.server.mu.Lock()
	delete(l.server.besides, l)
	l.server.mu.Unlock()
	l.end(nil)
	close(l.closed)
}

// makeRoom has those give up memory that are not served: who runs beside, and versions that are
// left with their sequences. It reports whether there were any.
func (s *Server) makeRoom(ctx context.Context) bool {
	left := s.hurry(ctx, false)
	return s.recall(ctx) || left
}

// recall asks for the memory of all that runs beside, and waits until it is given back. It reports
// whether there was any.
func (s *Server) recall(ctx context.Context) bool {
	s.mu.Lock()
	var list []*lodger
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
