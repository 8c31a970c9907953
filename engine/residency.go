package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/plan"
)

// weights are packed weights and the sessions that read them, in the order in which they came; the
// last frees them. They lie in the order of the steps that read them first, and what of them is on
// the device is always the bytes before some offset: they are given back from the end on, and
// brought from there on.
//
// Where the device's own units write them, whoever needs them does so, under its lease (own.go):
// beside it they would be taken from whoever has the device. Otherwise serve has them brought,
// while steps whose weights are there run.
type weights struct {
	device.Buffer
	elastic device.Elastic // nil when the device keeps them whole
	by      *Session       // that loaded them: its plan and options bring them again
	cuts    cuts           // of serve, or of who writes them
	own     *ownPool       // set where the device's own units write them
	asking  chan struct{}  // held by who asks the quota for what is away
	bring   func()         // weights.serve

	mu       sync.Mutex
	quota    device.Quota // that counts what is granted; changed with asking held, too
	changed  sync.Cond    // of what follows
	waiting  []*waiter    // that are to be told of it, too
	sessions []*Session
	readers  int    // iterations and others that need all of them until they end
	granted  int64  // the bytes before it are on the device
	loaded   int64  // those before it have their contents; at most granted
	loading  int64  // where the transfer under way ends, 0 when there is none
	serving  bool   // serve runs
	ended    int    // transfers
	paces    paces  // of transfers
	failures int    // of transfers
	err      error  // of the last one that failed
	leaving  bool   // no transfer begins any more
	unasked  func() // ends the asking for a transfer that is not to be; nil: none is asked
}

func newWeights(b device.Buffer, by *Session) *weights {
	n := b.Len()
	w := &weights{Buffer: b, by: by, asking: make(chan struct{}, 1), sessions: []*Session{by},
		quota: by.opts.Quota, granted: n, loaded: n}
	w.elastic, _ = b.(device.Elastic)
	if by.owns() {
		w.own = &ownPool{}
	}
	w.changed.L = &w.mu
	w.bring = w.serve
	return w
}

// share returns the session's packed weights for one more session, nil when they have been freed.
func (s *Session) share(with *Session) *weights {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packed == nil {
		return nil
	}
	s.packed.mu.Lock()
	defer s.packed.mu.Unlock()
	if s.packed.leaving || !same(s.packed.quota, with.opts.Quota) {
		return nil
	}
	s.packed.sessions = append(s.packed.sessions, with)
	return s.packed
}

// leave gives up a session's part in the weights. The last one waits for the transfer under way and
// frees them, which it holds until then.
func (w *weights) leave(s *Session) {
	w.mu.Lock()
	w.leaving = len(w.sessions) == 1
	last := w.leaving
	if last {
		w.unask()
	}
	for last && w.serving {
		w.changed.Wait()
	}
	i := slices.Index(w.sessions, s)
	w.sessions = slices.Delete(w.sessions, i, i+1)
	quota := w.quota
	w.mu.Unlock()
	if last {
		w.Free()
		quota.Release(w.granted)
	}
}

// held returns the bytes on the device that session s counts as what it holds: those of the one
// that has had them for longest.
func (w *weights) held(s *Session) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sessions) == 0 || w.sessions[0] != s {
		return 0
	}
	return w.granted
}

// away returns the bytes that are not on the device.
func (w *weights) away() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Len() - w.granted
}

// evict gives up to most bytes back, the last ones first, and returns how many. It waits for the
// transfer under way where that writes any of them. While anybody reads the weights it gives none.
func (w *weights) evict(most int64) (freed int64) {
	for freed < most {
		n, quota, more := w.cut(most - freed)
		quota.Release(n)
		if freed += n; !more {
			break
		}
		w.await()
	}
	return freed
}

// cut gives back what evict can now, which the quota is to be told. More says that the transfer
// under way writes what is left.
func (w *weights) cut(most int64) (n int64, quota device.Quota, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.elastic == nil || w.readers > 0 || w.leaving {
		return 0, w.quota, false
	}
	want := max(0, w.granted-most)
	from, to := max(w.loading, want), w.granted
	if from < to {
		w.elastic.Decommit(from, to)
		w.granted, w.loaded = from, min(w.loaded, from)
		w.unask()
		if o := &w.by.opts; o.Weights != nil && o.Discard != nil && hostVisible(w.Buffer) {
			o.Discard(from, to)
		}
	}
	return to - from, w.quota, want < from
}

// await returns when the transfer that is under way has ended.
func (w *weights) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ended := w.ended; w.loading > 0 && w.ended == ended; {
		w.changed.Wait()
	}
}

