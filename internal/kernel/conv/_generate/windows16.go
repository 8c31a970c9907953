package main

import "github.com/weirgpu/weir/internal/asm"

// windows16 writes the kernels of windows of each channel of images of bfloat16; package conv
// defines what they compute with windows16Call.model. Of 32 channels those of even numbers are in
// one register of floats, those of odd numbers in another.
func windows16(s *asm.File) {
	// Words of two halves of a vector in turn.
	s.Line("")
	s.Words("halvesInTurn", "0x%08x", 16, func(i int) any { return i | (16+i)<<16 })
	s.Line("")
	windows16Of(s, "windows16Sums", false)
	windows16Of(s, "windows16Max", true)
	windows16Three(s, "windows16Three1", 1)
	windows16Three(s, "windows16Three2", 2)
}

// windows16Of writes one of them: SI the first element of a block of channels, DI its results, R8
// the weights of the block, R10 and R11 the tables of elements and weights, R12 the blocks left, CX
// the pixels left, R13 and R9 the pixel and its result, DX the elements left, Z0 and Z1 the
// sums of even and odd channels.
func windows16Of(s *asm.File, name string, largest bool) {
	s.Func(name, "t *windows16Args", 8, "does what windows16Call.model does.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ windows16Args_x(BX), SI", "MOVQ windows16Args_w(BX), R8",
		"MOVQ windows16Args_offs(BX), R10", "MOVQ windows16Args_at(BX), R11",
		"MOVQ windows16Args_blocks(BX), R12", "MOVQ windows16Args_y(BX), DI",
		"MOVQ windows16Args_wide(BX), AX", "TESTQ AX, AX", "CMOVQNE AX, DI",
		"MOVL $0xffff0000, AX", "VPBROADCASTD AX, Z31", "VMOVDQU32 ·halvesInTurn<>(SB), Z30",
		"VBROADCASTSS windows16Args_lo(BX), Z28", "VBROADCASTSS windows16Args_hi(BX), Z29",
		"VMOVDQU32 ·pairsLow<>(SB), Z26", "VMOVDQU32 ·pairsHigh<>(SB), Z27",
		"KXNORD K1, K1, K1",
		"TESTQ R12, R12", "JNZ begin", "KMOVD windows16Args_mask(BX), K1")
	s.Label("begin")
	if !largest {
		siluConstants(s, 19)
	}
	s.Label("block")
	s.Ops("MOVQ SI, R13", "MOVQ DI, R9", "MOVQ windows16Args_pixels(BX), CX")
	s.Label("pixel")
	if largest {
		s.Ops("VMOVAPS Z28, Z0", "VMOVAPS Z28, Z1", "KXORW K3, K3, K3", "KXORW K4, K4, K4")
	} else {
		s.Ops("VMOVUPS (R8), Z0", "VMOVUPS 64(R8), Z1", "VPXORD Z6, Z6, Z6",
			"VPXORD Z7, Z7, Z7")
	}
	s.Ops("MOVQ R10, R14", "MOVQ R11, R15", "MOVQ windows16Args_taps(BX), DX")
	s.Label("tap")
	s.Ops("MOVQ (R14), AX", "VMOVDQU16.Z (R13)(AX*1), K1, Z2", "VPSLLD $16, Z2, Z3",
		"VPANDD Z31, Z2, Z4")
	if largest {
		s.Ops("VFPCLASSPSZ $0x81, Z3, K5", "VFPCLASSPSZ $0x81, Z4, K6", "KORW K5, K3, K3",
			"KORW K6, K4, K4", "VMAXPS Z3, Z0, Z0", "VMAXPS Z4, Z1, Z1")
	} else {
		s.Ops("MOVQ (R15), AX", "VFMADD231PS 128(R8)(AX*1), Z3, Z0",
			"VFMADD231PS 192(R8)(AX*1), Z4, Z1", "ADDQ $8, R15")
	}
	s.Ops("ADDQ $8, R14", "DECQ DX", "JNZ tap")
	if largest {
		s.Ops("MOVL $0x7fc00000, AX", "VPBROADCASTD AX, Z25", "VMOVDQA32 Z25, K3, Z0",
			"VMOVDQA32 Z25, K4, Z1", "VPSRLD $16, Z0, Z0", "VPANDD Z31, Z1, Z1",
			"VPORD Z0, Z1, Z0", "VMOVDQU16 Z0, K1, (R9)")
	} else {
		for i := range 2 {
			s.Op("VMAXPS Z%d, Z28, Z%d", i, i)
			s.Op("VMINPS Z%d, Z29, Z%d", i, i)
		}
		s.Ops("CMPL windows16Args_silu(BX), $0", "JEQ whole")
		silu16(s, 0, 1, 2)
		s.Label("whole")
		s.Ops("CMPQ windows16Args_wide(BX), $0", "JNE wide")
		toHalves(s, 0, 1, 2)
		s.Ops("VPERMW Z2, Z30, Z2", "VMOVDQU16 Z2, K1, (R9)")
	}
	s.Label("next")
	s.Ops("ADDQ windows16Args_xStep(BX), R13", "ADDQ windows16Args_size(BX), R9", "DECQ CX",
		"JNZ pixel", "ADDQ $64, SI", "ADDQ windows16Args_block(BX), R8", "ADDQ $64, DI",
		"CMPQ windows16Args_wide(BX), $0", "JEQ narrow", "ADDQ $64, DI")
	s.Label("narrow")
	s.Ops("DECQ R12", "JG block", "JL done", "KMOVD windows16Args_mask(BX), K1", "JMP block")
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
	if largest {
		return
	}
	s.Label("wide")
	s.Ops("VMOVDQA32 Z26, Z2", "VPERMI2D Z1, Z0, Z2", "VMOVDQA32 Z27, Z3", "VPERMI2D Z1, Z0, Z3",
		"KSHIFTRD $16, K1, K2", "VMOVUPS Z2, K1, (R9)", "VMOVUPS Z3, K2, 64(R9)", "JMP next")
}

