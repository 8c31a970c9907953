// Package why says of pods that wait for a part of a device why they do: in an event of the pod,
// with what would fit, or that nothing ever will. Kubernetes' own scheduler says only that not all
// claims can be allocated.
//
// Meet first: [Run].
//
// Concurrency: Run is for one goroutine.
//
// What it refuses: to decide. It reads pods, claims and slices, and writes nothing but events;
// without it pods wait just as long.
package why
