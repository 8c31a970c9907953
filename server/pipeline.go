package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/tensor"
)

// This file is ensembles that are no one graph: each request is one for each of their models, one
// after another, and waits in the queues of those.

// described is what the metadata of a pipeline say.
func (e *ensemble) described(name, number string) *version {
	v := &version{name: name, number: number, inputs: map[string]weir.ValueInfo{},
		outputs: map[string]int{}}
	v.metadata = oip.Metadata{Name: name, Versions: []string{number}, Platform: ensemblePlatform,
		Inputs: e.inputs, Outputs: e.outputs}
	for _, f := range e.inputs {
		d, _ := oip.ParseDatatype(f.Datatype) // a model that is served has it
		info := weir.ValueInfo{Name: f.Name, Type: weir.Type{DType: d, Shape: []weir.Dim{}}}
		for _, n := range f.Shape {
			info.Type.Shape = append(info.Type.Shape, weir.Dim{Size: int(n)})
		}
		v.inputs[f.Name] = info
	}
	for i, f := range e.outputs {
		v.outputs[f.Name] = i
	}
	v.types, v.results, v.decoupled = e.inputs, e.outputs, e.several()
	return v
}

// pipe makes a version a pipeline, which holds nothing itself.
func (v *version) pipe() {
	s := v.server
	v.life, v.end = context.WithCancel(s.life)
	s.mu.Lock()
	v.counts = s.rec.Model(v.name, v.number, "")
	v.model.counted[v.number]++
	s.mu.Unlock()
	v.batches.Store(&batching{most: 1, why: "the models of the pipeline put requests together"})
}

// piped computes a request by the models of a pipeline. The last outputs are valid until the task
// is freed, those between the models too.
func (v *version) piped(ctx context.Context, r *oip.Request, t *task) error {
	if len(t.in) != len(v.inputs) || !v.fits(t.in) {
		return v.unfit(t.in)
	}
	t.rows = max(v.rows(t.in), 1)
	t.follow.Ask(t.rows)
	t.follow.Mark(telemetry.Admitted)
	e := v.counts.Execute(t.rows, t.follow)
	for _, m := range []weir.RunMoment{weir.RunBegun, weir.RunPlaced, weir.RunGranted} {
		e.Reached(m)
	}
	values := map[string]*tensor.Tensor{}
	for name, x := range t.in {
		values[name] = x
	}
	b := &branches{v: v, r: r, t: t}
	t.back = func() { v.server.Release(b.held) }
	t.out = make([]*tensor.Tensor, len(v.outputs))
	if err := b.from(ctx, v.ensemble.steps, values); err != nil {
		e.End(err)
		return err
	}
	for i := range v.ensemble.outputs {
		f := &v.ensemble.outputs[i]
		if at, ok := v.outputs[f.Name]; ok && b.rows == 0 {
			t.out[at] = none(f)
		}
	}
	e.Reached(weir.RunComputed)
	e.End(nil)
	return nil
}

// stage computes one step, and adds its outputs to the values. rows is how many answers they are,
// of a step that answers several times; -1: it is one.
func (v *version) stage(ctx context.Context, st *stage, r *oip.Request,
	values map[string]*tensor.Tensor, t *task) (rows int, err error) {
	m, err := v.server.borrow(ctx, st, r.Parameters)
	if err != nil {
		return 0, err
	}
	defer v.server.leave(m)
	if !st.fits(m) {
		return 0, oip.Faultf(oip.Unavailable, "model %s was loaded with other outputs, which do "+
			"not fit the ensemble: load what fits, or the ensemble anew", st.ModelName)
	}
	q := v.server.rec.Begin()
	q.For(m.counts, auth.From(ctx).Name)
	defer func() { q.End(counted(err)) }()
	part := &task{follow: q, in: weir.Inputs{}}
	t.parts = append(t.parts, part)
	for own, from := range st.InputMap {
		if part.in[own], err = m.given(own, values[from]); err != nil {
			return 0, err
		}
	}
	of := &oip.Request{Parameters: r.Parameters}
	if err := m.computed(telemetry.With(ctx, q), of, part); err != nil {
		return 0, err
	}
	rows = -1
	for own, to := range st.OutputMap {
		x := m.taken(own, part.out[m.outputs[own]])
		values[to] = x
		if !m.decoupled {
			continue
		}
		if len(x.Shape) == 0 || rows >= 0 && x.Shape[0] != rows {
			return 0, fmt.Errorf("output %s is %v: a decoupled model returns rows, as many of each",
				own, x.Shape)
		}
		rows = x.Shape[0]
	}
	return rows, nil
}

// fits reports, of a version that was loaded since the ensemble, whether it gives what the step
// takes from it. What it reads it checks itself.
func (st *stage) fits(m *version) bool {
	for own := range st.OutputMap {
		now, was := named(m.results, own), named(st.member.results, own)
		if now == nil || was == nil || now.Datatype != was.Datatype {
			return false
		}
	}
	return m.decoupled == st.member.decoupled
}

// borrow returns the version for a step until leave. Those that Drain waits for are counted with
// the ensemble.
func (s *Server) borrow(ctx context.Context, st *stage, p oip.Parameters) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.findFor(ctx, st.ModelName, st.number, p)
	if err == nil {
		m.under++
	}
	return m, err
}

// unfit says why inputs are not what a pipeline takes.
func (v *version) unfit(in weir.Inputs) error {
	for _, f := range v.types {
		t := in[f.Name]
		switch {
		case t == nil:
			return fmt.Errorf("%w: model %s: input %s (%s %v) is not given", oip.ErrRequest, v.name,
				f.Name, f.Datatype, f.Shape)
		case t.DType != v.inputs[f.Name].Type.DType, !shaped(v.inputs[f.Name].Type.Shape, t.Shape):
			return fmt.Errorf("%w: model %s: input %s is %v%v, the model takes %s %v",
				oip.ErrRequest, v.name, f.Name, t.DType, t.Shape, f.Datatype, f.Shape)
		}
	}
	least := ""
	for name := range in {
		if _, ok := v.inputs[name]; !ok && (least == "" || cmp.Less(name, least)) {
			least = name
		}
	}
	return fmt.Errorf("%w: model %s has no input %.200q", oip.ErrRequest, v.name, least)
}
