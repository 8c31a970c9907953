package main

import "github.com/weirgpu/weir/internal/asm"

// The kernel of images of bytes on tiles (AMX-INT8); package conv defines what it computes with
// tiledCall.model. Registers 0 to 3 are sums of 32 pixels by 32 channels, 4 and 5 bytes of pixels,
// 6 and 7 weights. Sums go through a block in the frame, where they are made bytes of.

// blockBytes are those of a block of sums, and what aligns it.
const blockBytes = 4*32*32 + 64

// tiledPixels writes the kernel: DI is the call, R13 the first pixel of a block and R8 the distance
// of pixels, R9 the distance of rows of weights and of the block, R10 and R12 the block, R11 the
// result, R14 the masks of pixels, R15 weights that are fetched meanwhile, SI the places of steps,
// BX weights and CX the steps left.
func tiledPixels(s *asm.File) {
	// After two packings the words of a row lie four apart.
	s.Line("")
	s.Words("pixelWords", "%d", 16, func(i int) any { return i%4*4 + i/4 })
	s.Declare("\n// tiledPixels does what tiledCall.model does.\n//\n//go:noescape\n" +
		"func tiledPixels(t *tiledArgs)\n")
	s.Open("tiledPixels", "(t *tiledArgs)", blockBytes, 8)
	s.Op("MOVQ t+0(FP), DI")
	s.Tile(asm.Tile{Name: "ldtilecfg", Base: "DI"})
	s.Ops("MOVQ SP, R10", "ADDQ $63, R10", "ANDQ $-64, R10", "MOVQ tiledArgs_a(DI), R13",
		"MOVQ tiledArgs_lda(DI), R8", "MOVQ $128, R9", "MOVQ tiledArgs_dst(DI), R11",
		"MOVQ tiledArgs_kept(DI), R14", "MOVQ tiledArgs_ahead(DI), R15")
	tiledConstants(s)
	s.Label("block")
	s.Ops("MOVQ (tiledArgs_at+pixelScale_add)(DI), BX", "XORL CX, CX")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tileloadd", Dst: i, Base: "BX", Index: "CX", Disp: i % 2 * 64})
	}
	s.Ops("MOVQ tiledArgs_b(DI), BX", "MOVQ tiledArgs_steps(DI), SI", "MOVQ tiledArgs_count(DI), CX",
		"MOVQ tiledArgs_aTile(DI), R12")
	s.Label("step")
	tiledStep(s)
	s.Ops("DECQ CX", "JNZ step", "LEAQ 2048(R10), R12")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tilestored", Dst: i, Base: []string{"R10", "R12"}[i/2], Index: "R9",
			Disp: i % 2 * 64})
	}
	tiledRows(s)
	s.Ops("ADDQ $4, R14", "MOVQ R8, DX", "SHLQ $5, DX", "ADDQ DX, R13", "DECQ tiledArgs_blocks(DI)",
		"JNZ block", "MOVQ R15, tiledArgs_ahead(DI)")
	s.Tile(asm.Tile{Name: "tilerelease"})
	s.Ops("VZEROUPPER", "RET")
}

// tiledConstants loads what makes bytes of sums: Z16 to Z21 the scales of 32 channels, and the
// second stage's, Z22 to Z24 the limits and the zero point of the first of two, Z25 the zero point,
// Z26 what flips bytes, Z27 the order of words, Z28 the shift and Z29 the lane of sums of patches.
func tiledConstants(s *asm.File) {
	for i, name := range []string{"scale", "thenScale", "thenBias"} {
		s.Op("MOVQ (tiledArgs_at+pixelScale_%s)(DI), DX", name)
		s.Op("VMOVUPS (DX), Z%d", 16+2*i)
		s.Op("VMOVUPS 64(DX), Z%d", 17+2*i)
	}
	for i, name := range []string{"lo", "hi", "zero"} {
		s.Op("VBROADCASTSS (tiledArgs_at+pixelScale_%s)(DI), Z%d", name, 22+i)
	}
	s.Ops("VPBROADCASTD (tiledArgs_at+pixelScale_offset)(DI), Z25",
		"VPBROADCASTD (tiledArgs_at+pixelScale_flip)(DI), Z26",
		"VMOVDQU32 ·pixelWords<>(SB), Z27", "VPBROADCASTD tiledArgs_shift(DI), Z28",
		"MOVL $15, DX", "VPBROADCASTD DX, Z29", "KMOVD tiledArgs_mask(DI), K1")
}

