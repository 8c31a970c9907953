// Package compute is the seam between what plans and runs graphs and the devices that compute them:
// all that a planner and a session need of a device beyond its memory, which is package device.
//
// Meet first: a call of an operator comes to a device as a [Request] and leaves as a [Kernel]; the
// kernel is bound to memory ([Kernel] Bind, [Binding]) and becomes a [Task], which runs with what
// an [Exec] lends it: the gate, the workers of a [Pool] and the job's memory. Tasks and copies go
// to the device through a [Queue]. What a kernel may do beyond its interface are the optional ones
// of faces.go: [InPlace], [Moving], [Absorbing], [Parted], [Packing] and [Choosing]. [Reference]
// runs any operator by its definition: what a device has no kernel for, and what its kernels are
// tested against.
//
// Concurrency: kernels are immutable and shared. A task and its Exec belong to one goroutine at a
// time.
//
// What it refuses: a result that is not of the type and shape that was planned for it ([ErrPlan]).
// It knows no device: those live in packages beside it, one a kind.
package compute
