// Package cpu is the processors and the main memory of this machine as a weir device.
//
// The types to meet first are [Device], opened with [Open], which describes the machine as far as
// this process may use it and hands out memory outside the Go heap; and [Pool], which runs parallel
// loops ([Region]) on the cores.
//
// How operators are computed on it is the business of package kernels below this one.
//
// # Units
//
// The compute units of the device are processors: unit u is processor u of the affinity mask, and
// worker u of a Pool. A lease on some of them ([device.Confined]) is served by those workers and
// the caller, tied to their processors where the system allows it ([Pool.Partitions], [Caller]), so
// that jobs on disjoint units run at the same time without taking each other's. Several jobs on the
// same units take turns by the operating system's scheduler. A lease on all units ties nothing, and
// where several jobs hold one, their callers take processors that workers leave to them. A thread
// that is tied to nothing any more runs on all that its cpuset has by then, unless the process was
// given less of it; whoever changes the mask of a thread in the microseconds in which it is read
// and given back is not heard.
//
// # Concurrency
//
// A Device and a Pool are safe for concurrent use. Several goroutines may run regions on one pool
// at the same time; a region's chunks run in any order on any worker.
//
// A worker that finds itself on the processor of its region's caller leaves it, where the system
// says which processor that is without being called (Linux on amd64): systems leave two threads
// that compute on one processor for milliseconds, beside others that wake often.
//
// # Processors of the Go scheduler
//
// Workers of a Pool spin for a short while between regions, so each holds one of the Go scheduler's
// GOMAXPROCS processors while work goes on. A process that serves requests or keeps timers while
// all cores compute needs a few more processors than cores: call [ReserveProcs] with 2 once at
// start. The operating system then shares the cores between workers and the rest.
//
// # What is refused
//
// The package does not decide who may run: that is the business of the [device.Gate] a region is
// run with. It does not reach past the limits the operating system sets the process (affinity mask,
// control groups), and it does not bind memory to NUMA nodes.
package cpu
