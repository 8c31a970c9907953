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
// that could hold its bytes. Work is what the operator's definition says (plan.Cost), so that a
// kernel which needs less of it, such as a convolution in transformed tiles, may pass the limit.
//
// Concurrency: the functions may be called from several goroutines; two that use the machine at the
// same time measure each other.
//
// What it refuses: nothing of its own; errors are those of the instance.
package roofline
