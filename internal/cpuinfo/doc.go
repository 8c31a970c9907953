// Package cpuinfo answers two questions about the processor the program runs on: which instructions
// a kernel may use, and what the processor is called and caches, for reports.
//
// A kernel asks [HasAVX512], then [HasAVX2FMA], or [HasNEON], and falls back to plain Go; each
// question costs one load. What it may use is one [Path] value, each a generation of processors. A
// test reaches the code for older ones with [Limit], and [PathVariable] does so for a whole
// process, so that every path of a kernel can be tested on one machine: package internal/cputest
// runs a test once on each. [ModelName], [CoreKinds] and [CacheSizes] describe the machine.
//
// Everything may be called from any goroutine. On processors that are neither amd64 nor arm64 every
// feature is absent. Instructions that the processor or the operating system lacks cannot be
// switched on.
package cpuinfo
