package main

// nibbles turns rows of numbers of four bits into floats, two vectors a row: those in the low halves of bytes, then those in the
// high halves.
func nibbles() []routine {
	return []routine{raw(func(set isa) string {
		a := &asm{isa: set}
		a.line("// func nibbleRows%s(dst *float32, q *byte, rows int, zero, scale *float32)", set.name)
		a.line("TEXT ·nibbleRows%s(SB), 0, $128-40\n\tNO_LOCAL_POINTERS", set.name)
		a.line("\tMOVQ dst+0(FP), DI\n\tMOVQ q+8(FP), SI\n\tMOVQ rows+16(FP), CX\n\tMOVQ zero+24(FP), R8\n\tMOVQ scale+32(FP), R9")
		a.line("\tMOVL $15, AX\n\tVMOVD AX, X4")
		and := "VPAND"
		if set.vector == "Z" {
			and = "VPANDD"
		}
		second := 4 * set.lanes
		a.each("VPBROADCASTD X4, %V4", "VMOVUPS (R8), %V5", "VMOVUPS (R9), %V7")
		a.line("\tVMOVUPS %d(R8), %s6\n\tVMOVUPS %d(R9), %s8", second, set.vector, second, set.vector)
		a.line("\tPCALIGN $32\nloop:")
		a.each("VPMOVZXBD (SI), %V0", "VPSRLD $4, %V0, %V1", and+" %V4, %V0, %V0", "VCVTDQ2PS %V0, %V0", "VCVTDQ2PS %V1, %V1",
			"VSUBPS %V5, %V0, %V0", "VSUBPS %V6, %V1, %V1", "VMULPS %V7, %V0, %V0", "VMULPS %V8, %V1, %V1", "VMOVUPS %V0, (DI)")
		a.line("\tVMOVUPS %s1, %d(DI)", set.vector, second)
		a.line("\tADDQ $%d, SI\n\tADDQ $%d, DI\n\tDECQ CX\n\tJNZ loop\n\tVZEROUPPER\n\tRET\n", set.lanes, 8*set.lanes)
		return a.out.String()
	})}
}
