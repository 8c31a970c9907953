package server

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/server/telemetry"
)

// Answer is the answer to a request. Its tensors are valid until [Answer.Close].
type Answer struct {
	oip.Response
	decoupled bool // each row of the outputs is an answer
	several   int  // rows, then
	empty     bool // an answer without outputs is wanted as the last, then
	task      *task
	server    *Server
	version   *version // that answers; nil where none was asked
	closed    sync.Once
}

// Close gives the answer's memory back. Until then [Server.Drain] waits. Closing twice is allowed.
func (a *Answer) Close() {
	a.closed.Do(func() {
		a.free()
		a.server.answered()
		if v := a.version; v != nil && v.hasty.Load() {
			v.answered()
		}
	})
}

// free gives back the memory of the tensors, which are no longer needed.
func (a *Answer) free() { a.task.free() }

// Infer computes the answer to a request for a version of a model; an empty version stands for the
// one that is served. Inputs are the caller's and not read once Infer has returned. The account is
// that of the context (auth.From). The request's parameter timeout, in microseconds, bounds it, as
// ctx does: who cannot be answered in time is refused at once. An error is an *oip.Fault.
//
// A model that answers a request several times is asked by [Server.InferAll]; here the error is of
// kind oip.Unsupported.
func (s *Server) Infer(ctx context.Context, name, number string, r *oip.Request) (*Answer, error) {
	return s.inferred(ctx, name, number, r, false)
}

// inferred is InferAll, or else Infer.
func (s *Server) inferred(ctx context.Context, name, number string, r *oip.Request,
	all bool) (_ *Answer, err error) {
	q := telemetry.From(ctx)
	if q == nil { // of somebody who follows no requests
		q = s.rec.Begin()
		ctx = telemetry.With(ctx, q)
		defer func() { q.End(err) }()
	}
	v, err := s.enter(ctx, name, number, r.Parameters)
	if v != nil {
		q.For(v.counts, auth.From(ctx).Name)
	}
	if err != nil {
		return nil, fault(err)
	}
	defer s.leave(v)
	if v.decoupled && !all {
		s.answered()
		return nil, v.one()
	}
	both := &struct {
		Answer
		task
	}{Answer{server: s, version: v}, task{follow: q}}
	a := &both.Answer
	a.task = &both.task
	kept := false
	defer func() {
		if !kept { // after a panic, too, which Drain would wait for
			a.Close()
		}
	}()
	if err := v.infer(ctx, r, a); err != nil {
		return nil, fault(err)
	}
	kept = true
	return a, nil
}

// infer computes the answer to a request.
func (v *version) infer(ctx context.Context, r *oip.Request, a *Answer) error {
	lent, err := v.server.lend(ctx, r)
	if err != nil {
		return err
	}
	defer lent.close()
	if err := v.understand(r, a.task, lent); err != nil {
		return err
	}
	if err := v.computed(ctx, r, a.task); err != nil {
		return err
	}
	a.Model, a.Version, a.ID = v.name, v.number, r.ID
	if err := a.addAll(v, r, lent); err != nil {
		return err
	}
	if a.decoupled = v.decoupled; v.decoupled {
		a.empty, _ = r.Parameters["triton_enable_empty_final_response"].(bool)
		a.several, err = a.rowsOfAll()
	}
	return err
}

// computed computes what a request asks for whose inputs the task has.
func (v *version) computed(ctx context.Context, r *oip.Request, t *task) error {
	ctx, cancel, err := v.deadline(ctx, r.Parameters)
	if err != nil {
		return err
	}
	defer cancel()
	if !v.cached() {
		return v.anew(ctx, r, t)
	}
	k, began := v.named(ctx, t.in)
	if v.found(k, began, t) {
		return nil
	}
	before := time.Since(began)
	if err := v.anew(ctx, r, t); err != nil {
		return err
	}
	v.keep(k, before, t)
	return nil
}

// anew asks the model, or those that it is made of.
func (v *version) anew(ctx context.Context, r *oip.Request, t *task) error {
	if v.on == nil {
		return v.piped(ctx, r, t)
	}
	seq, err := v.sequenced(ctx, r, t.in)
	if err != nil {
		return err
	}
	defer seq.leave()
	if err := v.answer(ctx, r, t); err != nil {
		return err
	}
	return seq.keep(t)
}

