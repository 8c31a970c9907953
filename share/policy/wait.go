package policy

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// Wait bounds how long a job waits for the device that always has work, whatever the others do, as
// long as they give way after a step when they are told to. The zero value is no bound: the job may
// wait for as long as others have work.
type Wait struct {
	// Part is whose wait is bounded, and over what the rest is divided.
	Part Part `json:"part,omitempty"`
	// Slice, and one step of the job itself if it pays for what it overran, are divided by the
	// part; a step of each of the others is added.
	Slice time.Duration `json:"slice,omitempty"`
	// Pays: what a job overran is taken off its next turns.
	Pays bool `json:"pays,omitempty"`
}

// Part is a part of the device that a policy means for a job.
type Part string

const (
	// PartUnbounded is of a policy that bounds nobody's wait.
	PartUnbounded Part = ""
	// PartAlways: no job ever waits for another once it is let in.
	PartAlways Part = "always"
	// PartEqual is one over the number of jobs.
	PartEqual Part = "equal"
	// PartWeight is the job's weight over the sum of weights.
	PartWeight Part = "weight"
	// PartEntitled is the job's entitlement (share.Entitle) against all jobs. Nobody's wait is
	// bounded who is entitled to nothing.
	PartEntitled Part = "entitlement"
	// PartGuaranteed is the job's guarantee. Only the wait of a job with one is bounded.
	PartGuaranteed Part = "guarantee"
	// PartOwned is the whole, for a job with a guarantee, which has units of its own. Only the wait
	// of such a job is bounded.
	PartOwned Part = "owned"
)

// unbounded is what a wait is that has no bound, in words.
const unbounded = "for as long as others have work"

// String says the bound in words, such as "2ms times the number of jobs, and a kernel of each other
// job".
func (w Wait) String() string {
	switch w.Part {
	case PartUnbounded:
		return unbounded
	case PartAlways:
		return "never"
	case PartOwned:
		return "with a guarantee a kernel of each other job, else " + unbounded
	}
	own := w.Slice.Round(time.Microsecond).String()
	if w.Pays {
		own = "(" + own + " and a kernel of its own)"
	}
	over := map[Part]string{PartEqual: "times the number of jobs",
		PartWeight: "over its part by weight", PartEntitled: "over its entitlement",
		PartGuaranteed: "over its guarantee"}[w.Part]
	text := fmt.Sprintf("%s %s, and a kernel of each other job", own, over)
	if w.Part == PartGuaranteed {
		text += "; without a guarantee " + unbounded
	}
	return text
}

// Bound returns how long the i-th of some jobs waits at most, given how long a step of each may
// take, with all that comes with it: on as few units as it may have, beside others, with the switch
// of units before it and the time to give them back after a rest. It is false if no bound is
// stated.
func (w Wait) Bound(jobs []share.Share, steps []time.Duration, i int) (time.Duration, bool) {
	part := w.Part.of(jobs, i)
	if part == 0 || w.Part == PartAlways {
		return 0, part > 0
	}
	own, others := w.Slice, time.Duration(0)
	if w.Pays {
		own += steps[i]
	}
	for k, step := range steps {
		if k != i {
			others += step
		}
	}
	return time.Duration(min(float64(own)/part, float64(share.Forever/2))) + others, true
}

// of returns the part of one of some jobs; 0 if none is meant for it.
func (p Part) of(jobs []share.Share, i int) float64 {
	switch p {
	case PartUnbounded:
		return 0
	case PartEqual:
		return 1 / float64(len(jobs))
	case PartWeight:
		sum := 0.0
		for _, s := range jobs {
			sum += s.Weight()
		}
		return jobs[i].Weight() / sum
	case PartEntitled:
		claims, out := make([]share.Claim, len(jobs)), make([]float64, len(jobs))
		for k, s := range jobs {
			claims[k] = share.ClaimOf(s, 1)
		}
		share.Entitle(claims, out)
		return out[i]
	case PartGuaranteed:
		return jobs[i].Guarantee()
	case PartOwned:
		if jobs[i].Guarantee() == 0 {
			return 0
		}
	}
	return 1
}
