package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of the kernels of separable pooling: BX the arguments, R10 the output row and R11 how
// many are left, CX and AX counts, R9 what a window sees. Y0 and Y4 are results, Y2 and Y5 where a
// NaN was seen, Y6 what reducing with changes nothing, Y8 the mask of rows shorter than a vector.

// poolKind names a kind of pooling.
func poolKind(largest bool) string {
	if largest {
		return "Max"
	}
	return "Mean"
}

// poolDown writes the reduction of the rows under each output row into a line, with R8 the plane,
// DI a line, SI and R13 the columns of both, DX those left and R15 the distance of rows.
func poolDown(s *asm.File, largest bool) {
	s.Func(fmt.Sprintf("pool%sDownAVX2", poolKind(largest)), "t *separablePool", 8,
		"reduces the rows under each output row into a line.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ separablePool_in(BX), DX", "ANDQ $7, DX", "NEGQ DX",
		"LEAQ ·laneMask<>(SB), SI", "VMOVUPS 64(SI)(DX*4), Y8",
		"VBROADCASTSS separablePool_neutral(BX), Y6", "MOVQ separablePool_step(BX), R15",
		"MOVQ separablePool_planes(BX), AX", "MOVQ AX, left-8(SP)",
		"MOVQ separablePool_src(BX), R8", "MOVQ separablePool_lines(BX), DI",
		"ADDQ separablePool_lead(BX), DI")
	s.Label("plane")
	s.Ops("MOVQ separablePool_rows(BX), R10", "MOVQ (separablePool_rows+8)(BX), R11")
	s.Label("row")
	s.Ops("MOVQ poolRow_at(R10), SI", "ADDQ R8, SI", "ADDQ separablePool_lead(BX), SI",
		"MOVQ DI, R13", "MOVQ separablePool_in(BX), DX", "CMPQ DX, $8", "JLT short")
	s.Label("wide")
	s.Ops("CMPQ DX, $16", "JLT narrow")
	downVectors(s, largest, "wide", 2)
	s.Ops("VMOVUPS Y0, (R13)", "VMOVUPS Y4, 32(R13)", "ADDQ $64, SI", "ADDQ $64, R13",
		"SUBQ $16, DX", "JMP wide")
	s.Label("narrow")
	s.Ops("TESTQ DX, DX", "JZ next", "CMPQ DX, $8", "JGE whole",
		"LEAQ -32(SI)(DX*4), SI", "LEAQ -32(R13)(DX*4), R13", "MOVQ $8, DX")
	s.Label("whole")
	downVectors(s, largest, "narrow", 1)
	s.Ops("VMOVUPS Y0, (R13)", "ADDQ $32, SI", "ADDQ $32, R13", "SUBQ $8, DX", "JMP narrow")
	s.Label("short")
	downVectors(s, largest, "short", 0)
	s.Ops("VBLENDVPS Y8, Y0, Y6, Y0", "VMOVUPS Y0, (R13)")
	s.Label("next")
	s.Ops("ADDQ separablePool_pitch(BX), DI", "ADDQ $poolRow__size, R10", "DECQ R11", "JNZ row",
		"ADDQ separablePool_plane(BX), R8", "DECQ left-8(SP)", "JNZ plane", "VZEROUPPER", "RET")
}

// downVectors reduces so many vectors of columns from SI on, or with 0 the lanes of one that the
// mask has.
func downVectors(s *asm.File, largest bool, name string, vectors int) {
	sums := []int{0, 4}[:max(vectors, 1)]
	for _, sum := range sums {
		s.Op("VMOVAPS Y6, Y%d", sum)
		if largest {
			s.Op("VXORPS Y%[1]d, Y%[1]d, Y%[1]d", poolSeen(sum))
		}
	}
	s.Ops("MOVQ SI, R9", "MOVQ poolRow_n(R10), AX", "TESTQ AX, AX", "JZ "+name+"Done")
	s.Label(name + "Load")
	for i, sum := range sums {
		if vectors == 0 {
			s.Op("VMASKMOVPS (R9), Y8, Y1")
		} else {
			s.Op("VMOVUPS %d(R9), Y1", 32*i)
		}
		poolTakeNarrow(s, largest, 1, sum)
	}
	s.Ops("ADDQ R15, R9", "DECQ AX", "JNZ "+name+"Load")
	s.Label(name + "Done")
	if largest {
		for _, sum := range sums {
			s.Op("VORPS Y%[1]d, Y%[2]d, Y%[2]d", poolSeen(sum), sum)
		}
	}
}

// poolSeen is the register that says where a NaN was seen for a result.
func poolSeen(sum int) int { return map[int]int{0: 2, 4: 5}[sum] }

// poolTakeNarrow takes a vector into a result. Where a NaN was seen, the larger of the two may be
// either.
func poolTakeNarrow(s *asm.File, largest bool, vector, sum int) {
	if !largest {
		s.Op("VADDPS Y%[1]d, Y%[2]d, Y%[2]d", vector, sum)
		return
	}
	s.Op("VMAXPS Y%[1]d, Y%[2]d, Y%[2]d", vector, sum)
	s.Op("VCMPPS $3, Y%[1]d, Y%[1]d, Y7", vector)
	s.Op("VORPS Y7, Y%[1]d, Y%[1]d", poolSeen(sum))
}

