// Package wire is what the node agent and the library in a CUDA program tell each other: a page of
// shared memory for each job, and messages of 64 bytes over a SOCK_SEQPACKET socket. It is the only
// definition of both; the C header internal/shim/wire.h is generated from it by the command gen.
//
// Meet first: [Page], the shared page as the agent and the tests see it; [Decode] and [Message],
// the messages; and [CHeader].
//
// The page has one writer for each field: the agent for the terms, the gate and the owners of
// slots, and one process for the rest of its slot. There is no lock in it, because a process can be
// killed at any instruction. What has to be read together (the terms) is guarded by a sequence
// counter, odd while it is written, as in Lameter, "Effective synchronization on Linux/NUMA
// systems", 2005, section 3. Time is CLOCK_MONOTONIC in nanoseconds, which all processes of a
// machine share.
//
// Concurrency: all methods of a Page may be called from any goroutine; a field
// has one writer at a time, as the layout says. Messages are
// values.
//
// The package refuses messages that are too short, of an unknown kind, with unknown flags or with
// anything but zero where nothing is defined, and pages that are not of this version and size or
// that somebody could still shrink. It believes nothing else that a page says: all of a page but
// its size can change at any time, and who reads a value checks it.
package wire

//go:generate go run ./gen ../shim/wire.h
