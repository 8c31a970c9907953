package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// transpose512 writes the packing of up to 16 rows into k-major order by transposing 16x16 blocks
// in registers.
func transpose512(s *asm.File) {
	s.Func("transposeAVX512", "dst *float32, dstStride int, src *float32, ld, rows, k int", 48,
		"does what transposeGo does, for k >= 1 and 1 <= rows <= 16.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
		"MOVQ ld+24(FP), R9", "MOVQ rows+32(FP), CX", "MOVQ k+40(FP), BX", "SHLQ $2, R10",
		"SHLQ $2, R9", "MOVL $1, DX", "SHLL CX, DX", "DECL DX", "KMOVW DX, K1", "MOVL $0xffff, AX")
	s.Label("block")
	s.Ops("CMPQ BX, $16", "JGE whole", "MOVQ BX, CX", "MOVL $1, AX", "SHLL CX, AX", "DECL AX")
	s.Label("whole")
	s.Ops("KMOVW AX, K2", "MOVQ SI, R8", "MOVQ R9, R13", "MOVQ rows+32(FP), R11", "XORL R12, R12")
	for i := range 16 {
		s.Op("VMOVUPS.Z (R8), K2, Z%d", i)
		if i < 15 {
			s.Ops("DECQ R11", "CMOVQLE R12, R13", "ADDQ R13, R8")
		}
	}
	network512(s)
	s.Op("MOVQ BX, R11")
	for i := range 16 {
		s.Op("VMOVUPS Z%d, K1, (DI)", i)
		s.Ops("ADDQ R10, DI", "DECQ R11")
		if i < 15 {
			s.Op("JZ done")
		}
	}
	s.Ops("ADDQ $64, SI", "SUBQ $16, BX", "JG block")
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
}

// network512 transposes Z0..Z15 in place by interleaving pairs, then quads, then 128-bit lanes.
func network512(s *asm.File) {
	for i := 0; i < 16; i += 2 {
		s.Op("VUNPCKLPS Z%d, Z%d, Z%d", i+1, i, 16+i)
		s.Op("VUNPCKHPS Z%d, Z%d, Z%d", i+1, i, 17+i)
	}
	for q := 0; q < 16; q += 4 {
		s.Op("VUNPCKLPD Z%d, Z%d, Z%d", 18+q, 16+q, q)
		s.Op("VUNPCKHPD Z%d, Z%d, Z%d", 18+q, 16+q, q+1)
		s.Op("VUNPCKLPD Z%d, Z%d, Z%d", 19+q, 17+q, q+2)
		s.Op("VUNPCKHPD Z%d, Z%d, Z%d", 19+q, 17+q, q+3)
	}
	for c := range 4 {
		s.Op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 4+c, c, 16+4*c)
		s.Op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 4+c, c, 17+4*c)
		s.Op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 12+c, 8+c, 18+4*c)
		s.Op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 12+c, 8+c, 19+4*c)
	}
	for c := range 4 {
		b := 16 + 4*c
		s.Op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", b+2, b, c)
		s.Op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", b+2, b, 8+c)
		s.Op("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", b+3, b+1, 4+c)
		s.Op("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", b+3, b+1, 12+c)
	}
}

// transpose256 transposes up to 8 rows by 8*blocks columns; the tails are left to Go.
func transpose256(s *asm.File) {
	s.Func("transposeAVX2", "dst *float32, dstStride int, src *float32, ld, rows, blocks int", 48,
		"does what transposeGo does for 1 <= rows <= 8 and k = 8*blocks, blocks >= 1, but"+
			" writes eight floats for every k: those past rows hold copies of the last row.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
		"MOVQ ld+24(FP), R9", "MOVQ blocks+40(FP), BX", "SHLQ $2, R10", "SHLQ $2, R9",
		"XORL R12, R12")
	s.Label("block")
	s.Ops("MOVQ SI, R8", "MOVQ R9, R13", "MOVQ rows+32(FP), R11")
	for i := range 8 {
		s.Op("VMOVUPS (R8), Y%d", i)
		if i < 7 {
			s.Ops("DECQ R11", "CMOVQLE R12, R13", "ADDQ R13, R8")
		}
	}
	network256(s)
	for i := range 8 {
		s.Op("VMOVUPS Y%d, (DI)", 8+i)
		s.Op("ADDQ R10, DI")
	}
	s.Ops("ADDQ $32, SI", "DECQ BX", "JNZ block", "VZEROUPPER", "RET")
}

// network256 transposes the eight rows of Y0 to Y7 to Y8 to Y15.
func network256(s *asm.File) {
	for i := 0; i < 8; i += 2 {
		s.Op("VUNPCKLPS Y%d, Y%d, Y%d", i+1, i, 8+i)
		s.Op("VUNPCKHPS Y%d, Y%d, Y%d", i+1, i, 9+i)
	}
	for q := 0; q < 8; q += 4 {
		s.Op("VUNPCKLPD Y%d, Y%d, Y%d", 10+q, 8+q, q)
		s.Op("VUNPCKHPD Y%d, Y%d, Y%d", 10+q, 8+q, q+1)
		s.Op("VUNPCKLPD Y%d, Y%d, Y%d", 11+q, 9+q, q+2)
		s.Op("VUNPCKHPD Y%d, Y%d, Y%d", 11+q, 9+q, q+3)
	}
	for c := range 4 {
		s.Op("VPERM2F128 $0x20, Y%d, Y%d, Y%d", 4+c, c, 8+c)
		s.Op("VPERM2F128 $0x31, Y%d, Y%d, Y%d", 4+c, c, 12+c)
	}
}

