package weir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is models under a share whose memory is lent ([Share] Elastic): between their Runs it
// goes where others need it, and comes back before the next one. Nobody holds memory while it waits
// for the device, or the device while it waits for memory.

// lent is the memory of a model that others may have between its Runs, as seat.Lent is. Missing
// says how much more a Run takes than the model holds.
type lent interface {
	Has(missing func() int64) bool
	Room(ctx context.Context, missing func() int64) error
	Begin(missing func() int64) bool
	Hold(ctx context.Context, missing func() int64) error
	End()
	Give()
	Cut(most int64)
}

// runLent is the rest of Model.Run for such a model. What values take whose size depends on data is
// known once they are made, and then nobody may wait for it: the Run begins again with more.
func (m *model) runLent(ctx context.Context, t *tenancy, in Inputs, o RunObserver) (Result, error) {
	for extra := int64(0); ; {
		s, gate, err := m.gathered(ctx, t, in, extra)
		if err != nil {
			return Result{}, err
		}
		p := s.variant.session.Plan()
		r, err := m.runGathered(ctx, t, s, gate, in, o)
		m.leave()
		if err == nil {
			return r, nil
		}
		_, limit := t.memory()
		more := min(max(2*extra, int64(share.MiB)), limit-p.PeakBytes(1))
		if !errors.Is(err, core.ErrNoMemory) || !p.Dynamic() || more <= extra || ctx.Err() != nil {
			return Result{}, m.ofData(ctx, in, err) // which reads the model's file
		}
		extra = more
	}
}

// errTogether: meanwhile others have come to use the model's weights, too.
var errTogether = errors.New("its memory is not lent any more")

// gathered waits until the Run's turn has come, the device is granted and all is there that it
// takes: a slot for its inputs, and extra bytes. Where there is no error, runGathered and
// [model.leave] are to follow.
func (m *model) gathered(ctx context.Context, t *tenancy, in Inputs, extra int64) (*slot,
	device.Gate, error) {
	for {
		v, err := m.variant(in)
		if v == nil && err == nil {
			err = m.learn(ctx, in)
		}
		if err == nil {
			err = m.turn(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		if !t.lends() {
			m.leave()
			return nil, nil, errTogether
		}
		if v, err = m.variant(in); v == nil && err == nil { // another took its place
			m.leave()
			continue
		}
		var gate device.Gate
		if err == nil {
			gate, err = m.gather(ctx, t, v, extra)
		}
		if err != nil {
			m.leave()
			return nil, nil, classify(err, ErrModel)
		}
		s, err := m.known(in)
		if s != nil {
			return s, gate, nil
		}
		t.lent.End()
		t.seat.Release()
		m.leave()
		if err != nil {
			return nil, nil, classify(err, ErrModel)
		}
	}
}

// runGathered computes what was gathered for.
func (m *model) runGathered(ctx context.Context, t *tenancy, s *slot, gate device.Gate, in Inputs,
	o RunObserver) (Result, error) {
	r, whole := Result{slot: s, use: s.uses}, false
	defer func() { // also where an operator of the program's ends the goroutine
		t.lent.End()
		if !whole {
			r.Close()
		}
	}()
	err := m.placed(s, in, o)
	if err != nil {
		t.seat.Release()
		return Result{}, err
	}
	if err := m.iterate(ctx, t, gate, s, o); err != nil {
		return Result{}, err
	}
	reached(o, RunComputed)
	s.variant.save()
	whole = true
	return r, nil
}

// variant returns the variant for the shapes of in, nil where they were not compiled.
func (m *model) variant(in Inputs) (*variant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	for _, v := range m.variants {
		if v.fits(m.graph.Inputs, in) {
			return v, nil
		}
	}
	return nil, nil
}

// learn compiles the model for the shapes of in.
func (m *model) learn(ctx context.Context, in Inputs) error {
	if err := enter(ctx, m.compiling); err != nil {
		return fmt.Errorf("waiting for other shapes to be compiled: %w", err)
	}
	if v, err := m.variant(in); v != nil || err != nil {
		<-m.compiling
		return err
	}
	s, err := m.made(ctx, in)
	if err != nil {
		return err
	}
	Result{s, s.uses}.Close()
	m.leave()
	return nil
}

// gather waits for all that a Run of a variant takes, and for the device. The model's turn is held.
func (m *model) gather(ctx context.Context, t *tenancy, v *variant, extra int64) (device.Gate,
	error) {
	missing := func() int64 { return v.missing() + extra }
	for {
		if !t.lent.Has(missing) {
			t.drop(true)
			want := func() error { return m.makeRoom(t, v.session.Plan(), missing(), extra) }
			if err := m.roomFor(ctx, t, want, missing); err != nil {
				return nil, err
			}
			_ = v.session.Recall(ctx) // so that weights come while it waits; else they do later
		}
		gate, err := m.granted(ctx, t)
		if err != nil {
			return nil, err
		}
		if t.lent.Begin(missing) {
			return gate, nil
		}
		t.seat.Release() // others had its memory meanwhile
	}
}

// roomFor waits until what is missing is there for the model, of whose own memory want gives back
// what is in the way. Results that are closed meanwhile give their arenas back, which may be what
// it waits for.
func (m *model) roomFor(ctx context.Context, t *tenancy, want func() error,
	missing func() int64) error {
	defer t.waits(want)()
	if err := want(); err != nil {
		return err
	}
	m.spareUnused()
	if err := t.lent.Room(ctx, missing); err != nil {
		return fmt.Errorf("waiting for memory that others hold: %w", err)
	}
	return nil
}

// waits has memory that comes out of use given back until the function that it returns is called:
// arenas at once, and what want gives back, which makes room for what waits. Weights that were
// being read, for the cache of plans, could not be given back when it was asked first.
func (t *tenancy) waits(want func() error) (end func()) {
	again := func() { _ = want() } // the first call says what is wrong
	t.again.Store(&again)
	return func() { t.again.Store(nil) }
}

// spareUnused gives back arenas beyond the one for the next Run of each set of shapes.
func (m *model) spareUnused() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.variants {
		v.mu.Lock()
		for len(v.free) > 1 {
			v.drop(v.free[0])
			v.free = slices.Delete(v.free, 0, 1)
		}
		v.unused = min(v.unused, len(v.free))
		v.mu.Unlock()
	}
}

// missing is how many bytes more a Run takes than the variant holds.
func (v *variant) missing() int64 {
	n := v.session.Away()
	v.mu.Lock()
	defer v.mu.Unlock()
	if k := len(v.free); k > 0 {
		return n + v.free[k-1].instance.Gone()
	}
	return n + v.session.Plan().ArenaBytes
}

// giveBack gives up to most bytes back that no Run uses, and returns how many: first those of
// shapes that were not used for longest, and weights before arenas, which take longer to be made
// again.
func (m *model) giveBack(most int64) (freed int64) {
	for _, v := range slices.Backward(m.all()) {
		freed += v.evict(most - freed)
		freed += v.shed(most - freed) // of what is left to give then
	}
	return freed
}

// makeRoom gives back of the model's own memory what is in the way of need more for a plan, under
// the cap: not the weights that the plan has itself. The error is of kind core.ErrOverCap where the
// cap is too low for one Run and extra bytes.
func (m *model) makeRoom(t *tenancy, p *plan.Plan, need, extra int64) error {
	held, limit := t.memory()
	if peak := p.PeakBytes(1) + extra; peak > limit {
		return fmt.Errorf("graph %q: these shapes need %v, cap %v: %w: raise memory or lower the "+
			"sizes of the inputs", p.Graph.Name, share.Bytes(peak).About(),
			share.Bytes(limit).About(), core.ErrOverCap)
	}
	over := held + need - limit
	for _, v := range slices.Backward(m.all()) {
		if v.session.Plan() != p {
			over -= v.shed(over)
		}
		if !p.SamePacking(v.session.Plan()) {
			over -= v.evict(over)
		}
	}
	return nil
}

// all are the variants, those that were used last first.
func (m *model) all() []*variant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.variants)
}

