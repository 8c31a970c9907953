package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// turn is the slice last granted. A job that gives the device back within its slice, at the end of
// an iteration, and wants it again goes on with the same slice, so that short iterations do not
// mean many switches.
type turn struct {
	job   share.JobID
	until time.Duration
	heir  share.JobID // for whom the device was revoked

	beside bool // whether jobs get units that another rests on before it has given them back
}

// lingers returns a job that rests on some of these units, or nil. What others are granted of them
// takes effect once it has given them back, which may be later than the end of their slice.
func lingers(s *share.Snapshot, units share.UnitSet) *share.JobState {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Idle && j.Units.Overlaps(units) {
			return j
		}
	}
	return nil
}

// inherits reports whether the job waits for what was revoked for it.
func (t *turn) inherits(j *share.JobState) bool {
	return j != nil && j.ID == t.heir && j.Phase == share.Waiting
}

// rest returns the job whose slice is not over, if it waits for the rest of it.
func (t *turn) rest(s *share.Snapshot) *share.JobState {
	if s.Now >= t.until {
		return nil
	}
	if j := s.Job(t.job); j != nil && j.Phase == share.Waiting {
		return j
	}
	return nil
}

// lasts reports whether the slice is this job's and not over.
func (t *turn) lasts(j *share.JobState, now time.Duration) bool {
	return j.ID == t.job && now < t.until
}

// next returns who goes on, given the best of the waiting jobs: the one for which the device was
// revoked, or the one whose slice is not over, unless the best is of a better rank.
func (t *turn) next(s *share.Snapshot, best *share.JobState, by ranking) *share.JobState {
	if heir := s.Job(t.heir); t.inherits(heir) && by.rank(heir) <= by.rank(best) {
		return heir
	}
	if rest := t.rest(s); rest != nil && by.rank(rest) <= by.rank(best) {
		return rest
	}
	return best
}

// grant gives the job these units: for the rest of its slice if it has one, else for so long. While
// another lingers on them, the slice has not begun.
func (t *turn) grant(j *share.JobState, s *share.Snapshot, units share.UnitSet,
	slice time.Duration) share.Terms {
	if !t.beside && lingers(s, units) != nil {
		t.end(j.ID)
		return share.Terms{Job: j.ID, Units: units, Until: s.Now + slice}
	}
	if t.heir = 0; !t.lasts(j, s.Now) {
		t.job, t.until = j.ID, s.Now+slice
	}
	return share.Terms{Job: j.ID, Units: units, Until: t.until}
}

// end makes the slice over, for another job.
func (t *turn) end(heir share.JobID) { t.until, t.heir = 0, heir }
