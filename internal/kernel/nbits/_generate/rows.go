package main

import "fmt"

// widen writes the function that turns blocks of a panel into rows of floats.
func widen(k *kernels) {
	const q, w, zero, scale, eight, table = 0, 1, 2, 3, 4, 5
	k.Func("widen"+k.v.Name, "x *strip", 8, "does what widenGo does.")
	k.Ops("MOVQ x+0(FP), AX", "MOVQ strip_dst(AX), DI", "MOVQ strip_stride(AX), DX",
		"MOVQ strip_scales(AX), R8", "MOVQ strip_q(AX), SI", "MOVQ strip_zeros(AX), R12",
		"MOVBQZX strip_wide(AX), R10", "MOVQ strip_chunks(AX), R13", "MOVQ strip_blocks(AX), BX",
		"LEAQ (DX)(DX*2), R11")
	k.spread(eight, 8)
	if k.v.Wide() {
		k.op("VMOVUPS", "·centred<>(SB)", table)
	} else {
		k.spread(table, 15)
	}
	k.Label("block")
	k.op("VMOVUPS", "(R8)", scale)
	k.Ops("MOVQ R13, CX")
	k.clear(zero)
	k.Ops("TESTQ R12, R12", "JZ chunk", "TESTQ R10, R10", "JZ narrow")
	k.op("VMOVUPS", "(R12)", zero)
	k.op("VCVTDQ2PS", eight, w)
	k.op("VSUBPS", w, zero, zero)
	k.Ops(fmt.Sprintf("ADDQ $%d, R12", 4*k.v.Lanes), "JMP chunk")
	k.Label("narrow")
	k.op("VPMOVZXBD", "(R12)", zero)
	k.op("VPSUBD", eight, zero, zero)
	k.op("VCVTDQ2PS", zero, zero)
	k.Ops(fmt.Sprintf("ADDQ $%d, R12", k.v.Lanes))
	k.chunk(q)
	k.Ops("LEAQ (DI)(DX*4), R9")
	for p := range 8 {
		k.weight(p, q, w, eight, table)
		k.op("VSUBPS", zero, w, w)
		k.op("VMULPS", scale, w, w)
		to := []string{"(%s)", "(%s)(DX*1)", "(%s)(DX*2)", "(%s)(R11*1)"}[place(p)%4]
		k.op("VMOVUPS", w, fmt.Sprintf(to, []string{"DI", "R9"}[place(p)/4]))
	}
	k.Ops("LEAQ (DI)(DX*8), DI", fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes), "DECQ CX", "JNZ chunk",
		"MOVQ SI, R8", fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes), "DECQ BX", "JNZ block")
	k.end()
}

// quantise writes the function that rounds the blocks of a row to bytes.
func quantise(k *kernels) {
	const x, most, sum, inverse, mask = 0, 1, 2, 3, 4
	k.Func("quantise"+k.v.Name, "dst *byte, x *float32, vectors, blocks int", 32,
		"does what quantiseGo does, for blocks of that many vectors.")
	k.Ops("MOVQ dst+0(FP), DI", "MOVQ x+8(FP), SI", "MOVQ vectors+16(FP), R13",
		"MOVQ blocks+24(FP), BX")
	k.spread(mask, 0x7fffffff)
	k.Ops("MOVL $0x42fe0000, AX", "VMOVD AX, X7") // 127
	k.Label("block")
	k.Ops("MOVQ SI, R8", "MOVQ R13, CX")
	k.clear(most)
	k.Label("most")
	k.op(k.v.and, "(R8)", mask, x)
	k.op("VPMAXUD", x, most, most)
	k.Ops(fmt.Sprintf("ADDQ $%d, R8", 4*k.v.Lanes), "DECQ CX", "JNZ most")
	k.fold("VPMAXUD", most, x)
	k.Ops("VMOVD X1, AX", "CMPL AX, $0x7f800000", "JB finite", "MOVL $0x7fc00000, AX",
		"VMOVD AX, X1", "JMP small", "finite:", "VDIVSS X1, X7, X3", "VDIVSS X7, X1, X1",
		"VMOVD X1, AX", "CMPL AX, $0x00800000", "JAE scaled", "VPXOR X1, X1, X1", "small:",
		"VPXOR X3, X3, X3", "scaled:")
	k.op("VBROADCASTSS", "X3", inverse)
	k.clear(sum)
	k.Ops("MOVQ R13, CX", "MOVQ DI, R9", "ADDQ $4, DI")
	k.Label("round")
	k.op("VMULPS", "(SI)", inverse, x)
	k.op("VCVTPS2DQ", x, x)
	k.op("VPADDD", x, sum, sum)
	if k.v.Wide() {
		k.Ops("VPMOVSDB Z0, X0", "VMOVDQU X0, (DI)")
	} else {
		k.Ops("VEXTRACTI128 $1, Y0, X5", "VPACKSSDW X5, X0, X0", "VPACKSSWB X0, X0, X0",
			"VMOVQ X0, (DI)")
	}
	k.Ops(fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes), fmt.Sprintf("ADDQ $%d, DI", k.v.Lanes),
		"DECQ CX", "JNZ round")
	k.fold("VPADDD", sum, x)
	k.Ops("VCVTDQ2PS X2, X0", "VMOVSS X1, (DI)", "VMOVSS X0, 4(DI)", "ADDQ $8, DI",
		"VMOVD X2, AX", "SHLL $3, AX", "NEGL AX", "MOVL AX, (R9)", "DECQ BX", "JNZ block")
	k.end()
}

// fold combines the lanes of a register into its first.
func (k *kernels) fold(op string, r, scratch int) {
	if k.v.Wide() {
		k.Ops(fmt.Sprintf("VEXTRACTI64X4 $1, Z%d, Y%d", r, scratch),
			fmt.Sprintf("%s Y%d, Y%d, Y%d", op, scratch, r, r))
	}
	k.Ops(fmt.Sprintf("VEXTRACTI128 $1, Y%d, X%d", r, scratch))
	for _, shuffle := range []string{"", "$0x4e", "$0xb1"} {
		if shuffle != "" {
			k.Ops(fmt.Sprintf("VPSHUFD %s, X%d, X%d", shuffle, r, scratch))
		}
		k.Ops(fmt.Sprintf("%s X%d, X%d, X%d", op, scratch, r, r))
	}
}
