package asm

import (
	"fmt"
	"math/bits"
	"strings"
)

// Code writes kernels that are described once in the instructions of amd64 or of arm64, which its
// Vector says: a description calls its methods, each of which picks what the architecture has for
// it. Vector registers are numbers; those of general purpose are a [Reg].
type Code struct {
	*File
	Vector
}

// Reg is a register of general purpose, by its name on either architecture.
type Reg struct{ AMD64, ARM64 string }

// ARM64 says that the kernel is for arm64.
func (c Code) ARM64() bool { return c.Vector.Reg == VectorNEON.Reg }

// name is the name of a register on the architecture.
func (c Code) name(r Reg) string {
	if c.ARM64() {
		return r.ARM64
	}
	return r.AMD64
}

// pick writes one of two instructions. Their operands, which both have, are registers and what else
// they name.
func (c Code) pick(amd64, arm64 string, operands ...any) {
	for i, o := range operands {
		if r, ok := o.(Reg); ok {
			operands[i] = c.name(r)
		}
	}
	if c.ARM64() {
		c.Op(arm64, operands...)
	} else {
		c.Op(amd64, operands...)
	}
}

// Argument reads the argument of that name, which lies so many bytes into the arguments.
func (c Code) Argument(name string, at int, to Reg) {
	c.pick("MOVQ %s+%d(FP), %s", "MOVD %s+%d(FP), %s", name, at, to)
}

// Field reads 64 bits of the struct that a register points to; a name of go_asm.h says which.
func (c Code) Field(field string, of, to Reg) {
	c.pick("MOVQ %s(%s), %s", "MOVD %s(%s), %s", field, of, to)
}

// Field32 is [Code.Field] for 32 bits without a sign.
func (c Code) Field32(field string, of, to Reg) {
	c.pick("MOVL %s(%s), %s", "MOVWU %s(%s), %s", field, of, to)
}

// Field8 is [Code.Field] for 8 bits without a sign.
func (c Code) Field8(field string, of, to Reg) {
	c.pick("MOVBQZX %s(%s), %s", "MOVBU %s(%s), %s", field, of, to)
}

// Shift multiplies a register by a power of two.
func (c Code) Shift(power int, r Reg) { c.pick("SHLQ $%d, %s", "LSL $%d, %s", power, r) }

// Copy sets a register to another.
func (c Code) Copy(from, to Reg) { c.pick("MOVQ %s, %s", "MOVD %s, %s", from, to) }

// Advance adds a number to a register.
func (c Code) Advance(r Reg, by int) { c.pick("ADDQ $%d, %s", "ADD $%d, %s", by, r) }

// AddTimes adds to a register n times another, for n of 1, 2, 4 or 8.
func (c Code) AddTimes(r, by Reg, n int) {
	switch {
	case n == 1:
		c.pick("ADDQ %s, %s", "ADD %s, %s", by, r)
	case c.ARM64():
		c.Op("ADD %s<<%d, %s", by.ARM64, bits.Len(uint(n))-1, r.ARM64)
	default:
		c.Op("LEAQ (%s)(%s*%d), %[1]s", r.AMD64, by.AMD64, n)
	}
}

// Rounds sets a register to how often n, a power of two, goes into another, and goes to the label
// where it does not.
func (c Code) Rounds(of, to Reg, n int, none string) {
	power := bits.Len(uint(n)) - 1
	if c.ARM64() {
		c.Op("LSR $%d, %s, %s", power, of.ARM64, to.ARM64)
		c.Op("CBZ %s, %s", to.ARM64, none)
		return
	}
	if of != to {
		c.Copy(of, to)
	}
	c.Op("SHRQ $%d, %s", power, to.AMD64)
	c.Op("JZ %s", none)
}

// Rest sets a register to what n, a power of two, leaves of it, and goes to the label where that is
// nothing.
func (c Code) Rest(r Reg, n int, none string) {
	c.pick("ANDQ $%d, %s", "AND $%d, %s", n-1, r)
	if c.ARM64() {
		c.Op("CBZ %s, %s", r.ARM64, none)
	} else {
		c.Op("JZ %s", none)
	}
}

