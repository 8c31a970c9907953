package policy

import (
	"flag"
	"sort"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is the stealing of units: Coppock, Zhang, Solomon, Kypriotis, Yang, Sharma, Schatzberg,
// Mowry and Skarlatos, "LithOS: An operating system for efficient machine learning on GPUs", SOSP
// 2025, TPC scheduler. Every guarantee has units of its own; those that their owner does not use
// now are lent, and taken back when the borrower's kernel is over.
//
//	paper                        here
//	TPC quota of a job           the units set apart for it, by Share.Guarantee
//	stolen TPCs                  the units of Terms.Units beyond those, until the slice is over
//	right-sizing                 Forecast.Units: what a job cannot use of its own is lent too
//	atomized kernel              what Share.Kernel lets finish: kernels are not split here
//
// Departures: who borrows is by weight where several can, in place of priorities; there is no power
// management. An owner waits for its units for one kernel of a borrower at most. A job without a
// guarantee may wait for as long as owners have work.

// StealParams are the parameters of [Steal].
type StealParams struct {
	// Slice is how long units are lent before they are lent anew.
	Slice time.Duration
}

// DefaultSteal returns a slice of 2 ms, that of Timeslice.
func DefaultSteal() StealParams { return StealParams{Slice: DefaultTimeslice().Slice} }

// Validate reports all faults together.
func (p StealParams) Validate() error {
	return validate("policy steal", positive("slice", p.Slice))
}

func (p *StealParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.Slice, "slice", p.Slice, "how long units are lent before they are lent anew")
}

func stealRow() Row {
	return Row{
		Name: "steal", File: "steal.go", Source: "LithOS (SOSP 2025)",
		Summary: "units of its own for every guarantee; idle ones are lent, and taken back at " +
			"the next kernel",
		Needs: share.Can{Partition: true},
		Honours: Honours{Guarantee: true, Conserving: true, Absolute: true,
			Wait: Wait{Part: PartOwned}},
		with: func() maker {
			p := DefaultSteal()
			return maker{p.bind, func() (share.Policy, error) { return NewSteal(p) }}
		},
	}
}

// Steal sets units apart for every job with a guarantee, and lends those that their owners do not
// use. A limit holds to a unit. Class matters only in that opportunistic jobs have no guarantee.
type Steal struct {
	params StealParams
	last   share.JobID   // who was lent units last
	rested share.UnitSet // units that jobs rest on, during a call
	short  bool          // whether one was lent fewer because of them
	set    []share.Terms
}

// NewSteal returns the policy, or the faults of its parameters.
func NewSteal(p StealParams) (*Steal, error) { return &Steal{params: p}, p.Validate() }

// Name returns "steal".
func (p *Steal) Name() string { return "steal" }

// NewJobState returns the state of a job that has no units yet.
func (p *Steal) NewJobState() any { return &part{} }

// Admit lets a job in if its guarantee, in whole units, fits beside the others', and its memory.
func (p *Steal) Admit(s *share.Snapshot, j *share.JobState) error { return admitPart(s, j, 0) }

// Decide takes back what owners want themselves, grants them their own units, and lends the others.
func (p *Steal) Decide(s *share.Snapshot) share.Decision {
	p.set, p.rested, p.short = p.set[:0], share.UnitSet{}, false
	spare, weights := lendable(s)
	pool := spare
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase != share.Running {
			p.rested = p.rested.Union(j.Units)
			continue
		}
		pool = pool.Minus(j.Units)
		if !j.Revoking && !spare.Union(own(j, s)).Contains(j.Units) {
			p.set = append(p.set, share.Terms{Job: j.ID})
		}
	}
	first := sort.Search(len(s.Jobs), func(i int) bool { return s.Jobs[i].ID > p.last })
	for k := range s.Jobs {
		j := &s.Jobs[(first+k)%len(s.Jobs)]
		if j.Phase == share.Waiting && !(pool.Empty() && partOf(j).units.Empty()) {
			part := float64(spare.Len()) * j.Share.Weight() / weights
			pool = p.lend(s, j, pool, whole(part, 1))
		}
	}
	if s.Can.Resize && !pool.Empty() {
		p.grow(s, pool.Intersect(s.Free()))
	}
	if p.short {
		p.askBack(s, spare)
	}
	return share.Decision{Set: p.set}
}

// lendable returns the units that no owner uses, and the weights of all jobs that could.
func lendable(s *share.Snapshot) (spare share.UnitSet, weights float64) {
	spare = setApart(s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		kept := 0
		if part := partOf(j).units; !part.Empty() {
			units := own(j, s)
			spare, kept = spare.Union(part.Minus(units)), units.Len()
		}
		if j.Wants() && usable(j, s.Units) > kept {
			weights += j.Share.Weight()
		}
	}
	return spare, weights
}

// own returns the units that are set apart for the job and that it wants now.
func own(j *share.JobState, s *share.Snapshot) share.UnitSet {
	if !j.Wants() {
		return share.UnitSet{}
	}
	return partOf(j).units.First(usable(j, s.Units))
}

// usable returns how many units the job can use and may.
func usable(j *share.JobState, units int) int {
	n := whole(j.Share.Cap(), units)
	if w := j.Next.Units; w > 0 {
		n = min(n, w)
	}
	return n
}

// lend grants a waiting job its own units and at most n of the pool, and returns what is left of
// it. A job waits for units that another rests on only if there are no others for it.
func (p *Steal) lend(s *share.Snapshot, j *share.JobState, pool share.UnitSet,
	n int) share.UnitSet {
	mine := own(j, s)
	n = min(n, usable(j, s.Units)-mine.Len())
	lent := pool.Minus(p.rested).First(n)
	if more := pool.First(n); mine.Empty() && lent.Empty() {
		lent = more
	} else if lent.Len() < more.Len() {
		p.short = true
	}
	t := share.Terms{Job: j.ID, Units: mine.Union(lent), Until: share.Forever, Yield: share.Kernel}
	if t.Units.Empty() {
		return pool
	}
	if !lent.Empty() {
		t.Until, p.last = s.Now+p.params.Slice, j.ID
	}
	p.set = append(p.set, t)
	return pool.Minus(lent)
}

// askBack takes back spare units that jobs rest on, to be lent when they have been given back.
func (p *Steal) askBack(s *share.Snapshot, spare share.UnitSet) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Idle && !j.Revoking && j.Units.Overlaps(spare) {
			p.set = append(p.set, share.Terms{Job: j.ID})
		}
	}
}

// grow lends free units to jobs that run.
func (p *Steal) grow(s *share.Snapshot, free share.UnitSet) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		room := usable(j, s.Units) - j.Units.Len()
		if free.Empty() || room <= 0 || j.Phase != share.Running || j.Revoking ||
			j.Until <= s.Now || !p.keeps(j) {
			continue
		}
		lent := free.First(room)
		free = free.Minus(lent)
		p.set = append(p.set, share.Terms{Job: j.ID, Units: j.Units.Union(lent),
			Until: min(j.Until, s.Now+p.params.Slice), Yield: share.Kernel})
	}
}

// keeps reports whether nothing is taken back from the job now.
func (p *Steal) keeps(j *share.JobState) bool {
	for i := range p.set {
		if p.set[i].Job == j.ID {
			return false
		}
	}
	return true
}