// threeOutputs is how many results of a row windows16Three computes together.
const threeOutputs = 3

// windows16Three writes windows of 3 x 3, a stride apart, whose weights stay in registers 8 to 25:
// SI, DI, R8 and R12 are those of windows16Of, R9 and R13 the result and the first element of its
// window, R10, R11 and R14 the bytes to the window's rows, AX those from pixel to pixel, CX the
// results left. Of each column of pixels all results that see it take their part.
func windows16Three(s *asm.File, name string, stride int) {
	s.Func(name, "t *windows16Args", 8, "does what windows16Call.model does for windows of 3 x 3.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ windows16Args_x(BX), SI", "MOVQ windows16Args_w(BX), R8",
		"MOVQ windows16Args_offs(BX), DX", "MOVQ (DX), R10", "MOVQ 8(DX), R11",
		"MOVQ 16(DX), R14", "MOVQ 24(DX), AX", "SUBQ R10, AX",
		"MOVQ windows16Args_blocks(BX), R12", "MOVQ windows16Args_y(BX), DI",
		"MOVL $0xffff0000, DX", "VPBROADCASTD DX, Z31", "VMOVDQU32 ·halvesInTurn<>(SB), Z30",
		"VBROADCASTSS windows16Args_lo(BX), Z28", "VBROADCASTSS windows16Args_hi(BX), Z29",
		"KXNORD K1, K1, K1", "TESTQ R12, R12", "JNZ block",
		"KMOVD windows16Args_mask(BX), K1")
	s.Label("block")
	for i := range 18 {
		s.Op("VMOVUPS %d(R8), Z%d", 128+64*i, 8+i)
	}
	s.Ops("MOVQ SI, R13", "MOVQ DI, R9", "MOVQ windows16Args_pixels(BX), CX",
		"SUBQ $3, CX", "JL last")
	s.Label("three")
	threeColumns(s, threeOutputs, stride)
	s.Ops("SUBQ $3, CX", "JGE three")
	s.Label("last")
	s.Ops("ADDQ $3, CX", "JZ next")
	s.Label("one")
	threeColumns(s, 1, stride)
	s.Ops("DECQ CX", "JNZ one")
	s.Label("next")
	s.Ops("ADDQ $64, SI", "ADDQ windows16Args_block(BX), R8", "ADDQ $64, DI", "DECQ R12",
		"JG block", "JL done", "KMOVD windows16Args_mask(BX), K1", "JMP block")
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
}

// threeColumns computes n results: their sums in registers 0 to 5, elements in 6, 7 and 26, DX a
// column of pixels.
func threeColumns(s *asm.File, n, stride int) {
	for i := range n {
		s.Op("VMOVUPS (R8), Z%d", 2*i)
		s.Op("VMOVUPS 64(R8), Z%d", 2*i+1)
	}
	s.Op("MOVQ R13, DX")
	for c := range (n-1)*stride + 3 {
		for ky, row := range []string{"R10", "R11", "R14"} {
			s.Op("VMOVDQU16.Z (DX)(%s*1), K1, Z26", row)
			s.Ops("VPSLLD $16, Z26, Z6", "VPANDD Z31, Z26, Z7")
			for i := range n {
				if kx := c - i*stride; kx >= 0 && kx < 3 {
					w := 8 + 2*(3*ky+kx)
					s.Op("VFMADD231PS Z%d, Z6, Z%d", w, 2*i)
					s.Op("VFMADD231PS Z%d, Z7, Z%d", w+1, 2*i+1)
				}
			}
		}
		s.Op("ADDQ AX, DX")
	}
	for range n * stride {
		s.Op("ADDQ AX, R13")
	}
	for i := range n {
		for j := 2 * i; j < 2*i+2; j++ {
			s.Op("VMAXPS Z%d, Z28, Z%d", j, j)
			s.Op("VMINPS Z%d, Z29, Z%d", j, j)
		}
		toHalves(s, 2*i, 2*i+1, 6)
		s.Ops("VPERMW Z6, Z30, Z6", "VMOVDQU16 Z6, K1, (R9)",
			"ADDQ windows16Args_size(BX), R9")
	}
}
