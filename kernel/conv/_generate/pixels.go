package main

import "fmt"

// The kernels of images of bytes whose channels lie in the last axis; package conv defines what
// they compute with pixelsGo and windowsGo. Bytes are multiplied by VPDPBUSD, four neighbours along
// K at a time.

// pixelRows are the heights of tiles: most rows of images that models shrink by halves from 224 are
// multiples of 7.
var pixelRows = []int{14, 8, 7, 4, 2, 1}

func pixels(s *asm) {
	// After two packings the words of a row lie four apart.
	s.WriteString("\n")
	for i := range 16 {
		fmt.Fprintf(s, "DATA ·pixelOrder<>+%d(SB)/4, $%d\n", 4*i, i%4*4+i/4)
	}
	s.WriteString("GLOBL ·pixelOrder<>(SB), RODATA|NOPTR, $64\n")
	for _, rows := range pixelRows {
		pixelTile(s, rows)
	}
	depthwiseBytes(s)
	maxBytes(s)
	for stride := 1; stride <= 2; stride++ {
		depthwiseThree(s, stride, false)
		depthwiseThree(s, stride, true)
	}
}

// pixelTile writes a tile of so many pixels and 32 output channels: R13 the first pixel of the tile
// and R11 its result, SI and R8 the words of pixels 0 and 7, AX, R9 and R10 one, three and five
// times the distance of pixels, DI the weights, DX the runs left, CX the words left, R12 weights of
// the next panel, which are fetched a quarter of a panel a tile.
func pixelTile(s *asm, rows int) {
	s.text(
		fmt.Sprintf("pixelTile%d", rows),
		"t *pixelTile",
		8,
		fmt.Sprintf("computes t in tiles of %d pixels.", rows),
	)
	s.ops(
		"MOVQ t+0(FP), BX",
		"MOVQ pixelTile_lda(BX), AX",
		"LEAQ (AX)(AX*2), R9",
		"LEAQ (AX)(AX*4), R10",
		"MOVQ pixelTile_a(BX), R13",
		"MOVQ pixelTile_dst(BX), R11",
		"KMOVD pixelTile_mask(BX), K1",
	)
	s.label("tile")
	s.ops(
		"MOVQ R13, SI",
		"MOVQ pixelTile_b(BX), DI",
		"MOVQ (pixelTile_at+pixelScale_add)(BX), R12",
		"MOVQ pixelTile_runs(BX), DX",
	)
	if rows > 7 {
		s.ops("LEAQ (SI)(AX*8), R8", "SUBQ AX, R8")
	}
	s.ops("VMOVDQU32 (R12), Z0", "VMOVDQU32 64(R12), Z1")
	for i := 2; i < 2*rows; i++ {
		s.op("VMOVDQA32 Z%d, Z%d", i%2, i)
	}
	s.ops(
		"MOVQ pixelTile_ahead(BX), R12",
		"CMPQ R12, pixelTile_end(BX)",
		"CMOVQHI pixelTile_end(BX), R12",
	)
	s.label("run")
	s.ops("MOVQ pixelTile_run(BX), CX", "SHRQ $2, CX", "JZ rest", "PCALIGN $64")
	s.label("loop")
	for u := range 4 {
		if u%2 == 0 {
			s.op("PREFETCHT1 %d(R12)", 32*u)
		}
		pixelStep(s, rows, u)
	}
	advance(s, rows, 4)
	s.op("ADDQ $128, R12")
	s.ops("DECQ CX", "JNZ loop")
	s.label("rest")
	s.ops("MOVQ pixelTile_run(BX), CX", "ANDQ $3, CX", "JZ done")
	s.label("one")
	pixelStep(s, rows, 0)
	advance(s, rows, 1)
	s.ops("DECQ CX", "JNZ one")
	s.label("done")
	s.ops("DECQ DX", "JZ finish", "ADDQ pixelTile_skip(BX), SI")
	if rows > 7 {
		s.op("ADDQ pixelTile_skip(BX), R8")
	}
	s.op("JMP run")
	s.label("finish")
	s.ops("MOVQ R12, pixelTile_ahead(BX)", "CMPL pixelTile_shift(BX), $0", "JE scale")
	// The last channel has the sums of the patches.
	s.ops("VPBROADCASTD pixelTile_shift(BX), Z28", "MOVL $15, DX", "VPBROADCASTD DX, Z29")
	for i := range rows {
		s.op("VPERMD Z%d, Z29, Z30", 2*i+1)
		s.op("VPMULLD Z28, Z30, Z30")
		s.op("VPADDD Z30, Z%d, Z%d", 2*i, 2*i)
		s.op("VPADDD Z30, Z%d, Z%d", 2*i+1, 2*i+1)
	}
	s.label("scale")
	scaleSums(s, "pixelTile", 2*rows, 2, 28)
	pixelStore(s, rows)
	s.ops(
		"ADDQ pixelTile_nextA(BX), R13",
		"ADDQ pixelTile_nextDst(BX), R11",
		"DECQ pixelTile_tiles(BX)",
		"JNZ tile",
		"VZEROUPPER",
		"RET",
	)
}

