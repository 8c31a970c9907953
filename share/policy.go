package share

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// JobID identifies a job on one device. Numbers rise in order of admission and are never used
// again.
type JobID int64

// Forever is the Until of a grant that only a revocation ends.
const Forever = time.Duration(math.MaxInt64)

// Phase says whether a job wants the device.
type Phase uint8

const (
	// Idle jobs do not want the device now.
	Idle Phase = iota
	// Waiting jobs want it and hold nothing.
	Waiting
	// Running jobs hold units of it.
	Running
)

var phaseNames = [...]string{"idle", "waiting", "running"}

// String returns "idle", "waiting" or "running".
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// JobState is what a policy may know of one job. It holds no name: a policy that could see one
// could depend on it.
type JobState struct {
	ID    JobID
	Share Share

	Phase Phase
	// Since is when the job entered its phase.
	Since time.Duration
	// HasWork is set from the arrival of a request to its completion. An idle job with work is busy
	// elsewhere, with input or communication.
	HasWork bool
	// Ready is when the oldest request not yet completed arrived; for a job that reports none, when
	// it began to want its present iteration.
	Ready time.Duration
	// InIteration is set from the begin of an iteration to its end, held or not.
	InIteration bool

	// Units is the number of compute units held; 0 unless running.
	Units int
	// Granted is when the present or last hold began, Until when it ends or was to end.
	Granted, Until time.Duration
	// Revoking is set once a running job has been told to give the device back.
	Revoking bool

	// Admitted is when the job was admitted.
	Admitted time.Duration
	// Used is the whole-device time held up to the snapshot.
	Used time.Duration
	// Iterations counts the iterations completed; Remaining those to come, or -1 where that is not
	// known.
	Iterations, Remaining int64
	// IterationTime is the whole-device time that an iteration is expected to take, from those
	// before; 0 before the first has ended.
	IterationTime time.Duration

	// Cap is the job's hard memory cap. Persistent memory outlives an iteration, ephemeral memory
	// does not (Salus, Yu and Chowdhury, MLSys 2020).
	Cap, Persistent, Ephemeral Bytes

	// State is what the policy's NewJobState returned for this job, else nil.
	State any
}

// Wants reports whether the job holds the device or waits for it.
func (j *JobState) Wants() bool { return j.Phase != Idle }

// Snapshot is all that a policy may know: the device and its jobs at one moment.
type Snapshot struct {
	// Now is the moment. It never goes back between two calls of one policy.
	Now time.Duration
	// Units is the number of compute units of the device.
	Units int
	// Memory is the device's memory.
	Memory Bytes
	// Jobs are in order of admission, and so of rising ID. The slice belongs to the caller of the
	// policy and is used again for the next snapshot.
	Jobs []JobState
}

// Free returns the number of units that no job holds.
func (s *Snapshot) Free() int {
	free := s.Units
	for i := range s.Jobs {
		free -= s.Jobs[i].Units
	}
	return free
}

// Job returns the state of a job, or nil if there is none with this ID. The pointer is good for as
// long as the snapshot.
func (s *Snapshot) Job(id JobID) *JobState {
	lo, hi := 0, len(s.Jobs)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.Jobs[mid].ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.Jobs) && s.Jobs[lo].ID == id {
		return &s.Jobs[lo]
	}
	return nil
}

// Errors of a decision that cannot be carried out.
var (
	ErrUnknownJob = errors.New("no such job")
	ErrNotWaiting = errors.New("job does not wait")
	ErrUnits      = errors.New("more units than are free")
	ErrUntil      = errors.New("ends before it begins")
)

// CheckGrant says why a grant cannot be carried out on this snapshot with so many units still free:
// [ErrUnknownJob], [ErrNotWaiting], [ErrUnits] or [ErrUntil]. It returns nil for a good one.
func (s *Snapshot) CheckGrant(g Grant, free int) error {
	j := s.Job(g.Job)
	switch {
	case j == nil:
		return ErrUnknownJob
	case j.Phase != Waiting:
		return ErrNotWaiting
	case g.Units <= 0 || g.Units > free:
		return ErrUnits
	case g.Until <= s.Now:
		return ErrUntil
	}
	return nil
}

// Grant gives a waiting job units of the device until a time.
type Grant struct {
	Job   JobID
	Units int
	Until time.Duration // on the snapshot's clock; Forever: until revoked
}

// Decision is what a policy wants done.
type Decision struct {
	// Run gives free units to waiting jobs at once. What is still held, even by a job in Revoke, is
	// not free: the policy is asked again when it is.
	Run []Grant
	// Revoke tells running jobs to give their units back at the next boundary between two steps.
	// Naming a job twice, now or later, changes nothing.
	Revoke []JobID
	// Wake asks for another call at this time even if nothing happens before; 0 asks for none. It
	// is needed where a waiting job may not run yet, not for the end of a grant, which its holder
	// notices.
	Wake time.Duration
}

// Policy decides who runs. Decide is a function of its snapshots so far: no clock, lock, channel or
// I/O. One policy value serves one device and is called by one goroutine at a time, at each of: a
// job waits, gives back, becomes idle, joins, ends; and at the time it asked to be woken. Extra
// calls must do no harm.
type Policy interface {
	// Name is the policy's name in flags and scenario files.
	Name() string
	// Decide must not keep or change the snapshot. The decision's slices belong to the policy and
	// are good until its next call.
	Decide(s *Snapshot) Decision
}

// Stateful is implemented by a policy that keeps something for each job. The broker owns it and
// drops it with the job, so that departures cannot leak.
type Stateful interface {
	// NewJobState returns the state of a job that is being admitted; it comes back in
	// JobState.State. It should be a pointer.
	NewJobState() any
}
