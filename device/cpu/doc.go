// Package cpu is the processors and the main memory of this machine as a weir device.
//
// The types to meet first are [Device], opened with [Open], which describes the machine as far as
// this process may use it and hands out memory outside the Go heap; and [Pool], which runs parallel
// loops ([Region]) on the cores.
//
// Operators come in as a [Request] and leave as a [Kernel]: [Prepare] has fast ones for most calls
// of static types, and [Reference] runs any operator by its definition. A Kernel is bound to memory
// ([Kernel] Bind) and then run ([Task]) by an [Exec], which lends it the pool and the gate. There
// is one file for each family of operators.
//
// A Device and a Pool are safe for concurrent use. Several goroutines may run regions on one pool
// at the same time; a region's chunks run in any order on any worker.
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
// control groups), and it does not bind memory to NUMA nodes. Prepare has no kernel, which is no
// error, for types and attributes outside what models use; a kernel refuses data that the operator
// forbids, such as an index outside its axis.
package cpu
