package main

import (
	"bytes"
	"fmt"
)

// transpose512 writes the packing of up to 16 rows into k-major order by transposing 16x16 blocks
// in registers.
func transpose512(s *asm, g *bytes.Buffer) {
	g.WriteString(`
// transposeAVX512 does what transposeGo does, for k >= 1 and 1 <= rows <= 16.
//
//go:noescape
func transposeAVX512(dst *float32, dstStride int, src *float32, ld, rows, k int)
`)
	s.text("transposeAVX512(dst *float32, dstStride int, src *float32, ld, rows, k int)",
		"transposeAVX512", 48)
	s.ops(
		"MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
		"MOVQ ld+24(FP), R9",
		"MOVQ rows+32(FP), CX", "MOVQ k+40(FP), BX", "SHLQ $2, R10", "SHLQ $2, R9", "MOVL $1, DX",
		"SHLL CX, DX",
		"DECL DX", "KMOVW DX, K1", "MOVL $0xffff, AX",
	)
	s.label("block")
	s.ops(
		"CMPQ BX, $16", "JGE whole", "MOVQ BX, CX", "MOVL $1, AX", "SHLL CX, AX", "DECL AX",
	)
	s.label("whole")
	s.ops(
		"KMOVW AX, K2", "MOVQ SI, R8", "MOVQ R9, R13", "MOVQ rows+32(FP), R11", "XORL R12, R12",
	)
	for i := range 16 {
		s.op("VMOVUPS.Z (R8), K2, Z%d", i)
		if i < 15 {
			s.ops(
				"DECQ R11", "CMOVQLE R12, R13", "ADDQ R13, R8",
			)
		}
	}
	network512(s)
	s.op("MOVQ BX, R11")
	for i := range 16 {
		s.op("VMOVUPS Z%d, K1, (DI)", i)
		s.ops(
			"ADDQ R10, DI", "DECQ R11",
		)
		if i < 15 {
			s.op("JZ done")
		}
	}
	s.ops(
		"ADDQ $64, SI", "SUBQ $16, BX", "JG block",
	)
	s.label("done")
	s.ops(
		"VZEROUPPER", "RET",
	)
}

// network512 transposes Z0..Z15 in place by interleaving pairs, then quads, then 128-bit lanes.
func network512(s *asm) {
	for i := 0; i < 16; i += 2 {
		s.op("VUNPCKLPS Z%d, Z%d, Z%d", i+1, i, 16+i)
		s.op("VUNPCKHPS Z%d, Z%d, Z%d", i+1, i, 17+i)
	}
	for q := 0; q < 16; q += 4 {
		s.op("VUNPCKLPD Z%d, Z%d, Z%d", 18+q, 16+q, q)
		s.op("VUNPCKHPD Z%d, Z%d, Z%d", 18+q, 16+q, q+1)
		s.op("VUNPCKLPD Z%d, Z%d, Z%d", 19+q, 17+q, q+2)
		s.op("VUNPCKHPD Z%d, Z%d, Z%d", 19+q, 17+q, q+3)
	}
	for c := range 4 {
		s.op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 4+c, c, 16+4*c)
		s.op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 4+c, c, 17+4*c)
		s.op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 12+c, 8+c, 18+4*c)
		s.op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 12+c, 8+c, 19+4*c)
	}
	for c := range 4 {
		b := 16 + 4*c
		s.op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", b+2, b, c)
		s.op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", b+2, b, 8+c)
		s.op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", b+3, b+1, 4+c)
		s.op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", b+3, b+1, 12+c)
	}
}

