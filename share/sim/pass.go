package sim

import (
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// letPass starts the kernels that pass without a lease of all jobs that have some, beside whoever
// holds the device, and reports whether there were any.
func (w *world) letPass() bool {
	if !w.passes {
		return false
	}
	any := false
	for _, j := range w.jobs {
		// What bounds what is in flight keeps it behind what others have there.
		if j.waits() && j.kernel() < j.free && (j.ahead == 0 || len(w.holders) == 0) {
			w.pass(j)
			any = true
		}
	}
	return any
}

// pass runs one step of a job that waits.
func (w *world) pass(j *job) {
	w.begin(j)
	j.passing, j.units, j.until, j.mark = true, share.UnitRange(0, w.units), w.now, w.now
	j.first, j.target, j.speed = j.done, j.total, 0
	w.holders = append(w.holders, j)
	w.stale = true
}

// passed ends a step that passed, and the iteration with it if it was the last.
func (w *world) passed(j *job) {
	w.leave(j)
	j.done = j.target
	if j.done < j.total {
		return
	}
	if w.finish(j); !j.ended && len(j.queue) == 0 {
		w.step(j, core.Event{Kind: core.Cancel})
	}
}
