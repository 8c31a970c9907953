package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/share"
)

// This file opens models once more, for work that nobody waits for. It does not go through the
// queue of the model that is served: there it would run under that model's class and keep its
// requests waiting for as long as an execution takes. A job of its own gives the device back within
// an operator.

// besideWeight is the part of the device against that of others (share.Job) for policies that know
// no classes: a hundredth of what a job has that says nothing.
const besideWeight = share.DefaultWeight / 100

// Beside is a version of a model that computes what nobody waits for, as a job of its own on the
// server's host, in the opportunistic class. Its memory is lent: once a model needs it, Run ends
// with [ErrRecalled], and Close gives it back, for which that model waits. It needs [Beside.Close].
// Its methods are for one goroutine.
type Beside struct {
	lodger
	v *version // of its own, without a queue
}

// Beside opens a version of a model that is served once more; an empty version stands for the one
// that is served. job is what people and errors call it, as weir.Job.Name. The error is an
// *oip.Fault of kind NotFound where the version is not served, of kind [weir.ErrMemory] where the
// memory that it needs is promised to others, or else that of opening and admitting a model.
func (s *Server) Beside(ctx context.Context, name, number, job string) (*Beside, error) {
	served, err := s.look(name, number)
	if err != nil {
		return nil, err
	}
	m, err := served.source.Open()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	b := &Beside{lodger: s.lodger()}
	if b.v, err = describe(m, name, served.number); err == nil {
		err = b.admit(ctx, m, job)
	}
	if err != nil {
		b.end(nil)
		return nil, errors.Join(fmt.Errorf("model %s: %w", name, err), m.Close())
	}
	s.keep(&b.lodger)
	return b, nil
}

// admit makes the model a job of the host.
func (b *Beside) admit(ctx context.Context, m *weir.Model, job string) (err error) {
	j := weir.Job{Name: job, Shapes: ones(m), Share: weir.Share{Class: weir.Opportunistic,
		Compute: besideWeight, Elastic: b.server.o.Lend}}
	b.v.server = b.server
	err = b.server.roomy(ctx, func() (err error) {
		b.v.job, err = b.server.admitted(ctx, b.v, &j)
		return err
	})
	b.v.room.open = len(j.Shapes) > 0 || j.Memory > 0
	return err
}

// Served reports whether the version is still served.
func (b *Beside) Served() bool {
	_, err := b.server.look(b.v.name, b.v.number)
	return err == nil
}

// Rows is how many rows of requests are best computed together, as the server has found out for the
// version that it serves; 1 where rows may depend on each other, or it does not know yet.
func (b *Beside) Rows() int {
	served, err := b.server.look(b.v.name, b.v.number)
	if err != nil {
		return 1
	}
	return max(1, served.batches.Load().most)
}

// Run computes inputs once the device is granted. The error is [ErrRecalled], or that of
// weir.Model.Run.
func (b *Beside) Run(ctx context.Context, in weir.Inputs) (weir.Result, error) {
	if errors.Is(context.Cause(b.life), ErrRecalled) {
		return weir.Result{}, ErrRecalled
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(context.Cause(b.life)) })()
	r, err := b.v.compute(ctx, in)
	if errors.Is(context.Cause(b.life), ErrRecalled) && err != nil {
		err = ErrRecalled
	}
	return r, err
}

// Outputs are the names of the model's outputs, in the order of results.
func (b *Beside) Outputs() []string {
	var names []string
	for _, o := range b.v.on.Outputs() {
		names = append(names, o.Name)
	}
	return names
}

// Close ends the job and gives its memory back.
func (b *Beside) Close() error {
	err := b.v.on.Close()
	b.leave()
	return err
}
