// Package nvml finds the NVIDIA GPUs of this machine and says how they are connected, through the
// NVIDIA Management Library (NVML). The library comes with the driver and is opened at run time,
// without cgo: a program that imports this package starts on machines without it.
//
// Meet first: [Discover], which does everything at once, and [ErrNoDriver], which it returns where
// there is no driver. [Open] keeps the library for a caller that asks again and again.
//
// Concurrency: a [Library] may be used from any goroutine; NVML itself is thread-safe. Close it
// when no call is under way.
//
// What it refuses: nothing that a driver may leave out. A call that the library does not have, or
// that a GPU does not support, leaves its field empty. GPUs that fail altogether are left out of
// the list and named in the error beside it.
//
// Built with the tag nogpu, or for a system that NVIDIA has no management library for, the package
// is there but finds nothing: its errors wrap [ErrNotBuilt]. On Linux the package binds a program
// to the system's dynamic loader; the tag nogpu also frees it of that.
//
// Source: NVML API Reference Guide, and the header nvml.h of CUDA 13.
package nvml
