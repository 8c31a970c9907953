// Package compute is the seam between the code that plans and runs graphs and the devices that
// compute them. It declares all that a planner and a session need of a device beyond its memory,
// which is declared in package device.
//
// Meet first: a planner hands a call of an operator to a device as a [Request] and gets a [Kernel]
// back. The kernel is bound to memory ([Kernel] Bind, [Binding]) and becomes a [Task]. The task
// runs with an [Exec], which provides the gate, the workers of a [Pool] and the job's memory. Tasks
// and copies go to the device through a [Queue]. A kernel may offer more by the optional interfaces
// of faces.go: [InPlace], [Moving], [Absorbing], [Parted], [Packing] and [Choosing]. [Reference]
// runs any operator by its definition: it serves the calls for which a device has no kernel, and it
// is what kernels are tested against.
//
// Concurrency: kernels are immutable and shared. A task and its Exec belong to one goroutine at a
// time.
//
// What it refuses: a result that is not of the type and shape that was planned for it ([ErrPlan]).
// It knows no device: those live in packages beside it, one for each kind.
package compute
