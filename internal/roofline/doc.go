// Package roofline shows how far each step of a model is from what the machine allows (Williams,
// Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
// architectures", CACM 52(4), 2009).
//
// Meet first: [Measure] finds the limits of a device by running them, on the host only, [Profile]
// times the steps of an instance and makes a [Table]: for each step its work, its rates and the
// least time that the machine needs for as much.
//
// The limit of a step is min(peak GFLOP/s of its format, GB/s x FLOP per byte), where the
// bandwidth is that of a working set no larger than the step's: the part of the memory hierarchy
// that could hold its bytes. Work is what the operator's definition says (plan.Cost); of a kernel
// that takes fewer operations (compute.Fewer), such as a convolution in transformed tiles, the
// limit is that of the operations that it takes, and the step says how many those are.
//
// Clocks rise and fall, and other machines on the same host come and go: what a machine was seen to
// reach before and after the steps is its limit ([Again]).
//
// Concurrency: the functions may be called from several goroutines; two that use the machine at the
// same time measure each other.
//
// What it refuses: nothing of its own; errors are those of the instance.
package roofline
