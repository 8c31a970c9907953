package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of the pooling kernels: BX the arguments, DI the output, R8 the plane, R10 the output
// row and R11 how many are left, SI the first column under the first output of a vector, R12 its
// taps, DX the columns left, CX the taps left, R13 the column of a tap, R9 its rows, AX how many of
// them are left and R15 how far apart they are. Z0 is the result, K7 where no NaN was seen. Means
// have the sums of the rows under a tap in Z10, and those of the odd tap after it in Z11, before
// they are added to the result: as all other ways to pool do, so that the bits are the same.

// poolBand writes the pooling of rows of planes, a vector of outputs at a time.
func poolBand(s *asm.File, largest bool, stride int) {
	s.Func(fmt.Sprintf("pool%sS%dAVX512", poolKind(largest), stride), "t *poolBand", 8,
		fmt.Sprintf("computes t with a stride of %d of the columns.", stride))
	s.Ops("MOVQ t+0(FP), BX", "MOVQ poolBand_cols(BX), CX", "ANDQ $15, CX", "MOVL $1, SI",
		"SHLL CX, SI", "DECL SI", "KMOVW SI, K5", "VBROADCASTSS poolBand_neutral(BX), Z6",
		"VPTERNLOGD $0xff, Z7, Z7, Z7", "MOVQ poolBand_step(BX), R15",
		"MOVQ poolBand_planes(BX), AX", "MOVQ AX, left-8(SP)", "MOVQ poolBand_src(BX), R8",
		"MOVQ poolBand_dst(BX), DI")
	if stride == 2 {
		s.Ops("VMOVUPS ·evenLanes<>(SB), Z4", "VPSUBD Z7, Z4, Z5")
	}
	s.Label("plane")
	s.Ops("MOVQ poolBand_rows(BX), R10", "MOVQ (poolBand_rows+8)(BX), R11")
	s.Label("row")
	s.Ops("MOVQ poolRow_at(R10), SI", "ADDQ R8, SI", "MOVQ poolBand_taps(BX), R12",
		"MOVQ poolBand_cols(BX), DX")
	s.Label("vector")
	if largest && stride == 2 {
		poolThree(s)
	}
	s.Ops("VMOVAPS Z6, Z0", "KXNORW K7, K7, K7", "MOVQ SI, R13", "MOVQ poolBand_width(BX), CX")
	s.Label("tap")
	s.Ops("MOVQ poolRow_n(R10), AX", "TESTQ AX, AX", "JZ next", "MOVQ R13, R9",
		"KMOVW poolTap_load(R12), K1")
	if !largest {
		s.Op("VMOVAPS Z6, Z10")
	}
	poolTaps(s, largest, stride)
	s.Label("next")
	s.Op("ADDQ $poolTap__size, R12")
	s.Op("ADDQ $%d, R13", 4*stride)
	s.Ops("DECQ CX", "JNZ tap")
	if largest {
		s.Ops("KNOTW K7, K7", "VMOVAPS Z7, K7, Z0")
	} else {
		s.Ops("MOVQ poolBand_cols(BX), AX", "SUBQ DX, AX", "MOVQ poolBand_columns(BX), R9",
			"VMOVUPS (R9)(AX*4), Z8", "VBROADCASTSS poolRow_divisor(R10), Z9", "VMULPS Z8, Z9, Z8",
			"VDIVPS Z8, Z0, Z0")
	}
	s.Label("store")
	s.Ops("CMPQ DX, $16", "JLT part", "VMOVUPS Z0, (DI)", "ADDQ $64, DI")
	s.Op("ADDQ $%d, SI", 64*stride)
	s.Ops("SUBQ $16, DX", "JNZ vector", "JMP done")
	s.Label("part")
	s.Ops("VMOVUPS Z0, K5, (DI)", "LEAQ (DI)(DX*4), DI")
	s.Label("done")
	s.Ops("ADDQ $poolRow__size, R10", "DECQ R11", "JNZ row", "ADDQ poolBand_plane(BX), R8",
		"DECQ left-8(SP)", "JNZ plane", "VZEROUPPER", "RET")
}

