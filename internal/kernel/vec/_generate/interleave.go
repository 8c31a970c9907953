package main

import "github.com/weirgpu/weir/internal/asm"

func interleave() []routine {
	return []routine{raw(func(t *asm.Text, set asm.Vector) {
		a := &unrolled{Text: t, Vector: set}
		a.Open("interleave"+set.Name, "(dst *uint32, x *byte, stride, n int, flip uint32)", frame,
			36)
		a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+8(FP), SI\n\tMOVQ stride+16(FP), R9\n\tMOVQ " +
			"n+24(FP), CX\n\tLEAQ (SI)(R9*2), R8")
		a.Line("\tMOVL flip+32(FP), AX\n\tVMOVD AX, X4")
		a.each("VPBROADCASTD X4, %V4")
		a.Line("\tPCALIGN $32\nloop:")
		or, xor := "VPOR", "VPXOR"
		if set.Wide() {
			or, xor = "VPORD", "VPXORD"
		}
		a.each("VPMOVZXBD (SI), %V0", "VPMOVZXBD (SI)(R9*1), %V1", "VPMOVZXBD (R8), %V2",
			"VPMOVZXBD (R8)(R9*1), %V3", "VPSLLD $8, %V1, %V1", "VPSLLD $16, %V2, %V2",
			"VPSLLD $24, %V3, %V3", or+" %V1, %V0, %V0", or+" %V3, %V2, %V2", or+" %V2, %V0, %V0",
			xor+" %V4, %V0, %V0", "VMOVUPS %V0, (DI)")
		a.Line("\tADDQ $%d, SI\n\tADDQ $%d, R8\n\tADDQ $%d, DI\n\tSUBQ $%d, CX\n\tJG "+
			"loop\n\tVZEROUPPER\n\tRET",
			set.Lanes, set.Lanes, 4*set.Lanes, set.Lanes)
	})}
}

// interleaveNEON writes the loop that makes words of four planes of bytes.
func interleaveNEON(f *asm.File) {
	f.Func("interleaveNEON", "dst *uint32, x *byte, stride, n int, flip uint32", 36, "does what "+
		"interleaveRef does for n words, a multiple of 16 and not 0.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1", "MOVD stride+16(FP), R5", "MOVD n+24(FP), R6",
		"FMOVS flip+32(FP), F4", "VDUP V4.S[0], V4.S4", "ADD R5, R1, R2", "ADD R5, R2, R3",
		"ADD R5, R3, R4")
	f.Label("loop")
	for i := range 4 {
		f.Op("FMOVQ.P 16(R%d), F%d", 1+i, i)
		f.Vec("EOR", i, i, 4)
	}
	f.Ops("VST4.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)", "SUB $16, R6", "CBNZ R6, loop", "RET")
}