// transpose256 transposes up to 8 rows by 8*blocks columns; the tails are left to Go.
func transpose256(s *asm, g *bytes.Buffer) {
	g.WriteString(`
// transposeAVX2 does what transposeGo does for 1 <= rows <= 8 and k = 8*blocks, blocks >= 1, but
// writes eight floats for every k: those past rows hold copies of the last row.
//
//go:noescape
func transposeAVX2(dst *float32, dstStride int, src *float32, ld, rows, blocks int)
`)
	s.text("transposeAVX2(dst *float32, dstStride int, src *float32, ld, rows, blocks int)",
		"transposeAVX2", 48)
	s.ops(
		"MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
		"MOVQ ld+24(FP), R9",
		"MOVQ blocks+40(FP), BX", "SHLQ $2, R10", "SHLQ $2, R9", "XORL R12, R12",
	)
	s.label("block")
	s.ops(
		"MOVQ SI, R8", "MOVQ R9, R13", "MOVQ rows+32(FP), R11",
	)
	for i := range 8 {
		s.op("VMOVUPS (R8), Y%d", i)
		if i < 7 {
			s.ops(
				"DECQ R11", "CMOVQLE R12, R13", "ADDQ R13, R8",
			)
		}
	}
	for i := 0; i < 8; i += 2 {
		s.op("VUNPCKLPS Y%d, Y%d, Y%d", i+1, i, 8+i)
		s.op("VUNPCKHPS Y%d, Y%d, Y%d", i+1, i, 9+i)
	}
	for q := 0; q < 8; q += 4 {
		s.op("VUNPCKLPD Y%d, Y%d, Y%d", 10+q, 8+q, q)
		s.op("VUNPCKHPD Y%d, Y%d, Y%d", 10+q, 8+q, q+1)
		s.op("VUNPCKLPD Y%d, Y%d, Y%d", 11+q, 9+q, q+2)
		s.op("VUNPCKHPD Y%d, Y%d, Y%d", 11+q, 9+q, q+3)
	}
	for c := range 4 {
		s.op("VPERM2F128 $0x20, Y%d, Y%d, Y%d", 4+c, c, 8+c)
		s.op("VPERM2F128 $0x31, Y%d, Y%d, Y%d", 4+c, c, 12+c)
	}
	for i := range 8 {
		s.op("VMOVUPS Y%d, (DI)", 8+i)
		s.op("ADDQ R10, DI")
	}
	s.ops(
		"ADDQ $32, SI", "DECQ BX", "JNZ block", "VZEROUPPER", "RET",
	)
}

// copyRows writes the packing of whole panels of a row-major B: all panels of a row, then the next
// row, so that memory is read in long runs.
func copyRows(s *asm, g *bytes.Buffer) {
	for _, v := range []vector{avx2, avx512} {
		name := "copyRows" + v.name
		fmt.Fprintf(g, `
// %s copies k >= 1 rows of panels*%d floats, ld apart, to panels >= 1 blocks, dstStride floats
// apart, of k rows of %d floats.
//
//go:noescape
func %s(dst *float32, dstStride int, src *float32, ld, k, panels int)
`, name, 2*v.lanes, 2*v.lanes, name)
		s.text(name+"(dst *float32, dstStride int, src *float32, ld, k, panels int)", name, 48)
		s.ops(
			"MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
			"MOVQ ld+24(FP), R9",
			"MOVQ k+32(FP), CX", "SHLQ $2, R9", "SHLQ $2, R10",
		)
		s.label("row")
		s.ops(
			"MOVQ SI, R8", "MOVQ DI, R11", "MOVQ panels+40(FP), DX",
		)
		s.label("panel")
		s.op("VMOVUPS (R8), %s0", v.reg)
		s.op("VMOVUPS %d(R8), %s1", v.size(), v.reg)
		s.op("VMOVUPS %s0, (R11)", v.reg)
		s.op("VMOVUPS %s1, %d(R11)", v.reg, v.size())
		s.op("ADDQ $%d, R8", 2*v.size())
		s.ops(
			"ADDQ R10, R11", "DECQ DX", "JNZ panel", "ADDQ R9, SI",
		)
		s.op("ADDQ $%d, DI", 2*v.size())
		s.ops(
			"DECQ CX", "JNZ row", "VZEROUPPER", "RET",
		)
	}
}

// peak writes loops of independent fused multiply-adds, the ceiling that benchmarks compare with.
func peak(s *asm, g *bytes.Buffer) {
	for _, v := range []vector{avx2, avx512} {
		name := "peak" + v.name
		n := v.regs - 4
		fmt.Fprintf(g, `
// %s runs %d fused multiply-adds of %d lanes n times, n >= 1.
//
//go:noescape
func %s(n int)

const peak%sFLOP = %d
`, name, n, v.lanes, name, v.name, 2*n*v.lanes)
		s.text(name+"(n int)", name, 8)
		s.op("MOVQ n+0(FP), CX")
		for i := range v.regs {
			if v.masked {
				s.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
			} else {
				s.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
			}
		}
		s.label("loop")
		for i := range n {
			s.op("VFMADD231PS %s%d, %s%d, %s%d", v.reg, v.regs-1, v.reg, v.regs-2, v.reg, i)
		}
		s.ops(
			"DECQ CX", "JNZ loop", "VZEROUPPER", "RET",
		)
	}
}