// poolThree writes the largest of windows of three columns, first down the rows, then along them,
// as long as there is no NaN: with one, all is done anew, tap by tap. What column 2 sees of a
// vector is what column 0 does one output on, and for the last output one column more.
func poolThree(s *asm.File) {
	s.Ops("CMPQ poolBand_three(BX), $0", "JEQ each", "MOVQ poolRow_n(R10), AX", "TESTQ AX, AX",
		"JZ each", "KMOVW poolTap_load(R12), K1", "KMOVW (poolTap_load+2)(R12), K2",
		"VMOVAPS Z6, Z0", "VMOVAPS Z6, Z8", "VMOVAPS Z6, Z9", "KXNORW K7, K7, K7", "MOVQ SI, R9",
		"MOVWLZX (poolTap__size+poolTap_load+2)(R12), CX", "TESTL $0x4000, CX", "JZ down")
	for _, further := range []bool{true, false} {
		name := map[bool]string{true: "further", false: "down"}[further]
		s.Label(name)
		s.Ops("VMOVAPS Z6, Z1", "VMOVAPS Z6, Z2", "VMOVUPS (R9), K1, Z1", "VMOVUPS 64(R9), K2, Z2",
			"VMAXPS Z1, Z0, Z0", "VMAXPS Z2, Z8, Z8", "VCMPPS $7, Z1, Z2, K7, K7")
		if further {
			s.Ops("VBROADCASTSS 128(R9), Z3", "VMAXPS Z3, Z9, Z9", "VCMPPS $7, Z3, Z3, K7, K7")
		}
		s.Ops("ADDQ R15, R9", "DECQ AX", "JNZ "+name)
		if further {
			s.Op("JMP along")
		}
	}
	s.Label("along")
	s.Ops("KORTESTW K7, K7", "JCC each", "VMOVAPS Z0, Z3", "VPERMT2PS Z8, Z4, Z3",
		"VPERMT2PS Z8, Z5, Z0", "VMAXPS Z3, Z0, Z0", "VALIGND $1, Z3, Z9, Z3", "VMAXPS Z3, Z0, Z0",
		"ADDQ $(2*poolTap__size), R12", "JMP store")
	s.Label("each")
}

// poolTaps writes the loop over the rows of one tap, for a stride of 2 of two neighbouring taps, of
// which the second may see nothing.
func poolTaps(s *asm.File, largest bool, stride int) {
	if stride == 1 {
		s.Label("load")
		if largest {
			s.Op("VMOVUPS.Z (R9), K1, Z1")
			poolTake(s, largest, 1, 1)
		} else {
			s.Op("VADDPS (R9), Z10, K1, Z10")
		}
		s.Ops("ADDQ R15, R9", "DECQ AX", "JNZ load")
		if !largest {
			s.Op("VADDPS Z10, Z0, Z0")
		}
		return
	}
	s.Ops("KMOVW (poolTap_load+2)(R12), K2", "KMOVW poolTap_even(R12), K3",
		"KMOVW poolTap_odd(R12), K4", "KORTESTW K4, K4", "JZ even")
	for _, odd := range []bool{true, false} {
		name := map[bool]string{true: "both", false: "even"}[odd]
		if odd && !largest {
			s.Op("VMOVAPS Z6, Z11")
		}
		s.Label(name)
		s.Ops("VMOVUPS.Z (R9), K1, Z1", "VMOVUPS.Z 64(R9), K2, Z2")
		if odd {
			s.Op("VMOVAPS Z1, Z3")
		}
		s.Op("VPERMT2PS Z2, Z4, Z1")
		poolTake(s, largest, 1, 3)
		if odd {
			s.Op("VPERMT2PS Z2, Z5, Z3")
			poolTake(s, largest, 3, 4)
		}
		s.Ops("ADDQ R15, R9", "DECQ AX", "JNZ "+name)
		if !largest {
			s.Op("VADDPS Z10, Z0, Z0")
		}
		if odd && !largest {
			s.Op("VADDPS Z11, Z0, Z0")
		}
		if odd {
			s.Op("JMP next")
		}
	}
}

// poolTake takes the elements of a vector under a mask, which K4 is for the odd tap, into the
// result or into the sums of their tap. Elements outside the mask are no NaN.
func poolTake(s *asm.File, largest bool, vector, mask int) {
	if !largest {
		sums := 10
		if mask == 4 {
			sums = 11
		}
		s.Op("VADDPS Z%[1]d, Z%[2]d, K%[3]d, Z%[2]d", vector, sums, mask)
		return
	}
	s.Op("VMAXPS Z%d, Z0, K%d, Z0", vector, mask)
	s.Op("VCMPPS $7, Z%[1]d, Z%[1]d, K7, K7", vector)
}
