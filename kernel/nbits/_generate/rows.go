package main

import "fmt"

// widen writes the function that turns blocks of a panel into rows of floats.
func widen(a *asm) {
	const q, w, zero, scale, eight, table = 0, 1, 2, 3, 4, 5
	a.begin("widen"+a.v.name, "x *strip", 8, "does what widenGo does.")
	a.ops("MOVQ x+0(FP), AX", "MOVQ strip_dst(AX), DI", "MOVQ strip_stride(AX), DX",
		"MOVQ strip_scales(AX), R8", "MOVQ strip_q(AX), SI",
		"MOVQ strip_zeros(AX), R12", "MOVBQZX strip_wide(AX), R10", "MOVQ strip_chunks(AX), R13",
		"MOVQ strip_blocks(AX), BX",
		"LEAQ (DX)(DX*2), R11")
	a.spread(eight, 8)
	if a.v.wide() {
		a.op("VMOVUPS", "·centred<>(SB)", table)
	} else {
		a.spread(table, 15)
	}
	a.label("block")
	a.op("VMOVUPS", "(R8)", scale)
	a.ops("MOVQ R13, CX")
	a.clear(zero)
	a.ops("TESTQ R12, R12", "JZ chunk", "TESTQ R10, R10", "JZ narrow")
	a.op("VMOVUPS", "(R12)", zero)
	a.op("VCVTDQ2PS", eight, w)
	a.op("VSUBPS", w, zero, zero)
	a.ops(fmt.Sprintf("ADDQ $%d, R12", 4*a.v.lanes), "JMP chunk")
	a.label("narrow")
	a.op("VPMOVZXBD", "(R12)", zero)
	a.op("VPSUBD", eight, zero, zero)
	a.op("VCVTDQ2PS", zero, zero)
	a.ops(fmt.Sprintf("ADDQ $%d, R12", a.v.lanes))
	a.chunk(q)
	a.ops("LEAQ (DI)(DX*4), R9")
	for p := range 8 {
		a.weight(p, q, w, eight, table)
		a.op("VSUBPS", zero, w, w)
		a.op("VMULPS", scale, w, w)
		to := []string{"(%s)", "(%s)(DX*1)", "(%s)(DX*2)", "(%s)(R11*1)"}[place(p)%4]
		a.op("VMOVUPS", w, fmt.Sprintf(to, []string{"DI", "R9"}[place(p)/4]))
	}
	a.ops("LEAQ (DI)(DX*8), DI", fmt.Sprintf("ADDQ $%d, SI", 4*a.v.lanes), "DECQ CX", "JNZ chunk",
		"MOVQ SI, R8", fmt.Sprintf("ADDQ $%d, SI", 4*a.v.lanes), "DECQ BX", "JNZ block")
	a.end()
}

// quantise writes the function that rounds the blocks of a row to bytes.
func quantise(a *asm) {
	const x, most, sum, inverse, mask = 0, 1, 2, 3, 4
	a.begin("quantise"+a.v.name, "dst *byte, x *float32, vectors, blocks int", 32,
		"does what quantiseGo does, for blocks of that many vectors.")
	a.ops("MOVQ dst+0(FP), DI", "MOVQ x+8(FP), SI", "MOVQ vectors+16(FP), R13",
		"MOVQ blocks+24(FP), BX")
	a.spread(mask, 0x7fffffff)
	a.ops("MOVL $0x42fe0000, AX", "VMOVD AX, X7") // 127
	a.label("block")
	a.ops("MOVQ SI, R8", "MOVQ R13, CX")
	a.clear(most)
	a.label("most")
	a.op(a.v.and, "(R8)", mask, x)
	a.op("VPMAXUD", x, most, most)
	a.ops(fmt.Sprintf("ADDQ $%d, R8", 4*a.v.lanes), "DECQ CX", "JNZ most")
	a.fold("VPMAXUD", most, x)
	a.ops("VMOVD X1, AX", "CMPL AX, $0x7f800000", "JB finite", "MOVL $0x7fc00000, AX",
		"VMOVD AX, X1", "JMP small",
		"finite:", "VDIVSS X1, X7, X3", "VDIVSS X7, X1, X1", "VMOVD X1, AX", "CMPL AX, $0x00800000",
		"JAE scaled",
		"VPXOR X1, X1, X1", "small:", "VPXOR X3, X3, X3", "scaled:")
	a.op("VBROADCASTSS", "X3", inverse)
	a.clear(sum)
	a.ops("MOVQ R13, CX", "MOVQ DI, R9", "ADDQ $4, DI")
	a.label("round")
	a.op("VMULPS", "(SI)", inverse, x)
	a.op("VCVTPS2DQ", x, x)
	a.op("VPADDD", x, sum, sum)
	if a.v.wide() {
		a.ops("VPMOVSDB Z0, X0", "VMOVDQU X0, (DI)")
	} else {
		a.ops("VEXTRACTI128 $1, Y0, X5", "VPACKSSDW X5, X0, X0", "VPACKSSWB X0, X0, X0",
			"VMOVQ X0, (DI)")
	}
	a.ops(fmt.Sprintf("ADDQ $%d, SI", 4*a.v.lanes), fmt.Sprintf("ADDQ $%d, DI", a.v.lanes),
		"DECQ CX", "JNZ round")
	a.fold("VPADDD", sum, x)
	a.ops("VCVTDQ2PS X2, X0", "VMOVSS X1, (DI)", "VMOVSS X0, 4(DI)", "ADDQ $8, DI",
		"VMOVD X2, AX", "SHLL $3, AX", "NEGL AX", "MOVL AX, (R9)", "DECQ BX", "JNZ block")
	a.end()
}

// fold combines the lanes of a register into its first.
func (a *asm) fold(op string, r, scratch int) {
	if a.v.wide() {
		a.ops(fmt.Sprintf("VEXTRACTI64X4 $1, Z%d, Y%d", r, scratch),
			fmt.Sprintf("%s Y%d, Y%d, Y%d", op, scratch, r, r))
	}
	a.ops(fmt.Sprintf("VEXTRACTI128 $1, Y%d, X%d", r, scratch))
	for _, shuffle := range []string{"", "$0x4e", "$0xb1"} {
		if shuffle != "" {
			a.ops(fmt.Sprintf("VPSHUFD %s, X%d, X%d", shuffle, r, scratch))
		}
		a.ops(fmt.Sprintf("%s X%d, X%d, X%d", op, scratch, r, r))
	}
}