// recall asks the quota for what is away, and the device to take it. It returns once all is
// granted, and leaves it to others to have it brought (start).
func (w *weights) recall(ctx context.Context) error {
	if w.away() == 0 {
		return nil
	}
	select {
	case w.asking <- struct{}{}: // so that nobody asks twice for the same bytes
		defer func() { <-w.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	quota := w.counts()
	for {
		n := w.away() // evict may make it more meanwhile
		if n == 0 {
			return nil
		}
		if err := quota.Reserve(n); err != nil {
			return fmt.Errorf("graph %q: packed weights: %w", w.by.plan.Graph.Name, err)
		}
		if err := w.commit(n); err != nil {
			quota.Release(n)
			return fmt.Errorf("graph %q: packed weights: %w", w.by.plan.Graph.Name, err)
		}
	}
}

// counts is the quota that counts what is granted.
func (w *weights) counts() device.Quota {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quota
}

// requota has another quota count what is granted.
func (w *weights) requota(ctx context.Context,
	next func(granted int64) (device.Quota, error)) error {
	select {
	case w.asking <- struct{}{}: // what is being asked for is of the one before
		defer func() { <-w.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	quota, err := next(w.granted)
	if err != nil {
		return err
	}
	w.quota = quota
	return nil
}

// commit takes n more bytes of the device, which the quota has granted.
func (w *weights) commit(n int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.elastic.Commit(w.granted, w.granted+n); err != nil {
		return err
	}
	w.granted += n
	return nil
}

// hold has the weights stay until release, all of them. It recalls what is away. Some may then
// still be on their way, for which a waiter waits; here says that all are there.
func (w *weights) hold(ctx context.Context) (here bool, err error) {
	for {
		w.mu.Lock()
		whole, here := w.granted == w.Len(), w.loaded == w.Len()
		if whole {
			w.readers++
		}
		w.mu.Unlock()
		if whole {
			return here, nil
		}
		if err := cmp.Or(ctx.Err(), w.recall(ctx)); err != nil {
			return false, err
		}
	}
}

func (w *weights) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers--
}

// tell wakes whoever waits for a change; w.mu is held.
func (w *weights) tell() {
	w.changed.Broadcast()
	brought := w.serving || w.loading > 0
	w.waiting = slices.DeleteFunc(w.waiting, func(a *waiter) bool {
		if brought && w.loaded < a.needs {
			return false
		}
		a.woken <- struct{}{}
		return true
	})
}

// reload is how long it takes to bring all of the weights, by the last transfers of each group,
// before the first one as the cost model of groups has it.
func (w *weights) reload() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if took := w.paces.whole(); took > 0 || w.Len() == 0 {
		return took
	}
	return w.by.bus().Transfer(w.Len())
}

// start has the weights brought if all that is away is granted; w.mu is held.
func (w *weights) start() {
	if w.own == nil && !w.serving && !w.leaving && w.granted == w.Len() && w.loaded < w.granted {
		w.serving = true
		go w.bring()
	}
}

// serve brings what is granted, group after group, until all is there, or a transfer fails, or what
// was granted is given back.
func (w *weights) serve() {
	borders := w.cuts.of(w.by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paces.cut(borders)
	for w.loaded < w.granted && w.granted == w.Len() && !w.leaving {
		i, _ := slices.BinarySearch(borders, w.loaded+1)
		from, to := w.loaded, borders[i]
		may, err := w.ask(from, to)
		if !may && err == nil {
			continue
		}
		w.loading = to
		w.mu.Unlock()
		began := time.Now()
		if err == nil {
			err = w.transfer(from, to)
		}
		took := time.Since(began)
		w.mu.Lock()
		w.loading = 0
		w.ended++
		if err != nil {
			w.failures++
			w.err = fmt.Errorf("packed weights: %w", err)
			break
		}
		w.loaded = to
		w.paces.last[i].note(to-from, took)
		w.tell()
	}
	w.serving = false
	w.tell()
}

// ask waits for the meter, if there is one, to let a stretch be brought. May is false where it is
// not to be brought any more. w.mu is held, but not while it waits.
func (w *weights) ask(from, to int64) (may bool, err error) {
	meter := meterOf(w.quota)
	if meter == nil {
		return true, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.unasked = cancel
	w.mu.Unlock()
	err = moves(ctx, meter, to-from)
	w.mu.Lock()
	if ctx.Err() != nil {
		return false, nil
	}
	w.unasked = nil
	return w.loaded == from && w.granted == w.Len() && !w.leaving, err
}

// unask ends an asking under way; w.mu is held.
func (w *weights) unask() {
	if w.unasked != nil {
		w.unasked()
		w.unasked = nil
	}
}

// transfer writes the contents of a stretch, from where they come: given weights in place, a copy
// of them, or the constants of the model, which are packed again, on the host.
func (w *weights) transfer(from, to int64) error {
	s := w.by
	pages, populates := w.Buffer.(device.Populator)
	switch given := s.opts.Weights; {
	case given == nil:
		return w.again(plan.PackOptions{From: from, To: to, Pool: s.opts.PackPool})
	case hostVisible(w.Buffer):
		if populates {
			pages.Populate(from, to)
		}
		return nil
	default:
		return s.copyGiven(w.Buffer, from, to)
	}
}

// again packs a stretch of the model's constants again.
func (w *weights) again(o plan.PackOptions) error {
	s := w.by
	o.Packed = s.opts.Packed
	if pages, ok := w.Buffer.(device.Populator); ok {
		o.Populate = pages.Populate
	}
	if err := s.packInto(w.Buffer, o); err != nil || s.opts.Unchanged == nil {
		return err
	}
	return s.opts.Unchanged()
}

// copyGiven copies a stretch of given weights, which may be mapped from a file that somebody has
// cut short.
func (s *Session) copyGiven(b device.Buffer, from, to int64) error {
	return fault.Do(func() error { return b.CopyIn(from, s.opts.Weights[from:to]) })
}
