package telemetry

import (
	"sync"
	"time"
)

// Execution follows one execution of a model, for one request or several. A nil *Execution is
// allowed everywhere and records nothing.
type Execution struct {
	model    *Model
	rows     int
	requests []*Request
	alone    [1]*Request
	at       [phases]time.Duration
	once     sync.Once
}

// Execute follows an execution of so many rows in all, which begins now: the requests have left the
// queue. The slice is not kept.
func (m *Model) Execute(rows int, requests ...*Request) *Execution {
	if m == nil {
		return nil
	}
	e := &Execution{model: m, rows: rows}
	e.requests = append(e.alone[:0], requests...)
	m.begun.Add(uint64(rows))
	e.mark(Formed)
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

// Mark says that the execution has come into a phase from Placed to Computed, now.
func (e *Execution) Mark(p Phase) {
	if e != nil {
		e.mark(p)
	}
}

// End ends the execution: the answers of all its requests are cut out where err is nil.
func (e *Execution) End(err error) {
	if e == nil {
		return
	}
	if err != nil {
		return
	}
	e.mark(Answered)
	for p := Placed; p <= Answered; p++ {
		e.at[p] = max(e.at[p], e.at[p-1])
	}
	e.model.ran(e.rows, e.at[Placed]-e.at[Formed], e.at[Computed]-e.at[Granted],
		e.at[Answered]-e.at[Computed])
}
