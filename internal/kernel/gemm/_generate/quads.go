package main

import "github.com/weirgpu/weir/internal/asm"

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
