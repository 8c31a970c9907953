package main

import (
	"bytes"
	"fmt"
)

// The Go assembler does not know AVX512_BF16: its instructions are written as bytes (Intel,
// "Software Developer's Manual", volume 2, section 2.7, EVEX encoding).

// evex writes a 512-bit instruction of the map 0F38 with three registers: the destination, the
// first source (EVEX.vvvv) and the second (ModRM.rm). pp is the prefix: 2 for F3, 3 for F2.
func (a *asm) evex(pp, opcode, dst, src1, src2 int, text string) {
	not := func(v, bit int) int { return ^v >> bit & 1 }
	b := []int{
		0x62,
		not(dst, 3)<<7 | not(src2, 4)<<6 | not(src2, 3)<<5 | not(dst, 4)<<4 | 2,
		(^src1&15)<<3 | 4 | pp,
		2<<5 | not(src1, 4)<<3,
		opcode,
		0xc0 | dst&7<<3 | src2&7,
	}
	a.WriteString("\t")
	for i, v := range b {
		if i > 0 {
			a.WriteString("; ")
		}
		fmt.Fprintf(a, "BYTE $0x%02x", v)
	}
	fmt.Fprintf(a, " // %s\n", text)
}

// register returns the number in a register's name.
func register(name string) (n int) {
	if _, err := fmt.Sscanf(name, "Z%d", &n); err != nil {
		panic(err)
	}
	return n
}

// dpbf16 adds to every lane of acc the two products of the pairs in x and y.
func (a *asm) dpbf16(x, y, acc string) {
	a.evex(2, 0x52, register(acc), register(x), register(y),
		fmt.Sprintf("VDPBF16PS %s, %s, %s", y, x, acc))
}

// joinBF16 writes the joining of two rows of floats to one of pairs, 16 columns at a time.
func joinBF16(s *asm, g *bytes.Buffer) {
	g.WriteString(`
// joinAVX512BF16 does what joinGo does, for k >= 1 and 1 <= cols <= 32.
//
//go:noescape
func joinAVX512BF16(dst, src *float32, ld, cols, k int)
`)
	s.WriteString("\n")
	for i := range 16 {
		fmt.Fprintf(s, "DATA ·pairOrder<>+%d(SB)/4, $0x%08x\n", 4*i, i|(16+i)<<16)
	}
	s.WriteString("GLOBL ·pairOrder<>(SB), RODATA|NOPTR, $64\n")
	s.text("joinAVX512BF16(dst, src *float32, ld, cols, k int)", "joinAVX512BF16", 40)
	s.ops(
		"MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ ld+16(FP), R8", "MOVQ cols+24(FP), CX",
		"MOVQ k+32(FP), BX",
		"VMOVDQU64 ·pairOrder<>(SB), Z31", "VPXORD Z2, Z2, Z2", "VPXORD Z3, Z3, Z3",
		"MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1", "SHRQ $16, DX", "KMOVW DX, K2",
		"SHLQ $2, CX", "SHLQ $2, R8",
		"CMPQ CX, $32", "JLT pair", "CMPQ CX, $64", "JLE narrow",
	)
	s.label("pair")
	s.ops(
		"CMPQ BX, $2", "JLT odd",
		"VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "ADDQ R8, SI",
		"VMOVUPS.Z (SI), K1, Z2", "VMOVUPS.Z 64(SI), K2, Z3", "ADDQ R8, SI",
	)
	s.label("convert")
	for j := range 2 {
		s.evex(3, 0x72, 4+j, 2+j, j, fmt.Sprintf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", j, 2+j, 4+j))
		s.op("VPERMW Z%d, Z31, Z%d", 4+j, 4+j)
	}
	s.ops(
		"VMOVUPS Z4, K1, (DI)", "VMOVUPS Z5, K2, 64(DI)", "ADDQ CX, DI", "SUBQ $2, BX", "JG pair",
		"VZEROUPPER", "RET",
	)
	s.label("odd")
	s.ops(
		"VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VPXORD Z2, Z2, Z2",
		"VPXORD Z3, Z3, Z3", "JMP convert",
	)
	joinNarrow(s)
	joinAlong(s, g)
}

// joinAlong writes the joining of neighbours in a row, 32 floats at a time.
func joinAlong(s *asm, g *bytes.Buffer) {
	g.WriteString(`
// joinAlongAVX512BF16 does what joinGo does of k >= 1 rows of one column that lie side by side.
//
//go:noescape
func joinAlongAVX512BF16(dst, src *float32, k int)
`)
	s.text("joinAlongAVX512BF16(dst, src *float32, k int)", "joinAlongAVX512BF16", 24)
	s.ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ k+16(FP), CX")
	s.label("many")
	s.ops("CMPQ CX, $32", "JLT few", "VMOVUPS (SI), Z0", "VMOVUPS 64(SI), Z1")
	s.evex(3, 0x72, 2, 1, 0, "VCVTNE2PS2BF16 Z0, Z1, Z2")
	s.ops("VMOVUPS Z2, (DI)", "ADDQ $128, SI", "ADDQ $64, DI", "SUBQ $32, CX", "JMP many")
	s.label("few")
	s.ops(
		"TESTQ CX, CX", "JE done", "MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1",
		"SHRQ $16, DX", "KMOVW DX, K2",
		"INCQ CX", "SHRQ $1, CX", "MOVQ $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K3",
		"VMOVUPS.Z (SI), K1, Z0", "VPXORD Z1, Z1, Z1", "CMPQ CX, $8", "JLE convert",
		"VMOVUPS.Z 64(SI), K2, Z1",
	)
	s.label("convert")
	s.evex(3, 0x72, 2, 1, 0, "VCVTNE2PS2BF16 Z0, Z1, Z2")
	s.ops("VMOVUPS Z2, K3, (DI)")
	s.label("done")
	s.ops("VZEROUPPER", "RET")
}

// joinNarrow goes on with rows of 8 to 16 columns. All stores but the last are whole: what they
// write beyond their row, the next one replaces, which is at least half as long.
func joinNarrow(s *asm) {
	narrow := func() {
		s.evex(3, 0x72, 4, 2, 0, "VCVTNE2PS2BF16 Z0, Z2, Z4")
		s.op("VPERMW Z4, Z31, Z4")
	}
	s.label("narrow")
	s.ops("CMPQ BX, $2", "JLE last")
	s.label("both")
	s.ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z (SI)(R8*1), K1, Z2", "LEAQ (SI)(R8*2), SI")
	narrow()
	s.ops("VMOVUPS Z4, (DI)", "ADDQ CX, DI", "SUBQ $2, BX", "CMPQ BX, $2", "JG both")
	s.label("last")
	s.ops("VMOVUPS.Z (SI), K1, Z0", "VPXORD Z2, Z2, Z2", "CMPQ BX, $1", "JEQ store",
		"VMOVUPS.Z (SI)(R8*1), K1, Z2")
	s.label("store")
	narrow()
	s.ops("VMOVUPS Z4, K1, (DI)", "VZEROUPPER", "RET")
}
