package sim

import (
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is what jobs do that rest on their units while they have no work, as a program does
// whose gate stays open (agent/gate.go).

// mayRest reports whether a job without work rests on what it holds until a time: if it does so at
// all and the hold is neither over nor revoked.
func (w *world) mayRest(j *job, until time.Duration) bool {
	return j.spec.Rests && w.mayGoOn(j, until)
}

// mayGoOn reports whether what a job holds until a time is neither over nor revoked.
func (w *world) mayGoOn(j *job, until time.Duration) bool {
	if w.now >= until {
		return false
	}
	s, _ := w.core.Job(j.id)
	return !s.Revoking
}

// rest lets a job keep its units for no work.
func (w *world) rest(j *job, units share.UnitSet, until time.Duration) {
	j.units, j.until, j.resting = units, until, true
	w.step(j, core.Event{Kind: core.Rest})
}

// resume lets a job that rested go on with what it kept. One whose hold is over meanwhile asks for
// another.
func (w *world) resume(j *job) {
	if w.now >= j.until {
		w.leave(j)
		w.step(j, core.Event{Kind: core.Return})
		return
	}
	j.resting = false
	w.start(j)
}

// askBack has a job that rests begin to give back what it keeps.
func (w *world) askBack(j *job) {
	j.asked, j.holdFrom = true, w.now
	w.asked++
	j.stopVersion++
	w.calendar.push(event{w.now + j.spec.Linger, restEnds, j.place, j.stopVersion})
}

// stopResting gives back what a job rested on, and asks for the device anew if it has work.
func (w *world) stopResting(j *job) {
	w.leave(j)
	w.step(j, core.Event{Kind: core.Release})
	if len(j.queue) > 0 {
		w.step(j, core.Event{Kind: core.Want})
	}
}
