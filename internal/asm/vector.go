package asm

import "fmt"

// Vector is the vector registers of an instruction set.
type Vector struct {
	Name  string // of the instruction set, as names of functions end and package cpuinfo calls it
	Reg   string // letter of a full register
	Lanes int    // numbers of 32 bits in a register
	Regs  int    // number of registers
}

// The instruction sets that kernels are written for.
var (
	AVX2   = Vector{Name: "AVX2", Reg: "Y", Lanes: 8, Regs: 16}
	AVX512 = Vector{Name: "AVX512", Reg: "Z", Lanes: 16, Regs: 32}
)

// Wide says that registers have 512 bits, and that there are mask registers and operands in memory
// that are broadcast.
func (v Vector) Wide() bool { return v.Reg == AVX512.Reg }

// Size is the number of bytes in a register.
func (v Vector) Size() int { return 4 * v.Lanes }

// R is the name of register n.
func (v Vector) R(n int) string { return fmt.Sprintf("%s%d", v.Reg, n) }
