// Package traffic sends requests at their times and measures how long the answers take, without
// leaving out the requests that a slow server kept from being sent.
//
// Meet first: [Plan] and [Run].
//
// In an open loop the times are drawn beforehand, from the seed, and do not depend on answers. A
// request's latency counts from the time at which it was due, whenever it could be sent: a load
// generator that counts from sending leaves out the waiting that its users would have had
// (coordinated omission). In a closed loop each client asks again once it is answered, and what a
// slow answer keeps from being asked is missing: latencies of both are not the same thing.
//
// A client that has no time itself cannot measure others. [Result.Late] has by how much requests
// were late for reasons of this process alone, and [Result.Disturbed] whether that matters.
//
// Concurrency: requests run on goroutines of their own; the [Ask] is called by many at a time.
//
// What it refuses: plans without an end, and rates that no timer keeps ([ErrPlan]).
package traffic
