package main

func interleave() []routine {
	return []routine{raw(func(set isa) string {
		a := &asm{isa: set}
		a.line("// func interleave%s(dst *uint32, x *byte, stride, n int, flip uint32)", set.name)
		a.line("TEXT ·interleave%s(SB), 0, $128-36\n\tNO_LOCAL_POINTERS", set.name)
		a.line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+8(FP), SI\n\tMOVQ stride+16(FP), R9\n\tMOVQ " +
			"n+24(FP), CX\n\tLEAQ (SI)(R9*2), R8")
		a.line("\tMOVL flip+32(FP), AX\n\tVMOVD AX, X4")
		a.each("VPBROADCASTD X4, %V4")
		a.line("\tPCALIGN $32\nloop:")
		or, xor := "VPOR", "VPXOR"
		if set.vector == "Z" {
			or, xor = "VPORD", "VPXORD"
		}
		a.each("VPMOVZXBD (SI), %V0", "VPMOVZXBD (SI)(R9*1), %V1", "VPMOVZXBD (R8), %V2",
			"VPMOVZXBD (R8)(R9*1), %V3",
			"VPSLLD $8, %V1, %V1", "VPSLLD $16, %V2, %V2", "VPSLLD $24, %V3, %V3",
			or+" %V1, %V0, %V0", or+" %V3, %V2, %V2", or+" %V2, %V0, %V0", xor+" %V4, %V0, %V0",
			"VMOVUPS %V0, (DI)")
		a.line("\tADDQ $%d, SI\n\tADDQ $%d, R8\n\tADDQ $%d, DI\n\tSUBQ $%d, CX\n\tJG "+
			"loop\n\tVZEROUPPER\n\tRET\n",
			set.lanes, set.lanes, 4*set.lanes, set.lanes)
		return a.out.String()
	})}
}
