// Package dist sums what the shards of a batch come to over several processes of one machine, by a
// ring all-reduce, to the bits that one process comes to.
//
// Meet first: [Team], one process among those that train together, and [Sum], which sums ranges of
// gradients, the buckets, as soon as they are whole, while the backward half goes on.
//
// A batch has a fixed number of shards, whatever the number of processes, each of which computes a
// range of them ([Share]). What shards come to is added in the order of one binary tree over all of
// them: the left half of n shards is the largest power of two below n. A ring all-reduce (Patarasuk
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009) cuts
// a bucket into a piece a process; a piece goes around the ring, and each process adds its own.
// Here it is the sums of subtrees that go around, and a process adds what the tree adds: so the
// last on the way has the sum in the tree's order. Then the pieces go around once more.
//
// Values lie in memory that all processes map, and are added where they lie; what goes around on
// Unix sockets is a token that says how far a process is. The memory has no name and goes with its
// last process, as the sockets do: nothing is left of a run that was killed.
//
// Concurrency: a Team and a Sum belong to one goroutine, but for [Sum.Whole], which may be called
// from any, and [Team.Close].
//
// What it refuses, with an error of kind [ErrPeer]: processes of another build, recipe, model, data
// or plan; those that end, that fall out of step, or that give no sign of life; other systems than
// Linux.
package dist
