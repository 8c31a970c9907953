// Package cpuinfo answers two questions about the processor the program runs on: which vector instruction levels a
// kernel may use, and what the processor is called and caches, for reports.
//
// A kernel asks [HasAVX512], then [HasAVX2FMA], and falls back to plain Go; each question costs one load. A test takes
// a level away with [Disable] and gives it back with the function that Disable returns, so that every path of a kernel
// can be tested on one machine. [ModelName] and [CacheSizes] describe the machine.
//
// Everything may be called from any goroutine. On processors that are not amd64 every feature is absent. Levels that
// the processor or the operating system lacks cannot be switched on.
package cpuinfo
