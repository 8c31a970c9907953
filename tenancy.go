package weir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// tenancy is what a model under a share has of its [Host]. It names no type of the broker, so that
// a program without a Host has nothing of that in it.
type tenancy struct {
	seat lender // used by who has the model's turn
	// kept is set while a hold waits for the Run that goes on with it, and changed by who has the
	// model's turn; waiting are the Runs that wait for that.
	kept    atomic.Bool
	waiting atomic.Int64
	room    room
	lent    lent // nil where all memory is the job's for its life
	// with is set once weights are those of other models, too, with the model's turn held
	with atomic.Pointer[together]
	// again is set while a Run or a plan waits for memory: what comes free is given back, and the
	// call makes room for what waits once more, since weights of the model's own may have come out
	// of use.
	again atomic.Pointer[func()]

	weights, arenas, host device.Quota // host is nil where the device's memory is the host's

	memory   func() (held, limit int64) // what the job holds, and its cap
	most     atomic.Int64               // that the cap will ever be
	forecast func(p *plan.Plan)         // tells the policy what iterations of a plan take
	leave    func()                     // ends the job
}

// lender is how a model under a share gets device time, as seat.Seat does.
type lender interface {
	Acquire(ctx context.Context) (device.Gate, error)
	Release()
	Keep()
	Arrive()
	Complete()
	Begin()
	End()
}

// compute runs one iteration on a slot, under a lease where the model has a share. The model's turn
// is held.
func (m *model) compute(ctx context.Context, s *slot, o RunObserver) error {
	t := m.tenancy.Load()
	if t == nil {
		reached(o, RunGranted)
		return s.run(ctx, device.Open, o)
	}
	gate, err := m.granted(ctx, t)
	if err != nil {
		return err
	}
	return m.iterate(ctx, t, gate, s, o)
}

// granted waits for the device. The model's turn is held.
func (m *model) granted(ctx context.Context, t *tenancy) (device.Gate, error) {
	if err := t.bring(ctx); err != nil {
		return nil, err
	}
	t.kept.Store(false)
	gate, err := t.seat.Acquire(ctx)
	if err != nil {
		t.unpin()
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for the device: %w", err)
	}
	return gate, err
}

// iterate runs one iteration under a lease, which it gives back or keeps for the next Run.
func (m *model) iterate(ctx context.Context, t *tenancy, gate device.Gate, s *slot,
	o RunObserver) error {
	err := errExited // of an operator that ends the goroutine
	defer func() {
		t.seat.End()
		t.unpin()
		if err == nil && t.waiting.Load() > 0 {
			// to the policy the Runs of a job are one sequence of iterations
			t.seat.Keep()
			t.kept.Store(true)
			return
		}
		t.seat.Release()
	}()
	t.seat.Begin()
	reached(o, RunGranted)
	err = s.run(ctx, gate, o)
	return err
}

// drop gives back a hold that is kept where no Run waits to go on with it, or always. The model's
// turn is held.
func (t *tenancy) drop(always bool) {
	if t.kept.Load() && (always || t.waiting.Load() == 0) {
		t.kept.Store(false)
		t.seat.Release()
	}
}

// abandoned gives back a hold that was kept for a Run which gave up waiting. It is called after a
// turn has ended, and after a Run has given up: whichever is later sees both.
func (m *model) abandoned(t *tenancy) {
	if t.waiting.Load() > 0 || !t.kept.Load() {
		return
	}
	select {
	case m.turns <- struct{}{}:
		t.drop(false)
		<-m.turns
	default: // another Run has the turn, and calls this when it ends
	}
}

// room tells those who wait for memory of a job that some may have been given back.
type room struct {
	mu   sync.Mutex
	some chan struct{} // closed then; nil while nobody waits
}

// given returns a channel that is closed when memory is given back next.
func (r *room) given() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.some == nil {
		r.some = make(chan struct{})
	}
	return r.some
}

// tell wakes those who wait.
func (r *room) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.some != nil {
		close(r.some)
		r.some = nil
	}
}

