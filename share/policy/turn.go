package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// turn is the slice last granted. A job that gives the device back within its
// slice, at the end of an iteration, and wants it again goes on with the same
// slice, so that short iterations do not mean many switches.
type turn struct {
	job   share.JobID
	until time.Duration
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

// grant gives the job the whole device: for the rest of its slice if it has
// one, else for so long.
func (t *turn) grant(j *share.JobState, s *share.Snapshot, slice time.Duration) share.Grant {
	if j.ID != t.job || s.Now >= t.until {
		*t = turn{job: j.ID, until: s.Now + slice}
	}
	return share.Grant{Job: j.ID, Units: s.Units, Until: t.until}
}

// end makes the slice over.
func (t *turn) end() { t.until = 0 }
