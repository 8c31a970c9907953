package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// wheel turns from job to job in order of ID, and stops at each for its slot. A job that overruns
// its slot, because a kernel cannot be split, has its next slots cut by as much: debts are never
// forgiven.
type wheel struct {
	job   share.JobID   // whose slot it is
	until time.Duration // when the slot ends
	set   [1]share.Terms
}

// spoke is the wheel's part of one job.
type spoke struct {
	debt time.Duration // by which later slots are cut
	used time.Duration // JobState.Used when the slot began
	slot time.Duration // granted; 0: settled
}

func spokeOf(j *share.JobState) *spoke { return j.State.(*spoke) }

// slots say how long the wheel stops.
type slots interface {
	// slot returns how long the wheel stops at a job; 0: not at all.
	slot(*share.JobState) time.Duration
	// rest returns how long it stops at nobody, once a turn.
	rest() time.Duration
	// lends reports whether it passes at once those who do not wait.
	lends() bool
}

func (w *wheel) decide(s *share.Snapshot, by slots) share.Decision {
	waits := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Running || j.Revoking {
			return share.Decision{}
		}
		waits = waits || j.Phase == share.Waiting
		if j.Units.Empty() {
			spokeOf(j).settle(j)
		}
	}
	if !waits {
		w.until = min(w.until, s.Now)
		return share.Decision{}
	}
	if s.Now < w.until {
		if j := s.Job(w.job); j != nil && j.Phase == share.Waiting {
			return w.grant(j, s)
		} else if !by.lends() {
			return share.Decision{Wake: w.until}
		}
	}
	if j := lingers(s, s.All()); j != nil {
		// The next slot begins when it has given back, as after a kernel that overruns its own.
		w.set[0] = share.Terms{Job: j.ID}
		return share.Decision{Set: w.set[:]}
	}
	w.collect(s, by)
	return w.turn(s, by)
}

// settle finds what a job overran its slot by.
func (k *spoke) settle(j *share.JobState) {
	if k.slot > 0 {
		k.debt += max(0, j.Used-k.used-k.slot)
		k.slot = 0
	}
}

// grant lends the device to the job whose slot it is, for the rest of it.
func (w *wheel) grant(j *share.JobState, s *share.Snapshot) share.Decision {
	k := spokeOf(j)
	k.used, k.slot = j.Used, w.until-s.Now
	w.set[0] = share.Terms{Job: j.ID, Units: s.All(), Until: w.until}
	return share.Decision{Set: w.set[:]}
}

// collect turns the wheel as often as nobody's slot would be left after its debt.
func (w *wheel) collect(s *share.Snapshot, by slots) {
	turns := int64(-1)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if slot := by.slot(j); slot > 0 && j.Phase == share.Waiting {
			if n := int64(spokeOf(j).debt / slot); turns < 0 || n < turns {
				turns = n
			}
		}
	}
	if turns <= 0 || !by.lends() {
		return
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Waiting {
			spokeOf(j).debt -= time.Duration(turns) * by.slot(j)
		}
	}
}

// turn moves on to the next slot.
func (w *wheel) turn(s *share.Snapshot, by slots) share.Decision {
	start := max(w.until, s.Now)
	if by.lends() {
		start = s.Now
	}
	first := 0
	for first < len(s.Jobs) && s.Jobs[first].ID <= w.job {
		first++
	}
	for k := range 2*len(s.Jobs) + 1 {
		i := first + k
		if i == len(s.Jobs) && by.rest() > 0 && !by.lends() {
			// The wheel stops at nobody, between the last job and the first.
			w.job, w.until = 0, start+by.rest()
			return share.Decision{Wake: w.until}
		}
		j := &s.Jobs[i%len(s.Jobs)]
		slot := by.slot(j)
		if by.lends() && j.Phase != share.Waiting {
			continue
		}
		pay := min(slot, spokeOf(j).debt)
		spokeOf(j).debt -= pay
		if slot -= pay; slot <= 0 {
			continue
		}
		w.job, w.until = j.ID, start+slot
		if j.Phase == share.Waiting {
			return w.grant(j, s)
		}
		return share.Decision{Wake: w.until}
	}
	return share.Decision{Wake: s.Now + time.Millisecond}
}