// evict gives up to most bytes of weights back.
func (v *variant) evict(most int64) (freed int64) {
	if most <= 0 {
		return 0
	}
	return v.session.Evict(most)
}

// shed gives up to most bytes back of arenas that nobody uses: of the last one a part, to the byte.
// Where the device keeps arenas whole, that one goes whole.
func (v *variant) shed(most int64) (freed int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.free) > 0 && freed < most {
		i := v.free[0].instance
		here := v.session.Plan().ArenaBytes - i.Gone()
		if most-freed < here {
			if n := i.Shrink(most - freed); n > 0 {
				freed += n
				break
			}
		}
		v.drop(v.free[0])
		v.free = slices.Delete(v.free, 0, 1)
		freed += here
	}
	v.unused = min(v.unused, len(v.free))
	return freed
}

// give gives back what others wait for, or the model itself under its cap, where some of it may
// have come out of use.
func (m *model) give() {
	t := m.tenancy.Load()
	if t == nil || !t.lends() {
		return
	}
	if again := t.again.Load(); again != nil {
		(*again)()
	}
	t.lent.Give()
}

// loading waits until there is room for a plan to be loaded, and for one Run of it; the function
// that it returns ends that. The model's turn is held, or no Run uses the model.
func (m *model) loading(ctx context.Context, t *tenancy, p *plan.Plan) (end func(), err error) {
	need := p.PeakBytes(1)
	if m.like(p) != nil {
		need -= p.PackedBytes
	}
	want := func() error { return m.makeRoom(t, p, need, 0) }
	defer t.waits(want)()
	if err := want(); err != nil {
		return nil, err
	}
	if err := t.lent.Hold(ctx, func() int64 { return need }); err != nil {
		return nil, fmt.Errorf("waiting for memory that others hold: %w", err)
	}
	t.forecast(p)
	return t.lent.End, nil
}
