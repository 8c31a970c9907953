package main

import "github.com/weirgpu/weir/internal/asm"

// The kernel of images of bytes on tiles (AMX-INT8); package conv defines what it computes with
// tiledCall.model. Registers 0 to 3 are sums of 32 pixels by 32 channels, 4 and 5 bytes of pixels,
// 6 and 7 weights. Sums go through a block in the frame, where they are made bytes of.

// blockBytes are those of a block of sums, and what aligns it.
const blockBytes = 4*32*32 + 64

// tiledPixels writes the kernel: DI is the call, R13 the first pixel of a block and R8 the distance
// of pixels, R12 what is from it to the 17th, 0 where there is none, R9 the distance of rows of
// weights and of the block, R10 the block, R11 the result, R15 weights that are fetched meanwhile,
// SI the places of steps and BX weights. AX is the mask of those pixels of the block before that
// bytes are made of while a block is multiplied: so many each step.
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
		"MOVQ tiledArgs_lda(DI), R8", "MOVQ tiledArgs_aTile(DI), R12", "MOVQ $128, R9",
		"MOVQ tiledArgs_dst(DI), R11", "MOVQ tiledArgs_ahead(DI), R15", "XORL AX, AX")
	tiledConstants(s)
	s.Label("block")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tilezero", Dst: i})
	}
	s.Ops("MOVQ tiledArgs_b(DI), BX", "MOVQ tiledArgs_places(DI), SI",
		"MOVQ tiledArgs_count(DI), DX", "MOVQ DX, tiledArgs_left(DI)")
	s.Label("step")
	tiledStep(s)
	s.Label("multiplied")
	s.Ops("MOVQ tiledArgs_pairs(DI), R14", "TESTL AX, AX", "JZ stepped")
	tiledPairs(s, "Now")
	s.Label("stepped")
	s.Ops("DECQ tiledArgs_left(DI)", "JNZ step", "MOVQ $32, R14", "TESTL AX, AX", "JZ store")
	tiledPairs(s, "Left")
	s.Label("store")
	s.Op("LEAQ 2048(R10), DX")
	for i := range 4 {
		s.Tile(asm.Tile{Name: "tilestored", Dst: i, Base: []string{"R10", "DX"}[i/2], Index: "R9",
			Disp: i % 2 * 64})
	}
	s.Ops("MOVQ tiledArgs_kept(DI), DX", "MOVL (DX), AX", "ADDQ $4, tiledArgs_kept(DI)",
		"MOVQ R8, DX", "SHLQ $5, DX", "ADDQ DX, R13", "DECQ tiledArgs_blocks(DI)", "JNZ block",
		"MOVQ $32, R14", "TESTL AX, AX", "JZ end")
	tiledPairs(s, "Last")
	s.Label("end")
	s.Op("MOVQ R15, tiledArgs_ahead(DI)")
	s.Tile(asm.Tile{Name: "tilerelease"})
	s.Ops("VZEROUPPER", "RET")
}

// tiledConstants loads what makes bytes of sums: Z16 to Z21 the scales of 32 channels, and the
// second stage's, Z22 to Z24 the limits and the zero point of the first of two, Z25 the zero point,
// Z26 what flips bytes, Z27 the order of words, Z28 the shift, Z29 the lane of sums of patches, Z30
// and Z31 what is added to sums.
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
		"MOVL $15, DX", "VPBROADCASTD DX, Z29", "MOVQ (tiledArgs_at+pixelScale_add)(DI), DX",
		"VMOVDQU32 (DX), Z30", "VMOVDQU32 64(DX), Z31", "KMOVD tiledArgs_mask(DI), K1")
}

// tiledStep multiplies 64 bytes of 32 pixels, or of 16. Pixels whose bytes are seen once are loaded
// past the first cache, others into it. Weights of the next panel are fetched, 1 KB a step until
// all are.
func tiledStep(s *asm.File) {
	s.Ops("MOVQ (SI), DX", "ADDQ R13, DX", "ADDQ $8, SI", "CMPQ R15, tiledArgs_end(DI)",
		"JHS fetched")
	for i := range 16 {
		s.Op("PREFETCHT1 %d(R15)", 64*i)
	}
	s.Op("ADDQ $1024, R15")
	s.Label("fetched")
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 6, Base: "BX", Index: "R9"})
	s.Ops("CMPL tiledArgs_once(DI), $0", "JNE once")
	tiledProducts(s, "tileloadd", "upper")
	s.Op("JMP multiplied")
	s.Label("once")
	tiledProducts(s, "tileloaddt1", "upperOnce")
}

