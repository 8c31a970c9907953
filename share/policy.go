package share

import (
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

// Forecast is what a job expects of its next iteration or request.
type Forecast struct {
	// Time is how long it takes on the whole device with nobody beside; 0 where that is not known.
	Time time.Duration `json:"time,omitempty"`
	// Copied is what it moves between host and device, in bytes.
	Copied Bytes `json:"copied,omitempty"`
	// Ephemeral is the memory that it holds while it runs, in bytes.
	Ephemeral Bytes `json:"ephemeral,omitempty"`
	// Reload is how long it takes to load all that the job keeps on the device between iterations,
	// had it been given back; 0 where that is not known.
	Reload time.Duration `json:"reload,omitempty"`
	// Users is how many jobs use what it keeps on the device; 0: itself. What more of them use is
	// given back later.
	Users int `json:"users,omitempty"`
	// Bandwidth is the part of the device's memory bandwidth that it uses while it runs alone, 0 to
	// 1; 0 where that is not known.
	Bandwidth float64 `json:"bandwidth,omitempty"`
	// Units is the number of compute units beyond which it gets no faster; 0 where that is not
	// known.
	Units int `json:"units,omitempty"`
	// Target is how long after its arrival a request should be completed; 0 for work that nobody
	// waits for.
	Target time.Duration `json:"target,omitempty"`
}

// Memory is what a job holds and may hold of a device's memory, in bytes.
type Memory struct {
	// Cap is the hard cap.
	Cap Bytes
	// Need is the most that the job's plan says it will hold.
	Need Bytes
	// Persistent memory outlives an iteration, ephemeral memory does not (Salus, Yu and Chowdhury,
	// MLSys 2020).
	Persistent, Ephemeral Bytes
	// Asked is what a reservation that waits wants; 0 if none does.
	Asked Bytes
	// Bends is the part of Cap that is not set apart for the job: what it holds of it may be asked
	// back while it is not within an iteration. It is at most Cap less Shared.
	Bends Bytes
	// Lane is the lane whose ephemeral memory the job uses in turn with the lane's other jobs, 1 or
	// above; 0: it has its whole Cap for itself. See [Snapshot.Lane].
	Lane int
	// Shared is the part of Cap that the job has of its lane.
	Shared Bytes
}

// Resident returns what the job holds on the device.
func (m Memory) Resident() Bytes { return m.Persistent + m.Ephemeral }

// Own returns what the job holds on the device but in its lane.
func (m Memory) Own() Bytes {
	if m.Lane > 0 {
		return m.Persistent
	}
	return m.Resident()
}

// Kept returns what is set apart for the job on the device but in its lane, held or not.
func (m Memory) Kept() Bytes { return m.Cap - m.Shared - m.Bends }

// JobState is what a policy may know of one job. It holds no name: a policy that could see one
// could depend on it.
type JobState struct {
	ID    JobID
	Share Share

	Phase Phase
	// Since is when the job entered its phase.
	Since time.Duration
	// Deferred is set while an idle job wants the device together with others, and waits for one
	// of those first. It is to be owed as if it waited here, within bounds, so that its turn has
	// come when it does.
	Deferred bool
	// Owed is set beside Deferred where what it waits for is memory of this device, which others
	// have in their turns: then what it is owed has no bound.
	Owed bool
	// HasWork is set from the arrival of a request to its completion. An idle job with work is busy
	// elsewhere, with input or communication.
	HasWork bool
	// Ready is when the oldest request not yet completed arrived; for a job that reports none, when
	// it began to want its present iteration.
	Ready time.Duration
	// Queue is the number of requests that have arrived and are not completed.
	Queue int
	// InIteration is set from the begin of an iteration to its end, held or not.
	InIteration bool

	// Units are the compute units held. An idle job that holds units rests: it has nothing to do
	// and gives them back as soon as somebody else is to have them.
	Units UnitSet
	// Granted is when the present or last hold began, Until when it ends or was to end.
	Granted, Until time.Duration
	// Revoking is set once a job has been told to give the device back.
	Revoking bool

	// Admitted is when the job was admitted.
	Admitted time.Duration
	// Used is the whole-device time charged up to the snapshot. A unit held by k jobs at once costs
	// each of them 1/k of it.
	Used time.Duration
	// Measured is, of Used, the time for which the device was found to have worked for the job;
	// Passed is what it did for it in launches that passed without a lease (Terms.Free), which are
	// not in Used; Launches counts what both were found in. All are as of MeasuredAt, are 0 where
	// nobody measures, and may be what the job says of itself.
	Measured, Passed time.Duration
	Launches         int64
	MeasuredAt       time.Duration
	// Copied is what was moved between host and device for the job.
	Copied Bytes
	// Iterations counts the iterations completed; Remaining those to come, or -1 where that is not
	// known.
	Iterations, Remaining int64
	// IterationTime is the whole-device time that an iteration is expected to take, from those
	// before; 0 before the first has ended.
	IterationTime time.Duration
	// Next is the forecast of the next iteration: what the job said of it, with Time corrected by
	// how long those before took while nobody else used the same units, or those times where the
	// job said nothing; IterationTime as long as there were none such.
	Next Forecast
	// Pace is the speed of the last iteration over that of one alone by the forecast, so 1 for a
	// job that nobody disturbs; 0 where that is not known.
	Pace float64

	Memory Memory

	// State is what the policy's NewJobState returned for this job, else nil.
	State any
}

// Wants reports whether the job runs or waits.
func (j *JobState) Wants() bool { return j.Phase != Idle }

// Snapshot is all that a policy may know: the device and its jobs at one moment.
type Snapshot struct {
	// Now is the moment. It never goes back between two calls of one policy.
	Now time.Duration
	// Units is the number of compute units of the device.
	Units int
	// Memory is the device's memory.
	Memory Bytes
	// Lanes is the most lanes in which jobs share ephemeral memory; 0: they share none.
	Lanes int
	// Can says what can be enforced on the device.
	Can Can
	// Jobs are in order of admission, and so of rising ID. The slice belongs to the caller of the
	// policy and changes after Decide returns.
	Jobs []JobState
}

// All returns all units of the device.
func (s *Snapshot) All() UnitSet { return UnitRange(0, s.Units) }

// Free returns the units that can be given to a waiting job: those that no job holds, or only such
// as rest on them and have not been told to give them back.
func (s *Snapshot) Free() UnitSet {
	free := s.All()
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase != Idle || j.Revoking {
			free = free.Minus(j.Units)
		}
	}
	return free
}

