package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// toPairs rounds two registers of floats to bfloat16, those of low to the lower half of dst.
func toPairs(s *asm.File, low, high, dst int) {
	s.EVEX(asm.EVEX{Prefix: asm.PrefixF2, Opcode: 0x72, Dst: dst, Src1: high, Src2: low},
		fmt.Sprintf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", low, high, dst))
}

// joinBF16 writes the joining of two rows of floats to one of pairs, 16 columns at a time.
func joinBF16(s *asm.File) {
	s.Line("")
	s.Words("pairOrder", "0x%08x", 16, func(i int) any { return i | (16+i)<<16 })
	s.Func("joinAVX512BF16", "dst, src *float32, ld, cols, k int", 40,
		"does what joinGo does, for k >= 1 and 1 <= cols <= 32.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ ld+16(FP), R8", "MOVQ cols+24(FP), CX",
		"MOVQ k+32(FP), BX", "VMOVDQU64 ·pairOrder<>(SB), Z31", "VPXORD Z2, Z2, Z2",
		"VPXORD Z3, Z3, Z3", "MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1",
		"SHRQ $16, DX", "KMOVW DX, K2", "SHLQ $2, CX", "SHLQ $2, R8", "CMPQ CX, $32", "JLT pair",
		"CMPQ CX, $64", "JLE narrow")
	s.Label("pair")
	s.Ops("CMPQ BX, $2", "JLT odd", "VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1",
		"ADDQ R8, SI", "VMOVUPS.Z (SI), K1, Z2", "VMOVUPS.Z 64(SI), K2, Z3", "ADDQ R8, SI")
	s.Label("convert")
	for j := range 2 {
		toPairs(s, j, 2+j, 4+j)
		s.Op("VPERMW Z%d, Z31, Z%d", 4+j, 4+j)
	}
	s.Ops("VMOVUPS Z4, K1, (DI)", "VMOVUPS Z5, K2, 64(DI)", "ADDQ CX, DI", "SUBQ $2, BX", "JG pair",
		"VZEROUPPER", "RET")
	s.Label("odd")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VPXORD Z2, Z2, Z2",
		"VPXORD Z3, Z3, Z3", "JMP convert")
	joinNarrow(s)
	joinAlong(s)
	joinRows(s)
}

// joinAlong writes the joining of neighbours in a row, 32 floats at a time.
func joinAlong(s *asm.File) {
	s.Func("joinAlongAVX512BF16", "dst, src *float32, k int", 24,
		"does what joinGo does of k >= 1 rows of one column that lie side by side.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ k+16(FP), CX")
	s.Label("many")
	s.Ops("CMPQ CX, $32", "JLT few", "VMOVUPS (SI), Z0", "VMOVUPS 64(SI), Z1")
	toPairs(s, 0, 1, 2)
	s.Ops("VMOVUPS Z2, (DI)", "ADDQ $128, SI", "ADDQ $64, DI", "SUBQ $32, CX", "JMP many")
	s.Label("few")
	s.Ops("TESTQ CX, CX", "JE done", "MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1",
		"SHRQ $16, DX", "KMOVW DX, K2", "INCQ CX", "SHRQ $1, CX", "MOVQ $1, DX", "SHLQ CX, DX",
		"DECQ DX", "KMOVW DX, K3", "VMOVUPS.Z (SI), K1, Z0", "VPXORD Z1, Z1, Z1", "CMPQ CX, $8",
		"JLE convert", "VMOVUPS.Z 64(SI), K2, Z1")
	s.Label("convert")
	toPairs(s, 0, 1, 2)
	s.Ops("VMOVUPS Z2, K3, (DI)")
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
}

// joinRows writes the joining of neighbours in rows to lines of memory, those of 32 floats of all
// rows beside each other: K1 and K2 are the floats that there are of the last.
func joinRows(s *asm.File) {
	s.Func("joinRowsAVX512BF16", "dst, src *float32, ld, rows, k int", 40,
		"does what joinRowsGo does, for k >= 1 and rows >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ ld+16(FP), R8", "MOVQ k+32(FP), CX",
		"SHLQ $2, R8", "MOVL $0xffff, AX", "KMOVW AX, K1", "KMOVW AX, K2")
	s.Label("step")
	s.Ops("CMPQ CX, $32", "JGE whole", "MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1",
		"SHRQ $16, DX", "KMOVW DX, K2")
	s.Label("whole")
	s.Ops("MOVQ SI, R9", "MOVQ rows+24(FP), BX")
	s.Label("row")
	s.Ops("VMOVUPS.Z (R9), K1, Z0", "VMOVUPS.Z 64(R9), K2, Z1")
	toPairs(s, 0, 1, 2)
	s.Ops("VMOVUPS Z2, (DI)", "ADDQ R8, R9", "ADDQ $64, DI", "DECQ BX", "JNZ row",
		"ADDQ $128, SI", "SUBQ $32, CX", "JG step", "VZEROUPPER", "RET")
}

// joinNarrow goes on with rows of 8 to 16 columns. All stores but the last are whole: what they
// write beyond their row, the next one replaces, which is at least half as long.
func joinNarrow(s *asm.File) {
	narrow := func() {
		toPairs(s, 0, 2, 4)
		s.Op("VPERMW Z4, Z31, Z4")
	}
	s.Label("narrow")
	s.Ops("CMPQ BX, $2", "JLE last")
	s.Label("both")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z (SI)(R8*1), K1, Z2", "LEAQ (SI)(R8*2), SI")
	narrow()
	s.Ops("VMOVUPS Z4, (DI)", "ADDQ CX, DI", "SUBQ $2, BX", "CMPQ BX, $2", "JG both")
	s.Label("last")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VPXORD Z2, Z2, Z2", "CMPQ BX, $1", "JEQ store",
		"VMOVUPS.Z (SI)(R8*1), K1, Z2")
	s.Label("store")
	narrow()
	s.Ops("VMOVUPS Z4, K1, (DI)", "VZEROUPPER", "RET")
}
