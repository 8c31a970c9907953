package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// direct multiplies what a lane of B holds, a float or a word, with what a word of A holds, by one
// instruction: the fused multiply-add, or a dot product. On arm64 it takes the word of A from its
// lane, and on amd64 from every lane of a register.
//
// Dot products of arm64 are of bytes of one sign. So 128 is taken from each byte of B, or added, as
// both turn its highest bit over; and 128 times the bytes of A, which UDOT or SDOT of A with bytes
// of 0x80 adds up beside the tile, is what results then lack.
type direct struct{ plain }

// products are the instructions that add products to results. Of VPDPBUSD, and of USMMLA, one
// operand is the unsigned one.
var products = map[numbers]struct{ amd64, arm64 string }{
	floats: {"VFMADD231PS", "FMLA"},
	bf16:   {"VDPBF16PS", ""},
	u8s8:   {"VPDPBUSD", "UDOT"},
	s8u8:   {"VPDPBUSD", "SDOT"},
}

// Registers of the dot products of arm64 above the accumulators: bytes of 0x80, and the sums of the
// words of A in as many registers as A has.
const (
	dotHigh = 4
	dotSums = 6
)

// turned says that the highest bits of B are turned over.
func (direct) turned(t *tile) bool { return t.ARM64() && t.of.bytes() }

func (direct) strided(t *tile) bool { return t.of != bf16 && !t.dense }

func (direct) unroll(t *tile) int {
	if t.ARM64() && !t.dense {
		return max(t.split, 2)
	}
	return 4
}

// walksFrom is the least registers of results that walk along B: the address of the next step is to
// some processors as late as what is read, five cycles, in which they would multiply more.
const walksFrom = 16

// walks is for all that is read of a step of B at once.
func (w direct) walks(t *tile) bool {
	return t.ARM64() && !w.turned(t) && t.rows*t.nv >= walksFrom && t.nv == t.way.most()
}

// parts leaves registers for the sums.
func (w direct) parts(t *tile) int {
	if w.turned(t) {
		return t.nv / 2
	}
	return 1
}

func (w direct) begin(t *tile) {
	if w.turned(t) {
		t.Op("VMOVI $128, V%d.B16", t.tmp(dotHigh))
		t.Zero(t.tmp(dotSums))
		t.Zero(t.tmp(dotSums + 1))
	}
}

func (direct) read(t *tile, u int) {
	switch {
	case t.dense && t.round:
		t.loadRound(u)
	case t.ARM64():
		t.loadA()
	}
}

func (w direct) load(t *tile, u, p int) part {
	n, first := t.nv/w.parts(t), t.tmp(0)
	switch {
	case w.turned(t):
		first = t.tmp(2)
	case t.ARM64():
		first = t.tmp(roundOfA)
	}
	switch {
	case w.walks(t):
		t.LoadOn(fromB, strideB, consecutive(first, n)...)
	case t.ARM64():
		t.Load(p*n*t.Size(), fromB, consecutive(first, n)...)
	}
	for j := 0; j < n && !t.ARM64(); j++ {
		t.Op("VMOVUPS %d%s, %s", j*t.Size(), stepOfB(u), t.R(first+j))
	}
	for j := 0; j < n && w.turned(t); j++ {
		t.Vec("EOR", first+j, first+j, t.tmp(dotHigh))
	}
	return part{consecutive(first, n), consecutive(p*n, n), u}
}

// element is that in a lane on arm64; on amd64 it is read into every lane, or where it is
// multiplied once, the multiplication does so.
func (direct) element(t *tile, u, i, _ int) element {
	switch {
	case t.dense && t.round:
		return t.laneOfRound(u, i)
	case t.ARM64():
		return t.lanes()[i]
	}
	if t.nv == 1 && t.Wide() && t.way.strided(t) && !t.of.bytes() {
		return element{memory: t.stepOfA(u, i)}
	}
	a := t.tmp(t.nv + i%2)
	t.Op("VBROADCASTSS %s, %s", t.stepOfA(u, i), t.R(a))
	return element{reg: a}
}

func (direct) multiply(t *tile, acc int, a element, b int) {
	name := products[t.of]
	switch {
	case t.ARM64():
		t.VecLane(name.arm64, acc, b, a.reg, a.lane)
	case a.memory != "":
		t.Op("%s.BCST %s, %s, %s", name.amd64, a.memory, t.R(b), t.R(acc))
	case t.of == bf16:
		t.EVEX(asm.EVEX{Prefix: asm.PrefixF3, Opcode: 0x52, Dst: acc, Src1: b, Src2: a.reg},
			fmt.Sprintf("%s %s, %s, %s", name.amd64, t.R(a.reg), t.R(b), t.R(acc)))
	case t.of == s8u8:
		t.Op("%s %s, %s, %s", name.amd64, t.R(a.reg), t.R(b), t.R(acc))
	default:
		t.Op("%s %s, %s, %s", name.amd64, t.R(b), t.R(a.reg), t.R(acc))
	}
}

func (w direct) end(t *tile) {
	if !w.turned(t) {
		return
	}
	for n, a := range t.registersOfA() {
		t.Vec(products[t.of].arm64, t.tmp(dotSums+n), a, t.tmp(dotHigh))
	}
}

// settle takes what the turned bits of B have added.
func (w direct) settle(t *tile) {
	if w.turned(t) {
		t.correct(t.tmp(dotSums), asm.SubInt32)
	}
}

// correct adds the sums of A, which begin in a register, to the results of each row, or takes them
// off.
func (t *tile) correct(sums int, op asm.Operation) {
	for i, at := range t.lanes() {
		t.Op("VDUP V%d.S[%d], V%d.S4", sums+at.reg-t.tmp(0), at.lane, t.tmp(0))
		for j := range t.nv {
			t.Do(op, t.result(i, j), t.result(i, j), t.tmp(0))
		}
	}
}
