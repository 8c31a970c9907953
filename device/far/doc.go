// Package far is a device whose memory the host cannot address: it is to the rest of weir what a
// GPU is, and runs on any machine. It keeps the seam between weir and its devices honest, and shows
// what a device has to supply.
//
// Meet first: [Open] gives a [Device]. Graphs are compiled for [Device.Target]. The device's queues
// run tasks and copies on a goroutine of their own, in the order in which they were given.
//
// An address of the device is above 0xFA<<48, where no process has memory, and is never given out
// twice. So a host that dereferences one faults, and a kernel that uses one out of bounds, or one
// that was freed, fails. Kernels evaluate the plain definition of operators on tensors, and compute
// slowly. The device has no kernels for operators that take time or memory of the job's host:
// operators with bodies, operators that are defined by other operators, and operators on strings,
// sequences, optionals and maps.
//
// A bus of a described bandwidth ([Options] Bus) makes copies to the device take their time while
// the device computes. Stretches of buffers that were given back ([device.Elastic]) cannot be
// reached until they are taken again.
//
// Concurrency: a Device is safe for concurrent use; a queue belongs to one goroutine at a time.
//
// What it refuses: more memory than its limit, exact to the byte, and access outside its buffers
// ([device.ErrBounds]). A kernel that panics ends the work of its queue with an error of kind
// compute.ErrPanic, and ends nothing else.
package far