// understand holds that a request is for what the version has, and takes its inputs.
func (v *version) understand(r *oip.Request, t *task, l *lent) error {
	t.in = make(weir.Inputs, len(r.Inputs))
	for i := range r.Inputs {
		x, err := v.given(r.Inputs[i].Name, l.input(&r.Inputs[i]))
		if err != nil {
			return err
		}
		t.in[r.Inputs[i].Name] = x
	}
	v.mask(t.in)
	for _, o := range r.Outputs {
		if _, ok := v.outputs[o.Name]; !ok {
			return fmt.Errorf("%w: model %s has no output %.200q that can be asked for",
				oip.ErrRequest, v.name, o.Name)
		}
	}
	return nil
}

// answer waits for the request's turn and computes what it asks for.
func (v *version) answer(ctx context.Context, r *oip.Request, t *task) error {
	account := auth.From(ctx)
	if !v.fits(t.in) {
		return v.alone(ctx, t) // which refuses it at once, with the reason
	}
	var q queue.Request
	v.place(t, &q)
	t.follow.Ask(t.rows)
	t.follow.Through(v.members)
	q.Account, q.Weight = account.Name, account.Weight
	if p, ok := r.Parameters["priority"].(int64); ok && p > 0 && p < int64(v.own()) {
		q.Priority = int(p)
	}
	for _, in := range t.in {
		q.Bytes += in.Size()
	}
	if v.suspects.has(account.Name) {
		q.Rows = math.MaxInt // it shares no batch
	}
	t.account, t.weight, t.signed = q.Account, q.Weight, q.Signature
	free := v.server.o.Bodies - v.server.bodies.Load()
	if err := v.server.waiters.wait(account, t, q.Bytes, free); err != nil {
		return err
	}
	defer t.begin()
	if err := v.queue.Do(ctx, q, t); err != nil {
		return err
	}
	return t.err
}

// addAll adds the outputs in order: that of the request, else that of the model.
func (a *Answer) addAll(v *version, r *oip.Request, l *lent) error {
	if r.Outputs != nil {
		for i := range r.Outputs {
			if err := a.add(v, r, r.Outputs[i].Name, l); err != nil {
				return err
			}
		}
		return nil
	}
	shown := v.shown().Outputs
	a.Outputs = make([]oip.Value, 0, len(shown))
	for i := range shown {
		if err := a.add(v, r, shown[i].Name, l); err != nil {
			return err
		}
	}
	return nil
}

// add adds an output of the model, if the request wants it, or puts it where it is wanted.
func (a *Answer) add(v *version, r *oip.Request, name string, l *lent) (err error) {
	o, wanted := r.Wants(name)
	if !wanted {
		return nil
	}
	t := v.taken(name, a.task.out[v.outputs[name]])
	if o.Classes > 0 {
		if t, err = oip.Classify(t, o.Classes, v.source.Labels[name]); err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
	}
	value := oip.Value{Name: name, Tensor: t, Binary: o.Binary}
	if o.Region != nil {
		if value.Region, err = l.write(&o, t); err != nil {
			return err
		}
	}
	a.Outputs = append(a.Outputs, value)
	return nil
}

// deadline ends ctx after a request's parameter timeout, in microseconds (Triton,
// extension_schedule_policy.md); 0 stands for none. Where the configuration has a time of its own,
// a request can shorten it at most, and that where it may.
func (v *version) deadline(ctx context.Context, p oip.Parameters) (context.Context,
	context.CancelFunc, error) {
	value, given := p["timeout"]
	us, ok := value.(int64)
	if given && (!ok || us < 0) {
		return nil, nil, fmt.Errorf("%w: timeout is %v: give whole microseconds, or 0 for none",
			oip.ErrRequest, value)
	}
	if d := v.dynamic(); d != nil && d.DefaultQueuePolicy.DefaultTimeoutMicroseconds > 0 {
		own := d.DefaultQueuePolicy.DefaultTimeoutMicroseconds
		if us == 0 || us > own || !d.DefaultQueuePolicy.AllowTimeoutOverride {
			us = own
		}
	}
	if us == 0 {
		return ctx, func() {}, nil
	}
	d := time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel, nil
}
