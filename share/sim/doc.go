// Package sim runs jobs on a device in virtual time under a policy, the same file that runs live.
// It is a discrete-event simulation: seconds of sharing take milliseconds, and the same scenario
// gives the same result every time.
//
// Meet first: [Scenario], jobs and device as data; [Run]; and [Result], what each job got and how
// long its requests took.
//
// The model: requests arrive at a job by a process, one iteration each. An iteration takes a time
// drawn from a distribution, on the whole device; fewer units make it longer in proportion. It
// consists of steps, and a job gives the device back only between two of them, when its lease is
// over or revoked; it does one step at least per lease. When the device passes to another job, the
// switch cost is charged to that job, unless the policy needs jobs to overlap, who are then all in
// one context. A step shorter than what its job's terms let pass runs beside whoever holds the
// device, or only while nobody else runs if they bound what is in flight, and is charged to nobody.
// A job may hold its units through short pauses, and what it used of that is then measured. It may
// rest on its units between iterations, for nothing until they are asked back, and take a while
// then to give them back. One that does not fit when it starts is refused, or waits at the door
// until others have ended. Deciding takes no time.
//
// Nothing here is safe for use from several goroutines at once; separate runs are independent. The
// package refuses scenarios that Validate faults and runs of more than a bounded number of events.
package sim