func advance(s *asm, rows, words int) {
	s.op("ADDQ $%d, DI", 128*words)
	s.op("ADDQ $%d, SI", 4*words)
	if rows > 7 {
		s.op("ADDQ $%d, R8", 4*words)
	}
}

// pixelStep multiplies word u of each pixel by the weights of 32 channels.
func pixelStep(s *asm, rows, u int) {
	s.op("VMOVDQU32 %d(DI), Z28", 128*u)
	s.op("VMOVDQU32 %d(DI), Z29", 128*u+64)
	for i := range rows {
		base := []string{"SI", "R8"}[i/7]
		at := []string{"", "(AX*1)", "(AX*2)", "(R9*1)", "(AX*4)", "(R10*1)", "(R9*2)"}[i%7]
		a := 30 + i%2
		s.op("VPBROADCASTD %d(%s)%s, Z%d", 4*u, base, at, a)
		s.op("VPDPBUSD Z28, Z%d, Z%d", a, 2*i)
		s.op("VPDPBUSD Z29, Z%d, Z%d", a, 2*i+1)
	}
}

// scaleSums makes integers of the sums in the first registers, which are those of so many vectors
// of channels in turn: scaled and rounded, or that twice. They are in range but for those that are
// too small, and NaN, which become an integer that packing saturates. Four registers from number
// free on are overwritten; the second is left with the zero point and the third with what flips
// bytes.
func scaleSums(s *asm, t string, n, vectors, free int) {
	s.op("MOVQ (%s_at+pixelScale_scale)(BX), R12", t)
	s.op("CMPL (%s_at+pixelScale_twice)(BX), $0", t)
	s.op("JNE twice")
	for i := range n {
		s.op("VCVTDQ2PS Z%d, Z%d", i, i)
		s.op("VMULPS %d(R12), Z%d, Z%d", 64*(i%vectors), i, i)
		s.op("VCVTPS2DQ Z%d, Z%d", i, i)
	}
	s.op("JMP pack")
	s.label("twice")
	s.op("VBROADCASTSS (%s_at+pixelScale_lo)(BX), Z%d", t, free)
	s.op("VBROADCASTSS (%s_at+pixelScale_hi)(BX), Z%d", t, free+1)
	s.op("VBROADCASTSS (%s_at+pixelScale_zero)(BX), Z%d", t, free+2)
	s.op("MOVQ (%s_at+pixelScale_thenScale)(BX), SI", t)
	s.op("MOVQ (%s_at+pixelScale_thenBias)(BX), DI", t)
	for j := range vectors {
		s.op("VMOVUPS %d(SI), Z%d", 64*j, free+3)
		for i := j; i < n; i += vectors {
			s.op("VCVTDQ2PS Z%d, Z%d", i, i)
			s.op("VMULPS %d(R12), Z%d, Z%d", 64*j, i, i)
			s.op("VMAXPS Z%d, Z%d, Z%d", free, i, i)
			s.op("VMINPS Z%d, Z%d, Z%d", free+1, i, i)
			s.op("VRNDSCALEPS $8, Z%d, Z%d", i, i)
			s.op("VADDPS Z%d, Z%d, Z%d", free+2, i, i)
			s.op("VFMADD213PS %d(DI), Z%d, Z%d", 64*j, free+3, i)
			s.op("VCVTPS2DQ Z%d, Z%d", i, i)
		}
	}
	s.label("pack")
	s.op("VPBROADCASTD (%s_at+pixelScale_offset)(BX), Z%d", t, free+1)
	s.op("VPBROADCASTD (%s_at+pixelScale_flip)(BX), Z%d", t, free+2)
}

