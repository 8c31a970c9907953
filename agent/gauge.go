package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errHangs says that the management library has not answered for too long.
var errHangs = errors.New("the management library does not answer")

// gauge reads one thing of a device from the management library. A call of that may never return,
// as where the kernel waits for a GPU that has fallen off the bus: then readers of this gauge go on
// without an answer, and no second call is made until the first has returned.
type gauge[T any] struct {
	ask func() (T, error)

	mu    sync.Mutex
	next  *reading[T] // that begins when the one under way has ended; nil: nobody waits for it
	busy  bool        // one is under way,
	began time.Time   // since when
}

// reading is one call for all who asked before it began.
type reading[T any] struct {
	done  chan struct{} // closed when the rest is set
	value T
	err   error
}

// read returns what a call says that begins after read does, or within that time an error that
// wraps [errHangs]. It gives the same value to several, who do not write to it.
func (g *gauge[T]) read(ctx context.Context, within time.Duration) (T, error) {
	var none T
	g.mu.Lock()
	if g.busy && time.Since(g.began) >= within {
		defer g.mu.Unlock()
		return none, g.silent()
	}
	l := g.next
	if l == nil {
		l = &reading[T]{done: make(chan struct{})}
		g.next = l
	}
	if !g.busy {
		g.busy, g.began = true, time.Now()
		go g.run()
	}
	g.mu.Unlock()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-t.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		return none, g.silent()
	}
}

func (g *gauge[T]) silent() error {
	return fmt.Errorf("%w, since %s", errHangs, g.began.Format(time.DateTime))
}

// run looks as long as somebody waits for it.
func (g *gauge[T]) run() {
	for {
		g.mu.Lock()
		l := g.next
		g.next, g.busy, g.began = nil, l != nil, time.Now()
		g.mu.Unlock()
		if l == nil {
			return
		}
		l.value, l.err = g.ask()
		close(l.done)
	}
}
