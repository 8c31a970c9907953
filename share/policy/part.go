package policy

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/share"
)

// part is the state of a job under a policy that sets units apart for jobs.
type part struct{ units share.UnitSet }

func partOf(j *share.JobState) *part { return j.State.(*part) }

// whole returns how many units of so many a fraction of the device is, rounded up.
func whole(fraction float64, units int) int {
	switch fraction {
	case 0:
		return 0
	case 1:
		return units
	}
	return int(math.Ceil(fraction*float64(units) - 1e-9))
}

// setApart sees to it that every job with a guarantee has units of its own, and returns those that
// no job has. A job keeps its units for as long as its guarantee stays the same.
func setApart(s *share.Snapshot) (rest share.UnitSet) {
	rest = s.All()
	short := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p, n := partOf(j), whole(j.Share.Guarantee(), s.Units)
		if n == 0 && p.units.Empty() {
			continue
		}
		p.units = p.units.First(n)
		rest = rest.Minus(p.units)
		short = short || p.units.Len() < n
	}
	if !short {
		return rest
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p, n := partOf(j), whole(j.Share.Guarantee(), s.Units)
		more := rest.First(n - p.units.Len())
		p.units, rest = p.units.Union(more), rest.Minus(more)
	}
	return rest
}

// admitPart returns nil if the job's guarantee can be set apart in whole units beside those of the
// others, and so many are left if any job has none of its own.
func admitPart(s *share.Snapshot, j *share.JobState, keep int) error {
	if err := s.FitsMemory(j); err != nil {
		return err
	}
	n, left, others := whole(j.Share.Guarantee(), s.Units), s.Units, 0
	for i := range s.Jobs {
		k := whole(s.Jobs[i].Share.Guarantee(), s.Units)
		if left -= k; k == 0 {
			others = keep
		}
	}
	switch {
	case n == 0 && left < keep:
		return fmt.Errorf("guarantees have all %d units: %w: end another job, or lower its compute",
			s.Units, share.ErrNoCompute)
	case n > left-others:
		left = max(0, left-others)
		return fmt.Errorf("wants a guarantee of %.4g, which is %d of %d units, has %d of them "+
			"left: %w: lower its compute to %.4g or end another job", j.Share.Guarantee(), n,
			s.Units, left, share.ErrNoCompute, float64(left)/float64(s.Units))
	}
	return nil
}

// bandwidth returns so large a part of the memory bandwidth where it can be set apart, else 0.
func bandwidth(s *share.Snapshot, n, of int) float64 {
	if !s.Can.Bandwidth {
		return 0
	}
	return float64(n) / float64(of)
}

// assign appends the terms that take a job that wants the device to t.Units, if any are needed. A
// running job is given more only of those that are free; what others hold of a waiting job's must
// be coming back.
func assign(set []share.Terms, j *share.JobState, t share.Terms, free share.UnitSet) []share.Terms {
	t.Job = j.ID
	switch {
	case j.Phase == share.Waiting && !t.Units.Empty():
		return append(set, t)
	case j.Phase != share.Running || j.Revoking || t.Units == j.Units:
		return set
	case !t.Units.Contains(j.Units):
		return append(set, share.Terms{Job: j.ID, Bandwidth: t.Bandwidth})
	}
	t.Units = t.Units.Intersect(j.Units.Union(free))
	return append(set, t)
}
