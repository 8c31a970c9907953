package main

import "github.com/weirgpu/weir/internal/asm"

// dotTile is a tile for arm64 of words of bytes: each lane of its registers is a result, to which
// an instruction adds the products of the four bytes of a word of B with those of a word of A, in a
// lane. There are such for bytes of one sign alone. So 128 is taken from each byte of B, or added,
// as both turn its highest bit over; and 128 times the bytes of A, which UDOT or SDOT of A with
// bytes of 0x80 adds up beside the tile, is what results then lack.
type dotTile struct{ neonTile }

// The registers of a dotTile beside its results and A: two of B, bytes of 0x80, and the sums of the
// words of A in as many registers as A has.
const (
	dotB    = 26
	dotHigh = 28
	dotSums = 30
)

// dotTiles writes the tiles of a form of numbers and the function that picks one.
func dotTiles(s *asm.File, form string) {
	for _, t := range neonKernels(s, form) {
		dotTile{t}.emit()
	}
}

func (t dotTile) emit() {
	t.enter()
	t.Op("VMOVI $128, V%d.B16", dotHigh)
	for n := dotSums; n < dotSums+2; n++ {
		t.Op("VEOR V%d.B16, V%d.B16, V%d.B16", n, n, n)
	}
	t.loop(t.step)
	t.reduce("ADD")
	t.correct()
	t.finishBytes()
	t.Op("RET")
}

// dot is the instruction that multiplies bytes of the sign of A.
func (t dotTile) dot() string {
	if t.form == "DotU8S8" {
		return "UDOT"
	}
	return "SDOT"
}

// step is one k: a row of B and the words of A.
func (t dotTile) step(u int) {
	lane := t.loadA()
	for j := 0; j < t.nv; j += 2 {
		t.Op("FLDPQ %d(R3), (F%d, F%d)", 16*j, dotB, dotB+1)
		for b := dotB; b < dotB+2; b++ {
			t.Vec("EOR", b, b, dotHigh)
		}
		for i := range t.rows {
			for b := range 2 {
				t.VecLane(t.dot(), t.acc(i, j+b, u), dotB+b, lane[i][0], lane[i][1])
			}
		}
	}
	for a := neonA; a <= lane[t.rows-1][0]; a++ {
		t.Vec(t.dot(), dotSums+a-neonA, a, dotHigh)
	}
	t.Ops("ADD R6, R3", "ADD R5, R2")
}

// correct takes what the turned bits of B have added.
func (t dotTile) correct() {
	for i, at := range t.lanes() {
		t.Op("VDUP V%d.S[%d], V%d.S4", dotSums+at[0]-neonA, at[1], neonA)
		for j := range t.nv {
			t.Vec("SUB", t.acc(i, j, 0), t.acc(i, j, 0), neonA)
		}
	}
}
