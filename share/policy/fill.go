package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is iteration fill: a job's wait for input or communication is filled with iterations of
// others, as in Xiao et al., "Gandiva: Introspective cluster scheduling for deep learning", OSDI
// 2018, section 3 (suspend and resume at minibatch edges), and Bai et al., "PipeSwitch: Fast
// pipelined context switching for deep learning applications", OSDI 2020.
//
//	source                       here
//	minibatch                    an iteration, which is never split
//	job that owns the device     the first of the jobs, by class and then order of admission
//	its wait                     from the end of its iteration until it waits again, smoothed
//
// Departures: what fits is predicted: of the jobs that wait, the first whose iteration is expected
// to end before the owner is back. If none fits, the shortest goes, unless FillParams.Strict leaves
// the device idle. Jobs behind the owner wait for as long as it never waits.

// FillParams are the parameters of [Fill].
type FillParams struct {
	// Strict leaves the device idle rather than start an iteration that would make the owner wait.
	Strict bool
}

// Fill runs the iterations of one job, and others in its waits. It never revokes, and ignores
// compute and limit.
type Fill struct {
	params FillParams
	set    [1]share.Terms
}

// gap is what is known of the waits of one job.
type gap struct {
	away bool
	from time.Duration // when the present wait began
	mean time.Duration // 0: none has ended yet
}

func fillRow() Row {
	return Row{
		Name: "fill", File: "fill.go", Source: "Gandiva (OSDI 2018), PipeSwitch (OSDI 2020)",
		Summary: "one job's iterations in another's waits for input or communication; compute " +
			"and limit are ignored",
		Honours: Honours{Class: true, Conserving: true},
		with: func() maker {
			var p FillParams
			return maker{
				func(f *flag.FlagSet) {
					f.BoolVar(&p.Strict, "strict", p.Strict,
						"leave the device idle rather than make the owner wait")
				},
				func() (share.Policy, error) { return NewFill(p), nil },
			}
		},
	}
}

// NewFill returns the policy.
func NewFill(p FillParams) *Fill { return &Fill{params: p} }

// Name returns "fill".
func (p *Fill) Name() string { return "fill" }

// NewJobState returns what is known of a new job's waits.
func (p *Fill) NewJobState() any { return &gap{} }

// Decide grants the free device to its owner, else to a job that fits into the owner's wait.
func (p *Fill) Decide(s *share.Snapshot) share.Decision {
	var owner *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.State.(*gap).watch(j, s.Now)
		// A job that has not run yet owns nothing.
		if (j.Iterations > 0 || j.Wants()) && (owner == nil || rankOf(j) < rankOf(owner)) {
			owner = j
		}
	}
	if owner == nil || !s.Unused() {
		return share.Decision{}
	}
	next := owner
	if owner.Phase != share.Waiting {
		fit, short := fillers(s, owner)
		g := owner.State.(*gap)
		// One that stays away for twice as long as it uses to is not waited for.
		back := g.from + 2*g.mean
		if fit == nil && short != nil && !p.lends() && s.Now < back {
			return share.Decision{Wake: back}
		}
		if next = fit; next == nil {
			next = short
		}
	}
	if next == nil {
		return share.Decision{}
	}
	p.set[0] = wholeIteration(next, s)
	return share.Decision{Set: p.set[:]}
}

// lends reports whether no time is kept for the owner.
func (p *Fill) lends() bool { return !p.params.Strict }

// watch takes note of when a job's waits begin and end.
func (g *gap) watch(j *share.JobState, now time.Duration) {
	away := !j.Wants() && j.Iterations > 0
	switch {
	case away && !g.away:
		g.from = now
	case !away && g.away && g.mean == 0:
		g.mean = now - g.from
	case !away && g.away:
		g.mean += (now - g.from - g.mean) / 8
	}
	g.away = away
}

// fillers returns the first job that fits into the owner's wait, and the shortest; nil for none.
func fillers(s *share.Snapshot, owner *share.JobState) (fit, short *share.JobState) {
	g := owner.State.(*gap)
	left := g.mean - (s.Now - g.from)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase != share.Waiting {
			continue
		}
		if (j.InIteration || g.mean == 0 || j.Next.Time <= left) &&
			(fit == nil || rankOf(j) < rankOf(fit)) {
			fit = j
		}
		if short == nil || j.Next.Time < short.Next.Time {
			short = j
		}
	}
	return fit, short
}

// classRank orders classes: latency, standard, opportunistic.
var classRank = [...]int{share.Latency: 0, share.Standard: 1, share.Opportunistic: 2}

func rankOf(j *share.JobState) int { return classRank[j.Share.Class] }
