// Package engine runs plans: it loads them into device memory under a job's quota and runs
// iterations under the job's gate.
//
// Meet first: [Load] makes a [Session] (a plan loaded for a job: weights packed once, one arena for
// each iteration that may run at the same time); [Session.Take] gives an [Instance], whose inputs
// are filled and whose Run is one iteration.
//
// An iteration holds device time only under a device.Gate. The gate is asked before the first step,
// between steps, and between the chunks inside a step. So a lease that is asked back is given back
// within microseconds, in the middle of an operator if need be, and the iteration goes on from
// there under its next lease. A device with a queue of its own first finishes the work that the
// queue holds ([compute.MaxInFlight] pieces at most).
//
// Loading takes the kind of memory pages that the system has soonest, and lets the system turn
// small pages into huge ones as time goes by; [Instance.Settle] has that done at once.
//
// Memory bends: [Session.Evict] gives packed weights back, to the byte, and [Session.Recall], or
// the next run, brings them again in the order of the steps, while steps whose weights are there
// run. [Session.Shrink] gives back the arenas of instances that nobody uses.
//
// Concurrency: a Session is used by any number of goroutines; an Instance by one at a time.
//
// What it refuses: to hold a byte that the quota does not grant ([device.Quota.Reserve] is asked
// before memory is allocated), and to let a fault out: a panic in a kernel ends the iteration with
// an error of kind [ErrFault].
package engine
