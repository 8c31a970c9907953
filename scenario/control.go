package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is shares that change while jobs run.

// Control changes the shares of a scenario's jobs while they run. Its zero value is ready, and is
// for one Run (Options.Control). Its method may be called by any number of goroutines.
type Control struct {
	mu    sync.Mutex // held while a share changes, and while a phase begins or ends
	stage *stage     // nil between phases under a policy
}

// Kinds of the errors of [Control.Set].
var (
	// ErrNoJob: the scenario has no such job.
	ErrNoJob = errors.New("no such job")
	// ErrNotRunning: jobs do not share the device under a policy now, or this one does not run.
	ErrNotRunning = errors.New("not running")
)

// Set gives a job another share while it runs: change is called with the share that it has, cap and
// all. For a cap below what the job's plan takes a smaller one is loaded between two of its
// requests, which computes again what it cannot keep, if that suffices; and the larger one again,
// once the cap is raised. It returns the share that the job then has. The errors are [ErrNoJob],
// [ErrNotRunning], [share.ErrInvalid], those of a broker's Admit, which have what is wanted and
// what is left, and ctx's. On an error the share stays as it is. The next phase begins with the
// scenario's own shares.
func (c *Control) Set(ctx context.Context, job string, change func(*share.Share)) (share.Share,
	error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage == nil {
		return share.Share{}, fmt.Errorf("job %s: %w: no jobs share the device under a policy "+
			"now: try again", job, ErrNotRunning)
	}
	return c.stage.set(ctx, job, change)
}

// direct makes a stage the one whose jobs change, nil for none.
func (c *Control) direct(s *stage) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stage = s
	}
}

// set is [Control.Set].
func (s *stage) set(ctx context.Context, job string, change func(*share.Share)) (share.Share,
	error) {
	t, d, err := s.running(job)
	if err != nil {
		return share.Share{}, err
	}
	next := s.shareOf(t)
	change(&next)
	if err := (share.Job{Name: job, Share: next}).Validate(); err != nil {
		return s.shareOf(t), err
	}
	p, err := s.planFor(ctx, t, next.Memory)
	if err != nil {
		return s.shareOf(t), err
	}
	if p.plan == t.p.plan {
		err = t.admit.SetShare(s.own(p, next))
	} else {
		err = d.do(ctx, func(ctx context.Context) error { return s.exchange(ctx, t, p, next) })
	}
	if err == nil {
		t.keep = next.Keep
	}
	return s.shareOf(t), err
}

// running is a job of the stage that runs.
func (s *stage) running(job string) (*tenant, *driver, error) {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	for _, t := range s.tenants {
		if t.p.spec.Name != job {
			continue
		}
		if place, waits := s.door.place(t); place > 0 {
			return nil, nil, fmt.Errorf("job %s: %w: it waits at place %d: %s", job, ErrNotRunning,
				place, waits)
		}
		if t.driver == nil || t.admit == nil {
			return nil, nil, fmt.Errorf("job %s: %w: %s", job, ErrNotRunning, t.result.Error)
		}
		return t, t.driver, nil
	}
	return nil, nil, fmt.Errorf("job %s: %w in the scenario", job, ErrNoJob)
}

// shareOf is what a job is promised, with weights that it shares.
func (s *stage) shareOf(t *tenant) share.Share {
	now := t.admit.Spec().Share
	now.Memory += share.Bytes(t.result.SharedBytes)
	now.Elastic, now.Keep = t.p.spec.Elastic, t.keep
	return now
}

// own is a share as the broker knows it, for a plan: without weights that others use, too, and with
// all that is not weights kept.
func (s *stage) own(p *prepared, sh share.Share) share.Share {
	sh.Memory -= share.Bytes(s.shared(p))
	if sh.Elastic {
		sh.Keep = min(sh.Memory, max(sh.Keep, share.Bytes(p.need()-p.plan.PackedBytes)))
	}
	return sh
}

