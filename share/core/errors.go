package core

import (
	"errors"

	"github.com/weirgpu/weir/share"
)

// Kinds of errors of this package, for errors.Is.
var (
	// ErrOverCap: the job wants more memory than its own cap.
	ErrOverCap = errors.New("over the job's memory cap")
	// ErrNoMemory: the device has promised its memory to others.
	ErrNoMemory = share.ErrNoMemory
	// ErrNoCompute: the device has promised its compute to others.
	ErrNoCompute = share.ErrNoCompute
	// ErrName: another job on the device has this name.
	ErrName = errors.New("name is taken")
	// ErrEnded: the job has ended, or never was.
	ErrEnded = errors.New("job has ended")
	// ErrHeld: the job holds the device already or waits for it.
	ErrHeld = errors.New("lease is in use")
	// ErrNotHeld: the job does not hold the device.
	ErrNotHeld = errors.New("lease is not held")
	// ErrNotReserved: more memory was freed than had been reserved.
	ErrNotReserved = errors.New("more than is reserved")
	// ErrWaits: the job has a reservation that waits already.
	ErrWaits = errors.New("another reservation waits")
	// ErrLane: another job is within an iteration in the job's lane.
	ErrLane = errors.New("lane is in use")
	// ErrEvent: no such event.
	ErrEvent = errors.New("unknown event")
)

// Kinds of faults of a policy, and of an eviction rule.
var (
	// ErrUnknownJob: terms for a job that is not there.
	ErrUnknownJob = errors.New("no such job")
	// ErrNotWaiting: units for a job that neither waits nor runs.
	ErrNotWaiting = errors.New("job does not wait")
	// ErrUnits: units that the device has not, or that another holds and keeps.
	ErrUnits = errors.New("more units than are free")
	// ErrUntil: a hold that would end before it begins.
	ErrUntil = errors.New("ends before it begins")
	// ErrWake: the policy asked to be woken in the past.
	ErrWake = errors.New("wake in the past")
	// ErrStalled: jobs wait, nothing runs, and the policy did not ask to be woken.
	ErrStalled = errors.New("jobs wait on an idle device for nothing")
	// ErrPanic: the policy panicked; fair took over.
	ErrPanic = errors.New("policy panicked")
	// ErrRule: the eviction rule panicked, or ranked a job by what is no number; lru took over.
	ErrRule = errors.New("eviction rule failed")
)
