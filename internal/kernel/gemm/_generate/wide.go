package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Without dot products the two halves of a lane of B are widened in registers, each to one float32
// or to two numbers of 16 bits, and multiplied one after the other. A has a word for each of them,
// widened as it was packed.

// wides are the kernels that do so.
func wides(s *asm.File, name string, form vector) {
	narrow, broad := avx2, avx512
	narrow.Name, broad.Name = "AVX2"+name, "Wide"+name
	for _, v := range []vector{narrow, broad} {
		v.pairs, v.bytes, v.wide = form.pairs, form.bytes, true
		tiles(s, v)
	}
}

// wideConstants sets the register above the others to the upper halves of all lanes.
func (t *tileGen) wideConstants() {
	upper := t.tmp(3)
	switch {
	case !t.pairs:
		return
	case t.Wide():
		t.Op("VPTERNLOGD $0xff, %s, %s, %s", upper, upper, upper)
	default:
		t.Op("VPCMPEQD %s, %s, %s", upper, upper, upper)
	}
	t.Op("VPSLLD $16, %s, %s", upper, upper)
}

// wideStep is one word along K: the even numbers of the row of B, which meet the first words of
// every row of A, and then the odd ones. B is loaded for each of them, so that no register has to
// hold the other.
func (t *tileGen) wideStep(u int, addr string) {
	a := t.tmp(2)
	for half := range 2 {
		for j := range t.nv {
			t.halfOf(fmt.Sprintf("%d%s", j*t.Size(), addr), half, t.tmp(j))
		}
		for i := range t.rows {
			t.Op("VBROADCASTSS %d(SI), %s", t.wideA(u, i, half), a)
			for j := range t.nv {
				t.multiplyWide(a, t.tmp(j), t.acc(i, j, 2*u+half))
			}
		}
	}
}

// wideA is the offset of the half of a word of A: floats lie row by row along K, bytes side by
// side.
func (t *tileGen) wideA(u, i, half int) int {
	if t.pairs {
		return 4 * ((2*u+half)*t.rows + i)
	}
	return 4 * (2*(u*t.rows+i) + half)
}

// halfOf loads the even or the odd numbers of a register of B, widened.
func (t *tileGen) halfOf(addr string, half int, b string) {
	t.Op("VMOVUPS %s, %s", addr, b)
	shift := map[bool]string{false: "VPSRAW", true: "VPSRLW"}[t.vector.bytes == 2]
	switch {
	case t.pairs && half == 0:
		t.Op("VPSLLD $16, %s, %s", b, b)
	case t.pairs && t.Wide():
		t.Op("VPANDD %s, %s, %s", t.tmp(3), b, b)
	case t.pairs:
		t.Op("VPAND %s, %s, %s", t.tmp(3), b, b)
	case half == 0:
		t.Op("VPSLLW $8, %s, %s", b, b)
		t.Op("%s $8, %s, %s", shift, b, b)
	default:
		t.Op("%s $8, %s, %s", shift, b, b)
	}
}

// multiplyWide adds the products of a half of B with a word of A. Two products of 9 by 8 bits
// always fit the lanes of 32 bits that VPMADDWD adds them up in.
func (t *tileGen) multiplyWide(a, b, acc string) {
	if t.pairs {
		t.Op("VFMADD231PS %s, %s, %s", b, a, acc)
		return
	}
	t.Op("VPMADDWD %s, %s, %s", b, a, t.tmp(3))
	t.Op("VPADDD %s, %s, %s", t.tmp(3), acc, acc)
}

// widening writes the conversions of operands as they are packed, eight words at a time.
func widening(s *asm.File) {
	words := []uint32{1, 0x7fff, 1 << 22, 0xffff0000, 0x00ff00ff}
	s.Line("")
	s.Words("wideWords", "0x%08x", len(words), func(i int) any { return words[i] })
	roundWide(s)
	joinWide(s)
	widenWide(s, "Unsigned")
	widenWide(s, "Signed")
}

