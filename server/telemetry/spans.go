package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// maxSteps bounds the steps of an execution that are traced; the first are.
const maxSteps = 256

// traced is what a request that is traced has.
type traced struct {
	parent otlp.Parent
	steps  atomic.Pointer[[]step] // of the execution that it was in
}

// step is a step of a model's plan that has run.
type step struct {
	node, operator, kernel string
	begin, end             time.Duration
}

// stepping is an execution that is told of steps.
type stepping struct {
	*Execution
	last  time.Duration
	steps []step
}

// Observer is the execution, for the Run that executes: it is told of steps too where one of the
// requests is traced, or members count by them.
func (e *Execution) Observer() weir.RunObserver {
	if e == nil {
		return nothing{}
	}
	if e.looks {
		e.stepping = &stepping{Execution: e}
		return e.stepping
	}
	for _, q := range e.requests {
		if q != nil && q.traced != nil {
			e.stepping = &stepping{Execution: e}
			return e.stepping
		}
	}
	return e
}

// nothing observes a Run that nobody follows.
type nothing struct{}

// Reached implements weir.RunObserver.
func (nothing) Reached(weir.RunMoment) {}

// Reached implements weir.RunObserver.
func (s *stepping) Reached(m weir.RunMoment) {
	s.Execution.Reached(m)
	s.last = s.at[Formed+Phase(m-weir.RunBegun)]
}

// Stepped implements weir.StepObserver.
func (s *stepping) Stepped(node, operator, kernel string) {
	now := s.model.of.now()
	if s.looks {
		s.members.stepped(node, now-s.last)
	}
	if len(s.steps) < maxSteps {
		s.steps = append(s.steps, step{node, operator, kernel, s.last, now})
	}
	s.last = now
}

// hand gives the steps to the requests that are traced.
func (s *stepping) hand() {
	for _, q := range s.requests {
		if q != nil && q.traced != nil {
			q.traced.steps.Store(&s.steps)
		}
	}
}

// parts are the spans of a request between its phases.
var parts = [...]struct {
	name     string
	from, to Phase
}{
	{"decode", Received, Decoded},
	{"queue", Admitted, Formed},
	{"place inputs", Formed, Placed},
	{"wait for device", Placed, Granted},
	{"compute", Granted, Computed},
	{"take outputs", Computed, Answered},
	{"encode", Answered, Encoded},
	{"send", Encoded, Sent},
}

// export sends the spans of a request that has ended.
func (q *Request) export(at *moments, k outcome) {
	zero := time.Now().Add(-q.of.now()) // by the wall clock of now, which may have been set
	t := q.traced
	root := otlp.Span{Trace: t.parent.Trace, ID: otlp.NewSpanID(), Parent: t.parent.Span,
		State: t.parent.State, Name: "infer " + q.model.name, Kind: otlp.Server,
		Begin: zero.Add(at[Received]), End: zero.Add(at[Sent]),
		Attrs: []otlp.Attr{otlp.Text("weir.model", q.model.name),
			otlp.Text("weir.version", q.model.version), otlp.Text("weir.outcome", names[k]),
			otlp.Int("weir.rows", int64(q.rows)),
			otlp.Int("http.request.body.size", q.in), otlp.Int("http.response.body.size", q.out)},
		Failed: k != ok, Reason: names[k]}
	if q.name != "" {
		root.Attrs = append(root.Attrs, otlp.Text("enduser.id", q.name))
	}
	spans := []otlp.Span{root}
	child := func(of otlp.SpanID, name string, begin, end time.Duration) *otlp.Span {
		spans = append(spans, otlp.Span{Trace: root.Trace, ID: otlp.NewSpanID(), Parent: of,
			Name: name, Kind: otlp.Internal, Begin: zero.Add(begin), End: zero.Add(end)})
		return &spans[len(spans)-1]
	}
	var compute otlp.SpanID
	for _, p := range parts {
		if q.marks[p.to].Load() == 0 || p.to == Sent && q.marks[Encoded].Load() == 0 {
			continue // it did not come so far, or nobody knows when
		}
		s := child(root.ID, p.name, at[p.from], at[p.to])
		if p.to == Computed {
			compute = s.ID
		}
	}
	if steps := t.steps.Load(); steps != nil {
		for _, s := range *steps {
			child(compute, describe(s.operator, s.node), s.begin, s.end).Attrs = []otlp.Attr{
				otlp.Text("weir.kernel", s.kernel)}
		}
	}
	q.of.tracing.to.Export(spans)
}
