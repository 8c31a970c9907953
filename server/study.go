package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// This file is when a version learns how its requests are put together: once, behind requests.

// unasked is how long a version that was loaded for its first request waits for one before it
// learns: who has a model loaded to ask it asks at once.
const unasked = time.Second

// calm is how long after its first answer it learns. The answer has left the handler by then, but
// neither the server nor whoever asked: where samples are computed on all processors, the one that
// the answer waits for is had when they are done.
const calm = 50 * time.Millisecond

// studies are when a version learns.
type studies struct {
	hasty atomic.Bool    // it was loaded for its first request, which is not answered yet
	tries sync.WaitGroup // learn, while it goes on
	begun bool           // learn has begun, or is not to begin; the server's mu is held
	later *time.Timer    // has it begin, asked or not; the server's mu is held
}

// study begins to learn, behind requests, unless that was begun before. Of a version that was
// loaded for its first request it is left until that is answered, or nobody has asked for a while:
// samples would be made and computed in the way of who waits for it.
func (v *version) study() {
	s := v.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.begun, v.going != nil:
	case !v.hasty.Load():
		v.learnBeside()
	case v.later == nil:
		v.later = time.AfterFunc(s.unasked, func() {
			v.hasty.Store(false)
			v.study()
		})
	}
}

// answered ends that learning is left until a first request is answered.
func (v *version) answered() {
	if !v.hasty.CompareAndSwap(true, false) {
		return
	}
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	if v.later != nil {
		v.later.Reset(v.server.calm)
	}
}

// learnBeside begins to learn; the server's mu is held.
func (v *version) learnBeside() {
	v.begun = true
	v.tries.Add(1)
	v.server.beside(func() {
		defer v.tries.Done()
		select {
		case v.server.learning <- struct{}{}:
			defer func() { <-v.server.learning }()
			v.learn(v.life)
		case <-v.life.Done():
		}
	})
}

// endStudies has nothing learned from here on, and returns once nothing is.
func (v *version) endStudies() {
	v.server.mu.Lock()
	v.begun = true
	if v.later != nil {
		v.later.Stop()
	}
	v.server.mu.Unlock()
	v.tries.Wait()
}
