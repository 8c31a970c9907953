package telemetry

import "github.com/weirgpu/weir"

// Execution follows one execution of a model, for one request or several; the Run that executes
// tells it through [Execution.Observer]. A nil *Execution is allowed everywhere and records
// nothing.
type Execution struct {
	model    *Model
	rows     int
	requests []*Request
	alone    [1]*Request
	at       moments
	members  *Members
	looks    bool      // it is told of steps for the members
	stepping *stepping // nil where nobody asks for steps
}

// Execute follows an execution of so many rows in all. The slice is not kept.
func (m *Model) Execute(rows int, requests ...*Request) *Execution {
	if m == nil {
		return nil
	}
	e := &Execution{model: m, rows: rows}
	e.requests = append(e.alone[:0], requests...)
	m.begun.Add(uint64(rows))
	return e
}

// Through says that the model is one graph of these, before the Run; nil for none.
func (e *Execution) Through(l *Members) *Execution {
	if e != nil {
		e.members, e.looks = l, l.look()
	}
	return e
}

func (e *Execution) mark(p Phase) {
	now := e.model.of.now()
	e.at[p] = now
	for _, q := range e.requests {
		if q != nil {
			q.markAt(p, now)
		}
	}
}

// Reached implements weir.RunObserver: the execution has come into a phase from Formed to Computed.
func (e *Execution) Reached(m weir.RunMoment) {
	if e != nil {
		e.mark(Formed + Phase(m-weir.RunBegun))
	}
}

// End ends the execution: the answers of all its requests are cut out where err is nil.
func (e *Execution) End(err error) {
	if e == nil {
		return
	}
	if e.stepping != nil {
		e.stepping.hand()
	}
	if err != nil {
		return
	}
	e.mark(Answered)
	if e.at[Formed] == 0 { // by a Run that told nobody
		e.at[Formed] = e.at[Answered]
	}
	for p := Placed; p <= Answered; p++ {
		e.at[p] = max(e.at[p], e.at[p-1])
	}
	computed := e.at[Computed] - e.at[Granted]
	e.model.ran(e.rows, e.at[Placed]-e.at[Formed], computed, e.at[Answered]-e.at[Computed])
	e.members.ran(e.rows, computed)
}
