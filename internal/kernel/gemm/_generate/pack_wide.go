package main

import "github.com/weirgpu/weir/internal/asm"

// widening writes the conversions of operands as they are packed, eight words at a time.
func widening(s *asm.File) {
	s.Line("")
	s.Words("evenBytes", "0x%08x", 1, func(int) any { return uint32(0x00ff00ff) })
	widenWide(s, "Unsigned")
	widenWide(s, "Signed")
}

func widenWide(s *asm.File, sign string) {
	name := "widen" + sign + "AVX2"
	s.Func(name, "dst, src *float32, n int", 24, "does what widenGo does, for 8*n words, n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX",
		"VPBROADCASTD ·evenBytes<>(SB), Y15")
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
