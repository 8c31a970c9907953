package weir

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/plan"
)

// This file is weights that models of a [Host] have together. They are those of one plan, so the
// content of the models, the shapes and the options are the same. Who has them apart from that has
// all else for itself, for its life.

// together is weights that a model has with others.
type together struct {
	anchor *engine.Session // of the model's own plan; it has the weights stay loaded
	quota  device.Quota    // that counts them
	bytes  int64
	use    bending
	// stays is set while the weights stay for this model, which need not ask for them
	stays atomic.Bool
	leave func() // ends the use; may be called again
}

// bending is weights that go where others need the room, as seat.Use is.
type bending interface {
	Resident(ctx context.Context) error
	Begin() bool
	End()
}

// lends reports whether all of the model's memory is lent: that of weights which it has together
// with others is for these to lend.
func (t *tenancy) lends() bool { return t.lent != nil && t.with.Load() == nil }

// bring has weights that others use, too, come to the device, and stay there until unpin. The
// model's turn is held.
func (t *tenancy) bring(ctx context.Context) error {
	w := t.with.Load()
	if w == nil || w.stays.Load() || t.kept.Load() && w.use.Begin() {
		return nil
	}
	t.drop(true) // who waits for memory does not hold the device
	if err := w.use.Resident(ctx); err != nil {
		return fmt.Errorf("waiting for weights whose memory others hold: %w", err)
	}
	return nil
}

// unpin ends what bring began.
func (t *tenancy) unpin() {
	if w := t.with.Load(); w != nil {
		w.use.End()
	}
}

// common is weights that the model has together with others and that serve the plan; nil where
// there are none.
func (t *tenancy) common(p *plan.Plan) *together {
	if w := t.with.Load(); w != nil && p.SamePacking(w.anchor.Plan()) {
		return w
	}
	return nil
}

// quotaOf is what counts the weights of a plan.
func (t *tenancy) quotaOf(p *plan.Plan) device.Quota {
	if w := t.common(p); w != nil {
		return w.quota
	}
	return t.weights
}

// anchored is a session of weights that the model has together with others, which serve the plan,
// too; nil where there is none.
func (m *model) anchored(p *plan.Plan) *engine.Session {
	if t := m.tenancy.Load(); t != nil {
		if w := t.common(p); w != nil {
			return w.anchor
		}
	}
	return nil
}

// lasting is what several close together: the last of them does.
type lasting struct {
	mu    sync.Mutex
	users int
	close func() error
}

func (l *lasting) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return nil
	}
	return l.close()
}
