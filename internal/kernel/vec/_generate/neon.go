package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// Bodies are written in the instructions of AVX2. For arm64 each of them becomes what computes the
// same bits there: one instruction, or some.

// neonSpares is how many registers instructions may use for themselves. They and the registers of
// values change places, so that a sum that keeps none of its operands needs no copy.
const neonSpares = 3

// isNEON says that the routine is for arm64.
func (a *unrolled) isNEON() bool { return a.Name == asm.VectorNEON.Name }

// number is the number of a vector register.
func number(reg string) int {
	n, err := strconv.Atoi(strings.TrimLeft(reg, "VYZ"))
	if err != nil {
		panic("no vector register: " + reg)
	}
	return n
}

// inMemory says that an operand is a constant of the table.
func inMemory(operand string) bool { return strings.Contains(operand, "(SB)") }

// vec writes an instruction on registers.
func (a *unrolled) vec(name string, regs ...string) {
	n := make([]int, len(regs))
	for i, r := range regs {
		n[i] = number(r)
	}
	a.Vec(name, n...)
	if err := a.Err(); err != nil {
		panic(err)
	}
}

// shift writes an instruction that shifts n by so many bits.
func (a *unrolled) shift(name, d, n string, by int) {
	a.Vec(name, number(d), number(n), by)
	if err := a.Err(); err != nil {
		panic(err)
	}
}

// address is where the table holds a constant, from the register that points into it.
func (a *unrolled) address(constant string) string {
	at, err := strconv.Atoi(constant[strings.Index(constant, "+")+1 : strings.Index(constant, "(")])
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%d(%s)", at-neonTableMiddle, neonTable)
}

// The register that points into the table of constants, and how far: pairs of registers are loaded
// from 1024 bytes before to 1008 behind.
const (
	neonTable       = "R10"
	neonTableMiddle = 1024
)

// spare is a register that holds nothing: the first or the second. The last is for constants.
func (a *unrolled) spare(n int) string { return a.spares[n] }

// neonNames are instructions that have one of arm64 with the same operands.
var neonNames = map[string]string{
	"VADDPS": "FADD", "VSUBPS": "FSUB", "VMULPS": "FMUL", "VDIVPS": "FDIV",
	"VPADDD": "ADD", "VPSUBD": "SUB", "VPMULLD": "MUL",
	"VANDPS": "AND", "VORPS": "ORR", "VXORPS": "EOR",
	"VPAND": "AND", "VPOR": "ORR", "VPXOR": "EOR",
	"VSQRTPS": "FSQRT", "VCVTPS2DQ": "FCVTNS", "VCVTTPS2DQ": "FCVTZS", "VCVTDQ2PS": "SCVTF",
	"VPSLLD": "SHL", "VPSRAD": "SSHR", "VPSRLD": "USHR",
	"VFMADD231PS": "FMLA", "VFNMADD231PS": "FMLS",
	maximumOrNaN: "FMAX", minimumOrNaN: "FMIN",
}

// neonRounding are the instructions of the modes of VROUNDPS.
var neonRounding = map[int]string{0: "FRINTN", 8: "FRINTN", 9: "FRINTM", 10: "FRINTP"}

// neon writes an instruction for every copy.
func (a *unrolled) neon(mnemonic string, operands []any) {
	switch mnemonic {
	case "VFMADD213PS", "VFMSUB213PS":
		a.neonSum(mnemonic, operands)
		return
	case "VMOVUPS", "VMOVAPS":
		if c, ok := operands[0].(fixed); ok && a.constantOf(string(c)) != "" {
			a.neonConstants(a.constantOf(string(c)), func(i int) string {
				return a.name(operands[1], i)
			})
			return
		}
	}
	operands = a.inRegisters(operands)
	for c := range a.copies {
		a.neonCopy(mnemonic, operands, c)
	}
}

