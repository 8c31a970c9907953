package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// widened multiplies words of bytes without dot products, in two halves.
//
// On amd64 the two halves of a lane of B are widened in registers, each to two numbers of 16 bits,
// and multiplied one after the other. A has a word for each of them, widened as it was packed.
//
// On arm64 a register of B is multiplied eight bytes at a time with the two words of A that a
// register has twice, into 16 bits, and neighbours are added to 32: a result is then the sum of two
// lanes, so that there are two registers for each four results. There are such instructions for
// bytes of one sign alone, so that the highest bits of B are turned over as by [direct].
type widened struct{ plain }

// Registers on arm64 above the accumulators: B, a word of A, products, and the sums of the words of
// A in as many registers as A has.
const (
	widenedB       = 2
	widenedWord    = 4
	widenedProduct = 5
	widenedSums    = 6
)

func (widened) grid(t *tile) (rows, columns int) {
	if t.ARM64() {
		return t.rows, 2 * t.nv
	}
	return t.rows, t.nv
}

func (widened) most() int { return 2 }

func (widened) strided(t *tile) bool { return t.ARM64() }

func (w widened) words(t *tile) int { return w.parts(t) }

func (w widened) unroll(t *tile) int { return w.parts(t) }

// parts of amd64 are the even and the odd numbers of B.
func (widened) parts(t *tile) int {
	if t.ARM64() {
		return 1
	}
	return 2
}

// begin sets, on amd64, the register above the others to the upper halves of all lanes.
func (widened) begin(t *tile) {
	if t.ARM64() {
		t.Zero(t.tmp(widenedSums))
		t.Zero(t.tmp(widenedSums + 1))
	}
}

func (widened) read(t *tile, _ int) {
	if t.ARM64() {
		t.loadA()
	}
}

// load reads B: on amd64 for each half, so that no register has to hold the other.
func (widened) load(t *tile, u, half int) part {
	if t.ARM64() {
		var regs []int
		b := t.tmp(widenedB)
		t.Load(0, fromB, b, b+1)
		t.Op("VMOVI $128, V%d.B16", t.tmp(widenedWord))
		for j := range t.nv {
			t.Vec("EOR", b+j, b+j, t.tmp(widenedWord))
			regs = append(regs, b+j, b+j)
		}
		return part{regs, consecutive(0, 2*t.nv), u}
	}
	for j := range t.nv {
		t.halfOf(fmt.Sprintf("%d%s", j*t.Size(), stepOfB(u)), half, t.R(t.tmp(j)))
	}
	return part{consecutive(t.tmp(0), t.nv), consecutive(0, t.nv), 2*u + half}
}

// element reads the half of a word of A, beside which the other half lies.
func (widened) element(t *tile, u, i, half int) element {
	if t.ARM64() {
		at := t.lanes()[i]
		t.Op("VDUP V%d.S[%d], V%d.S4", at.reg, at.lane, t.tmp(widenedWord))
		return element{reg: t.tmp(widenedWord)}
	}
	t.Op("VBROADCASTSS %d(SI), %s", 4*(2*(u*t.rows+i)+half), t.R(t.tmp(2)))
	return element{reg: t.tmp(2)}
}

// halfOf loads the even or the odd numbers of a register of B, widened.
func (t *tile) halfOf(addr string, half int, b string) {
	t.Op("VMOVUPS %s, %s", addr, b)
	shift := map[bool]string{false: "VPSRAW", true: "VPSRLW"}[t.of == s8u8]
	if half == 0 {
		t.Op("VPSLLW $8, %s, %s", b, b)
	}
	t.Op("%s $8, %s, %s", shift, b, b)
}

// multiply adds the products of a half of B with a word of A. Two products of 9 by 8 bits always
// fit the lanes of 32 bits that VPMADDWD adds them up in, and four of 8 by 8 those of 16 bits that
// UADALP and SADALP add up.
func (widened) multiply(t *tile, acc int, a element, b int) {
	switch {
	case t.ARM64():
		long := []string{"MULL", "MULL2"}[acc%2]
		t.Vec(t.sign()+long, t.tmp(widenedProduct), b, a.reg)
		t.Vec(t.sign()+"ADALP", acc, t.tmp(widenedProduct))
	default:
		t.Op("VPMADDWD %s, %s, %s", t.R(b), t.R(a.reg), t.R(t.tmp(3)))
		t.Do(asm.AddInt32, acc, acc, t.tmp(3))
	}
}

// sign begins the names of instructions of arm64 on bytes of the sign of A.
func (t *tile) sign() string {
	if t.of == u8s8 {
		return "U"
	}
	return "S"
}

func (widened) end(t *tile) {
	if !t.ARM64() {
		return
	}
	for n, a := range t.registersOfA() {
		t.Vec(t.sign()+"ADDLP", t.tmp(widenedProduct), a)
		t.Vec(t.sign()+"ADALP", t.tmp(widenedSums+n), t.tmp(widenedProduct))
	}
}

// settle adds the two registers of each four results, and takes what the turned bits of B have
// added: 128 times the sums of A, which is unsigned; of a signed A they have taken as much.
func (widened) settle(t *tile) {
	if !t.ARM64() {
		return
	}
	regs := make([]int, t.rows*t.nv)
	for n := range regs {
		regs[n] = 2 * n
		t.Vec("ADDP", 2*n, 2*n, 2*n+1)
	}
	t.regs = regs
	sums := t.tmp(widenedSums)
	for n := range 2 {
		t.Vec("SHL", sums+n, sums+n, 7)
	}
	t.correct(sums, map[numbers]asm.Operation{u8s8: asm.SubInt32, s8u8: asm.AddInt32}[t.of])
}
