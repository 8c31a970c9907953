package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/weirgpu/weir/device"
)

// Away returns the bytes of packed weights that [Session.Evict] has given back and that were not
// granted again. Sessions that share weights say the same.
func (s *Session) Away() int64 {
	w := s.read(&s.calls)
	if w == nil {
		return 0
	}
	defer s.endRead(&s.calls)
	return w.away()
}

// Evict gives up to most bytes of packed weights back to the device and to Options.Quota, and
// returns how many, exactly. The last steps' go first: while those of the first steps run, the rest
// can be brought back. What a transfer under way writes goes when it has ended, for which Evict
// waits; otherwise it returns at once. It gives nothing back while an iteration of any session that
// shares the weights runs, nor from a device whose buffers are not [device.Elastic].
//
// The weights come back by [Session.Recall] or the next run: from Options.Weights, else packed
// again of the model's constants. Both must stay what they are while the session lives.
func (s *Session) Evict(most int64) (freed int64) {
	w := s.read(&s.calls)
	if w == nil {
		return 0
	}
	defer s.endRead(&s.calls)
	return w.evict(most)
}

// Recall asks Options.Quota for the packed weights that are away, which takes as long as the quota
// does, and has them brought in the order of the steps, on another goroutine. Those that the
// device's own units pack again are left to the next run, which has a lease for that. Recall
// returns when all are granted. [Instance.Run] does the same, and need not wait for all of them.
// The error is the quota's, the device's, ctx's while another call asks the quota, or of kind
// [ErrClosed]. What fails while weights are brought is the error of the iterations that wait for
// them; the next one has it tried again.
func (s *Session) Recall(ctx context.Context) error {
	w := s.read(&s.calls)
	if w == nil {
		return fmt.Errorf("graph %q: packed weights: %w", s.plan.Graph.Name, ErrClosed)
	}
	defer s.endRead(&s.calls)
	if err := w.recall(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
	return nil
}

// Requota has another quota count the packed weights from here on, those of all sessions that share
// them: next is called with the bytes that are granted, which the one before counts until then, and
// returns it. It must not call the session. On its error all stays as it was. Options.Quota is not
// asked for the weights any more, nor is it their meter. The error is next's, ctx's while the quota
// before is asked, or of kind [ErrClosed].
func (s *Session) Requota(ctx context.Context,
	next func(granted int64) (device.Quota, error)) error {
	w := s.read(&s.calls)
	if w == nil {
		return fmt.Errorf("graph %q: packed weights: %w", s.plan.Graph.Name, ErrClosed)
	}
	defer s.endRead(&s.calls)
	return w.requota(ctx, next)
}

// Reload returns how long it takes to bring all of the packed weights, had they been given back: by
// what bringing each part of them took, the lesser of its last two times; before that by an
// estimate of the way that they come. 0 when there are none.
func (s *Session) Reload() time.Duration {
	w := s.read(&s.calls)
	if w == nil {
		return 0
	}
	defer s.endRead(&s.calls)
	return w.reload()
}

// Shrink gives up to most bytes of the arenas of free instances back to the device and to
// Options.ArenaQuota, and returns how many, exactly. Instances that were put back first go first.
// [Session.Take] takes the bytes again. It gives nothing back from a device whose buffers are not
// [device.Elastic].
func (s *Session) Shrink(most int64) (freed int64) {
	s.mu.Lock()
	for _, i := range s.free {
		freed += i.shrink(most - freed)
	}
	s.mu.Unlock()
	s.opts.ArenaQuota.Release(freed)
	return freed
}

// Shrink is [Session.Shrink] for the arena of an instance that the caller has, in which no run is
// under way: what it holds is lost, and [Instance.Regrow] comes before its next use.
func (i *Instance) Shrink(most int64) (freed int64) {
	s := i.session
	s.mu.Lock()
	freed = i.shrink(most)
	s.mu.Unlock()
	s.opts.ArenaQuota.Release(freed)
	return freed
}

// shrink gives bytes back to the device; the session's lock is held.
func (i *Instance) shrink(most int64) (freed int64) {
	arena, ok := i.arena.(device.Elastic)
	here := i.arena.Len() - i.gone
	if n := min(most, here); ok && n > 0 {
		arena.Decommit(here-n, here)
		i.gone += n
		i.session.arenas -= n
		return n
	}
	return 0
}

// Gone is what the instance's arena is to take again before its next use.
func (i *Instance) Gone() int64 { return i.gone }

// Regrow takes what Shrink has given back of the instance's arena, if there is any. The error is
// that of Options.ArenaQuota, or of the device, and the arena then is as it was.
func (i *Instance) Regrow() error {
	if i.gone == 0 {
		return nil
	}
	s, n := i.session, i.arena.Len()
	if err := s.opts.ArenaQuota.Reserve(i.gone); err != nil {
		return err
	}
	if err := i.commit(n-i.gone, n); err != nil {
		s.opts.ArenaQuota.Release(i.gone)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arenas += i.gone
	i.gone = 0
	return nil
}

// commit takes a stretch of the arena and writes what an arena holds from the beginning.
func (i *Instance) commit(from, to int64) error {
	arena := i.arena.(device.Elastic)
	if _, err := arena.Commit(from, to); err != nil {
		return err
	}
	if !i.session.plan.Remote() {
		return nil
	}
	err := i.session.plan.Preset(arena.CopyIn)
	if err != nil {
		arena.Decommit(from, to)
	}
	return err
}

// read returns the packed weights, which stay until endRead, nil when they have been freed. n is
// s.calls or s.lent.
func (s *Session) read(n *int) *weights {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return nil
	}
	*n++
	return s.packed
}

func (s *Session) endRead(n *int) {
	s.mu.Lock()
	defer s.finish()
	defer s.mu.Unlock()
	if *n--; *n == 0 {
		s.ended.Broadcast()
	}
}
