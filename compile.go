package weir

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// wanted is what a variant is compiled for: all that compiling needs to know of a request.
type wanted struct {
	shapes map[string][]int
	bytes  int64 // of the inputs
	// patience ends the wait for open results that leave no room in the cap of a job
	patience context.Context
}

// wanted reads the shapes of in.
func (m *model) wanted(in Inputs) (wanted, error) {
	w := wanted{shapes: map[string][]int{}}
	for _, x := range m.graph.Inputs {
		t := in[x.Name]
		shape, err := x.Type.Fit(t.Shape)
		if err != nil {
			return w, err
		}
		w.shapes[x.Name] = slices.Clone(shape)
		w.bytes += t.Size()
	}
	return w, nil
}

// compilation is shapes being compiled by a goroutine of its own, which a Run waits for and may
// leave. Whoever has its outcome gives m.compiling back.
type compilation struct {
	outcome chan outcome  // unbuffered: to the Run that waits
	left    chan struct{} // closed by the Run when it leaves
	stop    func() bool   // ends the watch for Close, once the Run has left
}

// outcome is a slot of the variant that was made, or why there is none. The model is held for it.
type outcome struct {
	slot *slot
	err  error
	turn bool // whether it has a Run's turn, as under a share it does before it takes memory
}

// errExited is the outcome of code of the program's that ended the goroutine which called it.
var errExited = fmt.Errorf("%w: an operator of the program's called runtime.Goexit, as FailNow of "+
	"package testing does: return an error", ErrFault)

// made takes a slot and a turn for the shapes of in, for which it compiles the model. m.compiling
// is held, and given back when they are compiled: not before it is this Run's turn, so that at most
// one has a slot and waits.
func (m *model) made(ctx context.Context, in Inputs) (*slot, error) {
	w, err := m.wanted(in)
	if err == nil {
		err = m.hold()
	}
	if err != nil {
		<-m.compiling
		return nil, classify(err, ErrInput)
	}
	w.patience = ctx
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &compilation{outcome: make(chan outcome), left: make(chan struct{})}
	go m.carryOut(own, cancel, w, c)
	select {
	case made := <-c.outcome:
		return m.settle(ctx, in, made)
	case <-ctx.Done():
	}
	if m.leaveBehind(c, cancel) {
		close(c.left)
		return nil, fmt.Errorf("compiling for these shapes, which goes on: %w", ctx.Err())
	}
	cancel()
	m.discard(<-c.outcome)
	return nil, ctx.Err()
}

// settle takes the outcome of a compilation for a Run that has waited for it.
func (m *model) settle(ctx context.Context, in Inputs, made outcome) (*slot, error) {
	defer func() { <-m.compiling }()
	if made.err != nil {
		err := m.ofShapes(ctx, in, made.err) // which reads the model's file
		m.end()
		if made.turn {
			m.leave()
		}
		return nil, err
	}
	if made.turn {
		return made.slot, nil
	}
	if err := m.turn(ctx); err != nil {
		Result{made.slot, made.slot.uses}.Close()
		return nil, err
	}
	return made.slot, nil
}

// discard gives back what a compilation holds that nobody waits for.
func (m *model) discard(made outcome) {
	if made.slot != nil {
		Result{made.slot, made.slot.uses}.Close()
	} else {
		m.end()
	}
	if made.turn {
		m.leave()
	}
	<-m.compiling
}

// leaveBehind has Close end a compilation, by cancel, and wait for it; false when the model is
// closed already.
func (m *model) leaveBehind(c *compilation, cancel context.CancelFunc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.background.Add(1)
	c.stop = context.AfterFunc(m.closing, cancel)
	return true
}

// carryOut compiles, and hands the outcome to the Run that waits for it, if it still does.
func (m *model) carryOut(ctx context.Context, cancel context.CancelFunc, w wanted,
	c *compilation) {
	defer cancel()
	made := outcome{err: fmt.Errorf("graph %q: %w", m.graph.Name, errExited)}
	defer func() {
		select {
		case c.outcome <- made:
		case <-c.left:
			c.stop()
			m.discard(made)
			m.background.Done()
		}
	}()
	made.err = fault.Do(func() error { return m.compile(ctx, w, &made) })
}

// compile makes the plan for shapes, loads it and takes a slot; m.compiling is held, so one set of
// shapes is compiled once. Under a share it takes a turn before it loads: whoever has the turn is
// the only one to take memory of the job, and waits for nobody but open results.
func (m *model) compile(ctx context.Context, w wanted, made *outcome) error {
	v, c, err := m.prepare(ctx, w)
	if err != nil {
		return err
	}
	if t := m.tenancy.Load(); t != nil {
		if err := m.turn(ctx); err != nil {
			return err
		}
		made.turn = true
		t.drop(true)
		if t.lends() {
			end, err := m.loading(cmp.Or(w.patience, ctx), t, c.Plan)
			if err != nil {
				return err
			}
			defer end()
		}
	}
	if err := m.load(ctx, v, c, w); err != nil {
		return err
	}
	made.slot, err = m.keep(v)
	return err
}

