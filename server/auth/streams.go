package auth

import (
	"context"
	"sync"
	"time"

	"github.com/weirgpu/weir/server/oip"
)

// MostStreams is how many readers of events an endpoint has at once, and MostStreamsEach how many
// of one account.
const (
	MostStreams     = 64
	MostStreamsEach = 16
)

// Streams counts readers of answers that do not end by themselves. The zero Streams has none. It is
// safe for concurrent use.
type Streams struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by account
}

// Enter counts the reader of a request in, until leave is called. The error is an *oip.Fault: there
// are [MostStreams], or [MostStreamsEach] of the request's account.
func (s *Streams) Enter(ctx context.Context) (leave func(), err error) {
	who := From(ctx).Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.full(who); f != nil {
		f.RetryAfter = 5 * time.Second
		return nil, f
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[who]++
	return func() { s.leave(who) }, nil
}

// full is why one reader more of an account, "" where there are none, finds no room. s.mu is held.
func (s *Streams) full(who string) *oip.Fault {
	if s.all >= MostStreams {
		return oip.Faultf(oip.Unavailable, "there are %d readers of events, which is as many as "+
			"may: ask again later", MostStreams)
	}
	if who != "" && s.of[who] >= MostStreamsEach {
		return oip.Faultf(oip.Exhausted, "account %s has %d readers of events, which is as many "+
			"as it may: close a page", who, MostStreamsEach)
	}
	return nil
}

func (s *Streams) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[who]--; s.of[who] == 0 {
		delete(s.of, who)
	}
}
