package main

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/asm"
)

// halves16 writes the kernels of images of bfloat16 whose channels lie in the last axis; package
// conv defines what they compute with the methods model of halfCall and halfFinish, spreadGo and
// joinPlanesGo.
func halves16(s *asm.File) {
	// Words of pairs of planes in turn, as vectors of 16 have them.
	s.Line("")
	s.Words("pairsLow", "%d", 16, func(i int) any { return i/2 + i%2*16 })
	s.Line("")
	s.Words("pairsHigh", "%d", 16, func(i int) any { return 8 + i/2 + i%2*16 })
	// the least power of two that is not subnormal, -log2(e), a polynomial of 2^x from -1/2 to 1/2,
	// highest power first, and 1
	s.Line("")
	constants := []float64{-126, -math.Log2E, 0.055171654, 0.24261113, 0.69326097, 0.99992806, 1}
	s.Words("silu16", "0x%08x", len(constants), func(i int) any {
		return math.Float32bits(float32(constants[i]))
	})
	halfBlocks(s, "halfBlocks", true)
	halfBlocks(s, "halfUpper", false)
	halfFinish(s)
	halfWhole(s)
	halfTurns(s)
	spread(s)
	joinPlanes(s)
	windows16(s)
}

// halfBlocks writes products of blocks of up to 32 rows, or, without lower registers, 16, by 32
// columns: R13 the first row of the block, SI and DX those of two registers' stretches, R8 the
// distance of rows, BX the weights, R14 the table of stretches, CX the stretches left, R10 and R12
// the sums, AX the blocks left. Registers 0 to 3 are sums, 4 and 5 pixels, 6 and 7 weights.
func halfBlocks(s *asm.File, name string, lower bool) {
	s.Func(name, "t *halfArgs", 8, "does what halfCall.model does.")
	s.Op("MOVQ t+0(FP), DI")
	s.Tile(asm.Tile{Name: "ldtilecfg", Base: "DI"})
	s.Ops("MOVQ halfArgs_x(DI), R13", "MOVQ halfArgs_sums(DI), R10",
		"MOVQ halfArgs_lda(DI), R8", "MOVQ $128, R9", "MOVQ halfArgs_blocks(DI), AX",
		"MOVQ R8, R11", "SHLQ $5, R11")
	s.Label("block")
	sums := 2
	if lower {
		sums = 4
	}
	for i := range sums {
		s.Tile(asm.Tile{Name: "tilezero", Dst: i})
	}
	s.Ops("MOVQ halfArgs_w(DI), BX", "MOVQ halfArgs_offs(DI), R14",
		"MOVQ halfArgs_steps(DI), CX")
	s.Label("step")
	halfStep(s, lower)
	s.Ops("ADDQ $8, R14", "ADDQ $2048, BX", "DECQ CX", "JNZ step", "LEAQ 2048(R10), R12")
	for i := range sums {
		s.Tile(asm.Tile{Name: "tilestored", Dst: i, Base: []string{"R10", "R12"}[i/2], Index: "R9",
			Disp: i % 2 * 64})
	}
	s.Ops("ADDQ R11, R13", "ADDQ $4096, R10", "DECQ AX", "JNZ block")
	s.Tile(asm.Tile{Name: "tilerelease"})
	s.Op("RET")
}

