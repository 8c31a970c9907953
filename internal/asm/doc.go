// Package asm writes the assembly of the kernels and the Go declarations that go with it. The
// generators of internal/kernel/gemm, internal/kernel/conv, internal/kernel/vec and
// internal/kernel/nbits share it; nothing that runs later imports it.
//
// Meet first: [Loop], a kernel over slices, described once for amd64 and arm64; [Code], whose
// methods are what both architectures have instructions for, and which other kernels are described
// with; [File], which is an assembly file with the Go file that declares its functions; [Text], the
// assembly alone; [Vector], the registers of an instruction set; [Write], which keeps generated Go
// within [Width] columns; and [EVEX], for instructions that Go's assembler does not know.
//
// Concurrency: a File or a Text belongs to one goroutine.
//
// What it refuses: a register that EVEX cannot name, and Go that does not parse. Instructions are
// not checked here but by Go's assembler when the package with the output is built.
package asm
