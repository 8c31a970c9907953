package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// Answer is the answer to a request. Its tensors are valid until [Answer.Close].
type Answer struct {
	oip.Response
	out    weir.Result
	server *Server
	closed sync.Once
}

// Close gives the answer's memory back. Until then [Server.Drain] waits. Closing twice is allowed.
func (a *Answer) Close() {
	a.closed.Do(func() {
		a.free()
		a.server.answered()
	})
}

// free gives back the memory of the tensors, which are no longer needed.
func (a *Answer) free() { a.out.Close() }

// Infer computes the answer to a request for a version of a model; an empty version stands for the
// one that is served. Inputs are the caller's and copied before Infer returns. The request's
// parameter timeout, in microseconds, bounds it, as ctx does. An error is an *oip.Fault.
func (s *Server) Infer(ctx context.Context, name, version string,
	r *oip.Request) (_ *Answer, err error) {
	q := telemetry.From(ctx)
	if q == nil { // of somebody who follows no requests
		q = s.rec.Begin()
		ctx = telemetry.With(ctx, q)
		defer func() { q.End(err) }()
	}
	m, err := s.enter(name, version)
	if m != nil {
		q.For(m.counts, auth.From(ctx).Name)
		q.Ask(m.rows(r))
	}
	if err != nil {
		return nil, fault(err)
	}
	q.Mark(telemetry.Admitted)
	defer s.leave(m)
	a := &Answer{server: s}
	if err := m.infer(ctx, r, a); err != nil {
		a.Close()
		return nil, fault(err)
	}
	return a, nil
}

// infer computes the answer to a request.
func (m *model) infer(ctx context.Context, r *oip.Request, a *Answer) (err error) {
	if err := here(r); err != nil {
		return err
	}
	in := weir.Inputs{}
	for _, v := range r.Inputs {
		in[v.Name] = v.Tensor
	}
	for _, o := range r.Outputs {
		if !m.has(o.Name) {
			return fmt.Errorf("%w: model %s has no output %.200q that can be asked for",
				oip.ErrRequest, m.name, o.Name)
		}
	}
	ctx, cancel, err := deadline(ctx, r.Parameters)
	if err != nil {
		return err
	}
	defer cancel()
	run := m.counts.Execute(m.rows(r), telemetry.From(ctx))
	defer func() { run.End(err) }()
	if a.out, err = m.on.Run(weir.WithRunObserver(ctx, run), in); err != nil {
		return err
	}
	a.Model, a.Version, a.ID = m.name, m.version, r.ID
	for _, name := range m.wanted(r) {
		if err := a.add(r, name); err != nil {
			return err
		}
	}
	return nil
}

// add adds an output of the model, if the request wants it.
func (a *Answer) add(r *oip.Request, name string) (err error) {
	o, wanted := r.Wants(name)
	if !wanted {
		return nil
	}
	t := a.out.Output(name)
	if o.Classes > 0 {
		if t, err = oip.Classify(t, o.Classes, nil); err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
	}
	a.Outputs = append(a.Outputs, oip.Value{Name: name, Tensor: t, Binary: o.Binary})
	return nil
}