// tiledStep multiplies 64 bytes of 32 pixels. Weights of the next panel are fetched, 1 KB a step
// until all are.
func tiledStep(s *asm.File) {
	s.Ops("MOVQ (SI), DX", "ADDQ R13, DX", "LEAQ (DX)(R12*1), AX")
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 6, Base: "BX", Index: "R9"})
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 4, Base: "DX", Index: "R8"})
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 7, Base: "BX", Index: "R9", Disp: 64})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 0, A: 4, B: 6})
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 5, Base: "AX", Index: "R8"})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 1, A: 4, B: 7})
	s.Ops("CMPQ R15, tiledArgs_end(DI)", "JHS fetched")
	for i := range 16 {
		s.Op("PREFETCHT1 %d(R15)", 64*i)
	}
	s.Op("ADDQ $1024, R15")
	s.Label("fetched")
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 2, A: 5, B: 6})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 3, A: 5, B: 7})
	s.Ops("ADDQ $8, SI", "ADDQ $2048, BX")
}

// tiledRows makes bytes of those pixels of the block that are kept, two at a time: AX is the mask of
// those left, BX and CX the pixels' sums.
func tiledRows(s *asm.File) {
	s.Ops("MOVL (R14), AX", "MOVQ tiledArgs_ldd(DI), R12", "TESTL AX, AX", "JZ stored")
	s.Label("pair")
	s.Ops("TZCNTL AX, BX", "BLSRL AX, AX", "TZCNTL AX, CX", "CMPL CX, $31", "CMOVLHI BX, CX",
		"SHLQ $7, BX", "SHLQ $7, CX", "ADDQ R10, BX", "ADDQ R10, CX", "VMOVDQA32 (BX), Z0",
		"VMOVDQA32 64(BX), Z1", "VMOVDQA32 (CX), Z2", "VMOVDQA32 64(CX), Z3",
		"CMPL tiledArgs_shift(DI), $0", "JE scale")
	for i := range 2 {
		s.Op("VPERMD Z%d, Z29, Z4", 2*i+1)
		s.Op("VPMULLD Z28, Z4, Z4")
		s.Op("VPADDD Z4, Z%d, Z%d", 2*i, 2*i)
		s.Op("VPADDD Z4, Z%d, Z%d", 2*i+1, 2*i+1)
	}
	s.Label("scale")
	for i := range 4 {
		s.Op("VCVTDQ2PS Z%d, Z%d", i, i)
		s.Op("VMULPS Z%d, Z%d, Z%d", 16+i%2, i, i)
	}
	s.Ops("CMPL (tiledArgs_at+pixelScale_twice)(DI), $0", "JE round")
	for i := range 4 {
		s.Op("VMAXPS Z22, Z%d, Z%d", i, i)
		s.Op("VMINPS Z23, Z%d, Z%d", i, i)
		s.Op("VRNDSCALEPS $8, Z%d, Z%d", i, i)
		s.Op("VADDPS Z24, Z%d, Z%d", i, i)
		s.Op("VFMADD213PS Z%d, Z%d, Z%d", 20+i%2, 18+i%2, i)
	}
	s.Label("round")
	for i := range 4 {
		s.Op("VCVTPS2DQ Z%d, Z%d", i, i)
	}
	s.Ops("VPACKSSDW Z1, Z0, Z0", "VPACKSSDW Z3, Z2, Z2", "VPADDSW Z25, Z0, Z0",
		"VPADDSW Z25, Z2, Z2", "VPACKUSWB Z2, Z0, Z0", "VPXORD Z26, Z0, Z0", "VPERMD Z0, Z27, Z0",
		"TESTL AX, AX", "JZ last", "VMOVDQU8 Y0, K1, (R11)", "VEXTRACTI64X4 $1, Z0, Y0",
		"VMOVDQU8 Y0, K1, (R11)(R12*1)", "LEAQ (R11)(R12*2), R11", "BLSRL AX, AX", "JNZ pair",
		"JMP stored")
	s.Label("last")
	s.Ops("VMOVDQU8 Y0, K1, (R11)", "ADDQ R12, R11")
	s.Label("stored")
}