// Down subtracts 1 and goes to the label until nothing is left.
func (c Code) Down(r Reg, again string) {
	c.pick("DECQ %s", "SUB $1, %s", r)
	if c.ARM64() {
		c.Op("CBNZ %s, %s", r.ARM64, again)
	} else {
		c.Op("JNZ %s", again)
	}
}

// IfZero goes to the label where a register is zero.
func (c Code) IfZero(r Reg, to string) {
	if c.ARM64() {
		c.Op("CBZ %s, %s", r.ARM64, to)
		return
	}
	c.Op("TESTQ %s, %[1]s", r.AMD64)
	c.Op("JZ %s", to)
}

// Unless goes to the label where none of the bits of a constant of the package is set in the lower
// half of a register; free is lost.
func (c Code) Unless(flag string, r, free Reg, to string) {
	if c.ARM64() {
		c.Op("AND $const_%s, %s, %s", flag, r.ARM64, free.ARM64)
		c.Op("CBZ %s, %s", free.ARM64, to)
		return
	}
	c.Op("TESTL $const_%s, %s", flag, r.AMD64)
	c.Op("JZ %s", to)
}

// Align begins a line of the cache of instructions, or half of one, for a loop.
func (c Code) Align() { c.pick("PCALIGN $64", "PCALIGN $32") }

// Return ends a kernel.
func (c Code) Return() {
	if !c.ARM64() {
		c.Op("VZEROUPPER")
	}
	c.Op("RET")
}

// Load reads vectors that follow each other so many bytes from an address on.
func (c Code) Load(at int, base Reg, to ...int) {
	c.vectors(at, base, to, "VMOVUPS %[1]s, %[2]s", "FMOVQ %s, F%d", "FLDPQ %s, (F%d, F%d)")
}

// LoadOn reads up to four vectors of arm64 of consecutive numbers, which follow each other from an
// address on, by one instruction, and adds another register to the address.
func (c Code) LoadOn(base, by Reg, to ...int) {
	regs := make([]string, len(to))
	for i, r := range to {
		regs[i] = fmt.Sprintf("V%d.S4", r)
	}
	c.Op("VLD1.P (%s)(%s), [%s]", base.ARM64, by.ARM64, strings.Join(regs, ", "))
}

// Store is the opposite of [Code.Load].
func (c Code) Store(at int, base Reg, from ...int) {
	c.vectors(at, base, from, "VMOVUPS %[2]s, %[1]s", "FMOVQ F%[2]d, %[1]s",
		"FSTPQ (F%[2]d, F%[3]d), %[1]s")
}

// vectors moves vectors, on arm64 two at a time as far as offsets of pairs reach.
func (c Code) vectors(at int, base Reg, regs []int, amd64, one, pair string) {
	for i := 0; i < len(regs); i++ {
		address := fmt.Sprintf("%d(%s)", at+i*c.Size(), c.name(base))
		switch offset := at + i*c.Size(); {
		case !c.ARM64():
			c.Op(amd64, address, c.R(regs[i]))
		case i+1 < len(regs) && offset%16 == 0 && offset >= -1024 && offset <= 1008:
			c.Op(pair, address, regs[i], regs[i+1])
			i++
		default:
			c.Op(one, address, regs[i])
		}
	}
}

// Every reads a number into every lane. Its place, from where a register points to, is a number or
// a field by its name of go_asm.h.
func (c Code) Every(at any, base Reg, to int) {
	address := fmt.Sprintf("%v(%s)", at, c.name(base))
	if c.ARM64() {
		c.Op("FMOVS %s, F%d", address, to)
		c.Op("VDUP V%d.S[0], V%[1]d.S4", to)
		return
	}
	c.Op("VBROADCASTSS %s, %s", address, c.R(to))
}