// Unused reports whether no job runs: all units are free, or held by jobs that rest.
func (s *Snapshot) Unused() bool {
	for i := range s.Jobs {
		if s.Jobs[i].Phase == Running {
			return false
		}
	}
	return true
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

// Boundary is where a job gives way when its lease is over.
type Boundary uint8

const (
	// Chunk is the finest that the device and the job allow: within a kernel where that can be.
	Chunk Boundary = iota
	// Kernel lets the kernel that runs finish.
	Kernel
	// Iteration lets the iteration that runs finish.
	Iteration
)

var boundaryNames = [...]string{"chunk", "kernel", "iteration"}

// String returns "chunk", "kernel" or "iteration".
func (b Boundary) String() string {
	if int(b) < len(boundaryNames) {
		return boundaryNames[b]
	}
	return fmt.Sprintf("boundary(%d)", uint8(b))
}

const (
	// Keep, as Terms.Resident, leaves a job's memory where it is.
	Keep Bytes = 0
	// Nothing, as Terms.Resident, asks a job to keep nothing on the device.
	Nothing Bytes = -1
)

// Terms say how things should be for one job. What differs from how they are is granted, revoked,
// resized or evicted by whoever asked the policy.
type Terms struct {
	Job JobID
	// Units are the compute units that the job should hold. Empty: it gives back what it holds.
	// A waiting job is granted them at once if they are free or the policy needs [Can.Overlap];
	// while somebody who gives them back still holds some it goes on waiting, and the policy is
	// asked again when they are free. A running job keeps running if all that it holds is among
	// them, and gives its units back otherwise, to be granted others.
	Units UnitSet
	// Until is when the job gives its units back by itself, on the snapshot's clock; [Forever]:
	// when told to. It means nothing where Units is empty.
	Until time.Duration
	// Yield is where it gives way, at Until or when told to.
	Yield Boundary
	// Resident is what it should hold of the device's memory at most: more than that is evicted or
	// spilled. [Keep] and [Nothing] are special.
	Resident Bytes
	// InFlight is the most device time that a program may have launched ahead; 0: the device's own
	// bound.
	InFlight time.Duration
	// Free lets kernels shorter than this pass without a lease; 0: none.
	Free time.Duration
	// Copy is the most traffic between host and device, in bytes a second; 0: no bound.
	Copy Bytes
	// Bandwidth is the part of the device's memory bandwidth that is set apart for the job, which
	// gets no more and no less; 0: it takes what it gets beside others. It needs [Can.Bandwidth].
	Bandwidth float64
}

// Decision is what a policy wants.
type Decision struct {
	// Set are the terms that change. A job not named keeps its terms; a waiting one goes on
	// waiting.
	Set []Terms
	// Wake asks for another call at this time even if nothing happens before; 0 asks for none. It
	// is needed where a waiting job may not run yet, not for the end of a hold, which its holder
	// notices.
	Wake time.Duration
}

// Policy decides who runs. Decide is a function of its snapshots so far: no clock, lock, channel or
// I/O. One policy value serves one device and is called by one goroutine at a time, at each of: a
// job joins, waits, gives back, becomes idle, ends; a request arrives or is completed; an iteration
// begins or ends; a reservation of memory waits; a share changes; and at the time it asked to be
// woken. Extra calls must do no harm.
type Policy interface {
	// Name is the policy's name in flags and scenario files.
	Name() string
	// Decide must not keep or change the snapshot. The decision's slice belongs to the policy and
	// is good until its next call.
	Decide(s *Snapshot) Decision
}

// Stateful is implemented by a policy that keeps something for each job. Its caller owns it and
// drops it with the job, so that departures cannot leak.
type Stateful interface {
	// NewJobState returns the state of a job that is being admitted; it comes back in
	// JobState.State. It should be a pointer.
	NewJobState() any
}

// Admitter is implemented by a policy that has its own rule for admission, in place of the rule
// that caps of memory must fit the device and guarantees must sum to 1 at most.
type Admitter interface {
	// Admit returns nil if the job, which is not among those of the snapshot, may join, else why
	// not, with what would fit. It is asked too before a job is given another share, with the state
	// that the job would have, and of one job after another before the policy takes the place of
	// another.
	Admit(s *Snapshot, j *JobState) error
}

// Limiter is implemented by a policy that holds each job to a number of units from its admission
// on, whether it wants the device or not. Where [Can.Limit] is all there is, a job can only be held
// to one before it begins, and so before it is granted anything.
type Limiter interface {
	// UnitLimit returns the most units that the job, which is among those of the snapshot, is
	// granted at once for as long as its share stays the same: from 1 to all.
	UnitLimit(s *Snapshot, j *JobState) int
}
