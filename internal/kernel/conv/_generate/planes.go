package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// smallPlanes writes the depthwise kernel for 3x3 taps and a border of one zero, which masks make.
// Registers: BX the arguments, SI and DI the columns of a vector in the input and the output, R8
// the weights and R9 the bias of a plane, R10 the planes left, R11 the masks of a vector and R12
// the vectors left, R13 the bytes of a row, R15 and AX the rows of input and output, CX from the
// output to the residual, DX the rows left. Vectors 16 to 24 are the weights, 5 to 7 the bias and
// the limits, 0 to 2 the sums of three output rows: of the one before that of the input, of the
// same and of the next. Vector 3 is zero.
func smallPlanes(s *asm.File) {
	s.Func("smallPlanesAVX512", "t *smallPlanes", 8, "computes t.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ planeRun_src(BX), SI", "MOVQ planeRun_dst(BX), DI",
		"MOVQ planeRun_w(BX), R8", "MOVQ planeRun_bias(BX), R9",
		"MOVQ planeRun_planes(BX), R10", "MOVQ planeRun_pitch(BX), R13",
		"MOVQ planeRun_res(BX), CX", "SUBQ DI, CX", "VBROADCASTSS planeRun_lo(BX), Z6",
		"VBROADCASTSS planeRun_hi(BX), Z7", "VPXORD Z3, Z3, Z3", "VPXORD Z5, Z5, Z5")
	s.Label("plane")
	for i := range 9 {
		s.Op("VBROADCASTSS %d(R8), Z%d", 4*i, 16+i)
	}
	s.Ops("ADDQ $36, R8", "TESTQ R9, R9", "JZ unbiased", "VBROADCASTSS (R9), Z5", "ADDQ $4, R9")
	s.Label("unbiased")
	s.Ops("MOVQ smallPlanes_masks(BX), R11", "MOVQ (smallPlanes_masks+8)(BX), R12")
	smallVector(s, true)
	s.Ops("DECQ R12", "JZ done")
	s.Label("vector")
	smallVector(s, false)
	s.Ops("DECQ R12", "JNZ vector")
	s.Label("done")
	s.Ops("ADDQ planeRun_srcSkip(BX), SI", "ADDQ planeRun_dstSkip(BX), DI", "DECQ R10",
		"JNZ plane", "VZEROUPPER", "RET")
}

// smallVector computes a vector of columns. What is left of the first one comes from the vector
// itself: a load would reach before the plane, where a page may be missing, and though the mask
// forbids the fault, some processors take hundreds of cycles to see that.
func smallVector(s *asm.File, first bool) {
	name := func(label string) string { return fmt.Sprintf("%s%t", label, first) }
	for i := range 4 {
		s.Op("KMOVW %d(R11), K%d", 2*i, 1+i)
	}
	s.Ops("MOVQ SI, R15", "MOVQ DI, AX", "MOVQ planeRun_rows(BX), DX")
	smallRow(s, []int{1, 2}, first)
	s.Ops("DECQ DX", "JZ "+name("last"))
	s.Label(name("row"))
	s.Ops("ADDQ R13, R15", "VMOVAPS Z1, Z0", "VMOVAPS Z2, Z1")
	smallRow(s, []int{0, 1, 2}, first)
	smallFinish(s, 0, name("above"))
	s.Ops("ADDQ R13, AX", "DECQ DX", "JNZ "+name("row"))
	s.Label(name("last"))
	smallFinish(s, 1, name("same"))
	s.Ops("ADDQ $64, SI", "ADDQ $64, DI", "ADDQ $planeMask__size, R11")
}

// smallRow adds a row of the input to the sums of output rows; those of the next row begin with the
// bias, and so do those of the same row when there was no row before.
func smallRow(s *asm.File, sums []int, first bool) {
	for kx := range 3 {
		if kx == 0 && first {
			continue
		}
		s.Op("VMOVUPS.Z %d(R15), K%d, Z%d", 4*(kx-1), 1+kx, 8+kx)
	}
	if first {
		s.Op("VALIGND $15, Z3, Z9, Z8")
	}
	if sums[0] == 1 {
		s.Op("VMOVAPS Z5, Z1")
	}
	s.Op("VMOVAPS Z5, Z2")
	for kx := range 3 {
		for _, sum := range sums {
			s.Op("VFMADD231PS Z%d, Z%d, Z%d", 8+kx, 16+3*(2-sum)+kx, sum)
		}
	}
}

// smallFinish applies the epilogue to the sums of a row and stores it.
func smallFinish(s *asm.File, sum int, plain string) {
	s.Ops("TESTL $const_flagResidual, planeRun_flags(BX)")
	s.Op("JZ %s", plain)
	s.Ops("VMOVUPS.Z (AX)(CX*1), K4, Z8")
	s.Op("VADDPS Z8, Z%[1]d, Z%[1]d", sum)
	s.Label(plain)
	s.Op("VMAXPS Z%[1]d, Z6, Z%[1]d", sum)
	s.Op("VMINPS Z%[1]d, Z7, Z%[1]d", sum)
	s.Op("VMOVUPS Z%d, K4, (AX)", sum)
}
