package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// The sums of a tile of dots, and the words of the tables of its operands.
const (
	dotRows = 4
	dotCols = 6
)

// dots writes tiles of dot products of bfloat16 along rows of both operands; package conv defines
// what they compute with dotTile.model. SI is the first row of the tile, R8 and R9 the distance of
// rows and three times it, the columns' registers the ends of columns, CX the bytes to these or, at
// last, three times the distance R14 of rows of results, BX the results, AX the tiles left. Of
// registers 0 to 23 each has the sums of a row by a column, every sixteenth pair in a lane, 24 to
// 27 have pairs of rows, and 28 to 31 of columns.
func dots(s *asm.File) {
	columns := [dotCols]string{"R10", "R11", "R12", "R13", "R15", "DX"}
	s.Func("dotsAVX512", "t *dotArgs", 8, "does what dotTile.model does.")
	s.Ops("MOVQ t+0(FP), DI", "MOVQ dotArgs_a(DI), SI", "MOVQ dotArgs_lda(DI), R8",
		"LEAQ (R8)(R8*2), R9", "MOVQ dotArgs_offs(DI), BX", "MOVQ dotArgs_steps(DI), AX",
		"SHLQ $6, AX", "ADDQ dotArgs_b(DI), AX")
	for j, r := range columns {
		s.Op("MOVQ %d(BX), %s", 8*j, r)
		s.Op("ADDQ AX, %s", r)
	}
	s.Ops("MOVQ dotArgs_c(DI), BX", "MOVQ dotArgs_ldc(DI), R14", "MOVQ dotArgs_tiles(DI), AX")
	s.Label("tile")
	for i := range dotRows * dotCols {
		s.Op("VPXORD Z%d, Z%[1]d, Z%[1]d", i)
	}
	s.Ops("MOVQ dotArgs_steps(DI), CX", "SHLQ $6, CX", "NEGQ CX", "PCALIGN $32")
	s.Label("step")
	for i, row := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)"} {
		s.Op("VMOVDQU64 %s, Z%d", row, 24+i)
	}
	for j, r := range columns {
		s.Op("VMOVDQU64 (%s)(CX*1), Z%d", r, 28+j%4)
		for i := range dotRows {
			dotProduct(s, dotCols*i+j, 24+i, 28+j%4)
		}
	}
	s.Ops("ADDQ $64, SI", "ADDQ $64, CX", "JNZ step")
	dotSums(s)
	s.Ops("MOVQ dotArgs_steps(DI), CX", "SHLQ $6, CX", "SUBQ CX, SI", "LEAQ (SI)(R8*4), SI",
		"LEAQ (BX)(R14*4), BX", "DECQ AX", "JNZ tile", "VZEROUPPER", "RET")
	evenHalves(s)
}

// dotProduct adds the products of pairs of two registers to a third.
func dotProduct(s *asm.File, sum, a, b int) {
	s.EVEX(asm.EVEX{Prefix: asm.PrefixF3, Opcode: 0x52, Dst: sum, Src1: b, Src2: a},
		fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", a, b, sum))
}

// dotSums adds up the lanes of each register, as dotTile.sum has them, and adds all to the results:
// the first four columns of each row come together in a quarter of register 0, the others in a half
// of a quarter of register 4.
func dotSums(s *asm.File) {
	// folded sets a to the sums of two halves of its and of b's, which one instruction picks from
	// both, and another the rest.
	folded := func(low, high string, a, b int) {
		s.Op("%s Z%d, Z%d, Z24", low, b, a)
		s.Op("%s Z%d, Z%d, Z%[3]d", high, b, a)
		s.Op("VADDPS Z24, Z%d, Z%[1]d", a)
	}
	singles := func(a, b int) { folded("VUNPCKLPS", "VUNPCKHPS", a, b) }
	pairs := func(a, b int) { folded("VUNPCKLPD", "VUNPCKHPD", a, b) }
	halves := func(a, b int) { folded("VSHUFF32X4 $0x44,", "VSHUFF32X4 $0xee,", a, b) }
	quarters := func(a, b int) { folded("VSHUFF32X4 $0x88,", "VSHUFF32X4 $0xdd,", a, b) }
	for i := 0; i < dotRows*dotCols; i += dotCols {
		for j := 0; j < dotCols; j += 2 {
			singles(i+j, i+j+1)
		}
		pairs(i, i+2)
	}
	for i := 0; i < dotRows*dotCols; i += 2 * dotCols {
		halves(i, i+dotCols)
		pairs(i+4, i+4+dotCols)
	}
	quarters(0, 2*dotCols)
	halves(4, 4+2*dotCols)
	quarters(4, 4)
	rows := []string{"(BX)", "(BX)(R14*1)", "(BX)(R14*2)", "(BX)(CX*1)"}
	s.Ops("LEAQ (R14)(R14*2), CX", "VMOVUPS (BX), X24")
	for i, row := range rows[1:] {
		s.Op("VINSERTF32X4 $%d, %s, Z24, Z24", i+1, row)
	}
	s.Ops("VADDPS Z24, Z0, Z0", "VMOVUPS X0, (BX)")
	for i, row := range rows[1:] {
		s.Op("VEXTRACTF32X4 $%d, Z0, %s", i+1, row)
	}
	for i := 0; i < dotRows; i += 2 {
		s.Op("VMOVSD 16%s, X%d", rows[i], 1+i)
		s.Op("VMOVHPS 16%s, X%d, X%[2]d", rows[i+1], 1+i)
	}
	s.Ops("VINSERTF128 $1, X3, Y1, Y1", "VADDPS Y1, Y4, Y1", "VEXTRACTF128 $1, Y1, X3")
	for i := 0; i < dotRows; i += 2 {
		s.Op("VMOVLPS X%d, 16%s", 1+i, rows[i])
		s.Op("VMOVHPS X%d, 16%s", 1+i, rows[i+1])
	}
}

// evenHalves writes the copying of every other element.
func evenHalves(s *asm.File) {
	s.Func("evenHalvesAVX512", "dst, src *uint16, n int", 24,
		"does what evenHalvesGo does, of n >= 1 elements.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX")
	s.Label("many")
	s.Ops("CMPQ CX, $16", "JLE last", "VMOVDQU64 (SI), Z0", "VPMOVDW Z0, (DI)", "ADDQ $64, SI",
		"ADDQ $32, DI", "SUBQ $16, CX", "JMP many")
	s.Label("last")
	s.Ops("MOVQ $1, AX", "SHLQ CX, AX", "LEAQ -1(AX), DX", "KMOVW DX, K1", "SHLQ CX, AX",
		"SHRQ $1, AX", "DECQ AX", "KMOVD AX, K2", "VMOVDQU16.Z (SI), K2, Z0",
		"VPMOVDW Z0, K1, (DI)", "VZEROUPPER", "RET")
}