// awaitRoom returns once given is closed; why says what for.
func (m *model) awaitRoom(ctx context.Context, given <-chan struct{}, why error) error {
	select {
	case <-given:
		return nil
	case <-m.closing.Done():
		return fmt.Errorf("waiting for a Result of the model to be closed: %w", ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("waiting for a Result of the model to be closed (%w): %w", why, ctx.Err())
	}
}

// taken is known, of a model under a share whose cap leaves no room for one more arena: it gives
// back arenas that nobody uses, and then waits for open results. The model's turn is held.
func (m *model) taken(ctx context.Context, in Inputs) (*slot, error) {
	s, err := m.known(in)
	t := m.tenancy.Load()
	for t != nil && errors.Is(err, core.ErrOverCap) {
		given := t.room.given()
		alone := m.users() == 0 // before what they give back is taken
		m.spare()
		if s, err = m.known(in); !errors.Is(err, core.ErrOverCap) || alone {
			break
		}
		t.drop(true) // nobody is to wait for the device meanwhile
		if late := m.awaitRoom(ctx, given, err); late != nil {
			return nil, late
		}
		s, err = m.known(in)
	}
	return s, err
}

// users returns how many slots are in use and calls under way that use the model's memory.
func (m *model) users() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// spare gives back the arenas that nobody uses.
func (m *model) spare() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.variants {
		v.spare()
	}
}

// spareBeside gives back the plan that has been unused for longest, but for that of the session
// like, and reports whether there was one.
func (m *model) spareBeside(like *engine.Session) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.variants) - 1; i >= 0; i-- {
		if v := m.variants[i]; v.session != like {
			v.retire()
			m.variants = append(m.variants[:i], m.variants[i+1:]...)
			return true
		}
	}
	return false
}

// spareThose gives back the plans that gone says.
func (m *model) spareThose(gone func(v *variant) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.variants = slices.DeleteFunc(m.variants, func(v *variant) bool {
		if !gone(v) {
			return false
		}
		v.retire()
		return true
	})
}

// shrink gives back what nobody uses of the memory of a model's job, until that holds no more than
// most, and reports whether that is so: plans that need more, arenas, and plans that were unused
// for longest first.
func (m *model) shrink(most int64) bool {
	t := m.tenancy.Load()
	if t == nil {
		return false
	}
	over := func() int64 {
		held, _ := t.memory()
		return held - most
	}
	m.spareThose(func(v *variant) bool { return v.session.Plan().PeakBytes(1) > most })
	if t.lends() {
		t.lent.Cut(over())
		return over() <= 0
	}
	m.spareUnused()
	for latest := m.latest(); over() > 0 && m.spareBeside(latest); {
	}
	if over() > 0 {
		m.spare()
	}
	for over() > 0 && m.spareBeside(nil) {
	}
	return over() <= 0
}

// latest is the session of the plan that was used last, nil where there is none.
func (m *model) latest() *engine.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.variants) == 0 {
		return nil
	}
	return m.variants[0].session
}

// fitsCap refuses a plan that needs more than the cap of the model's job. For one that needs more
// than is left of it, it gives back what nobody uses, and then waits for open results. The session
// like is the one that the plan shares weights with, nil for none. The caller counts in m.running.
func (m *model) fitsCap(ctx context.Context, p *plan.Plan, like *engine.Session) error {
	t := m.tenancy.Load()
	if t == nil {
		return nil
	}
	need := p.PeakBytes(1)
	if like != nil {
		need -= p.PackedBytes
	}
	for {
		given := t.room.given()
		alone := m.users() <= 1 // before what they give back is counted
		m.spare()
		held, limit := t.memory()
		err := fmt.Errorf("graph %q: these shapes need %v, cap %v: %w: raise memory or lower the "+
			"sizes of the inputs", p.Graph.Name, share.Bytes(p.PeakBytes(1)).About(),
			share.Bytes(limit).About(), core.ErrOverCap)
		switch {
		case p.PeakBytes(1) > limit:
			return err
		case need <= limit-held:
			t.forecast(p)
			return nil
		case m.spareBeside(like):
		case alone:
			return err
		default:
			if late := m.awaitRoom(ctx, given, err); late != nil {
				return late
			}
		}
	}
}
