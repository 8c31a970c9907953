package weir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// This file is how models of a [Host] come to have their weights together: the first has them alone
// until another comes that is alike.

// alike is what a tenant's plan is told by from others.
type alike struct {
	compiled *cache.Compiled // without its plan
	print    [32]byte
	packed   int64
	identity func() string
}

func alikeOf(c *cache.Compiled) *alike {
	of := *c
	a := &alike{compiled: &of, print: c.Plan.Fingerprint(), packed: c.Plan.PackedBytes}
	of.Plan, of.Weights = nil, nil
	a.identity = sync.OnceValue(of.Identity) // which may read the model whole
	return a
}

// is reports whether two plans pack the same weights.
func (a *alike) is(b *alike) bool {
	return a.packed == b.packed && a.print == b.print && a.identity() != "" &&
		a.identity() == b.identity()
}

// common is a tenant's part in weights that it has together with others.
type common struct {
	*together
	use    *seat.Use
	shared commonSession
	left   atomic.Bool
	// what the job was promised beside its cap, of which the broker knows the rest
	elastic bool
	keep    atomic.Int64
}

// commonSession are the weights of several models. It implements seat.Shared.
type commonSession struct {
	*engine.Session
	source *lasting // the model that they are brought from
}

// Close implements seat.Loaded.
func (s commonSession) Close() {
	s.Session.Close()
	if err := s.source.Close(); err != nil {
		slog.Warn("weir: closing a model whose weights others used", "error", err)
	}
}

