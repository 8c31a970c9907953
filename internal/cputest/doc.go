// Package cputest lets a test run on every path of instructions that the machine has: see
// [EachPath], and [OnTiles] for what the machine at hand may not have. It is used by tests only.
// The environment variable WEIR_ISA ([cpuinfo.PathVariable]) leaves out the paths above the one
// that it names.
//
// What a path is says package internal/cpuinfo. A test that uses this package must not run beside
// others of its process.
package cputest
