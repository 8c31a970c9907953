package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// matrixTile is a tile for arm64 of products of matrices: each of 24 registers holds 2x2 results,
// to which an instruction adds the products of 8 bytes, or 4 bfloat16, of two rows of A with those
// of two columns of B.
type matrixTile struct {
	neonTile
}

// matrixTiles writes the tiles of a form of numbers and the function that picks one.
func matrixTiles(s *asm.File, form string) {
	s.Declare("\n// matrix%s runs the kernel of t's rows, of 16 columns where it is wide and else "+
		"of 8.\nfunc matrix%s(t *tile, wide bool) {\n\tkey := 2 * t.rows\n"+
		"\tif wide {\n\t\tkey++\n\t}\n\tswitch key {\n", form, form)
	var all []matrixTile
	for r := 1; r <= neonRows; r++ {
		for nv := 2; nv <= 4; nv += 2 {
			all = append(all, matrixTile{neonTile{s, form, r, nv, 1, nil}})
		}
	}
	for _, t := range all {
		s.Declare("\tcase %d:\n\t\t%s(t)\n", t.key(), t.symbol())
	}
	s.Declare("\t}\n}\n")
	for _, t := range all {
		t.emit()
	}
}

func (t matrixTile) symbol() string {
	return fmt.Sprintf("matrix%s_%dx%d", t.form, t.rows, 4*t.nv)
}

// pairs is the number of pairs of rows, of which the last may have one row.
func (t matrixTile) pairs() int { return (t.rows + 1) / 2 }

// block is the register of results of a pair of rows and a pair of columns.
func (t matrixTile) block(i, j int) int { return i*2*t.nv + j }

func (t matrixTile) emit() {
	t.Func(t.symbol(), "t *tile", 8, "")
	t.Ops("MOVD t+0(FP), R0", "MOVD tile_k(R0), R1", "MOVD tile_a(R0), R2",
		"MOVD tile_b(R0), R3", "MOVD tile_c(R0), R4", "MOVD tile_ldb(R0), R6", "LSL $3, R6",
		"MOVD tile_ldc(R0), R7", "LSL $2, R7")
	for n := range t.pairs() * 2 * t.nv {
		t.Op("VEOR V%d.B16, V%d.B16, V%d.B16", n, n, n)
	}
	t.Ops("LSR $1, R1", "CBZ R1, done", "PCALIGN $32")
	t.Label("loop")
	t.step()
	t.Ops("SUB $1, R1", "CBNZ R1, loop")
	t.Label("done")
	t.turn()
	if t.form == "BF16" {
		t.finish()
	} else {
		t.finishBytes()
	}
	t.Op("RET")
}

// step multiplies two words of each row of A with those of each column of B.
func (t matrixTile) step() {
	switch t.rows {
	case 1:
		t.Op("FMOVD (R2), F%d", neonA)
	case 2:
		t.Op("FMOVQ (R2), F%d", neonA)
	case 3:
		t.Op("FMOVQ (R2), F%d", neonA)
		t.Op("FMOVD 16(R2), F%d", neonA+1)
	default:
		t.Op("FLDPQ (R2), (F%d, F%d)", neonA, neonA+1)
	}
	switch t.rows {
	case 5:
		t.Op("FMOVD 32(R2), F%d", neonA+2)
	case 6:
		t.Op("FMOVQ 32(R2), F%d", neonA+2)
	}
	t.Op("ADD $%d, R2", 8*t.rows)
	for q := range t.nv {
		b := neonA + 3 + q%2*2
		t.Op("FLDPQ %d(R3), (F%d, F%d)", 32*q, b, b+1)
		for i := range t.pairs() {
			for j := range 2 {
				t.multiply(t.block(i, 2*q+j), neonA+i, b+j)
			}
		}
	}
	t.Op("ADD R6, R3")
}