// planFor is a job with the plan that it has under a cap: its own, if that fits, else a smaller
// one. The error has what it needs, and the cap.
func (s *stage) planFor(ctx context.Context, t *tenant, most share.Bytes) (*prepared, error) {
	whole := s.run.jobs[t.job]
	if most >= share.Bytes(whole.need()) {
		return whole, nil
	}
	if t.p.need() <= int64(most) && t.p != whole {
		return t.p, nil
	}
	small := *whole
	small.spec.Memory = most
	if t.use == nil { // weights that others use, too, are those of one plan
		small.shrink(ctx, plan.Options{Target: s.run.Target, Shapes: whole.shapes,
			Threads: s.run.Pool.Threads(), Passes: whole.passes})
	}
	return &small, small.overCap()
}

// exchange has a job go on with another plan, under another share. It is called by the job's own
// goroutine, between two requests. Where the share is refused the job has what it had.
func (s *stage) exchange(ctx context.Context, t *tenant, p *prepared, next share.Share) error {
	t.seat.Release()
	if t.memory != nil {
		t.memory.End()
	}
	t.free()
	was, before := t.p, t.admit.Spec().Share
	refused := t.admit.SetShareForPlan(s.own(p, next), share.Bytes(p.need()))
	if refused != nil {
		p = was
	}
	err := s.reload(ctx, t, p)
	if err != nil && refused == nil && !errors.Is(err, ctx.Err()) {
		refused = err
		if err = t.admit.SetShareForPlan(before, share.Bytes(was.need())); err == nil {
			err = s.reload(ctx, t, was)
		}
	}
	if err != nil {
		return ended{errors.Join(refused, err)}
	}
	return refused
}

// ended is the kind of error that ends the job as well.
type ended struct{ error }

func (e ended) Unwrap() error { return e.error }

// reload loads a plan for a job that has given back all its memory. On an error it holds none.
func (s *stage) reload(ctx context.Context, t *tenant, p *prepared) (err error) {
	o := s.run.options(ctx, p, t.held)
	o.MaxInstances = 1
	m := seat.NewElastic(t.admit)
	o.Quota, o.ArenaQuota = m.Weights(), m.Arenas()
	defer func() {
		if err != nil {
			m.Unreserve()
		}
	}()
	if err := m.Reserve(ctx, p.plan.PackedBytes, p.need()-p.plan.PackedBytes); err != nil {
		return err
	}
	it, session, free, err := p.resident(o)
	if err != nil {
		return err
	}
	s.door.mu.Lock()
	t.p, t.free, t.driver.iterate = p, free, it
	s.door.mu.Unlock()
	if t.memory == nil {
		return nil
	}
	w := newResided(session, p.plan.PackedBytes, s.broker.Now)
	w.follow(t.weights)
	t.memory, t.weights = m, w
	t.driver.memory, t.driver.weights = m, w
	t.driver.reloaded = func() { s.expect(t, session.Reload()) }
	t.driver.reloaded()
	m.Attach(w)
	return nil
}

// errOver is what a share that comes too late is refused with.
var errOver = fmt.Errorf("%w: the job has ended", core.ErrEnded)

// order is what a job is to do between two requests.
type order struct {
	do   func(ctx context.Context) error
	done chan error
}

// do has a job's goroutine do something between two requests, with no hold of the device.
func (d *driver) do(ctx context.Context, do func(ctx context.Context) error) error {
	o := order{do, make(chan error, 1)}
	select {
	case d.orders <- o:
		return <-o.done
	case <-d.over:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
}

// obey does what was asked, and returns an error that ends the job.
func (d *driver) obey(ctx context.Context, o order) error {
	answer := errOver
	defer func() { o.done <- answer }() // also where it panics
	answer = o.do(ctx)
	if fatal := (ended{}); errors.As(answer, &fatal) {
		return fatal
	}
	return nil
}