// packRow makes saturated numbers of 16 bits with the zero point of two registers.
func packRow(s *asm, first, second, free int) {
	s.op("VPACKSSDW Z%d, Z%d, Z%d", second, first, first)
	s.op("VPADDSW Z%d, Z%d, Z%d", free+1, first, first)
}

// pixelStore writes the bytes of a tile, two pixels a register.
func pixelStore(s *asm, rows int) {
	s.op("VMOVDQU32 ·pixelOrder<>(SB), Z31")
	for i := 0; i < rows; i += 2 {
		next := min(i+1, rows-1)
		packRow(s, 2*i, 2*i+1, 28)
		if next > i {
			packRow(s, 2*next, 2*next+1, 28)
		}
		s.op("VPACKUSWB Z%d, Z%d, Z%d", 2*next, 2*i, 2*i)
		s.op("VPXORD Z30, Z%d, Z%d", 2*i, 2*i)
		s.op("VPERMD Z%d, Z31, Z%d", 2*i, 2*i)
	}
	s.ops("MOVQ pixelTile_ldd(BX), R8", "MOVQ R11, R12", "CMPL pixelTile_mask(BX), $-1", "JNE part")
	for _, masked := range []bool{false, true} {
		for i := 0; i < rows; i += 2 {
			if masked {
				s.op("VMOVDQU8 Y%d, K1, (R12)", 2*i)
			} else {
				s.op("VMOVDQU8 Y%d, (R12)", 2*i)
			}
			if i+1 == rows {
				break
			}
			if masked {
				s.op("VEXTRACTI64X4 $1, Z%d, Y%d", 2*i, 2*i)
				s.op("VMOVDQU8 Y%d, K1, (R12)(R8*1)", 2*i)
			} else {
				s.op("VEXTRACTI64X4 $1, Z%d, (R12)(R8*1)", 2*i)
			}
			if i+2 < rows {
				s.op("LEAQ (R12)(R8*2), R12")
			}
		}
		if !masked {
			s.op("JMP stored")
			s.label("part")
		}
	}
	s.label("stored")
}

// depthwiseBytes writes the sums over the window of each channel, 64 at a time: the bytes of four
// elements of the window become words, each of one channel.
func depthwiseBytes(s *asm) {
	s.text("depthwiseBytes", "t *pixelLines", 8, "computes t as a convolution.")
	s.ops("MOVQ t+0(FP), BX", "KMOVQ pixelLines_mask(BX), K1")
	s.ops(
		"MOVQ pixelLines_src(BX), R13",
		"MOVQ R13, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_dst(BX), R11",
		"MOVQ R11, pixelLines_dstAt(BX)",
	)
	s.label("line")
	s.ops(
		"MOVQ pixelLines_srcAt(BX), R13",
		"MOVQ pixelLines_dstAt(BX), R11",
		"MOVQ pixelLines_pixels(BX), DX",
	)
	s.label("pixel")
	s.ops(
		"MOVQ (pixelLines_at+pixelScale_add)(BX), R12",
		"MOVQ pixelLines_taps(BX), R8",
		"MOVQ pixelLines_w(BX), R9",
		"MOVQ pixelLines_groups(BX), CX",
	)
	for i := range 4 {
		s.op("VMOVDQU32 %d(R12), Z%d", 64*i, i)
	}
	s.label("group")
	for i := range 4 {
		s.op("MOVQ %d(R8), R10", 8*i)
		s.op("VMOVDQU32 (R13)(R10*1), Z%d", 4+i)
	}
	s.ops(
		"VPUNPCKLBW Z5, Z4, Z8",
		"VPUNPCKHBW Z5, Z4, Z9",
		"VPUNPCKLBW Z7, Z6, Z10",
		"VPUNPCKHBW Z7, Z6, Z11",
		"VPUNPCKLWD Z10, Z8, Z12",
		"VPUNPCKHWD Z10, Z8, Z13",
		"VPUNPCKLWD Z11, Z9, Z14",
		"VPUNPCKHWD Z11, Z9, Z15",
	)
	for i := range 4 {
		s.op("VPDPBUSD %d(R9), Z%d, Z%d", 64*i, 12+i, i)
	}
	s.ops("ADDQ $32, R8", "ADDQ $256, R9", "DECQ CX", "JNZ group")
	scaleSums(s, "pixelLines", 4, 4, 28)
	packRow(s, 0, 1, 28)
	packRow(s, 2, 3, 28)
	s.ops("VPACKUSWB Z2, Z0, Z0", "VPXORD Z30, Z0, Z0", "VMOVDQU8 Z0, K1, (R11)")
	nextPixel(s)
}

