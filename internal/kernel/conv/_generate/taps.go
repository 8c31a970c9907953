package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// copyTaps writes the copy of what up to 32 columns see under taps, n channels of each.
func copyTaps(s *asm.File, stride int) {
	s.Func(fmt.Sprintf("copyTapsS%dAVX512", stride), "t *tapCopies", 8,
		fmt.Sprintf("computes t with a stride of %d of the columns.", stride))
	s.Ops("MOVQ t+0(FP), BX", "MOVQ tapCopies_dst(BX), DI", "MOVQ tapCopies_pitch(BX), R10",
		"MOVQ tapCopies_plane(BX), R9", "MOVQ tapCopies_src(BX), R8",
		"ADDQ tapCopies_shift(BX), R8", "MOVQ tapCopies_taps(BX), R11",
		"MOVQ (tapCopies_taps+8)(BX), R12", "MOVQ tapCopies_lanes(BX), R13",
		"MOVL tapCopies_store(BX), DX", "KMOVW DX, K5", "SHRL $16, DX", "KMOVW DX, K6")
	if stride == 2 {
		s.Op("VMOVUPS ·evenLanes<>(SB), Z4")
	}
	s.Label("tap")
	s.Ops("MOVQ tapCopy_at(R11), SI", "ADDQ R8, SI", "MOVQ tapCopy_load(R11), AX", "ANDQ R13, AX",
		"MOVQ tapCopy_n(R11), CX")
	for k := 1; k <= 2*stride; k++ {
		s.Op("KMOVW AX, K%d", k)
		s.Op("SHRQ $16, AX")
	}
	s.Ops("TESTL DX, DX", "JZ narrow")
	for _, vectors := range []int{2, 1} {
		name := map[int]string{2: "wide", 1: "narrow"}[vectors]
		s.Label(name)
		for k := range vectors * stride {
			s.Op("VMOVUPS.Z %d(SI), K%d, Z%d", 64*k, k+1, k)
		}
		for v := range vectors {
			if stride == 2 {
				s.Op("VPERMT2PS Z%d, Z4, Z%d", 2*v+1, 2*v)
			}
			s.Op("VMOVUPS Z%d, K%d, %d(DI)", stride*v, 5+v, 64*v)
		}
		s.Ops("ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ "+name)
		if vectors == 2 {
			s.Op("JMP next")
		}
	}
	s.Label("next")
	s.Op("ADDQ $tapCopy__size, R11")
	s.Ops("DECQ R12", "JNZ tap", "VZEROUPPER", "RET")
}

// copyTapsNarrow writes the same for panels of 16 columns, without mask registers. Columns that
// keep what they hold are read before they are stored: stores under such masks take many times as
// long as loads.
func copyTapsNarrow(s *asm.File, stride int) {
	const vectors = 2
	s.Func(fmt.Sprintf("copyTapsS%dAVX2", stride), "t *tapCopies", 8,
		fmt.Sprintf("computes t, of %d columns, with a stride of %d.", 8*vectors, stride))
	s.Ops("MOVQ t+0(FP), BX", "MOVQ tapCopies_dst(BX), DI", "MOVQ tapCopies_pitch(BX), R10",
		"MOVQ tapCopies_plane(BX), R9", "MOVQ tapCopies_src(BX), R8",
		"ADDQ tapCopies_shift(BX), R8", "MOVQ tapCopies_taps(BX), R11",
		"MOVQ (tapCopies_taps+8)(BX), R12", "MOVL tapCopies_lanes(BX), R13",
		"MOVL tapCopies_store(BX), DX")
	narrowMasks(s, "DX", vectors, 10)
	s.Label("tap")
	s.Ops("MOVQ tapCopy_at(R11), SI", "ADDQ R8, SI", "MOVL tapCopy_load(R11), AX", "ANDL R13, AX",
		"MOVQ tapCopy_n(R11), CX")
	narrowMasks(s, "AX", stride*vectors, 12)
	s.Op("CMPL DX, $%d", 1<<(8*vectors)-1)
	s.Op("JNE keep")
	for _, keep := range []bool{false, true} {
		name := map[bool]string{false: "whole", true: "keep"}[keep]
		s.Label(name)
		for g := range stride * vectors {
			s.Op("VMASKMOVPS %d(SI), Y%d, Y%d", 32*g, 12+g, g)
		}
		for v := range vectors {
			if stride == 2 {
				s.Op("VSHUFPS $0x88, Y%d, Y%d, Y%d", 2*v+1, 2*v, v)
				s.Op("VPERMPD $0xd8, Y%d, Y%d", v, v)
			}
			if keep {
				s.Op("VMOVUPS %d(DI), Y%d", 32*v, 4+v)
				s.Op("VBLENDVPS Y%d, Y%d, Y%d, Y%d", 10+v, v, 4+v, v)
			}
			s.Op("VMOVUPS Y%d, %d(DI)", v, 32*v)
		}
		s.Ops("ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ "+name)
		if !keep {
			s.Op("JMP next")
		}
	}
	s.Label("next")
	s.Op("ADDQ $tapCopy__size, R11")
	s.Ops("DECQ R12", "JNZ tap", "VZEROUPPER", "RET")
}

// copyPair writes the copy of what 8 columns see in two runs. Of either run elements are loaded
// under a mask, and both then put together.
func copyPair(s *asm.File, stride int) {
	s.Func(fmt.Sprintf("copyPairS%dAVX2", stride), "c *pairCopy", 8,
		fmt.Sprintf("computes c with a stride of %d of the columns.", stride))
	s.Ops("MOVQ c+0(FP), BX", "MOVQ pairCopy_dst(BX), DI", "MOVQ pairCopy_pitch(BX), R10",
		"MOVQ pairCopy_plane(BX), R9", "MOVQ pairCopy_n(BX), CX")
	for i, to := range []string{"SI", "R8"} {
		s.Op("MOVQ (pairCopy_run+%d)(BX), AX", 16*i)
		s.Op("MOVQ pairCopy_src(BX), %s", to)
		s.Op("LEAQ (%[1]s)(AX*4), %[1]s", to)
		s.Op("MOVL (pairCopy_run+%d)(BX), AX", 16*i+8)
		narrowMasks(s, "AX", stride, 12+2*i)
	}
	s.Label("loop")
	for g := range stride {
		s.Op("VMASKMOVPS %d(SI), Y%d, Y%d", 32*g, 12+g, g)
		s.Op("VMASKMOVPS %d(R8), Y%d, Y%d", 32*g, 14+g, 2+g)
		s.Op("VORPS Y%d, Y%d, Y%d", 2+g, g, g)
	}
	if stride == 2 {
		s.Ops("VSHUFPS $0x88, Y1, Y0, Y0", "VPERMPD $0xd8, Y0, Y0")
	}
	s.Ops("VMOVUPS Y0, (DI)", "ADDQ R9, SI", "ADDQ R9, R8", "ADDQ R10, DI", "DECQ CX", "JNZ loop",
		"VZEROUPPER", "RET")
}

// narrowMasks makes vectors of masks, from Y first on, of the bits of a register.
func narrowMasks(s *asm.File, bits string, vectors, first int) {
	s.Op("VMOVD %s, X4", bits)
	s.Op("VPBROADCASTD X4, Y4")
	for v := range vectors {
		s.Op("VMOVUPS ·laneBits<>+%d(SB), Y5", 32*v)
		s.Op("VPAND Y5, Y4, Y%d", first+v)
		s.Op("VPCMPEQD Y5, Y%[1]d, Y%[1]d", first+v)
	}
}
