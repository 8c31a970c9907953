package auth

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What a client may fail: so often at once, and then once in a while. Addresses are remembered up
// to a number; those of one IPv6 network, which one client has, count as one.
const (
	failBurst   = 10
	failEvery   = time.Second
	failClients = 4096
	failNetwork = 64
)

// throttle slows clients whose attempts fail.
type throttle struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*rate.Limiter
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, of: map[string]*rate.Limiter{}}
}

// failed counts a failed attempt of a client, and returns for how long it must wait if it has had
// too many.
func (t *throttle) failed(peer string) time.Duration {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	client := network(peer)
	l := t.of[client]
	if l == nil {
		t.makeRoom(now)
		l = rate.NewLimiter(rate.Every(failEvery), failBurst)
		t.of[client] = l
	}
	if l.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - l.TokensAt(now)) * float64(failEvery))
}

// makeRoom forgets a client if there are as many as are remembered: one that has not failed for
// long or, without one, any.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.of) < failClients {
		return
	}
	any := ""
	for client, l := range t.of {
		if any = client; l.TokensAt(now) >= failBurst {
			break
		}
	}
	delete(t.of, any)
}

// network is what counts as one client.
func network(peer string) string {
	a, err := netip.ParseAddr(peer)
	if err != nil || a.Unmap().Is4() {
		return peer
	}
	p, _ := a.WithZone("").Prefix(failNetwork)
	return p.String()
}