// halfFinish writes what becomes of rows of 32 sums: SI the sums, DI the results, DX the residual,
// or 0, R8 the distance of rows, CX the rows left, Z28 and Z29 the bias, Z30 and Z31 the bounds.
func halfFinish(s *asm.File) {
	s.Func("halfFinishRows", "t *halfFinishArgs", 8, "does what halfFinish.model does.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ halfFinishArgs_sums(BX), SI",
		"MOVQ halfFinishArgs_y(BX), DI", "MOVQ halfFinishArgs_residual(BX), DX",
		"MOVQ halfFinishArgs_ldy(BX), R8", "MOVQ halfFinishArgs_rows(BX), CX",
		"MOVL halfFinishArgs_mask(BX), AX", "KMOVD AX, K1", "KMOVW AX, K2", "SHRL $16, AX",
		"KMOVW AX, K3", "VBROADCASTSS halfFinishArgs_lo(BX), Z30",
		"VBROADCASTSS halfFinishArgs_hi(BX), Z31", "VPXORD Z28, Z28, Z28",
		"VPXORD Z29, Z29, Z29", "MOVQ halfFinishArgs_bias(BX), R9", "TESTQ R9, R9", "JZ begin",
		"VMOVUPS.Z (R9), K2, Z28", "VMOVUPS.Z 64(R9), K3, Z29")
	s.Label("begin")
	siluConstants(s, 19)
	s.Label("row")
	s.Ops("VADDPS (SI), Z28, Z0", "VADDPS 64(SI), Z29, Z1", "TESTQ DX, DX", "JZ bound",
		"VPMOVZXWD.Z (DX), K2, Z2", "VPMOVZXWD.Z 32(DX), K3, Z3", "ADDQ R8, DX",
		"VPSLLD $16, Z2, Z2", "VPSLLD $16, Z3, Z3", "VADDPS Z2, Z0, Z0", "VADDPS Z3, Z1, Z1")
	s.Label("bound")
	// of two operands one of which is NaN the second, here the first written, is the result
	for i := range 2 {
		s.Op("VMAXPS Z%d, Z30, Z%d", i, i)
		s.Op("VMINPS Z%d, Z31, Z%d", i, i)
	}
	s.Ops("CMPL halfFinishArgs_silu(BX), $0", "JEQ store")
	silu16(s, 0, 1, 2)
	s.Label("store")
	s.Ops("CMPL halfFinishArgs_keep(BX), $0", "JNE keep")
	toHalves(s, 0, 1, 2)
	s.Ops("VMOVDQU16 Z2, K1, (DI)", "ADDQ R8, DI", "ADDQ $128, SI", "DECQ CX", "JNZ row",
		"VZEROUPPER", "RET")
	s.Label("keep")
	s.Ops("VMOVUPS Z0, (SI)", "VMOVUPS Z1, 64(SI)", "ADDQ $128, SI", "DECQ CX", "JNZ row",
		"VZEROUPPER", "RET")
}

// halfWhole writes products of blocks as halfBlocks has them, and makes results of the rows of each
// while the next is multiplied: R13 the first row of the block, SI and DX those of two registers'
// stretches, R8 the distance of rows, BX the weights, R14 the table of stretches, CX the stretches
// left, R10 the sums of the block, R12 the next row of sums of the one before, R15 its place in the
// table of rows, R11 the rows of it that are left, AX those for this stretch.
func halfWhole(s *asm.File) {
	s.Func("halfWholes", "t *halfArgs", 8, "does what halfWhole.model does, for blocks of 32 rows.")
	halfBegin(s)
	s.Label("block")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tilezero", Dst: i})
	}
	s.Ops("MOVQ halfArgs_w(DI), BX", "MOVQ halfArgs_offs(DI), R14",
		"MOVQ halfArgs_steps(DI), CX")
	s.Label("step")
	halfStep(s, true)
	halfBetween(s, "")
	s.Ops("ADDQ $8, R14", "ADDQ $2048, BX", "DECQ CX", "JNZ step", "LEAQ 2048(R10), DX")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tilestored", Dst: i, Base: []string{"R10", "DX"}[i/2], Index: "R9",
			Disp: i % 2 * 64})
	}
	s.Ops("MOVQ R10, R12", "MOVQ $32, R11", "MOVQ halfArgs_both(DI), DX", "SUBQ R10, DX",
		"MOVQ DX, R10", "MOVQ R8, DX", "SHLQ $5, DX", "ADDQ DX, R13",
		"DECQ halfArgs_blocks(DI)", "JNZ block")
	halfEnd(s)
}