// roundConstants loads what roundRegister needs: Y15 one, Y14 just under half of what is kept, Y13
// the quiet bit of a NaN, Y12 what is kept.
func roundConstants(s *asm.File) {
	for i := range 4 {
		s.Op("VPBROADCASTD ·wideWords<>+%d(SB), Y%d", 4*i, 15-i)
	}
}

// roundRegister rounds the floats in a register to bfloat16, ties to even: half a unit of the kept
// part is added, less one where that part is even, and the rest is cut. NaN gets its quiet bit
// instead, so that it cannot carry into an infinity.
func roundRegister(s *asm.File, x, free1, free2 int) {
	s.Op("VPSRLD $16, Y%d, Y%d", x, free1)
	s.Op("VPAND Y15, Y%d, Y%d", free1, free1)
	s.Op("VPADDD Y14, Y%d, Y%d", free1, free1)
	s.Op("VPADDD Y%d, Y%d, Y%d", x, free1, free1)
	s.Op("VCMPPS $3, Y%d, Y%d, Y%d", x, x, free2)
	s.Op("VPOR Y13, Y%d, Y%d", x, x)
	s.Op("VBLENDVPS Y%d, Y%d, Y%d, Y%d", free2, x, free1, x)
	s.Op("VPAND Y12, Y%d, Y%d", x, x)
}

func roundWide(s *asm.File) {
	s.Func("roundAVX2", "dst, src *float32, n int", 24,
		"does what roundGo does, for 8*n floats, n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX")
	roundConstants(s)
	s.Label("loop")
	s.Op("VMOVUPS (SI), Y0")
	roundRegister(s, 0, 1, 2)
	s.Ops("VMOVUPS Y0, (DI)", "ADDQ $32, SI", "ADDQ $32, DI", "DECQ CX", "JNZ loop", "VZEROUPPER",
		"RET")
}

func joinWide(s *asm.File) {
	s.Func("joinAVX2", "dst, src *float32, cols, pairs int", 32,
		"does what joinGo does, for pairs >= 1 pairs of rows of cols floats, a multiple of 8.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ cols+16(FP), R9",
		"MOVQ pairs+24(FP), CX", "SHLQ $2, R9")
	roundConstants(s)
	s.Label("pair")
	s.Ops("MOVQ R9, DX")
	s.Label("columns")
	s.Ops("VMOVUPS (SI), Y0", "VMOVUPS (SI)(R9*1), Y3")
	roundRegister(s, 0, 1, 2)
	roundRegister(s, 3, 4, 5)
	s.Ops("VPSRLD $16, Y0, Y0", "VPOR Y3, Y0, Y0", "VMOVUPS Y0, (DI)", "ADDQ $32, SI",
		"ADDQ $32, DI", "SUBQ $32, DX", "JNZ columns",
		"ADDQ R9, SI", "DECQ CX", "JNZ pair", "VZEROUPPER", "RET")
}

func widenWide(s *asm.File, sign string) {
	name := "widen" + sign + "AVX2"
	s.Func(name, "dst, src *float32, n int", 24, "does what widenGo does, for 8*n words, n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX",
		"VPBROADCASTD ·wideWords<>+16(SB), Y15")
	s.Label("loop")
	s.Op("VMOVUPS (SI), Y1")
	if sign == "Signed" {
		s.Ops("VPSLLW $8, Y1, Y0", "VPSRAW $8, Y0, Y0", "VPSRAW $8, Y1, Y1")
	} else {
		s.Ops("VPAND Y15, Y1, Y0", "VPSRLW $8, Y1, Y1")
	}
	s.Ops("VPUNPCKLDQ Y1, Y0, Y2", "VPUNPCKHDQ Y1, Y0, Y3", "VPERM2I128 $0x20, Y3, Y2, Y0",
		"VPERM2I128 $0x31, Y3, Y2, Y1", "VMOVUPS Y0, (DI)", "VMOVUPS Y1, 32(DI)", "ADDQ $32, SI",
		"ADDQ $64, DI", "DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}
