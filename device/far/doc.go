// Package far is a device whose memory the host cannot address: what a GPU is to the rest of weir,
// on any machine. It keeps the seam between weir and its devices honest, and shows what a device
// has to supply.
//
// Meet first: [Open] gives a [Device]; [Device.Target] is what to compile for, and its queues run
// tasks and copies on a goroutine of their own, in the order in which they were given.
//
// An address of the device is above 0xFA<<48, where no process has memory, and is never given
// twice: a host that follows one faults, and a kernel that uses one out of bounds or freed fails.
// Kernels are the plain evaluation of operators on tensors and compute slowly. What takes the
// time or memory of the job's host (operators with bodies, operators that are defined by others,
// strings, sequences, optionals and maps) the device has no kernels for.
//
// Concurrency: a Device is safe for concurrent use; a queue belongs to one goroutine at a time.
//
// What it refuses: more memory than its limit, exact to the byte, and access outside its buffers
// ([device.ErrBounds]). A kernel that panics ends the work of its queue with an error of kind
// compute.ErrPanic, and nothing else.
package far
