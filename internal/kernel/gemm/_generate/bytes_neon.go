package main

import "github.com/weirgpu/weir/internal/asm"

// bytesTile is a tile for arm64 without dot products of words of bytes, of 8 columns: two registers
// for each four results. One multiplies eight bytes with the two words of A that it has twice, into
// 16 bits, and adds neighbours to 32: a result is then the sum of two lanes. There are such
// instructions for bytes of one sign alone, so that the highest bits of B are turned over as in
// [dotTile].
type bytesTile struct{ neonTile }

// The registers of a bytesTile beside its results, A and B: a word of A, products, and the sums of
// the words of A in as many registers as A has.
const (
	bytesWord    = 28
	bytesProduct = 29
	bytesSums    = 30
)

// bytesTiles writes the tiles of a form of numbers and the function that picks one.
func bytesTiles(s *asm.File, form string) {
	s.Declare("\n// kernel%s runs the kernel of t's rows, of 8 columns.\n"+
		"func kernel%s(t *tile) {\n\tswitch t.rows {\n", form, form)
	var all []bytesTile
	for r := 1; r <= neonRows; r++ {
		all = append(all, bytesTile{neonTile{s, form, r, 2, 1, nil}})
		s.Declare("\tcase %d:\n\t\t%s(t)\n", r, all[r-1].symbol())
	}
	s.Declare("\t}\n}\n")
	for _, t := range all {
		t.emit()
	}
}

// sum is the register of the sums of half a register of results.
func (t bytesTile) sum(i, j, half int) int { return (i*t.nv+j)*2 + half }

func (t bytesTile) emit() {
	t.address()
	for n := range 2 * t.rows * t.nv {
		t.Vec("EOR", n, n, n)
	}
	for n := bytesSums; n < bytesSums+2; n++ {
		t.Vec("EOR", n, n, n)
	}
	t.Ops("CBZ R1, done", "PCALIGN $32")
	t.Label("loop")
	t.step()
	t.Ops("SUB $1, R1", "CBNZ R1, loop")
	t.Label("done")
	t.regs = make([]int, t.rows*t.nv)
	for n := range t.regs {
		t.regs[n] = 2 * n
		t.Vec("ADDP", 2*n, 2*n, 2*n+1)
	}
	t.correct()
	t.finishBytes()
	t.Op("RET")
}

// sign begins the names of instructions on bytes of the sign of A.
func (t bytesTile) sign() string {
	if t.form == "BytesU8S8" {
		return "U"
	}
	return "S"
}

// step is one k: a row of B and the words of A.
func (t bytesTile) step() {
	lane := t.loadA()
	t.Op("FLDPQ (R3), (F%d, F%d)", neonB, neonB+1)
	t.Op("VMOVI $128, V%d.B16", bytesWord)
	for j := range t.nv {
		t.Vec("EOR", neonB+j, neonB+j, bytesWord)
	}
	for i := range t.rows {
		t.Op("VDUP V%d.S[%d], V%d.S4", lane[i][0], lane[i][1], bytesWord)
		for j := range t.nv {
			for half, name := range []string{"MULL", "MULL2"} {
				t.Vec(t.sign()+name, bytesProduct, neonB+j, bytesWord)
				t.Vec(t.sign()+"ADALP", t.sum(i, j, half), bytesProduct)
			}
		}
	}
	for a := neonA; a <= lane[t.rows-1][0]; a++ {
		t.Vec(t.sign()+"ADDLP", bytesProduct, a)
		t.Vec(t.sign()+"ADALP", bytesSums+a-neonA, bytesProduct)
	}
	t.Ops("ADD R6, R3", "ADD R5, R2")
}

// correct takes what the turned bits of B have added: 128 times the sums of A, which is unsigned;
// of a signed A they have taken as much.
func (t bytesTile) correct() {
	op := map[string]string{"U": "SUB", "S": "ADD"}[t.sign()]
	for reg := bytesSums; reg < bytesSums+2; reg++ {
		t.Vec("SHL", reg, reg, 7)
	}
	for i, at := range t.lanes() {
		t.Op("VDUP V%d.S[%d], V%d.S4", bytesSums+at[0]-neonA, at[1], neonA)
		for j := range t.nv {
			t.Vec(op, t.acc(i, j, 0), t.acc(i, j, 0), neonA)
		}
	}
}