// inRegisters loads the constant that an instruction reads, if it is in memory.
func (a *unrolled) inRegisters(operands []any) []any {
	operands = slices.Clone(operands)
	for i, o := range operands {
		c, ok := o.(fixed)
		if !ok || !inMemory(string(c)) {
			continue
		}
		a.loaded[string(c)] = true
		last := a.spares[neonSpares-1]
		a.Line("\tFMOVQ %s, F%d", a.address(string(c)), number(last))
		operands[i] = fixed(last)
	}
	return operands
}

// neonCopy writes an instruction for a copy, whose operands are registers.
func (a *unrolled) neonCopy(mnemonic string, operands []any, copy int) {
	var regs []string
	for _, o := range operands {
		if _, ok := o.(int); !ok {
			regs = append(regs, a.name(o, copy))
		}
	}
	slices.Reverse(regs)
	switch mnemonic {
	case "VMOVUPS", "VMOVAPS":
		a.vec("MOV", regs...)
	case "VROUNDPS":
		a.vec(neonRounding[operands[0].(int)], regs...)
	case "VPSLLD", "VPSRAD", "VPSRLD":
		a.shift(neonNames[mnemonic], regs[0], regs[1], operands[0].(int))
	case "VMAXPS", "VMINPS":
		_, bound := operands[1].(fixed)
		a.neonExtreme(mnemonic, regs, bound && operands[1] != operands[0])
	case "VCMPPS":
		a.neonCompare(operands[0].(int), regs[0], regs[1], regs[2])
	case "VBLENDVPS":
		a.neonChoose(regs[3], regs[2], regs[1], regs[0])
	default:
		name, ok := neonNames[mnemonic]
		if !ok {
			panic("no instruction of arm64 for " + mnemonic)
		}
		a.vec(name, regs...)
	}
}

// neonExtreme sets d to the greater or the less of n and m, and to m where they are alike or one of
// them is NaN. Where n is a constant, which is no NaN, one instruction does the same, but for the
// sign of a zero.
func (a *unrolled) neonExtreme(mnemonic string, regs []string, bound bool) {
	d, n, m := regs[0], regs[1], regs[2]
	if bound {
		a.vec(map[string]string{"VMAXPS": "FMAX", "VMINPS": "FMIN"}[mnemonic], d, n, m)
		return
	}
	is := a.spare(0)
	if mnemonic == "VMAXPS" {
		a.vec("FCMGT", is, n, m)
	} else {
		a.vec("FCMGT", is, m, n)
	}
	a.neonChoose(is, n, m, d)
}

// neonChoose sets d to yes where the bits of m are set, and to no elsewhere.
func (a *unrolled) neonChoose(m, yes, no, d string) {
	switch d {
	case yes:
		a.vec("BIF", d, no, m)
	case m:
		a.vec("BSL", d, yes, no)
	default:
		if d != no {
			a.vec("MOV", d, no)
		}
		a.vec("BIT", d, yes, m)
	}
}

// neonCompare sets the bits of m where x predicate y.
func (a *unrolled) neonCompare(predicate int, m, x, y string) {
	switch predicate {
	case equal:
		a.vec("FCMEQ", m, x, y)
	case less:
		a.vec("FCMGT", m, y, x)
	case atMost:
		a.vec("FCMGE", m, y, x)
	case greater:
		a.vec("FCMGT", m, x, y)
	case notLess:
		a.vec("FCMGE", m, x, y)
	case ordered, unordered:
		if x != y {
			panic("whether one of two is NaN")
		}
		a.vec("FCMEQ", m, x, x)
		if predicate == unordered {
			a.vec("NOT", m, m)
		}
	default:
		panic("predicate")
	}
}

