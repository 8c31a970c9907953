package core

import (
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// Status is the state of a device and its jobs at one moment, for people. Rates follow from the
// difference of two.
type Status struct {
	Device    string
	Policy    string
	Now       time.Duration // on the driver's clock
	Units     int
	Memory    share.Bytes // of the device
	Reserved  share.Bytes // held by jobs
	Promised  share.Bytes // sum of the jobs' caps
	Guarantee float64     // sum of the jobs' guarantees
	Decisions int64       // calls of the policy
	Faults    int64       // see Core.Faults
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
	// ForecastError is the mean of |forecast / measured - 1| over the job's iterations, of those
	// that it made forecasts for and during which nobody else used the same units; 0 where there
	// are none. Measured is what the iteration would have taken on the whole device, if the job is
	// faster in proportion to its units, up to those of its forecast.
	ForecastError float64
}

// Status returns the state of the device. The policies' states of jobs are left out.
func (c *Core) Status() Status {
	s := Status{
		Device: c.device, Policy: c.policy.Name(), Now: c.now, Units: c.snap.Units,
		Memory: c.memory, Decisions: c.decisions, Faults: c.faults,
		Jobs: make([]JobStatus, 0, len(c.jobs)),
	}
	for _, j := range c.jobs {
		s.Jobs = append(s.Jobs, c.status(j))
		s.Promised += j.spec.Memory
		s.Reserved += c.state(j).Memory.Resident()
		s.Guarantee += j.spec.Guarantee()
	}
	return s
}

// Job returns the state of one job; false if there is no such job.
func (c *Core) Job(id share.JobID) (JobStatus, bool) {
	j := c.job(id)
	if j == nil {
		return JobStatus{}, false
	}
	return c.status(j), true
}

// UnitLimit returns the most units that the policy grants the job at once for as long as its share
// and the policy stay the same; all where it holds jobs to no number. False if there is no such
// job.
func (c *Core) UnitLimit(id share.JobID) (n int, ok bool) {
	j := c.job(id)
	if j == nil {
		return 0, false
	}
	n, ok = c.snap.Units, true
	l, limits := c.policy.(share.Limiter)
	if !limits {
		return n, ok
	}
	// A policy that is wrong here is when it decides too, and is replaced then.
	defer func() {
		if recover() != nil || n < 1 || n > c.snap.Units {
			n = c.snap.Units
		}
	}()
	n = l.UnitLimit(c.look(), c.state(j))
	return n, ok
}

// Spec returns the specification that the job has now, with the memory cap filled in; false if
// there is no such job.
func (c *Core) Spec(id share.JobID) (share.Job, bool) {
	j := c.job(id)
	if j == nil {
		return share.Job{}, false
	}
	return j.spec, true
}

func (c *Core) status(j *job) JobStatus {
	s := JobStatus{Name: j.spec.Name, JobState: *c.state(j), Requests: j.arrivals.n, Peak: j.peak,
		Counts: j.counts, ForecastError: j.forecast.wrong}
	s.State = nil
	return s
}

// Phase returns what a job does; false if there is no such job.
func (c *Core) Phase(id share.JobID) (share.Phase, bool) {
	j := c.job(id)
	if j == nil {
		return share.Idle, false
	}
	return c.state(j).Phase, true
}

// Waiting reports whether a job waits for units that could have them now: not one whose memory
// others are in the way of that stay for now.
func (c *Core) Waiting() bool {
	for i, j := range c.jobs {
		if c.snap.Jobs[i].Phase == share.Waiting && c.awaits(j) == 0 {
			return true
		}
	}
	return false
}

// WaitingOf reports whether a job of this class waits for units.
func (c *Core) WaitingOf(class share.Class) bool {
	return slices.ContainsFunc(c.snap.Jobs, func(s share.JobState) bool {
		return s.Phase == share.Waiting && s.Share.Class == class
	})
}

// Holds reports whether a job holds units.
func (c *Core) Holds(id share.JobID) bool {
	j := c.job(id)
	return j != nil && !c.state(j).Units.Empty()
}
