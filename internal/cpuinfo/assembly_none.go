//go:build noasm

package cpuinfo

// assembly says that kernels in assembly are part of the program.
const assembly = false