// tiledProducts multiplies by weights of which the first are loaded, and leaves the second pixels
// out where there are none.
func tiledProducts(s *asm.File, load, label string) {
	s.Tile(asm.Tile{Name: load, Dst: 4, Base: "DX", Index: "R8"})
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 7, Base: "BX", Index: "R9", Disp: 64})
	s.Op("ADDQ $2048, BX")
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 0, A: 4, B: 6})
	s.Ops("TESTQ R12, R12", "JZ "+label, "ADDQ R12, DX")
	s.Tile(asm.Tile{Name: load, Dst: 5, Base: "DX", Index: "R8"})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 1, A: 4, B: 7})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 2, A: 5, B: 6})
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 3, A: 5, B: 7})
	s.Op("JMP multiplied")
	s.Label(label)
	s.Tile(asm.Tile{Name: "tdpbusd", Dst: 1, A: 4, B: 7})
}

// tiledPairs makes bytes of the sums of pixels of the block, two at a time, R14 times or until none
// is left of those in the mask.
func tiledPairs(s *asm.File, name string) {
	label := func(l string) string { return l + name }
	// Ones up to the highest bit are pixels that follow each other; there must be pairs of them.
	s.Ops("LEAL -1(AX), CX", "ORL AX, CX", "ADDL tiledArgs_plain(DI), CX", "JNZ "+label("pair"),
		"TZCNTL AX, DX", "TESTL $1, DX", "JNZ "+label("pair"), "SHLQ $7, DX", "ADDQ R10, DX")
	s.Label(label("plain"))
	for i := range 4 {
		s.Op("VPADDD %d(DX), Z%d, Z%d", 64*i, 30+i%2, i)
	}
	tiledScale(s)
	tiledRound(s)
	s.Ops("VMOVDQU Y0, (R11)", "ADDQ tiledArgs_ldd(DI), R11", "VEXTRACTI64X4 $1, Z0, (R11)",
		"ADDQ tiledArgs_ldd(DI), R11", "ADDQ $256, DX", "SHLL $2, AX", "JZ "+label("done"),
		"DECQ R14", "JNZ "+label("plain"), "JMP "+label("done"))
	s.Label(label("pair"))
	s.Ops("TZCNTL AX, DX", "BLSRL AX, AX", "TZCNTL AX, CX", "CMOVLCS DX, CX", "SHLQ $7, DX",
		"SHLQ $7, CX")
	for i := range 4 {
		s.Op("VPADDD %d(R10)(%s*1), Z%d, Z%d", i%2*64, []string{"DX", "CX"}[i/2], 30+i%2, i)
	}
	s.Ops("CMPL tiledArgs_shift(DI), $0", "JE "+label("scale"))
	for i := range 2 {
		s.Op("VPERMD Z%d, Z29, Z4", 2*i+1)
		s.Op("VPMULLD Z28, Z4, Z4")
		s.Op("VPADDD Z4, Z%d, Z%d", 2*i, 2*i)
		s.Op("VPADDD Z4, Z%d, Z%d", 2*i+1, 2*i+1)
	}
	s.Label(label("scale"))
	tiledScale(s)
	s.Ops("CMPL (tiledArgs_at+pixelScale_twice)(DI), $0", "JE "+label("round"))
	for i := range 4 {
		s.Op("VMAXPS Z22, Z%d, Z%d", i, i)
		s.Op("VMINPS Z23, Z%d, Z%d", i, i)
		s.Op("VRNDSCALEPS $8, Z%d, Z%d", i, i)
		s.Op("VADDPS Z24, Z%d, Z%d", i, i)
		s.Op("VFMADD213PS Z%d, Z%d, Z%d", 20+i%2, 18+i%2, i)
	}
	s.Label(label("round"))
	tiledRound(s)
	s.Ops("VMOVDQU8 Y0, K1, (R11)", "ADDQ tiledArgs_ldd(DI), R11", "TESTL AX, AX",
		"JZ "+label("done"), "BLSRL AX, AX", "VEXTRACTI64X4 $1, Z0, Y0", "VMOVDQU8 Y0, K1, (R11)",
		"ADDQ tiledArgs_ldd(DI), R11", "TESTL AX, AX", "JZ "+label("done"), "DECQ R14",
		"JNZ "+label("pair"))
	s.Label(label("done"))
}

// tiledScale scales the sums of two pixels.
func tiledScale(s *asm.File) {
	for i := range 4 {
		s.Op("VCVTDQ2PS Z%d, Z%d", i, i)
		s.Op("VMULPS Z%d, Z%d, Z%d", 16+i%2, i, i)
	}
}

// tiledRound makes bytes of the scaled sums of two pixels, one after the other.
func tiledRound(s *asm.File) {
	for i := range 4 {
		s.Op("VCVTPS2DQ Z%d, Z%d", i, i)
	}
	s.Ops("VPACKSSDW Z1, Z0, Z0", "VPACKSSDW Z3, Z2, Z2", "VPADDSW Z25, Z0, Z0",
		"VPADDSW Z25, Z2, Z2", "VPACKUSWB Z2, Z0, Z0", "VPXORD Z26, Z0, Z0", "VPERMD Z0, Z27, Z0")
}
