package broker

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// Status is the state of a device and its jobs at one moment, for people. Rates follow from the
// difference of two.
type Status struct {
	Device    string
	Policy    string
	Now       time.Duration // on the broker's clock
	Units     int
	Memory    share.Bytes // of the device
	Reserved  share.Bytes // held by jobs
	Promised  share.Bytes // sum of the jobs' caps
	Guarantee float64     // sum of the jobs' guarantees
	Decisions int64       // calls of the policy
	Faults    int64       // see Broker.Faults
	Jobs      []JobStatus // in order of admission
}

// JobStatus is the state of one job.
type JobStatus struct {
	Name string
	share.JobState
	// Requests is the number of requests that have arrived and are not completed.
	Requests int
	// Peak is the most memory held at one time.
	Peak share.Bytes
	Counts
}

// Snapshot returns the state of the device now. The policies' states of jobs are left out.
func (b *Broker) Snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	s := Status{
		Device: b.device, Policy: b.policy.Name(), Now: now, Units: b.units, Memory: b.memory,
		Decisions: b.decisions, Faults: b.faults, Jobs: make([]JobStatus, 0, len(b.jobs)),
	}
	for _, j := range b.jobs {
		s.Jobs = append(s.Jobs, j.status(now))
		s.Promised += j.spec.Memory
		s.Reserved += j.state.Persistent + j.state.Ephemeral
		s.Guarantee += j.spec.Guarantee()
	}
	return s
}

// Status returns the state of the job now; after its end, its last one.
func (j *Job) Status() JobStatus {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return j.status(j.b.Now())
}

func (j *Job) status(now time.Duration) JobStatus {
	s := JobStatus{Name: j.spec.Name, JobState: j.state, Requests: j.arrivals.n, Peak: j.peak,
		Counts: j.counts}
	s.Used, s.State = j.used(now), nil
	return s
}

// Accounts returns what each job admitted so far got of the device, against its weighted max-min
// fair entitlement, up to now; jobs that have ended are included.
func (b *Broker) Accounts() []share.Account {
	b.mu.Lock()
	b.settle(b.Now())
	b.mu.Unlock()
	return b.meter.Accounts()
}
