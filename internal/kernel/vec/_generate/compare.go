package main

import "github.com/weirgpu/weir/internal/asm"

// compare writes equalInt32, which tells of the elements of whole vectors whether they are v.
func compare() []routine {
	return []routine{raw(func(t *asm.Text, set asm.Vector) {
		body := `	VPCMPEQD (SI), Y0, Y1
	VEXTRACTI128 $1, Y1, X2
	VPACKSSDW X2, X1, X1
	VPACKSSWB X1, X1, X1
	VPAND X3, X1, X1
	VMOVQ X1, (DI)`
		if set.Wide() {
			body = `	VPCMPEQD (SI), Z0, K1
	VMOVDQA32.Z Z3, K1, Z1
	VPMOVDB Z1, (DI)`
		}
		ones := "\tMOVL $0x01010101, AX\n\tVMOVD AX, X3\n\tVPBROADCASTD X3, X3"
		if set.Wide() {
			ones = "\tMOVL $1, AX\n\tVPBROADCASTD AX, Z3"
		}
		t.Open("equalInt32"+set.Name, "(dst []bool, x []int32, v int32)", frame, 52)
		t.Line(`	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ x_base+24(FP), SI
	MOVL v+48(FP), AX
	VMOVD AX, X0
	VPBROADCASTD X0, %[1]s0
%[3]s
	SUBQ $%[2]d, CX
	JL done
loop:
%[4]s
	ADDQ $%[5]d, SI
	ADDQ $%[2]d, DI
	SUBQ $%[2]d, CX
	JGE loop
done:
	VZEROUPPER
	RET`, set.Reg, set.Lanes, ones, body, 4*set.Lanes)
	})}
}

// compareNEON writes equalInt32 for arm64.
func compareNEON(f *asm.File) {
	f.Func("equalInt32NEON", "dst *bool, x *int32, n int, v int32", 28, "computes what "+
		"equalInt32Ref does of 16*n elements, n >= 1.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1", "MOVD n+16(FP), R3", "MOVW v+24(FP), R4",
		"VDUP R4, V16.S4", "VMOVI $1, V17.B16")
	f.Label("loop")
	f.Ops("FLDPQ.P 32(R1), (F0, F1)", "FLDPQ.P 32(R1), (F2, F3)")
	for i := range 4 {
		f.Vec("CMEQ", i, i, 16)
	}
	f.Vec("UZP1.H", 0, 0, 1)
	f.Vec("UZP1.H", 2, 2, 3)
	f.Vec("UZP1.B", 0, 0, 2)
	f.Vec("AND", 0, 0, 17)
	f.Ops("FMOVQ.P F0, 16(R0)", "SUB $1, R3", "CBNZ R3, loop", "RET")
}