// prepare makes the plan for shapes, or finds it in the cache; m.compiling is held.
func (m *model) prepare(ctx context.Context, w wanted) (*variant, *cache.Compiled, error) {
	v := &variant{model: m}
	for _, x := range m.graph.Inputs {
		v.shapes = append(v.shapes, w.shapes[x.Name])
	}
	c, err := m.plan(ctx, plan.Options{Target: m.target, Shapes: w.shapes,
		Threads: m.pool.Threads(), Passes: m.passes})
	if t := m.tenancy.Load(); err == nil && t != nil {
		c, err = m.within(ctx, t, c, w.bytes)
	}
	return v, c, err
}

// within is a plan that the cap of the model's job has room for, where there is one; else c, for
// which the cap is to be raised. The error is a share.ErrNever where no cap will have room for a
// plan, beside inputs of so many bytes in the same memory.
func (m *model) within(ctx context.Context, t *tenancy, c *cache.Compiled, given int64) (
	*cache.Compiled, error) {
	ever := t.most.Load()
	most := ever
	if has := m.device.Info().MemoryBytes; has > 0 && !t.lends() {
		most = min(most, has-given) // as fits has it
	}
	_, limit := t.memory()
	c = c.Within(ctx, min(limit, most))
	n := c.Plan.PeakBytes(1)
	if n <= most || limit < most && c.Within(ctx, most).Plan.PeakBytes(1) <= most {
		return c, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err // there may be a smaller plan, which was not made
	}
	return nil, &kindError{share.ErrNever, fmt.Errorf("graph %q: these shapes need %v beside "+
		"inputs of %v, cap %v at the most: %w: lower the sizes of the inputs, or raise memory",
		c.Plan.Graph.Name, share.Bytes(n).About(), share.Bytes(given).About(),
		share.Bytes(ever).About(), core.ErrOverCap)}
}

// load makes the session of a variant from its plan; m.compiling is held, and m.running counts the
// call.
func (m *model) load(ctx context.Context, v *variant, c *cache.Compiled, w wanted) error {
	like := m.like(c.Plan)
	if t := m.tenancy.Load(); t == nil || !t.lends() {
		if err := m.fitsCap(cmp.Or(w.patience, ctx), c.Plan, like); err != nil {
			return err
		}
		if err := m.fits(c.Plan, like, w.bytes); err != nil {
			return err
		}
	}
	m.source.Evict(nil)
	o := m.options(c.Plan)
	o.Context, o.Packed, o.Like = ctx, m.source.Evict, like
	o.Weights, o.Discard = c.Weights, c.Discard
	var err error
	if v.session, err = engine.Load(c.Plan, o); err != nil {
		return err
	}
	v.reads, v.bounded = m.source.Maps(c.Plan), c.Options.MostArena > 0
	if err := m.source.Unchanged(); err != nil {
		v.session.Close()
		return err
	}
	if (m.compiled == 1 || v.bounded) && c.Fresh() {
		v.fresh = c
	}
	return nil
}

// options say where a plan is loaded, and what grants its memory.
func (m *model) options(p *plan.Plan) engine.Options {
	o := engine.Options{Device: m.device, Pool: m.pool, PackPool: m.pool}
	if t := m.tenancy.Load(); t != nil {
		o.Quota, o.ArenaQuota, o.HostQuota = t.quotaOf(p), t.arenas, t.host
		o.PackPool = nil // whose workers no lease holds back
	}
	return o
}

// fits refuses a plan that needs more than the device has beside the inputs, of as many bytes,
// which the caller holds in the same memory; weights that it shares with the session like, unless
// that is nil, are there already. What the device grants is not there until it is written, and a
// process that then writes too much is ended by the system.
func (m *model) fits(p *plan.Plan, like *engine.Session, given int64) error {
	need, has, held := p.PeakBytes(1), m.device.Info().MemoryBytes, m.device.Held()
	if like != nil {
		need -= p.PackedBytes
	}
	if has == 0 || need >= 0 && need <= has-held-given {
		return nil
	}
	return fmt.Errorf("graph %q: %w: these shapes need %d bytes beside inputs of %d, %s has %d, "+
		"%d of them in use: lower the sizes of the inputs", p.Graph.Name, ErrMemory, need, given,
		m.device.Info().ID, has, held)
}
