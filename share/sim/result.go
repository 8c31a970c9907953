package sim

import (
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/share/core"
)

// Result is what a run gave.
type Result struct {
	// Duration is the time simulated.
	Duration time.Duration
	// Jobs are in the order of the scenario.
	Jobs []JobResult
	// Events counts what the core was told.
	Events int
	// Switches counts how often units passed to another job.
	Switches int
	// Faults counts unsound instructions of the policy: grants that cannot be carried out, times in
	// the past, jobs left waiting for nothing.
	Faults int
	// Wasted counts decisions that left the device idle although a job without a limit waited.
	Wasted int
}

// JobResult is what one job got.
type JobResult struct {
	Name string
	core.Account
	// Refused says why the job was not let in, or not before the end; nil if it was, or was not to
	// start before. Admitted is when it was let in.
	Refused  error
	Admitted time.Duration
	// Share is the job's part of the device over the whole run.
	Share float64
	// Iterations counts the iterations completed.
	Iterations int64
	// Latencies are the times from arrival to completion, in order.
	Latencies []time.Duration
	// Completion is when the last of the job's Iterations was done; 0 if it was not, or if the job
	// has no end.
	Completion time.Duration
	// Partial is the part done, 0 to 1, of the iteration that the end cut off.
	Partial float64
	// Unanswered are the times from arrival to the end of the requests not completed then, in order
	// of arrival; none of a job that ended before.
	Unanswered []time.Duration
	// Holds are the times in which the job held the device, in order. Of a rest only what follows
	// the time when its units were asked back is one.
	Holds []Hold
}

// Hold is a time in which a job held a fraction of the device.
type Hold struct {
	From, To time.Duration
	Fraction float64
}

// Latency returns the q-quantile of the latencies, by nearest rank; 0 without any.
func (r *JobResult) Latency(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.Latencies))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// PeakShare returns the largest part of the device that the job held over any window of this
// length, wherever it begins.
func (r *JobResult) PeakShare(window time.Duration) float64 {
	// The largest window begins with a hold or ends with one.
	peak, sum, first := 0.0, 0.0, 0
	for i := range r.Holds {
		sum += r.Holds[i].area(0, never)
		end := r.Holds[i].To
		for r.Holds[first].To <= end-window {
			sum -= r.Holds[first].area(0, never)
			first++
		}
		peak = max(peak, sum-r.Holds[first].area(0, end-window))
	}
	sum, last := 0.0, 0
	for i := range r.Holds {
		end := r.Holds[i].From + window
		for last < len(r.Holds) && r.Holds[last].From < end {
			sum += r.Holds[last].area(0, never)
			last++
		}
		peak = max(peak, sum-r.Holds[last-1].area(end, never))
		sum -= r.Holds[i].area(0, never)
	}
	return peak / float64(window)
}

// area is the device time of the part of the hold between two times.
func (h Hold) area(from, to time.Duration) float64 {
	return h.Fraction * float64(max(0, min(h.To, to)-max(h.From, from)))
}

// LongestWait returns the longest time, within the job's time with work as given, in which it did
// not hold the device.
func (r *JobResult) LongestWait(from, to time.Duration) time.Duration {
	longest, at := time.Duration(0), from
	for _, h := range r.Holds {
		if h.To <= from || h.From >= to {
			continue
		}
		longest = max(longest, h.From-at)
		at = h.To
	}
	return max(longest, to-at)
}

// result closes all accounts at the end.
func (w *world) result(end time.Duration) *Result {
	w.now = end
	w.step(nil, core.Event{Kind: core.Look})
	w.turnAway()
	faults, _ := w.core.Faults()
	w.res.Duration, w.res.Faults = end, int(faults)
	w.res.Jobs = make([]JobResult, len(w.jobs))
	for _, j := range w.jobs {
		if a, ok := w.core.Account(j.id); ok {
			j.account = a
		}
		if !j.units.Empty() {
			j.held(j.holdFrom, end, w.fraction(j))
			j.progress(end)
		}
		r := JobResult{Name: j.spec.Name, Account: j.account, Refused: j.refused,
			Admitted: j.admitted,
			Share:    float64(j.account.Used) / float64(end), Iterations: j.iterations,
			Latencies: j.latencies, Completion: j.completion, Holds: j.holds}
		if j.total > 0 {
			r.Partial = j.done / j.total
		}
		for _, at := range j.queue {
			r.Unanswered = append(r.Unanswered, end-at)
		}
		w.res.Jobs[j.index] = r
	}
	return &w.res
}
