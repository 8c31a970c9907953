package broker

import "errors"

// Kinds of errors of this package, for errors.Is.
var (
	// ErrOverCap: the job wants more memory than its own cap.
	ErrOverCap = errors.New("over the job's memory cap")
	// ErrNoMemory: the device has promised its memory to others.
	ErrNoMemory = errors.New("not enough device memory left")
	// ErrNoCompute: the device has promised its compute to others.
	ErrNoCompute = errors.New("not enough device compute left")
	// ErrName: another job on the device has this name.
	ErrName = errors.New("name is taken")
	// ErrEnded: the job has ended, by its owner or by Close.
	ErrEnded = errors.New("job has ended")
	// ErrClosed: the broker was closed.
	ErrClosed = errors.New("broker is closed")
	// ErrHeld: the job holds its lease already or waits for it.
	ErrHeld = errors.New("lease is in use")
	// ErrNotHeld: the job does not hold its lease.
	ErrNotHeld = errors.New("lease is not held")
	// ErrNotReserved: more memory was freed than had been reserved.
	ErrNotReserved = errors.New("more than is reserved")

	// ErrNotRunning: the policy revoked a job that holds nothing.
	ErrNotRunning = errors.New("job does not run")
	// ErrWake: the policy asked to be woken in the past.
	ErrWake = errors.New("wake in the past")
	// ErrStalled: jobs wait, nothing runs, and the policy did not ask to be woken.
	ErrStalled = errors.New("jobs wait on an idle device for nothing")
)