// halfTurns writes the same for blocks of up to 16 rows. They have the sums of two registers in
// turn with those of two others, so that one is stored and the next begins while the other is
// multiplied: of few stretches a block has little else to do meanwhile. Registers are those of
// halfWhole.
func halfTurns(s *asm.File) {
	s.Func("halfTurns", "t *halfArgs", 8, "does what halfWhole.model does, for blocks of 16 rows.")
	halfBegin(s)
	for half, name := range []string{"Even", "Odd"} {
		s.Label("block" + name)
		sums := [2]int{2 * half, 2*half + 1}
		for _, i := range sums {
			s.Tile(asm.Tile{Name: "tilezero", Dst: i})
		}
		s.Ops("MOVQ halfArgs_w(DI), BX", "MOVQ halfArgs_offs(DI), R14",
			"MOVQ halfArgs_steps(DI), CX")
		s.Label("step" + name)
		s.Ops("MOVQ (R14), SI", "ADDQ R13, SI")
		s.Tile(asm.Tile{Name: "tileloadd", Dst: 6, Base: "BX", Index: "R9"})
		s.Tile(asm.Tile{Name: "tileloadd", Dst: 4 + half, Base: "SI", Index: "R8"})
		s.Tile(asm.Tile{Name: "tileloadd", Dst: 7, Base: "BX", Index: "R9", Disp: 64})
		for i, sum := range sums {
			s.Tile(asm.Tile{Name: "tdpbf16ps", Dst: sum, A: 4 + half, B: 6 + i})
		}
		halfBetween(s, name)
		s.Ops("ADDQ $8, R14", "ADDQ $2048, BX", "DECQ CX", "JNZ step"+name,
			fmt.Sprintf("LEAQ %d(R10), R12", 2048*half))
		for i, sum := range sums {
			s.Tile(asm.Tile{Name: "tilestored", Dst: sum, Base: "R12", Index: "R9", Disp: 64 * i})
		}
		s.Ops("MOVQ $16, R11", "MOVQ R8, DX", "SHLQ $4, DX", "ADDQ DX, R13",
			"DECQ halfArgs_blocks(DI)", "JZ last")
	}
	s.Op("JMP blockEven")
	s.Label("last")
	halfEnd(s)
}

// halfBegin loads what stays in registers.
func halfBegin(s *asm.File) {
	s.Op("MOVQ t+0(FP), DI")
	s.Tile(asm.Tile{Name: "ldtilecfg", Base: "DI"})
	s.Ops("MOVQ halfArgs_x(DI), R13", "MOVQ halfArgs_sums(DI), R10", "MOVQ halfArgs_lda(DI), R8",
		"MOVQ $128, R9", "MOVQ halfArgs_table(DI), R15", "XORQ R11, R11", "MOVQ R10, R12",
		"MOVL halfArgs_mask(DI), AX", "KMOVD AX, K1", "KMOVW AX, K2", "SHRL $16, AX",
		"KMOVW AX, K3", "VBROADCASTSS halfArgs_lo(DI), Z30",
		"VBROADCASTSS halfArgs_hi(DI), Z31", "VPXORD Z28, Z28, Z28", "VPXORD Z29, Z29, Z29",
		"MOVQ halfArgs_bias(DI), AX", "TESTQ AX, AX", "JZ begin", "VMOVUPS.Z (AX), K2, Z28",
		"VMOVUPS.Z 64(AX), K3, Z29")
	s.Label("begin")
	siluConstants(s, 19)
}

// halfBetween fetches weights, and makes results of some rows of the block before, while a stretch
// is multiplied.
func halfBetween(s *asm.File, label string) {
	s.Ops("MOVQ halfArgs_lines(DI), AX", "TESTQ AX, AX", "JZ fetched"+label,
		"MOVQ halfArgs_ahead(DI), DX")
	s.Label("fetch" + label)
	s.Ops("PREFETCHT1 (DX)", "ADDQ $64, DX", "DECQ AX", "JNZ fetch"+label,
		"MOVQ DX, halfArgs_ahead(DI)")
	s.Label("fetched" + label)
	s.Ops("MOVQ halfArgs_each(DI), AX", "TESTQ R11, R11", "JZ next"+label)
	s.Label("row" + label)
	halfRow(s, label)
	s.Ops("DECQ R11", "JZ next"+label, "DECQ AX", "JNZ row"+label)
	s.Label("next" + label)
}

// halfEnd makes results of the last block.
func halfEnd(s *asm.File) {
	s.Tile(asm.Tile{Name: "tilerelease"})
	s.Label("rest")
	halfRow(s, "Rest")
	s.Ops("DECQ R11", "JNZ rest", "VZEROUPPER", "RET")
}

// halfStep multiplies a stretch.
func halfStep(s *asm.File, lower bool) {
	s.Ops("MOVQ (R14), SI", "ADDQ R13, SI")
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 6, Base: "BX", Index: "R9"})
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 4, Base: "SI", Index: "R8"})
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 7, Base: "BX", Index: "R9", Disp: 64})
	s.Tile(asm.Tile{Name: "tdpbf16ps", Dst: 0, A: 4, B: 6})
	if lower {
		s.Ops("LEAQ (SI)(R8*8), DX", "LEAQ (DX)(R8*8), DX")
		s.Tile(asm.Tile{Name: "tileloadd", Dst: 5, Base: "DX", Index: "R8"})
	}
	s.Tile(asm.Tile{Name: "tdpbf16ps", Dst: 1, A: 4, B: 7})
	if lower {
		s.Tile(asm.Tile{Name: "tdpbf16ps", Dst: 2, A: 5, B: 6})
		s.Tile(asm.Tile{Name: "tdpbf16ps", Dst: 3, A: 5, B: 7})
	}
}

