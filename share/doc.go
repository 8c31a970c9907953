// Package share holds the vocabulary of sharing one device between jobs: what a tenant was
// promised, what the broker knows of each job, and what a policy may decide.
//
// Meet first: [Share], the promise made to one job; [Snapshot], everything a policy may know; and
// [Policy], the function from a snapshot to a [Decision]. [Entitle] says what each job deserves of
// a device at one moment, and [Meter] compares that with what the jobs got.
//
// All times are [time.Duration] since an epoch that the supplier of the snapshot chooses, so that a
// policy is the same function live and in simulation. Compute is counted in whole-device time: a
// job that holds half of the units for two seconds has used one second.
//
// Values of this package are plain data. Only [Meter] has a lock and may be used from several
// goroutines; everything else is guarded by its owner.
//
// The package decides nothing, reads no clock and starts no goroutine: policies live in
// share/policy, the mechanism in share/broker.
package share