// nextPixel ends the loops over the pixels of a line and over lines.
func nextPixel(s *asm) {
	s.ops(
		"ADDQ pixelLines_step(BX), R13",
		"ADDQ pixelLines_ldd(BX), R11",
		"DECQ DX",
		"JNZ pixel",
		"MOVQ pixelLines_nextSrc(BX), R10",
		"ADDQ R10, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_nextDst(BX), R10",
		"ADDQ R10, pixelLines_dstAt(BX)",
		"DECQ pixelLines_lines(BX)",
		"JNZ line",
		"VZEROUPPER",
		"RET",
	)
}

// maxBytes writes the greatest bytes of windows, 64 channels at a time.
func maxBytes(s *asm) {
	s.text("maxBytes", "t *pixelLines", 8, "computes t as a pooling: taps are groups.")
	s.ops(
		"MOVQ t+0(FP), BX",
		"KMOVQ pixelLines_mask(BX), K1",
		"VPBROADCASTD (pixelLines_at+pixelScale_flip)(BX), Z30",
	)
	s.ops(
		"MOVQ pixelLines_src(BX), R13",
		"MOVQ R13, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_dst(BX), R11",
		"MOVQ R11, pixelLines_dstAt(BX)",
	)
	s.label("line")
	s.ops(
		"MOVQ pixelLines_srcAt(BX), R13",
		"MOVQ pixelLines_dstAt(BX), R11",
		"MOVQ pixelLines_pixels(BX), DX",
	)
	s.label("pixel")
	s.ops("MOVQ pixelLines_taps(BX), R8", "MOVQ pixelLines_groups(BX), CX", "VPXORD Z0, Z0, Z0")
	s.label("group")
	s.ops("MOVQ (R8), R10", "VPMAXUB (R13)(R10*1), Z0, Z0", "ADDQ $8, R8", "DECQ CX", "JNZ group")
	s.ops("VPXORD Z30, Z0, Z0", "VMOVDQU8 Z0, K1, (R11)")
	nextPixel(s)
}

