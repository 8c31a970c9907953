package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// The kernels of images of bytes whose channels lie in the last axis; package conv defines what
// they compute with pixelsGo and windowsGo. Bytes are multiplied by VPDPBUSD, four neighbours along
// K at a time.

// pixelRows are the heights of tiles: most rows of images that models shrink by halves from 224 are
// multiples of 7.
var pixelRows = []int{14, 8, 7, 4, 2, 1}

func pixels(s *asm.File) {
	// After two packings the words of a row lie four apart.
	s.Line("")
	s.Words("pixelOrder", "%d", 16, func(i int) any { return i%4*4 + i/4 })
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
func pixelTile(s *asm.File, rows int) {
	s.Func(fmt.Sprintf("pixelTile%d", rows), "t *pixelTile", 8,
		fmt.Sprintf("computes t in tiles of %d pixels.", rows))
	s.Ops("MOVQ t+0(FP), BX", "MOVQ pixelTile_lda(BX), AX", "LEAQ (AX)(AX*2), R9",
		"LEAQ (AX)(AX*4), R10", "MOVQ pixelTile_a(BX), R13", "MOVQ pixelTile_dst(BX), R11",
		"KMOVD pixelTile_mask(BX), K1")
	s.Label("tile")
	s.Ops("MOVQ R13, SI", "MOVQ pixelTile_b(BX), DI", "MOVQ (pixelTile_at+pixelScale_add)(BX), R12",
		"MOVQ pixelTile_runs(BX), DX")
	if rows > 7 {
		s.Ops("LEAQ (SI)(AX*8), R8", "SUBQ AX, R8")
	}
	s.Ops("VMOVDQU32 (R12), Z0", "VMOVDQU32 64(R12), Z1")
	for i := 2; i < 2*rows; i++ {
		s.Op("VMOVDQA32 Z%d, Z%d", i%2, i)
	}
	s.Ops("MOVQ pixelTile_ahead(BX), R12", "CMPQ R12, pixelTile_end(BX)",
		"CMOVQHI pixelTile_end(BX), R12")
	s.Label("run")
	s.Ops("MOVQ pixelTile_run(BX), CX", "SHRQ $2, CX", "JZ rest", "PCALIGN $64")
	s.Label("loop")
	for u := range 4 {
		if u%2 == 0 {
			s.Op("PREFETCHT1 %d(R12)", 32*u)
		}
		pixelStep(s, rows, u)
	}
	advance(s, rows, 4)
	s.Op("ADDQ $128, R12")
	s.Ops("DECQ CX", "JNZ loop")
	s.Label("rest")
	s.Ops("MOVQ pixelTile_run(BX), CX", "ANDQ $3, CX", "JZ done")
	s.Label("one")
	pixelStep(s, rows, 0)
	advance(s, rows, 1)
	s.Ops("DECQ CX", "JNZ one")
	s.Label("done")
	s.Ops("DECQ DX", "JZ finish", "ADDQ pixelTile_skip(BX), SI")
	if rows > 7 {
		s.Op("ADDQ pixelTile_skip(BX), R8")
	}
	s.Op("JMP run")
	s.Label("finish")
	s.Ops("MOVQ R12, pixelTile_ahead(BX)", "CMPL pixelTile_shift(BX), $0", "JE scale")
	addShifted(s, rows)
	s.Label("scale")
	scaleSums(s, "pixelTile", 2*rows, 2, 28)
	pixelStore(s, rows)
	s.Ops("ADDQ pixelTile_nextA(BX), R13", "ADDQ pixelTile_nextDst(BX), R11",
		"DECQ pixelTile_tiles(BX)", "JNZ tile", "VZEROUPPER", "RET")
}

// addShifted adds the sums of the patches, which the last channel has, times the shift.
func addShifted(s *asm.File, rows int) {
	s.Ops("VPBROADCASTD pixelTile_shift(BX), Z28", "MOVL $15, DX", "VPBROADCASTD DX, Z29")
	for i := range rows {
		s.Op("VPERMD Z%d, Z29, Z30", 2*i+1)
		s.Op("VPMULLD Z28, Z30, Z30")
		s.Op("VPADDD Z30, Z%d, Z%d", 2*i, 2*i)
		s.Op("VPADDD Z30, Z%d, Z%d", 2*i+1, 2*i+1)
	}
}

func advance(s *asm.File, rows, words int) {
	s.Op("ADDQ $%d, DI", 128*words)
	s.Op("ADDQ $%d, SI", 4*words)
	if rows > 7 {
		s.Op("ADDQ $%d, R8", 4*words)
	}
}

// pixelStep multiplies word u of each pixel by the weights of 32 channels.
func pixelStep(s *asm.File, rows, u int) {
	s.Op("VMOVDQU32 %d(DI), Z28", 128*u)
	s.Op("VMOVDQU32 %d(DI), Z29", 128*u+64)
	for i := range rows {
		base := []string{"SI", "R8"}[i/7]
		at := []string{"", "(AX*1)", "(AX*2)", "(R9*1)", "(AX*4)", "(R10*1)", "(R9*2)"}[i%7]
		a := 30 + i%2
		s.Op("VPBROADCASTD %d(%s)%s, Z%d", 4*u, base, at, a)
		s.Op("VPDPBUSD Z28, Z%d, Z%d", a, 2*i)
		s.Op("VPDPBUSD Z29, Z%d, Z%d", a, 2*i+1)
	}
}

// scaleSums makes integers of the sums in the first registers, which are those of so many vectors
// of channels in turn: scaled and rounded, or that twice. They are in range but for those that are
// too small, and NaN, which become an integer that packing saturates. Four registers from number
// free on are overwritten; the second is left with the zero point and the third with what flips
// bytes.
func scaleSums(s *asm.File, t string, n, vectors, free int) {
	s.Op("MOVQ (%s_at+pixelScale_scale)(BX), R12", t)
	s.Op("CMPL (%s_at+pixelScale_twice)(BX), $0", t)
	s.Op("JNE twice")
	for i := range n {
		s.Op("VCVTDQ2PS Z%d, Z%d", i, i)
		s.Op("VMULPS %d(R12), Z%d, Z%d", 64*(i%vectors), i, i)
		s.Op("VCVTPS2DQ Z%d, Z%d", i, i)
	}
	s.Op("JMP pack")
	s.Label("twice")
	s.Op("VBROADCASTSS (%s_at+pixelScale_lo)(BX), Z%d", t, free)
	s.Op("VBROADCASTSS (%s_at+pixelScale_hi)(BX), Z%d", t, free+1)
	s.Op("VBROADCASTSS (%s_at+pixelScale_zero)(BX), Z%d", t, free+2)
	s.Op("MOVQ (%s_at+pixelScale_thenScale)(BX), SI", t)
	s.Op("MOVQ (%s_at+pixelScale_thenBias)(BX), DI", t)
	for j := range vectors {
		s.Op("VMOVUPS %d(SI), Z%d", 64*j, free+3)
		for i := j; i < n; i += vectors {
			s.Op("VCVTDQ2PS Z%d, Z%d", i, i)
			s.Op("VMULPS %d(R12), Z%d, Z%d", 64*j, i, i)
			s.Op("VMAXPS Z%d, Z%d, Z%d", free, i, i)
			s.Op("VMINPS Z%d, Z%d, Z%d", free+1, i, i)
			s.Op("VRNDSCALEPS $8, Z%d, Z%d", i, i)
			s.Op("VADDPS Z%d, Z%d, Z%d", free+2, i, i)
			s.Op("VFMADD213PS %d(DI), Z%d, Z%d", 64*j, free+3, i)
			s.Op("VCVTPS2DQ Z%d, Z%d", i, i)
		}
	}
	s.Label("pack")
	s.Op("VPBROADCASTD (%s_at+pixelScale_offset)(BX), Z%d", t, free+1)
	s.Op("VPBROADCASTD (%s_at+pixelScale_flip)(BX), Z%d", t, free+2)
}

// packRow makes saturated numbers of 16 bits with the zero point of two registers.
func packRow(s *asm.File, first, second, free int) {
	s.Op("VPACKSSDW Z%d, Z%d, Z%d", second, first, first)
	s.Op("VPADDSW Z%d, Z%d, Z%d", free+1, first, first)
}

// pixelStore writes the bytes of a tile, two pixels a register.
func pixelStore(s *asm.File, rows int) {
	pixelPack(s, rows)
	s.Ops("MOVQ pixelTile_ldd(BX), R8", "MOVQ R11, R12", "CMPL pixelTile_mask(BX), $-1", "JNE part")
	for _, masked := range []bool{false, true} {
		for i := 0; i < rows; i += 2 {
			if masked {
				s.Op("VMOVDQU8 Y%d, K1, (R12)", 2*i)
			} else {
				s.Op("VMOVDQU8 Y%d, (R12)", 2*i)
			}
			if i+1 == rows {
				break
			}
			if masked {
				s.Op("VEXTRACTI64X4 $1, Z%d, Y%d", 2*i, 2*i)
				s.Op("VMOVDQU8 Y%d, K1, (R12)(R8*1)", 2*i)
			} else {
				s.Op("VEXTRACTI64X4 $1, Z%d, (R12)(R8*1)", 2*i)
			}
			if i+2 < rows {
				s.Op("LEAQ (R12)(R8*2), R12")
			}
		}
		if !masked {
			s.Op("JMP stored")
			s.Label("part")
		}
	}
	s.Label("stored")
}

// pixelPack makes bytes of the rows' sums, two rows in a register.
func pixelPack(s *asm.File, rows int) {
	s.Op("VMOVDQU32 ·pixelOrder<>(SB), Z31")
	for i := 0; i < rows; i += 2 {
		next := min(i+1, rows-1)
		packRow(s, 2*i, 2*i+1, 28)
		if next > i {
			packRow(s, 2*next, 2*next+1, 28)
		}
		s.Op("VPACKUSWB Z%d, Z%d, Z%d", 2*next, 2*i, 2*i)
		s.Op("VPXORD Z30, Z%d, Z%d", 2*i, 2*i)
		s.Op("VPERMD Z%d, Z31, Z%d", 2*i, 2*i)
	}
}

// depthwiseBytes writes the sums over the window of each channel, 64 at a time: the bytes of four
// elements of the window become words, each of one channel.
func depthwiseBytes(s *asm.File) {
	s.Func("depthwiseBytes", "t *pixelLines", 8, "computes t as a convolution.")
	s.Ops("MOVQ t+0(FP), BX", "KMOVQ pixelLines_mask(BX), K1")
	s.Ops("MOVQ pixelLines_src(BX), R13", "MOVQ R13, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_dst(BX), R11", "MOVQ R11, pixelLines_dstAt(BX)")
	s.Label("line")
	s.Ops("MOVQ pixelLines_srcAt(BX), R13", "MOVQ pixelLines_dstAt(BX), R11",
		"MOVQ pixelLines_pixels(BX), DX")
	s.Label("pixel")
	s.Ops("MOVQ (pixelLines_at+pixelScale_add)(BX), R12", "MOVQ pixelLines_taps(BX), R8",
		"MOVQ pixelLines_w(BX), R9", "MOVQ pixelLines_groups(BX), CX")
	for i := range 4 {
		s.Op("VMOVDQU32 %d(R12), Z%d", 64*i, i)
	}
	s.Label("group")
	for i := range 4 {
		s.Op("MOVQ %d(R8), R10", 8*i)
		s.Op("VMOVDQU32 (R13)(R10*1), Z%d", 4+i)
	}
	s.Ops("VPUNPCKLBW Z5, Z4, Z8", "VPUNPCKHBW Z5, Z4, Z9", "VPUNPCKLBW Z7, Z6, Z10",
		"VPUNPCKHBW Z7, Z6, Z11", "VPUNPCKLWD Z10, Z8, Z12", "VPUNPCKHWD Z10, Z8, Z13",
		"VPUNPCKLWD Z11, Z9, Z14", "VPUNPCKHWD Z11, Z9, Z15")
	for i := range 4 {
		s.Op("VPDPBUSD %d(R9), Z%d, Z%d", 64*i, 12+i, i)
	}
	s.Ops("ADDQ $32, R8", "ADDQ $256, R9", "DECQ CX", "JNZ group")
	scaleSums(s, "pixelLines", 4, 4, 28)
	packPixel(s, 28)
	s.Op("VMOVDQU8 Z0, K1, (R11)")
	nextPixel(s)
}

// packPixel makes a pixel of bytes, in Z0, of the four registers of its sums, once they are scaled.
func packPixel(s *asm.File, free int) {
	packRow(s, 0, 1, free)
	packRow(s, 2, 3, free)
	s.Ops("VPACKUSWB Z2, Z0, Z0", fmt.Sprintf("VPXORD Z%d, Z0, Z0", free+2))
}

// nextPixel ends the loops over the pixels of a line and over lines.
func nextPixel(s *asm.File) {
	s.Ops("ADDQ pixelLines_step(BX), R13", "ADDQ pixelLines_ldd(BX), R11", "DECQ DX", "JNZ pixel",
		"MOVQ pixelLines_nextSrc(BX), R10", "ADDQ R10, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_nextDst(BX), R10", "ADDQ R10, pixelLines_dstAt(BX)",
		"DECQ pixelLines_lines(BX)", "JNZ line", "VZEROUPPER", "RET")
}

// maxBytes writes the greatest bytes of windows, 64 channels at a time.
func maxBytes(s *asm.File) {
	s.Func("maxBytes", "t *pixelLines", 8, "computes t as a pooling: taps are groups.")
	s.Ops("MOVQ t+0(FP), BX", "KMOVQ pixelLines_mask(BX), K1",
		"VPBROADCASTD (pixelLines_at+pixelScale_flip)(BX), Z30")
	s.Ops("MOVQ pixelLines_src(BX), R13", "MOVQ R13, pixelLines_srcAt(BX)",
		"MOVQ pixelLines_dst(BX), R11", "MOVQ R11, pixelLines_dstAt(BX)")
	s.Label("line")
	s.Ops("MOVQ pixelLines_srcAt(BX), R13", "MOVQ pixelLines_dstAt(BX), R11",
		"MOVQ pixelLines_pixels(BX), DX")
	s.Label("pixel")
	s.Ops("MOVQ pixelLines_taps(BX), R8", "MOVQ pixelLines_groups(BX), CX", "VPXORD Z0, Z0, Z0")
	s.Label("group")
	s.Ops("MOVQ (R8), R10", "VPMAXUB (R13)(R10*1), Z0, Z0", "ADDQ $8, R8", "DECQ CX", "JNZ group")
	s.Ops("VPXORD Z30, Z0, Z0", "VMOVDQU8 Z0, K1, (R11)")
	nextPixel(s)
}

// depthwiseThree is depthwiseBytes for windows of 3 x 3, with the words of columns in registers,
// where neighbours find them: Z4 to Z15 three columns, four registers each, Z20 to Z31 the weights
// of each. R10, R11 and R13 are the rows of the image, AX the column in them, CX the distance of
// columns, R8 the result and DX the pixels left. Signed bytes become unsigned ones as they are
// read.
func depthwiseThree(s *asm.File, stride int, signed bool) {
	kind := map[bool]string{true: "Signed"}[signed]
	s.Func(fmt.Sprintf("depthwiseThree%s%d", kind, stride), "t *pixelThree", 8,
		fmt.Sprintf("computes t with a stride of %d.", stride))
	s.Ops("MOVQ t+0(FP), BX", "KMOVQ pixelThree_mask(BX), K1", "MOVQ pixelThree_w(BX), R9",
		"MOVQ pixelThree_column(BX), CX")
	for i := range 12 {
		s.Op("VMOVDQU32 %d(R9), Z%d", 64*i, 20+i)
	}
	s.Ops("MOVQ pixelThree_rows(BX), R9", "MOVQ R9, pixelThree_rowsAt(BX)",
		"MOVQ pixelThree_dst(BX), R8", "MOVQ R8, pixelThree_dstAt(BX)")
	s.Label("line")
	s.Ops("MOVQ pixelThree_rowsAt(BX), R9", "MOVQ (R9), R10", "MOVQ 8(R9), R11", "MOVQ 16(R9), R13",
		"MOVQ pixelThree_first(BX), AX", "MOVQ pixelThree_dstAt(BX), R8",
		"MOVQ pixelThree_pixels(BX), DX", "TESTL $1, pixelThree_pads(BX)", "JZ image")
	padColumn(s, 4)
	s.Op("JMP begin")
	s.Label("image")
	column(s, 4, signed)
	s.Label("begin")
	if stride == 1 {
		column(s, 8, signed)
	}
	s.Label("pixel")
	if stride == 2 {
		column(s, 8, signed)
	}
	s.Ops("CMPQ DX, $1", "JNE inside", "TESTL $2, pixelThree_pads(BX)", "JZ inside")
	padColumn(s, 12)
	s.Op("JMP sums")
	s.Label("inside")
	column(s, 12, signed)
	s.Label("sums")
	threeSums(s)
	for i := range 4 {
		if stride == 1 {
			s.Op("VMOVDQA64 Z%d, Z%d", 8+i, 4+i)
			s.Op("VMOVDQA64 Z%d, Z%d", 12+i, 8+i)
		} else {
			s.Op("VMOVDQA64 Z%d, Z%d", 12+i, 4+i)
		}
	}
	scaleSums(s, "pixelThree", 4, 4, 16)
	packPixel(s, 16)
	s.Ops("VMOVDQU8 Z0, K1, (R8)", "ADDQ CX, R8", "DECQ DX", "JNZ pixel")
	s.Op("ADDQ $%d, pixelThree_rowsAt(BX)", 8*stride)
	s.Ops("MOVQ pixelThree_nextDst(BX), R9", "ADDQ R9, pixelThree_dstAt(BX)",
		"DECQ pixelThree_lines(BX)", "JNZ line", "VZEROUPPER", "RET")
}

// threeSums sums a pixel's three columns, times their weights, in Z0 to Z3, and what the shift of
// the inputs adds.
func threeSums(s *asm.File) {
	s.Op("MOVQ (pixelThree_at+pixelScale_add)(BX), R12")
	for i := range 4 {
		s.Op("VMOVDQU32 %d(R12), Z%d", 64*i, i)
	}
	for k := range 3 {
		for i := range 4 {
			s.Op("VPDPBUSD Z%d, Z%d, Z%d", 20+4*k+i, 4+4*k+i, i)
		}
	}
	s.Ops("MOVL pixelThree_shift(BX), R9", "TESTL R9, R9", "JZ whole", "VPBROADCASTD R9, Z16")
	for k := range 3 {
		for i := range 4 {
			s.Op("VPDPBUSD Z16, Z%d, Z%d", 4+4*k+i, i)
		}
	}
	s.Label("whole")
}

// column makes words of the bytes of a column of three rows, 64 channels, in four registers; the
// weights of the fourth byte are 0.
func column(s *asm.File, to int, signed bool) {
	for i, row := range []string{"R10", "R11", "R13"} {
		s.Op("VMOVDQU8.Z (%s)(AX*1), K1, Z%d", row, 16+i)
		if signed {
			s.Op("VPXORD.BCST pixelThree_flip(BX), Z%d, Z%d", 16+i, 16+i)
		}
	}
	s.Ops("ADDQ CX, AX", "VPUNPCKLBW Z17, Z16, Z19", "VPUNPCKHBW Z17, Z16, Z16",
		"VPUNPCKLBW Z18, Z18, Z17", "VPUNPCKHBW Z18, Z18, Z18")
	s.Op("VPUNPCKLWD Z17, Z19, Z%d", to)
	s.Op("VPUNPCKHWD Z17, Z19, Z%d", to+1)
	s.Op("VPUNPCKLWD Z18, Z16, Z%d", to+2)
	s.Op("VPUNPCKHWD Z18, Z16, Z%d", to+3)
}

// padColumn is a column of padding.
func padColumn(s *asm.File, to int) {
	for i := range 4 {
		s.Op("VPBROADCASTD pixelThree_pad(BX), Z%d", to+i)
	}
}
