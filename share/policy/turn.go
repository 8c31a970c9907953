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
	heir := s.Job(t.heir)
	t.heir = 0
	if heir != nil && heir.Phase == share.Waiting && by.rank(heir) <= by.rank(best) {
		return heir
	}
	if rest := t.rest(s); rest != nil && by.rank(rest) <= by.rank(best) {
		return rest
	}
	return best
}

// grant gives the job the whole device: for the rest of its slice if it has one, else for so long.
func (t *turn) grant(j *share.JobState, s *share.Snapshot, slice time.Duration) share.Terms {
	if !t.lasts(j, s.Now) {
		t.job, t.until = j.ID, s.Now+slice
	}
	return share.Terms{Job: j.ID, Units: s.All(), Until: t.until}
}

// end makes the slice over, for another job.
func (t *turn) end(heir share.JobID) { t.until, t.heir = 0, heir }