// multiply adds the product of two rows of A with two columns of B. The first operand of USMMLA is
// the unsigned one.
func (t matrixTile) multiply(d, a, b int) {
	switch t.form {
	case "BF16":
		t.Vec("BFMMLA", d, a, b)
	case "U8S8":
		t.Vec("USMMLA", d, a, b)
	default:
		t.Vec("USMMLA", d, b, a)
	}
}

// turn makes rows of four columns of each two blocks beside each other. A block of S8U8 holds its
// results column by column.
func (t *matrixTile) turn() {
	first, second := "VZIP1 V%d.D2, V%d.D2, V%d.D2", "VZIP2 V%d.D2, V%d.D2, V%d.D2"
	if t.form == "S8U8" {
		first, second = "VUZP1 V%d.S4, V%d.S4, V%d.S4", "VUZP2 V%d.S4, V%d.S4, V%d.S4"
	}
	free := 30
	t.regs = make([]int, 2*t.pairs()*t.nv)
	for i := range t.pairs() {
		for j := range t.nv {
			left, right := t.block(i, 2*j), t.block(i, 2*j+1)
			t.Op(first, right, left, free)
			if 2*i+1 < t.rows {
				t.Op(second, right, left, right)
			}
			t.regs[2*i*t.nv+j], t.regs[(2*i+1)*t.nv+j], free = free, right, left
		}
	}
}

// quads writes the packing of two words along K beside each other.
func quads(s *asm.File) {
	s.Func("quadsNEON", "dst, src *float32, ld, cols, n int", 40, "does what quadsGo does of "+
		"n >= 1 times two words of each of cols columns, a multiple of 4.")
	quadRows(s, 2)
	s.Func("quadsBF16NEON", "dst, src *float32, ld, cols, n int", 40, "does what quadsGo does of "+
		"n >= 1 times four floats of each of cols columns, a multiple of 4.")
	quadRows(s, 4)
	for _, name := range []string{"alongNEON", "alongBF16NEON"} {
		s.Func(name, "dst *float32, stride int, src *float32, n int", 32,
			"does what quadsAlongGo does of n >= 1 times two words.")
		s.Ops("MOVD dst+0(FP), R0", "MOVD stride+8(FP), R1", "LSL $3, R1", "MOVD src+16(FP), R2",
			"MOVD n+24(FP), R3")
		s.Label("loop")
		if name == "alongNEON" {
			s.Ops("MOVD.P 8(R2), R4", "MOVD R4, (R0)")
		} else {
			s.Op("FMOVQ.P 16(R2), F0")
			s.Vec("BFCVTN", 0, 0)
			s.Op("FMOVD F0, (R0)")
		}
		s.Ops("ADD R1, R0", "SUB $1, R3", "CBNZ R3, loop", "RET")
	}
}

// quadRows writes the loops over steps of so many rows, and over columns, four at a time.
func quadRows(s *asm.File, rows int) {
	s.Ops("MOVD dst+0(FP), R0", "MOVD src+8(FP), R1", "MOVD ld+16(FP), R2", "LSL $2, R2",
		"MOVD cols+24(FP), R3", "MOVD n+32(FP), R4")
	s.Label("step")
	s.Op("MOVD R1, R5")
	for i := 1; i < rows; i++ {
		s.Op("ADD R2, R%d, R%d", 4+i, 5+i)
	}
	s.Op("ADD R2, R%d, R1", 4+rows)
	s.Op("MOVD R3, R9")
	s.Label("columns")
	for i := range rows {
		s.Op("FMOVQ.P 16(R%d), F%d", 5+i, i)
	}
	if rows == 4 {
		for i := range rows {
			s.Vec("BFCVTN", i, i)
		}
		s.Ops("VZIP1 V1.H8, V0.H8, V0.H8", "VZIP1 V3.H8, V2.H8, V1.H8")
	}
	s.Ops("VZIP1 V1.S4, V0.S4, V4.S4", "VZIP2 V1.S4, V0.S4, V5.S4", "FSTPQ.P (F4, F5), 32(R0)",
		"SUB $4, R9", "CBNZ R9, columns", "SUB $1, R4", "CBNZ R4, step", "RET")
}
