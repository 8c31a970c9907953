// Package sim replays traces of clusters through the placement of package place: which part of all
// devices a policy gets to use, and how much of the rest is in pieces that nobody can.
//
// Meet first: [Open] reads a trace, [Run] simulates it under a policy, [Mean] puts runs with
// several seeds together, and [WritePage] draws them.
//
// The protocol is that of F. Weng et al., "Beware of Fragmentation", USENIX ATC 2023: the pods of
// the trace in a random order and then random ones of them, until they have asked for 1.3 times
// what there is; pods stay, and what fits is placed. Random numbers are drawn as by the authors'
// simulator, whose published figures come out again, seed by seed, but for the policy that is
// random itself. With Options.Times pods come and go as they did.
//
// Concurrency: a [Trace] is not changed by a simulation; several may run on one at a time.
//
// What it refuses: files without the columns that it needs, numbers that are none or out of bounds,
// each with its file and line.
package sim
