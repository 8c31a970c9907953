package sim

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is how jobs are let in. Memory, guarantees and what else a policy promises are promised
// until the end of a job, so whoever is refused may fit when another has ended.

// arriveAtDoor lets a job in, or has it wait if that is what it does.
func (w *world) arriveAtDoor(j *job) {
	if j.spec.Stop > 0 {
		w.calendar.push(event{at: j.spec.Stop, kind: jobEnds, job: j.place})
	}
	if j.spec.Waits {
		w.door = append(w.door, j)
		w.openDoor()
		return
	}
	w.letIn(j)
	j.ended = j.refused != nil
}

// openDoor lets in those who wait, in their order, as far as they fit.
func (w *world) openDoor() {
	for len(w.door) > 0 {
		j := w.door[0]
		if w.letIn(j); j.refused != nil && w.inside > 0 {
			return
		}
		j.ended = j.refused != nil // it does not fit alone
		w.door = w.door[1:]
	}
}

// giveUp is the end of a job that was not let in.
func (w *world) giveUp(j *job) {
	if j.refused == nil {
		j.refused = w.behind(j)
	}
	w.door = slices.DeleteFunc(w.door, func(o *job) bool { return o == j })
	w.openDoor()
}

// turnAway is the end for those who wait.
func (w *world) turnAway() {
	for _, j := range w.door {
		if j.refused == nil {
			j.refused = w.behind(j)
		}
	}
}

// behind says for what a job waits that is not the first.
func (w *world) behind(j *job) error {
	first := w.door[0]
	return fmt.Errorf("job %s: waits behind job %s: %w", j.spec.Name, first.spec.Name,
		first.refused)
}

// letIn asks for a job to be let in, and sets its arrivals going; a closed loop starts full.
func (w *world) letIn(j *job) {
	j.id = share.JobID(len(w.byID))
	j.refused = w.step(j, core.Event{Kind: core.Admit, Spec: &j.spec.Job, Need: j.spec.Need})
	if j.refused != nil {
		j.id = 0
		return
	}
	j.admitted = w.now
	w.inside++
	w.byID = append(w.byID, j)
	if f := j.forecast(); f != (share.Forecast{}) {
		w.step(j, core.Event{Kind: core.Expect, Next: &f})
	}
	if j.spec.Iterations > 0 {
		j.left = j.spec.Iterations
	}
	a := &j.spec.Arrival
	for _, t := range a.Trace {
		w.calendar.push(event{at: w.now + t, kind: arrives, job: j.place})
	}
	for range a.Closed {
		w.calendar.push(event{at: w.now, kind: arrives, job: j.place})
	}
	if a.Poisson > 0 {
		w.calendar.push(event{at: w.now + j.gap(), kind: arrives, job: j.place})
	}
}
