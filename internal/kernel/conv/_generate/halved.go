package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// halvedPlanes writes the depthwise kernel for 3x3 taps and strides of 2. Registers: BX the
// arguments, SI and DI the columns of a vector in the input and the output, R8 the weights and R9
// the bias of a plane, R10 the planes left, R11 the masks of a vector and R12 the vectors left, R13
// the bytes of two rows of the input, R15 and AX the rows of input and output, CX from the output
// to the residual, DX the rows left. Vectors 16 to 24 are the weights, 5 to 7 the bias and the
// limits, 0 and 1 the sums of an output row and of the next, 3 is zero, 4 and 25 choose the even
// and the odd columns.
func halvedPlanes(s *asm.File) {
	s.Func("halvedPlanesAVX512", "t *halvedPlanes", 8, "computes t.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ planeRun_src(BX), SI", "MOVQ planeRun_dst(BX), DI",
		"MOVQ planeRun_w(BX), R8", "MOVQ planeRun_bias(BX), R9",
		"MOVQ planeRun_planes(BX), R10", "MOVQ halvedPlanes_srcPitch(BX), R13",
		"MOVQ planeRun_res(BX), CX", "SUBQ DI, CX", "VBROADCASTSS planeRun_lo(BX), Z6",
		"VBROADCASTSS planeRun_hi(BX), Z7", "VPXORD Z3, Z3, Z3", "VPXORD Z5, Z5, Z5",
		"VMOVUPS ·evenLanes<>(SB), Z4", "VPTERNLOGD $0xff, Z25, Z25, Z25", "VPSUBD Z25, Z4, Z25")
	s.Label("plane")
	for i := range 9 {
		s.Op("VBROADCASTSS %d(R8), Z%d", 4*i, 16+i)
	}
	s.Ops("ADDQ $36, R8", "TESTQ R9, R9", "JZ unbiased", "VBROADCASTSS (R9), Z5", "ADDQ $4, R9")
	s.Label("unbiased")
	s.Ops("MOVQ halvedPlanes_masks(BX), R11", "MOVQ (halvedPlanes_masks+8)(BX), R12")
	halvedVector(s, true)
	s.Ops("DECQ R12", "JZ done")
	s.Label("vector")
	halvedVector(s, false)
	s.Ops("DECQ R12", "JNZ vector")
	s.Label("done")
	s.Ops("ADDQ planeRun_srcSkip(BX), SI", "ADDQ planeRun_dstSkip(BX), DI", "DECQ R10",
		"JNZ plane", "VZEROUPPER", "RET")
}

// halvedVector computes a vector of columns: output rows that see two rows of the input from theirs
// on, then one that sees one.
func halvedVector(s *asm.File, first bool) {
	name := func(label string) string { return fmt.Sprintf("%s%t", label, first) }
	for i := range 3 {
		s.Op("KMOVW %d(R11), K%d", 2*i, 1+i)
	}
	s.Ops("MOVQ SI, R15", "MOVQ DI, AX", "MOVQ halvedPlanes_below(BX), DX", "VMOVAPS Z5, Z0",
		"TESTQ DX, DX", "JZ "+name("last"))
	s.Label(name("row"))
	halvedRow(s, first)
	halvedTaps(s, 0, 1)
	s.Op("ADDQ R13, R15")
	halvedRow(s, first)
	s.Ops("ADDQ R13, R15", "VMOVAPS Z5, Z1")
	halvedTaps(s, 0, 2)
	halvedTaps(s, 1, 0)
	halvedFinish(s, name("both"))
	s.Ops("VMOVAPS Z1, Z0", "ADDQ planeRun_pitch(BX), AX", "DECQ DX", "JNZ "+name("row"))
	s.Label(name("last"))
	s.Ops("MOVQ halvedPlanes_below(BX), DX", "CMPQ DX, planeRun_rows(BX)", "JEQ "+name("end"))
	halvedRow(s, first)
	halvedTaps(s, 0, 1)
	halvedFinish(s, name("one"))
	s.Label(name("end"))
	s.Ops("ADDQ $128, SI", "ADDQ $64, DI", "ADDQ $halvedMask__size, R11")
}

// halvedRow loads a row of the input: its even columns into vector 10, the odd ones into 8 and
// those left of the even ones into 12.
func halvedRow(s *asm.File, first bool) {
	s.Ops("VMOVUPS.Z (R15), K1, Z8", "VMOVUPS.Z 64(R15), K2, Z9", "VMOVAPS Z8, Z10",
		"VPERMT2PS Z9, Z4, Z10", "VPERMT2PS Z9, Z25, Z8")
	if first {
		s.Op("VALIGND $15, Z3, Z8, Z12")
		return
	}
	s.Ops("VBROADCASTSS -4(R15), Z9", "VALIGND $15, Z9, Z8, Z12")
}

// halvedTaps adds the loaded row under row ky of the taps to a sum.
func halvedTaps(s *asm.File, sum, ky int) {
	for kx, columns := range []int{12, 10, 8} {
		s.Op("VFMADD231PS Z%d, Z%d, Z%d", columns, 16+3*ky+kx, sum)
	}
}

// halvedFinish applies the epilogue to the sums of a row and stores it.
func halvedFinish(s *asm.File, plain string) {
	s.Ops("TESTL $const_flagResidual, planeRun_flags(BX)", "JZ "+plain,
		"VMOVUPS.Z (AX)(CX*1), K3, Z8", "VADDPS Z8, Z0, Z0")
	s.Label(plain)
	s.Ops("VMAXPS Z0, Z6, Z0", "VMINPS Z0, Z7, Z0", "VMOVUPS Z0, K3, (AX)")
}