// halfRow makes results of one row of sums, where the table has a place for it.
func halfRow(s *asm.File, label string) {
	s.Ops("MOVQ (R15), DX", "ADDQ $8, R15", "TESTQ DX, DX", "JS skip"+label,
		"VADDPS (R12), Z28, Z0", "VADDPS 64(R12), Z29, Z1", "MOVQ halfArgs_residual(DI), SI",
		"TESTQ SI, SI", "JZ bound"+label, "VPMOVZXWD.Z (SI)(DX*1), K2, Z2",
		"VPMOVZXWD.Z 32(SI)(DX*1), K3, Z3", "VPSLLD $16, Z2, Z2", "VPSLLD $16, Z3, Z3",
		"VADDPS Z2, Z0, Z0", "VADDPS Z3, Z1, Z1")
	s.Label("bound" + label)
	for i := range 2 {
		s.Op("VMAXPS Z%d, Z30, Z%d", i, i)
		s.Op("VMINPS Z%d, Z31, Z%d", i, i)
	}
	s.Op("CMPL halfArgs_silu(DI), $0")
	s.Op("JEQ store%s", label)
	silu16(s, 0, 1, 2)
	s.Label("store" + label)
	toHalves(s, 0, 1, 2)
	s.Ops("ADDQ halfArgs_y(DI), DX", "VMOVDQU16 Z2, K1, (DX)")
	s.Label("skip" + label)
	s.Op("ADDQ $128, R12")
}

// spread writes copies of pixels of some bytes, apart, to larger ones.
func spread(s *asm.File) {
	s.Func("spreadAVX512", "dst, src *uint16, n, bytes, step, size int", 48,
		"does what spreadGo does, with sizes in bytes; n >= 1.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX",
		"MOVQ bytes+24(FP), DX", "MOVQ step+32(FP), R8", "MOVQ size+40(FP), R9",
		"SUBQ DX, R9", "VPXORD Z1, Z1, Z1")
	// K1 masks the last bytes of a pixel, K2 the last zeros behind it
	for i, r := range []string{"DX", "R9"} {
		s.Op("MOVQ $-1, AX")
		s.Op("MOVQ %s, BX", r)
		s.Ops("ANDQ $63, BX", "BZHIQ BX, AX, AX")
		s.Op("KMOVQ AX, K%d", i+1)
	}
	s.Label("pixel")
	s.Ops("MOVQ SI, R10", "MOVQ DX, BX", "SHRQ $6, BX", "JZ last")
	s.Label("line")
	s.Ops("VMOVDQU64 (R10), Z0", "VMOVDQU64 Z0, (DI)", "ADDQ $64, R10", "ADDQ $64, DI", "DECQ BX",
		"JNZ line")
	s.Label("last")
	s.Ops("VMOVDQU8.Z (R10), K1, Z0", "VMOVDQU8 Z0, K1, (DI)", "MOVQ DX, BX", "ANDQ $63, BX",
		"ADDQ BX, DI", "MOVQ R9, BX", "SHRQ $6, BX", "JZ rest")
	s.Label("zero")
	s.Ops("VMOVDQU64 Z1, (DI)", "ADDQ $64, DI", "DECQ BX", "JNZ zero")
	s.Label("rest")
	s.Ops("VMOVDQU8 Z1, K2, (DI)", "MOVQ R9, BX", "ANDQ $63, BX", "ADDQ BX, DI", "ADDQ R8, SI",
		"DECQ CX", "JNZ pixel", "VZEROUPPER", "RET")
}