// neonSum writes VFMADD213PS and VFMSUB213PS: operand 2 becomes operand 1 times operand 2, plus or
// minus operand 0. FMLA adds to what it finds, so that operand 0 goes to a spare register, which is
// operand 2 from then on.
func (a *unrolled) neonSum(mnemonic string, operands []any) {
	v, ok := operands[2].(value)
	if !ok {
		panic("a sum in a register that does not change places")
	}
	minus := mnemonic == "VFMSUB213PS"
	addend := ""
	if c, ok := operands[0].(fixed); ok {
		addend = a.constantOf(string(c))
	}
	operands = append([]any{operands[0]}, a.inRegisters(operands[1:])...)
	step := 1
	if addend != "" && a.copies%2 == 0 {
		step = 2
	}
	for c := 0; c < a.copies; c += step {
		switch {
		case step == 2:
			a.Line("\tFLDPQ %s, (F%d, F%d)", a.address(a.signed(addend, minus)),
				number(a.spare(0)), number(a.spare(1)))
		case addend != "":
			a.Line("\tFMOVQ %s, F%d", a.address(a.signed(addend, minus)), number(a.spare(0)))
		case minus:
			a.vec("FNEG", a.spare(0), a.name(operands[0], c))
		default:
			a.vec("MOV", a.spare(0), a.name(operands[0], c))
		}
		for i := range step {
			old := a.name(v, c+i)
			a.vec("FMLA", a.spare(i), a.name(operands[1], c+i), old)
			a.moved[int(v)*a.copies+c+i], a.spares[i] = a.spare(i), old
		}
	}
}

// constantOf is the place in the table of a constant, which may be in a register, too; "" where the
// operand is none.
func (a *unrolled) constantOf(operand string) string {
	if inMemory(operand) {
		return operand
	}
	for b, r := range a.hoisted {
		if string(r) == operand {
			return string(a.table.operand(b))
		}
	}
	return ""
}

// signed is the place in the table of a constant, or of what is as far on the other side of zero.
func (a *unrolled) signed(constant string, minus bool) string {
	if !minus {
		return constant
	}
	return string(a.table.operand(a.table.at(constant) ^ signBit))
}

// neonConstants loads a constant for every copy.
func (a *unrolled) neonConstants(constant string, to func(i int) string) {
	at := a.address(constant)
	for c := 0; c < a.copies; c += 2 {
		if c+1 < a.copies {
			a.Line("\tFLDPQ %s, (F%d, F%d)", at, number(to(c)), number(to(c+1)))
		} else {
			a.Line("\tFMOVQ %s, F%d", at, number(to(c)))
		}
	}
}

// neonHoist loads constants into the registers that the body leaves free, those pinned first, then
// those that are not only added.
func (a *unrolled) neonHoist(copies int) {
	order := make([]uint32, len(a.pinned))
	for b, i := range a.pinned {
		order[i] = b
	}
	for _, b := range a.wanted {
		if _, ok := a.pinned[b]; !ok && a.loaded[string(a.table.operand(b))] {
			order = append(order, b)
		}
	}
	free := a.free(copies)
	if free < 0 {
		panic(fmt.Sprintf("%d values, %d copies: too many registers", a.values, copies))
	}
	for _, b := range order[:min(free, len(order))] {
		r := a.fix()
		a.Line("\tFMOVQ %s, F%d", a.address(string(a.table.operand(b))), number(string(r)))
		a.hoisted[b] = r
	}
}

// free is the number of registers that are neither values nor spare nor taken.
func (a *unrolled) free(copies int) int {
	return a.pool() - a.taken - a.values*copies - neonSpares
}

// arrange begins an iteration, in which no register has changed its place yet.
func (a *unrolled) arrange(values, copies int) {
	if !a.isNEON() {
		return
	}
	a.moved, a.spares = map[int]string{}, nil
	for i := range neonSpares {
		a.spares = append(a.spares, a.R(values*copies+i))
	}
}

// neonCopies is how often a body is unrolled: as often as its registers allow. Chains that do not
// wait for each other are worth more than constants in registers, each of which takes one load for
// all copies.
func neonCopies(probe func(copies int) *unrolled) int {
	for _, copies := range []int{4, 2} {
		if probe(copies).free(copies) >= 0 {
			return copies
		}
	}
	return 1
}