// Zero clears a register.
func (c Code) Zero(r int) {
	switch {
	case c.ARM64():
		c.Op("VEOR V%d.B16, V%[1]d.B16, V%[1]d.B16", r)
	case c.Wide():
		c.Op("VPXORD %s, %[1]s, %[1]s", c.R(r))
	default:
		c.Op("VXORPS %s, %[1]s, %[1]s", c.R(r))
	}
}

// Operation is what both architectures have one instruction on vectors for: d becomes x and y, or
// their product is added to d or taken from it.
type Operation struct{ amd64, arm64 string }

// The operations on numbers of 32 bits.
var (
	Add      = Operation{"VADDPS", "FADD"}
	Sub      = Operation{"VSUBPS", "FSUB"}
	Mul      = Operation{"VMULPS", "FMUL"}
	Div      = Operation{"VDIVPS", "FDIV"}
	MulAdd   = Operation{"VFMADD231PS", "FMLA"}
	MulSub   = Operation{"VFNMADD231PS", "FMLS"}
	AddInt32 = Operation{"VPADDD", "ADD"}
	SubInt32 = Operation{"VPSUBD", "SUB"}
)

// Do writes an operation.
func (c Code) Do(op Operation, d, x, y int) {
	if c.ARM64() {
		c.Vec(op.arm64, d, x, y)
		return
	}
	c.Op("%s %s, %s, %s", op.amd64, c.R(y), c.R(x), c.R(d))
}

// Raise sets d to at least x, and Lower to at most x: a NaN in d stays, and one in x changes
// nothing. On arm64 free is lost, since FMAX and FMIN give a NaN of either.
func (c Code) Raise(d, x, free int) { c.limit("VMAXPS", d, x, x, d, free) }

// Lower is described at [Code.Raise].
func (c Code) Lower(d, x, free int) { c.limit("VMINPS", d, x, d, x, free) }

// limit sets d to x where greater is greater than less.
func (c Code) limit(amd64 string, d, x, greater, less, free int) {
	if !c.ARM64() {
		c.Op("%s %s, %s, %[2]s", amd64, c.R(d), c.R(x))
		return
	}
	c.Vec("FCMGT", free, greater, less)
	c.Vec("BIT", d, x, free)
}

// AddField adds to a register 64 bits of the struct that another points to; free is lost.
func (c Code) AddField(field string, of, to, free Reg) {
	if c.ARM64() {
		c.Field(field, of, free)
		c.AddTimes(to, free, 1)
		return
	}
	c.Op("ADDQ %s(%s), %s", field, of.AMD64, to.AMD64)
}

// Retreat subtracts a number from a register.
func (c Code) Retreat(r Reg, by int) { c.pick("SUBQ $%d, %s", "SUB $%d, %s", by, r) }

// Set sets a register to a number.
func (c Code) Set(r Reg, to int) { c.pick("MOVQ $%d, %s", "MOVD $%d, %s", to, r) }

// Jump goes to the label.
func (c Code) Jump(to string) { c.pick("JMP %s", "B %s", to) }

// IfLess goes to the label where a register is less than a number, with signs.
func (c Code) IfLess(r Reg, than int, to string) {
	if c.ARM64() {
		c.Op("CMP $%d, %s", than, r.ARM64)
		c.Op("BLT %s", to)
		return
	}
	c.Op("CMPQ %s, $%d", r.AMD64, than)
	c.Op("JLT %s", to)
}

// UnlessLess goes to the label where it is not.
func (c Code) UnlessLess(r Reg, than int, to string) {
	if c.ARM64() {
		c.Op("CMP $%d, %s", than, r.ARM64)
		c.Op("BGE %s", to)
		return
	}
	c.Op("CMPQ %s, $%d", r.AMD64, than)
	c.Op("JGE %s", to)
}

// Move sets a vector to another.
func (c Code) Move(d, x int) {
	if c.ARM64() {
		c.Op("VORR V%d.B16, V%[1]d.B16, V%d.B16", x, d)
		return
	}
	c.Op("VMOVAPS %s, %s", c.R(x), c.R(d))
}
