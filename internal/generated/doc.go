// Package generated lets tests hold generated files against their generators: see [Current], and
// instructions that are written as bytes against a disassembler: see [Disassembles]. It is used by
// tests only, starts one process a call, and skips where the go command, or the disassembler, is
// missing.
package generated
