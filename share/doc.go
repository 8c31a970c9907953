// Package share holds the vocabulary of sharing one device between jobs: what a tenant was
// promised, what the broker knows of each job, and what a policy may decide.
//
// Meet first: [Share], the promise made to one job; [Snapshot], everything a policy may know; and
// [Policy], the function from a snapshot to the [Terms] of jobs. [Can] says what a device can
// enforce, and [Entitle] what each job deserves of it at one moment.
//
// All times are [time.Duration] since an epoch that the supplier of the snapshot chooses, so that a
// policy is the same function live and in simulation. Compute is counted in whole-device time: a
// job that holds half of the units for two seconds has used one second.
//
// Values of this package are plain data, guarded by their owner.
//
// The package decides nothing, reads no clock and starts no goroutine: policies live in
// share/policy, the state machine in share/core, and what drives it in share/broker and share/sim.
package share