// poolAlong writes the reduction of the columns of the lines, with SI a line, R13 what the first
// output of a vector sees of it, DI the output, R8 its end, DX the columns left, R12 their
// divisors and R15 the distance of taps. With a stride of 2 the lanes of a vector are in the order
// that is cheapest to get until it is stored.
func poolAlong(s *asm.File, largest bool, stride int) {
	s.Func(fmt.Sprintf("pool%sAlongS%dAVX2", poolKind(largest), stride), "t *separablePool", 8,
		fmt.Sprintf("reduces the columns of the lines with a stride of %d.", stride))
	s.Ops("MOVQ t+0(FP), BX", "MOVQ separablePool_cols(BX), DX", "ANDQ $7, DX", "NEGQ DX",
		"LEAQ ·laneMask<>(SB), SI", "VMOVUPS 64(SI)(DX*4), Y8",
		"VBROADCASTSS separablePool_neutral(BX), Y6", "MOVQ separablePool_tap(BX), R15",
		"MOVQ separablePool_planes(BX), AX", "MOVQ AX, left-8(SP)",
		"MOVQ separablePool_lines(BX), SI", "MOVQ separablePool_dst(BX), DI",
		"MOVQ (separablePool_dst+8)(BX), R8", "LEAQ (DI)(R8*4), R8")
	s.Label("plane")
	s.Ops("MOVQ separablePool_rows(BX), R10", "MOVQ (separablePool_rows+8)(BX), R11")
	s.Label("row")
	s.Ops("MOVQ SI, R13", "MOVQ separablePool_cols(BX), DX")
	if !largest {
		s.Ops("MOVQ separablePool_columns(BX), R12", "VBROADCASTSS poolRow_divisor(R10), Y9")
	}
	s.Label("vector")
	s.Ops("CMPQ DX, $8", "JGE whole", "CMPQ separablePool_cols(BX), $8", "JLT whole",
		"SUBQ $8, DX", "LEAQ (DI)(DX*4), DI")
	s.Op("LEAQ (R13)(DX*%d), R13", 4*stride)
	if !largest {
		s.Op("LEAQ (R12)(DX*4), R12")
	}
	s.Op("MOVQ $8, DX")
	s.Label("whole")
	alongTaps(s, largest, stride)
	if !largest {
		s.Ops("VMULPS (R12), Y9, Y1", "VDIVPS Y1, Y0, Y0", "ADDQ $32, R12")
	}
	s.Ops("CMPQ DX, $8", "JLT short", "VMOVUPS Y0, (DI)", "ADDQ $32, DI")
	s.Op("ADDQ $%d, R13", 32*stride)
	s.Ops("SUBQ $8, DX", "JNZ vector", "JMP next")
	// Rows that are shorter than a vector are stored as one, the next row over what is too much:
	// stores under masks take many times as long.
	s.Label("short")
	s.Ops("LEAQ 32(DI), AX", "CMPQ AX, R8", "JA end", "VMOVUPS Y0, (DI)",
		"LEAQ (DI)(DX*4), DI", "JMP next")
	s.Label("end")
	s.Ops("VMASKMOVPS Y0, Y8, (DI)", "LEAQ (DI)(DX*4), DI")
	s.Label("next")
	s.Ops("ADDQ separablePool_pitch(BX), SI", "ADDQ $poolRow__size, R10", "DECQ R11", "JNZ row",
		"DECQ left-8(SP)", "JNZ plane", "VZEROUPPER", "RET")
}

// alongTaps reduces what a vector of outputs sees from R13 on.
func alongTaps(s *asm.File, largest bool, stride int) {
	s.Ops("VMOVAPS Y6, Y0", "MOVQ R13, R9", "MOVQ separablePool_width(BX), CX")
	if largest {
		s.Op("VXORPS Y2, Y2, Y2")
	}
	if stride == 1 {
		s.Label("tap")
		s.Op("VMOVUPS (R9), Y1")
		poolTakeNarrow(s, largest, 1, 0)
		s.Ops("ADDQ R15, R9", "DECQ CX", "JNZ tap")
	} else {
		s.Ops("SHRQ $1, CX", "JZ last")
		s.Label("taps")
		s.Ops("VMOVUPS (R9), Y1", "VMOVUPS 32(R9), Y3", "VSHUFPS $0xdd, Y3, Y1, Y4",
			"VSHUFPS $0x88, Y3, Y1, Y1")
		poolTakeNarrow(s, largest, 1, 0)
		poolTakeNarrow(s, largest, 4, 0)
		s.Ops("ADDQ $8, R9", "DECQ CX", "JNZ taps")
		s.Label("last")
		s.Ops("TESTQ $1, separablePool_width(BX)", "JZ turn", "VMOVUPS (R9), Y1",
			"VSHUFPS $0x88, 32(R9), Y1, Y1")
		poolTakeNarrow(s, largest, 1, 0)
		s.Label("turn")
	}
	if largest {
		s.Op("VORPS Y2, Y0, Y0")
	}
	if stride == 2 {
		s.Op("VPERMPD $0xd8, Y0, Y0")
	}
}
