// Package broker shares a device between jobs in real time. It drives share/core, which decides, by
// the process's clock, and hands out leases on what core grants.
//
// Meet first: [Broker], one per device; [Job], an admitted job; and [Lease], the right to use units
// of the device until a time or until revoked. A job's loop is
//
//	lease, err := job.Acquire(ctx)
//	for there is another iteration to do {
//		job.BeginIteration()
//		for each step {
//			if lease.Revoked() {
//				err = lease.Renew(ctx) // gives back, waits for its turn
//			}
//			run the step
//		}
//		job.EndIteration()
//		err = lease.Renew(ctx)
//	}
//	lease.Release()
//
// with job.Arrive and job.Complete around each request (where the next one is at hand, it arrives
// before the last is completed), and a deferred job.End that also runs after a panic. The Renew
// between two iterations is where policies that never split one change jobs; under the others it
// costs less than a microsecond and keeps the slice. Release is for a job that has run out of work:
// it offers the device to others.
//
// A [Gang] is jobs on several devices, each with a broker of its own, that hold their leases
// together or not at all, without any policy knowing of it.
//
// Concurrency: all methods may be called from any goroutine. A job has one lease, so its Acquire
// and Renew exclude each other; a second Acquire is refused, not queued. The broker has one lock,
// held for the length of a decision; [Lease.Revoked] takes none. An [Observer] is called with the
// lock held and must not call back.
//
// A policy that panics or says what cannot be does no harm; see share/core. The broker does not
// trust a job to be careful either, but it cannot take the device from one that does not check its
// lease between steps.
//
// Time is the process's monotonic clock, so that testing/synctest makes it virtual.
package broker