// joinPlanes writes pixels of four elements of up to four planes: SI, R9, R10 and R11 the planes,
// AX those of which there are bits.
func joinPlanes(s *asm.File) {
	s.Func("joinPlanesAVX512", "dst *uint16, planes *float32, plane, c, n int) (odd int", 48,
		"does what joinPlanesGo does, for multiples of 16 pixels.")
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ planes+8(FP), SI", "MOVQ plane+16(FP), R8",
		"MOVQ c+24(FP), DX", "MOVQ n+32(FP), CX", "SHLQ $2, R8", "LEAQ (SI)(R8*1), R9",
		"LEAQ (R9)(R8*1), R10", "LEAQ (R10)(R8*1), R11", "KXORW K1, K1, K1",
		"VMOVDQU32 ·pairsLow<>(SB), Z30", "VMOVDQU32 ·pairsHigh<>(SB), Z31", "XORQ AX, AX",
		"MOVL $0xfeff0000, BX", "VPBROADCASTD BX, Z29") // twice the least that rounds to infinity
	for i := range 4 {
		s.Op("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	s.Label("pixels")
	for i, r := range []string{"SI", "R9", "R10", "R11"} {
		s.Op("CMPQ DX, $%d", i)
		s.Op("JLE join")
		s.Op("VMOVUPS (%s)(AX*1), Z%d", r, i)
		s.Op("VPSLLD $1, Z%d, Z6", i)
		s.Ops("VPCMPUD $5, Z29, Z6, K2", "KORW K2, K1, K1")
	}
	s.Label("join")
	// planes 0 and 2 in the lower halves, 1 and 3 in the upper ones
	for i := range 2 {
		toHalves(s, 2*i, 2*i+1, 4+i)
		s.Op("VEXTRACTI64X4 $1, Z%d, Y%d", 4+i, 6)
		s.Op("VPMOVZXWD Y%d, Z%d", 4+i, 4+i)
		s.Op("VPMOVZXWD Y%d, Z%d", 6, 6)
		s.Op("VPSLLD $16, Z6, Z6")
		s.Op("VPORD Z6, Z%d, Z%d", 4+i, 4+i)
	}
	s.Ops("VMOVDQA32 Z30, Z8", "VPERMI2D Z5, Z4, Z8", "VMOVDQU32 Z8, (DI)",
		"VMOVDQA32 Z31, Z9", "VPERMI2D Z5, Z4, Z9", "VMOVDQU32 Z9, 64(DI)",
		"ADDQ $64, AX", "ADDQ $128, DI", "SUBQ $16, CX", "JG pixels",
		"KMOVW K1, AX", "MOVQ AX, odd+40(FP)", "VZEROUPPER", "RET")
}

// siluConstants loads what silu16 wants into seven registers from number at on.
func siluConstants(s *asm.File, at int) {
	for i := range 7 {
		s.Op("VBROADCASTSS ·silu16<>+%d(SB), Z%d", 4*i, at+i)
	}
}

// silu16 writes x/(1+exp(-x)) of two registers, right to bfloat16: the power of two by a polynomial
// of degree 3, the reciprocal by 14 bits. Three registers from number free on are overwritten for
// each, and the constants are in registers 19 to 25. Powers stop short of subnormal numbers, which
// take processors a hundred times as long.
func silu16(s *asm.File, first, second, free int) {
	for i, x := range []int{first, second} {
		t, n, p := free+3*i, free+3*i+1, free+3*i+2
		s.Op("VMULPS Z20, Z%d, Z%d", x, t)
		s.Op("VMAXPS Z%d, Z19, Z%d", t, t)
		s.Op("VRNDSCALEPS $8, Z%d, Z%d", t, n)
		s.Op("VSUBPS Z%d, Z%d, Z%d", n, t, t)
		s.Op("VMOVAPS Z21, Z%d", p)
		s.Op("VFMADD213PS Z22, Z%d, Z%d", t, p)
		s.Op("VFMADD213PS Z23, Z%d, Z%d", t, p)
		s.Op("VFMADD213PS Z24, Z%d, Z%d", t, p)
		s.Op("VSCALEFPS Z%d, Z%d, Z%d", n, p, p)
		s.Op("VADDPS Z25, Z%d, Z%d", p, p)
		s.Op("VRCP14PS Z%d, Z%d", p, p)
		s.Op("VMULPS Z%d, Z%d, Z%d", p, x, x)
	}
}

// toHalves rounds two registers of floats to bfloat16, those of low to the lower half of dst.
func toHalves(s *asm.File, low, high, dst int) {
	s.EVEX(asm.EVEX{Prefix: asm.PrefixF2, Opcode: 0x72, Dst: dst, Src1: high, Src2: low},
		fmt.Sprintf("vcvtne2ps2bf16 %%zmm%d,%%zmm%d,%%zmm%d", low, high, dst))
}
