package sim

import (
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is what jobs do whose pauses are noticed only after a while (Job.Keeps), and what is
// measured of all jobs beside such.

// measureEvery is how often what jobs used is measured, as often as an agent looks at programs.
const measureEvery = 5 * time.Millisecond

// told is what the core knows of what a job did.
type told struct {
	used, passed time.Duration
	launches     int64
}

// keep lets a job hold its units in a pause.
func (w *world) keep(j *job, units share.UnitSet, until time.Duration) {
	j.units, j.until, j.keeping, j.holdFrom = units, until, true, w.now
	w.kept++
	end := w.now + j.spec.Keeps
	w.calendar.push(event{min(end, until), keepEnds, j.place, j.stopVersion})
}

// goOn ends a pause: the job goes on with what it holds, unless its time is over.
func (w *world) goOn(j *job) {
	if w.now >= j.until {
		w.stopKeeping(j, core.Return)
		return
	}
	j.held(j.holdFrom, w.now, w.fraction(j))
	j.keeping = false
	w.kept--
	w.start(j)
}

// stopKeeping ends a pause in which the job has to give back what it holds, or has it rest.
func (w *world) stopKeeping(j *job, how core.EventKind) {
	units, until := j.units, j.until
	w.leave(j)
	if how == core.Release && w.mayRest(j, until) {
		w.rest(j, units, until)
		return
	}
	w.step(j, core.Event{Kind: how})
}

// measures reports whether what jobs used is measured: it is where it may differ from what they
// held.
func (w *world) measures() bool {
	for _, j := range w.jobs {
		if j.spec.Keeps > 0 {
			return true
		}
	}
	return false
}

// measure tells the core what a job did since it was last told.
func (w *world) measure(j *job) {
	w.calendar.push(event{at: w.now + measureEvery, kind: measures, job: j.place})
	if j.id == 0 {
		return
	}
	j.progress(w.now)
	was := j.told
	j.told = told{time.Duration(j.ran), time.Duration(j.passed),
		int64((j.ran + j.passed) / float64(j.kernel()))}
	w.step(j, core.Event{Kind: core.Measure, Used: j.told.used - was.used,
		Passed: j.told.passed - was.passed, Launches: j.told.launches - was.launches})
}