// depthwiseThree is depthwiseBytes for windows of 3 x 3, with the words of columns in registers,
// where neighbours find them: Z4 to Z15 three columns, four registers each, Z20 to Z31 the weights
// of each. R10, R11 and R13 are the rows of the image, AX the column in them, CX the distance of
// columns, R8 the result and DX the pixels left. Signed bytes become unsigned ones as they are
// read.
func depthwiseThree(s *asm, stride int, signed bool) {
	kind := map[bool]string{true: "Signed"}[signed]
	s.text(
		fmt.Sprintf("depthwiseThree%s%d", kind, stride),
		"t *pixelThree",
		8,
		fmt.Sprintf("computes t with a stride of %d.", stride),
	)
	s.ops(
		"MOVQ t+0(FP), BX",
		"KMOVQ pixelThree_mask(BX), K1",
		"MOVQ pixelThree_w(BX), R9",
		"MOVQ pixelThree_column(BX), CX",
	)
	for i := range 12 {
		s.op("VMOVDQU32 %d(R9), Z%d", 64*i, 20+i)
	}
	s.ops(
		"MOVQ pixelThree_rows(BX), R9",
		"MOVQ R9, pixelThree_rowsAt(BX)",
		"MOVQ pixelThree_dst(BX), R8",
		"MOVQ R8, pixelThree_dstAt(BX)",
	)
	s.label("line")
	s.ops(
		"MOVQ pixelThree_rowsAt(BX), R9",
		"MOVQ (R9), R10",
		"MOVQ 8(R9), R11",
		"MOVQ 16(R9), R13",
		"MOVQ pixelThree_first(BX), AX",
		"MOVQ pixelThree_dstAt(BX), R8",
		"MOVQ pixelThree_pixels(BX), DX",
		"TESTL $1, pixelThree_pads(BX)",
		"JZ image",
	)
	padColumn(s, 4)
	s.op("JMP begin")
	s.label("image")
	column(s, 4, signed)
	s.label("begin")
	if stride == 1 {
		column(s, 8, signed)
	}
	s.label("pixel")
	if stride == 2 {
		column(s, 8, signed)
	}
	s.ops("CMPQ DX, $1", "JNE inside", "TESTL $2, pixelThree_pads(BX)", "JZ inside")
	padColumn(s, 12)
	s.op("JMP sums")
	s.label("inside")
	column(s, 12, signed)
	s.label("sums")
	s.op("MOVQ (pixelThree_at+pixelScale_add)(BX), R12")
	for i := range 4 {
		s.op("VMOVDQU32 %d(R12), Z%d", 64*i, i)
	}
	for k := range 3 {
		for i := range 4 {
			s.op("VPDPBUSD Z%d, Z%d, Z%d", 20+4*k+i, 4+4*k+i, i)
		}
	}
	s.ops("MOVL pixelThree_shift(BX), R9", "TESTL R9, R9", "JZ whole", "VPBROADCASTD R9, Z16")
	for k := range 3 {
		for i := range 4 {
			s.op("VPDPBUSD Z16, Z%d, Z%d", 4+4*k+i, i)
		}
	}
	s.label("whole")
	for i := range 4 {
		if stride == 1 {
			s.op("VMOVDQA64 Z%d, Z%d", 8+i, 4+i)
			s.op("VMOVDQA64 Z%d, Z%d", 12+i, 8+i)
		} else {
			s.op("VMOVDQA64 Z%d, Z%d", 12+i, 4+i)
		}
	}
	scaleSums(s, "pixelThree", 4, 4, 16)
	packRow(s, 0, 1, 16)
	packRow(s, 2, 3, 16)
	s.ops(
		"VPACKUSWB Z2, Z0, Z0",
		"VPXORD Z18, Z0, Z0",
		"VMOVDQU8 Z0, K1, (R8)",
		"ADDQ CX, R8",
		"DECQ DX",
		"JNZ pixel",
	)
	s.op("ADDQ $%d, pixelThree_rowsAt(BX)", 8*stride)
	s.ops(
		"MOVQ pixelThree_nextDst(BX), R9",
		"ADDQ R9, pixelThree_dstAt(BX)",
		"DECQ pixelThree_lines(BX)",
		"JNZ line",
		"VZEROUPPER",
		"RET",
	)
}

// column makes words of the bytes of a column of three rows, 64 channels, in four registers; the
// weights of the fourth byte are 0.
func column(s *asm, to int, signed bool) {
	for i, row := range []string{"R10", "R11", "R13"} {
		s.op("VMOVDQU8.Z (%s)(AX*1), K1, Z%d", row, 16+i)
		if signed {
			s.op("VPXORD.BCST pixelThree_flip(BX), Z%d, Z%d", 16+i, 16+i)
		}
	}
	s.ops(
		"ADDQ CX, AX",
		"VPUNPCKLBW Z17, Z16, Z19",
		"VPUNPCKHBW Z17, Z16, Z16",
		"VPUNPCKLBW Z18, Z18, Z17",
		"VPUNPCKHBW Z18, Z18, Z18",
	)
	s.op("VPUNPCKLWD Z17, Z19, Z%d", to)
	s.op("VPUNPCKHWD Z17, Z19, Z%d", to+1)
	s.op("VPUNPCKLWD Z18, Z16, Z%d", to+2)
	s.op("VPUNPCKHWD Z18, Z16, Z%d", to+3)
}

// padColumn is a column of padding.
func padColumn(s *asm, to int) {
	for i := range 4 {
		s.op("VPBROADCASTD pixelThree_pad(BX), Z%d", to+i)
	}
}
