package main

import "github.com/weirgpu/weir/internal/asm"

// widening writes the conversions of operands as they are packed, eight words at a time.
func widening(s *asm.File) {
	words := []uint32{1, 0x7fff, 1 << 22, 0xffff0000, 0x00ff00ff}
	s.Line("")
	s.Words("wideWords", "0x%08x", len(words), func(i int) any { return words[i] })
	roundWide(s)
	joinWide(s)
	widenWide(s, "Unsigned")
	widenWide(s, "Signed")
}

// roundConstants loads what roundRegister needs: Y15 one, Y14 just under half of what is kept, Y13
// the quiet bit of a NaN, Y12 what is kept.
func roundConstants(s *asm.File) {
	for i := range 4 {
		s.Op("VPBROADCASTD ·wideWords<>+%d(SB), Y%d", 4*i, 15-i)
	}
}

// roundRegister rounds the floats in a register to bfloat16, ties to even: half a unit of the kept
// part is added, less one where that part is even, and the rest is cut. NaN gets its quiet bit
// instead, so that it cannot carry into an infinity.
func roundRegister(s *asm.File, x, free1, free2 int) {
	s.Op("VPSRLD $16, Y%d, Y%d", x, free1)
	s.Op("VPAND Y15, Y%d, Y%d", free1, free1)
	s.Op("VPADDD Y14, Y%d, Y%d", free1, free1)
	s.Op("VPADDD Y%d, Y%d, Y%d", x, free1, free1)
	s.Op("VCMPPS $3, Y%d, Y%d, Y%d", x, x, free2)
	s.Op("VPOR Y13, Y%d, Y%d", x, x)
	s.Op("VBLENDVPS Y%d, Y%d, Y%d, Y%d", free2, x, free1, x)
	s.Op("VPAND Y12, Y%d, Y%d", x, x)
}

func roundWide(s *asm.File) {
	s.Func("roundAVX2", "dst, src *float32, n int", 24,
		"does what roundGo does, for 8*n floats, n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX")
	roundConstants(s)
	s.Label("loop")
	s.Op("VMOVUPS (SI), Y0")
	roundRegister(s, 0, 1, 2)
	s.Ops("VMOVUPS Y0, (DI)", "ADDQ $32, SI", "ADDQ $32, DI", "DECQ CX", "JNZ loop", "VZEROUPPER",
		"RET")
}

func joinWide(s *asm.File) {
	s.Func("joinAVX2", "dst, src *float32, cols, pairs int", 32,
		"does what joinGo does, for pairs >= 1 pairs of rows of cols floats, a multiple of 8.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ cols+16(FP), R9",
		"MOVQ pairs+24(FP), CX", "SHLQ $2, R9")
	roundConstants(s)
	s.Label("pair")
	s.Ops("MOVQ R9, DX")
	s.Label("columns")
	s.Ops("VMOVUPS (SI), Y0", "VMOVUPS (SI)(R9*1), Y3")
	roundRegister(s, 0, 1, 2)
	roundRegister(s, 3, 4, 5)
	s.Ops("VPSRLD $16, Y0, Y0", "VPOR Y3, Y0, Y0", "VMOVUPS Y0, (DI)", "ADDQ $32, SI",
		"ADDQ $32, DI", "SUBQ $32, DX", "JNZ columns",
		"ADDQ R9, SI", "DECQ CX", "JNZ pair", "VZEROUPPER", "RET")
}

func widenWide(s *asm.File, sign string) {
	name := "widen" + sign + "AVX2"
	s.Func(name, "dst, src *float32, n int", 24, "does what widenGo does, for 8*n words, n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX",
		"VPBROADCASTD ·wideWords<>+16(SB), Y15")
	s.Label("loop")
	s.Op("VMOVUPS (SI), Y1")
	if sign == "Signed" {
		s.Ops("VPSLLW $8, Y1, Y0", "VPSRAW $8, Y0, Y0", "VPSRAW $8, Y1, Y1")
	} else {
		s.Ops("VPAND Y15, Y1, Y0", "VPSRLW $8, Y1, Y1")
	}
	s.Ops("VPUNPCKLDQ Y1, Y0, Y2", "VPUNPCKHDQ Y1, Y0, Y3", "VPERM2I128 $0x20, Y3, Y2, Y0",
		"VPERM2I128 $0x31, Y3, Y2, Y1", "VMOVUPS Y0, (DI)", "VMOVUPS Y1, 32(DI)", "ADDQ $32, SI",
		"ADDQ $64, DI", "DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}