// joined has a model that is to be admitted use weights together with one that is there, nil where
// there is none like it, or no room to do so. The job's cap is known.
func (h *Host) joined(ctx context.Context, m *model, c *cache.Compiled, j *Job,
	most share.Bytes) (*common, error) {
	if c.Plan.PackedBytes == 0 || h.broker.Ruled() || int64(most) < c.Plan.PeakBytes(1) {
		return nil, nil
	}
	select {
	case h.joining <- struct{}{}:
		defer func() { <-h.joining }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	own := alikeOf(c)
	first := h.like(own)
	if first == nil || j.Elastic && !h.mayKeep(most-share.Bytes(own.packed)-j.Keep) {
		return nil, nil
	}
	if first.with.Load() == nil {
		if err := h.found(ctx, first); err != nil {
			return nil, ctx.Err() // else the model has weights of its own
		}
	}
	w := &common{elastic: j.Elastic, shared: first.with.Load().shared}
	w.keep.Store(int64(j.Keep))
	use, err := h.commons.Join(ctx, own.identity(), "", own.packed, w.keeps(own.packed, most),
		func(device.Quota) (seat.Loaded, error) { return nil, errLeft })
	if err != nil {
		return nil, ctx.Err()
	}
	if err = w.begin(ctx, m, c, use); err != nil {
		use.Leave()
		return nil, ctx.Err()
	}
	return w, nil
}

// let admits a job, beside weights that it has together with others, if there are any. Where what
// it has beside them cannot be kept for it, it has weights of its own.
func (h *Host) let(spec share.Job, need share.Bytes, with *common) (*broker.Job, *common, error) {
	if with != nil {
		own, n := spec, share.Bytes(with.bytes)
		own.Elastic, own.Keep, own.Memory = false, 0, spec.Memory-n
		job, err := h.broker.Admit(own, need-n)
		if err == nil {
			return job, with, nil
		}
		if with.leave(); !spec.Elastic {
			return nil, nil, err
		}
	}
	job, err := h.broker.Admit(spec, need)
	return job, nil, err
}

// mayKeep reports whether jobs whose memory is lent may keep so much more, because they have their
// weights together with others: then what is lent to all is less. It is to be most of the memory,
// so that no model is refused for that.
func (h *Host) mayKeep(more share.Bytes) bool {
	st := h.Status()
	return 4*(st.Promised+more) <= st.Memory
}

// errRoom: there is not the room to keep what is not weights.
var errRoom = errors.New("others would have too little of the memory in turn")

// errLeft: whose weights they were has left meanwhile.
var errLeft = errors.New("the weights have gone")

// keeps is how much of the weights is to stay for a job, under a cap: all for one whose memory is
// not lent, else what it keeps beyond all else.
func (w *common) keeps(packed int64, most share.Bytes) int64 {
	if !w.elastic {
		return packed
	}
	return max(0, min(packed, w.keep.Load()-(int64(most)-packed)))
}

// begin loads a plan on the weights. Those that are to stay for the model are there then.
func (w *common) begin(ctx context.Context, m *model, c *cache.Compiled, use *seat.Use) error {
	o := engine.Options{Device: m.device, Pool: m.pool, Quota: use.Quota(), Context: ctx,
		ArenaQuota: engine.Unlimited, HostQuota: engine.Unlimited, // it has no arenas
		Like: w.shared.Session, OneModel: true}
	if w.shared.Session.Plan().Fingerprint() != c.Plan.Fingerprint() {
		return errLeft
	}
	anchor, err := engine.Load(c.Plan, o)
	if err != nil {
		return err
	}
	w.uses(use, anchor)
	if w.elastic {
		return nil
	}
	defer use.End()
	if err := use.Resident(ctx); err != nil {
		anchor.Close()
		return err
	}
	return nil
}

// uses notes what a job has of the weights.
func (w *common) uses(use *seat.Use, anchor *engine.Session) {
	w.use = use
	w.together = &together{anchor: anchor, quota: use.Quota(), bytes: anchor.Plan().PackedBytes,
		use: use}
	w.together.stays.Store(!w.elastic)
	w.together.leave = sync.OnceFunc(func() {
		w.left.Store(true)
		anchor.Close()
		use.Leave()
	})
}

// like is a tenant whose plan packs the same weights, nil where there is none.
func (h *Host) like(a *alike) (found *Tenant) {
	for _, t := range h.tenants() {
		if t.alike != nil && t.alike.is(a) && (found == nil || t.with.Load() != nil) {
			found = t
		}
	}
	return found
}

// found has weights that a model has alone be such that others can join. It waits for the model's
// Run under way.
func (h *Host) found(ctx context.Context, t *Tenant) error {
	m := t.model
	if err := m.hold(); err != nil {
		return err
	}
	defer m.end()
	t.setting.Lock()
	defer t.setting.Unlock()
	if err := enter(ctx, m.compiling); err != nil {
		return err
	}
	defer m.vacate(0)
	if err := m.turn(ctx); err != nil {
		return err
	}
	defer m.leave()
	y := m.tenancy.Load()
	if y == nil {
		return errLeft // it could not be loaded
	}
	y.drop(true)
	spec, n := t.job.Spec(), t.alike.packed
	if spec.Elastic && !h.mayKeep(spec.Memory-share.Bytes(n)-spec.Keep) {
		return errRoom
	}
	own, shared, err := m.apart(t.alike)
	if err != nil {
		return err
	}
	w := &common{elastic: spec.Elastic, shared: shared}
	w.keep.Store(int64(spec.Keep))
	name := fmt.Sprintf("weights of %s, %.8s", t.job.Name(), t.alike.identity())
	use, err := h.commons.Found(ctx, t.alike.identity(), name, n, w.keeps(n, spec.Memory), t.job,
		shared)
	if err != nil {
		own.Close()
		shared.Close()
		return err
	}
	w.uses(use, own)
	y.with.Store(w.together)
	t.with.Store(w)
	t.shelving.Lock()
	defer t.shelving.Unlock()
	use.Shelve(t.shelved)
	return nil
}

// apart are two sessions that have the weights of a plan which the model has loaded: one of the
// model, and one that outlives it. The model's turn is held.
func (m *model) apart(a *alike) (own *engine.Session, shared commonSession, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenancy.Load()
	for _, v := range m.variants {
		p := v.session.Plan()
		if p.PackedBytes != a.packed || p.Fingerprint() != a.print {
			continue
		}
		o := engine.Options{Device: m.device, Pool: m.pool, Quota: t.weights,
			ArenaQuota: engine.Unlimited, HostQuota: engine.Unlimited, Like: v.session}
		if own, err = engine.Load(p, o); err != nil {
			return nil, shared, err
		}
		if shared.Session, err = engine.Load(p, o); err != nil {
			own.Close()
			return nil, shared, err
		}
		if m.lasting == nil {
			m.lasting = &lasting{users: 1, close: m.source.Close}
		}
		m.lasting.users++
		shared.source = m.lasting
		return own, shared, nil
	}
	return nil, shared, errLeft
}

// common is how many bytes of weights the job has together with others.
func (t *Tenant) common() Bytes {
	if w := t.with.Load(); w != nil {
		return Bytes(w.bytes)
	}
	return 0
}

// beside is what the job holds of such weights, and how much of that others use, too.
func (t *Tenant) beside() (held, shared Bytes) {
	w := t.with.Load()
	if w == nil || w.left.Load() {
		return 0, 0
	}
	held = Bytes(w.bytes - w.anchor.Away())
	if w.use.Members() > 1 {
		shared = held
	}
	return held, shared
}

// most is the job's cap.
func (t *Tenant) most() Bytes { return t.job.Spec().Memory + t.common() }

// share is what the job is promised, with what it has together with others. All that it has beside
// is kept for it.
func (t *Tenant) share() Share {
	s := t.job.Spec().Share
	w := t.with.Load()
	if w == nil {
		return s
	}
	if w.elastic {
		s.Elastic, s.Keep = true, max(s.Memory, Bytes(w.keep.Load()))
	}
	s.Memory += Bytes(w.bytes)
	return s
}

// change gives the job another share, and another need, 0 for the one that it has. t.setting is
// held.
func (t *Tenant) change(s Share, need Bytes) error {
	w := t.with.Load()
	if w == nil {
		return t.job.SetShareForPlan(s, need)
	}
	n, most := Bytes(w.bytes), s.Memory
	if most == 0 {
		most = t.most()
	} else if most <= n {
		return fmt.Errorf("job %s: new cap %v, of which the weights are %v: %w: raise memory, or "+
			"end it", t.job.Name(), most.About(), n.About(), core.ErrOverCap)
	}
	s.Keep = min(s.Keep, most)
	if err := s.Validate(); err != nil {
		return err
	}
	was := w.keep.Swap(int64(s.Keep))
	keep := w.keeps(w.bytes, most)
	before := w.use.Kept()
	err := w.use.Keep(keep)
	if err == nil {
		s.Memory, s.Elastic, s.Keep = most-n, false, 0
		if err = t.job.SetShareForPlan(s, max(0, need-n)); err == nil {
			return nil
		}
		err = fmt.Errorf("beside %v of weights that others use, too: %w", n.About(),
			errors.Join(err, w.use.Keep(before)))
	}
	w.keep.Store(was)
	return err
}