// copyRows writes the packing of whole panels of a row-major B: all panels of a row, then the next
// row, so that memory is read in long runs.
func copyRows(s *asm.File) {
	for _, v := range []asm.Vector{asm.AVX2, asm.AVX512} {
		name := "copyRows" + v.Name
		s.Func(name, "dst *float32, dstStride int, src *float32, ld, k, panels int", 48,
			fmt.Sprintf("copies k >= 1 rows of panels*%d floats, ld apart, to panels >= 1 blocks, "+
				"dstStride floats apart, of k rows of %d floats.", 2*v.Lanes, 2*v.Lanes))
		s.Ops("MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
			"MOVQ ld+24(FP), R9", "MOVQ k+32(FP), CX", "SHLQ $2, R9", "SHLQ $2, R10")
		s.Label("row")
		s.Ops("MOVQ SI, R8", "MOVQ DI, R11", "MOVQ panels+40(FP), DX")
		s.Label("panel")
		s.Op("VMOVUPS (R8), %s0", v.Reg)
		s.Op("VMOVUPS %d(R8), %s1", v.Size(), v.Reg)
		s.Op("VMOVUPS %s0, (R11)", v.Reg)
		s.Op("VMOVUPS %s1, %d(R11)", v.Reg, v.Size())
		s.Op("ADDQ $%d, R8", 2*v.Size())
		s.Ops("ADDQ R10, R11", "DECQ DX", "JNZ panel", "ADDQ R9, SI")
		s.Op("ADDQ $%d, DI", 2*v.Size())
		s.Ops("DECQ CX", "JNZ row", "VZEROUPPER", "RET")
	}
}

// copyPart writes the packing of a panel that has fewer columns than one of whole registers.
func copyPart(s *asm.File) {
	for _, v := range []asm.Vector{asm.AVX2, asm.AVX512} {
		s.Func("copyPart"+v.Name, "dst *float32, width int, src *float32, ld, cols, k int", 48,
			fmt.Sprintf("copies k >= 1 rows of 1 <= cols <= width floats, ld apart, to rows of "+
				"width floats, %d or %d, zeros behind cols.", v.Lanes, 2*v.Lanes))
		s.Ops("MOVQ dst+0(FP), DI", "MOVQ width+8(FP), R10", "MOVQ src+16(FP), SI",
			"MOVQ ld+24(FP), R9", "MOVQ cols+32(FP), CX", "MOVQ k+40(FP), BX", "SHLQ $2, R9")
		if v.Wide() {
			s.Ops("MOVL $1, DX", "SHLQ CX, DX", "DECQ DX", "KMOVW DX, K1", "SHRQ $16, DX",
				"KMOVW DX, K2")
		} else {
			s.Ops("NEGQ CX", "LEAQ ·laneMask<>(SB), R13", "LEAQ 64(R13)(CX*4), R13",
				"VMOVUPS (R13), Y2", "VMOVUPS 32(R13), Y3")
		}
		load := func(j int) {
			if v.Wide() {
				s.Op("VMOVUPS.Z %d(SI), K%d, Z%d", j*v.Size(), j+1, j)
			} else {
				s.Op("VMASKMOVPS %d(SI), Y%d, Y%d", j*v.Size(), j+2, j)
			}
		}
		s.Op("CMPQ R10, $%d", v.Lanes)
		s.Op("JE narrow")
		s.Label("row")
		load(0)
		load(1)
		s.Op("VMOVUPS %s0, (DI)", v.Reg)
		s.Op("VMOVUPS %s1, %d(DI)", v.Reg, v.Size())
		s.Op("ADDQ R9, SI")
		s.Op("ADDQ $%d, DI", 2*v.Size())
		s.Ops("DECQ BX", "JNZ row", "VZEROUPPER", "RET")
		s.Label("narrow")
		load(0)
		s.Op("VMOVUPS %s0, (DI)", v.Reg)
		s.Op("ADDQ R9, SI")
		s.Op("ADDQ $%d, DI", v.Size())
		s.Ops("DECQ BX", "JNZ narrow", "VZEROUPPER", "RET")
	}
}

// peak writes loops of independent fused multiply-adds, the ceiling that benchmarks compare with.
func peak(s *asm.File) {
	for _, v := range []asm.Vector{asm.AVX2, asm.AVX512} {
		name := "peak" + v.Name
		n := v.Regs - 4
		s.Func(name, "n int", 8,
			fmt.Sprintf("runs %d fused multiply-adds of %d lanes n times, n >= 1.", n, v.Lanes))
		s.Declare("\nconst peak%sFLOP = %d\n", v.Name, 2*n*v.Lanes)
		s.Op("MOVQ n+0(FP), CX")
		for i := range v.Regs {
			if v.Wide() {
				s.Op("VPXORD Z%d, Z%d, Z%d", i, i, i)
			} else {
				s.Op("VXORPS Y%d, Y%d, Y%d", i, i, i)
			}
		}
		s.Label("loop")
		for i := range n {
			s.Op("VFMADD231PS %s%d, %s%d, %s%d", v.Reg, v.Regs-1, v.Reg, v.Regs-2, v.Reg, i)
		}
		s.Ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
	}
}
