package main

import "github.com/weirgpu/weir/internal/asm"

// Registers of the depthwise kernels for 3x3 taps that read the image where it lies, with AVX2: BX
// the arguments, SI and DI the columns of a vector in the input and the output, R8 the weights and
// R9 the bias of a plane, R10 the planes left, R11 the end of the output, R12 the vectors left, R13
// the bytes of a row of the input, R15 and AX the rows of input and output, DX the rows left.
// Vectors 7 to 15 are the weights. What has no register lies in the frame: the bias and the limits,
// and the masks of the input and the output of images that are narrower than a vector.
const (
	planeBias  = "bias-48(SP)"
	planeLo    = "lo-80(SP)"
	planeHi    = "hi-112(SP)"
	planeStore = "store-144(SP)"
	planeLoad  = "load-176(SP)"
	planeMore  = "more-208(SP)"
)

// edges says where the columns of a vector lie.
type edges struct {
	name        string
	left, right bool // at that edge of the image
	narrow      bool // of an image narrower than a vector
}

// narrowPlanes writes the loop over planes and vectors of columns, for outputs of 8 columns and
// more with the last vector over the one before, and none of it outside the image. What a vector is
// computed by is given; it advances SI by so many bytes.
func narrowPlanes(s *asm.File, of string, advance int, vector func(e edges)) {
	s.Func(of+"AVX2", "t *"+of, 8, "computes t, which has no residual.")
	s.Ops("MOVQ t+0(FP), BX", "MOVQ planeRun_src(BX), SI", "MOVQ planeRun_dst(BX), DI",
		"MOVQ planeRun_size(BX), R11", "ADDQ DI, R11", "MOVQ planeRun_w(BX), R8",
		"MOVQ planeRun_bias(BX), R9", "MOVQ planeRun_planes(BX), R10")
	for i, at := range []string{planeLo, planeHi} {
		s.Op("VBROADCASTSS planeRun_%s(BX), Y0", []string{"lo", "hi"}[i])
		s.Op("VMOVUPS Y0, %s", at)
	}
	s.Ops("VXORPS Y0, Y0, Y0", "VMOVUPS Y0, "+planeBias)
	s.Label("plane")
	for i := range 9 {
		s.Op("VBROADCASTSS %d(R8), Y%d", 4*i, 7+i)
	}
	s.Ops("ADDQ $36, R8", "TESTQ R9, R9", "JZ unbiased", "VBROADCASTSS (R9), Y0",
		"VMOVUPS Y0, "+planeBias, "ADDQ $4, R9")
	s.Label("unbiased")
	s.Ops("MOVQ planeRun_cols(BX), CX", "CMPQ CX, $8", "JLT short", "JEQ only")
	vector(edges{name: "first", left: true})
	s.Ops("SUBQ $9, CX", "SHRQ $3, CX", "MOVQ CX, R12", "JZ last")
	s.Label("inner")
	vector(edges{name: "inside"})
	s.Ops("DECQ R12", "JNZ inner")
	s.Label("last")
	// from the end of a row back to where its last vector begins
	s.Ops("MOVQ planeRun_cols(BX), CX", "NEGQ CX", "ANDQ $7, CX", "NEGQ CX")
	s.Op("LEAQ (DI)(CX*4), DI")
	s.Op("LEAQ (SI)(CX*%d), SI", advance/8)
	vector(edges{name: "final", right: true})
	s.Label("next")
	s.Ops("ADDQ planeRun_srcSkip(BX), SI", "ADDQ planeRun_dstSkip(BX), DI", "DECQ R10", "JNZ plane",
		"VZEROUPPER", "RET")
	s.Label("only")
	vector(edges{name: "single", left: true, right: true})
	s.Op("JMP next")
	s.Label("short")
	vector(edges{name: "narrow", left: true, right: true, narrow: true})
	s.Op("JMP next")
}

// narrowMask writes the mask of n lanes to the frame, for n in CX of at most 8.
func narrowMask(s *asm.File, to string) {
	s.Ops("NEGQ CX", "LEAQ ·laneMask<>(SB), R15", "VMOVUPS 64(R15)(CX*4), Y0", "VMOVUPS Y0, "+to)
}

// fromLeft writes vector x, one column to the right and with a zero before it, to another.
func fromLeft(s *asm.File, x, to int) {
	s.Op("VPERM2F128 $0x08, Y%[1]d, Y%[1]d, Y%[2]d", x, to)
	s.Op("VPALIGNR $12, Y%[2]d, Y%[1]d, Y%[2]d", x, to)
}

// fromRight writes vector x, one column to the left and with a zero after it, to another.
func fromRight(s *asm.File, x, to int) {
	s.Op("VPERM2F128 $0x81, Y%[1]d, Y%[1]d, Y%[2]d", x, to)
	s.Op("VPALIGNR $4, Y%[1]d, Y%[2]d, Y%[2]d", x, to)
}

// narrowFinish applies the limits to the sums of a row and stores it, with a vector that is free.
// Rows narrower than a vector are stored as one, the next row over what is too much: stores under
// masks take many times as long.
func narrowFinish(s *asm.File, e edges, sum, free int, name string) {
	s.Op("VMOVUPS %s, Y%d", planeLo, free)
	s.Op("VMAXPS Y%[1]d, Y%[2]d, Y%[1]d", sum, free)
	s.Op("VMOVUPS %s, Y%d", planeHi, free)
	s.Op("VMINPS Y%[1]d, Y%[2]d, Y%[1]d", sum, free)
	if !e.narrow {
		s.Op("VMOVUPS Y%d, (AX)", sum)
		return
	}
	s.Ops("LEAQ 32(AX), CX", "CMPQ CX, R11", "JA "+name+"End")
	s.Op("VMOVUPS Y%d, (AX)", sum)
	s.Op("JMP %sStored", name)
	s.Label(name + "End")
	s.Op("VMOVUPS %s, Y%d", planeStore, free)
	s.Op("VMASKMOVPS Y%d, Y%d, (AX)", sum, free)
	s.Label(name + "Stored")
}

// fetchNext fetches what the next vector of columns, so many bytes on, reads in this row. Down a
// plane one row is as far from the next as a row is long, which processors do not foresee.
func fetchNext(s *asm.File, e edges, advance int) {
	if !e.right {
		s.Op("PREFETCHT0 %d(R15)", 2*advance-4)
	}
}

// smallPlanesNarrow writes smallPlanes with AVX2. Vectors 0 to 2 are the sums of three output rows:
// of the one before that of the input, of the same and of the next, 3 to 5 what is left of the
// columns, they themselves and what is right of them.
func smallPlanesNarrow(s *asm.File) {
	narrowPlanes(s, "smallPlanes", 32, func(e edges) {
		if e.narrow {
			narrowMask(s, planeStore)
		}
		s.Ops("MOVQ planeRun_pitch(BX), R13", "MOVQ SI, R15", "MOVQ DI, AX",
			"MOVQ planeRun_rows(BX), DX", "VMOVUPS "+planeBias+", Y1")
		smallRowNarrow(s, e, 1, 2)
		s.Ops("DECQ DX", "JZ "+e.name+"Last")
		s.Label(e.name + "Row")
		s.Ops("ADDQ R13, R15", "VMOVAPS Y1, Y0", "VMOVAPS Y2, Y1")
		smallRowNarrow(s, e, 0, 1, 2)
		narrowFinish(s, e, 0, 6, e.name+"Above")
		s.Ops("ADDQ R13, AX", "DECQ DX", "JNZ "+e.name+"Row")
		s.Label(e.name + "Last")
		narrowFinish(s, e, 1, 6, e.name+"Same")
		s.Ops("ADDQ $32, SI", "ADDQ $32, DI")
	})
}

// smallRowNarrow adds a row of the input to the sums of output rows; those of the next row begin
// with the bias.
func smallRowNarrow(s *asm.File, e edges, sums ...int) {
	if e.narrow {
		s.Ops("VMOVUPS "+planeStore+", Y6", "VMASKMOVPS (R15), Y6, Y4")
	} else {
		s.Op("VMOVUPS (R15), Y4")
		fetchNext(s, e, 32)
	}
	if e.left {
		fromLeft(s, 4, 3)
	} else {
		s.Op("VMOVUPS -4(R15), Y3")
	}
	if e.right {
		fromRight(s, 4, 5)
	} else {
		s.Op("VMOVUPS 4(R15), Y5")
	}
	s.Op("VMOVUPS %s, Y2", planeBias)
	for kx := range 3 {
		for _, sum := range sums {
			s.Op("VFMADD231PS Y%d, Y%d, Y%d", 3+kx, 7+3*(2-sum)+kx, sum)
		}
	}
}

// halvedPlanesNarrow writes halvedPlanes with AVX2. Vectors 0 and 1 are the sums of an output row
// and of the next, 2 to 4 what is left of the even columns, they themselves and the odd columns.
// The lanes of all are in the order that is cheapest to get until they are stored.
func halvedPlanesNarrow(s *asm.File) {
	narrowPlanes(s, "halvedPlanes", 64, func(e edges) {
		if e.narrow {
			narrowMask(s, planeStore)
			s.Ops("MOVQ halvedPlanes_in(BX), CX", "MOVQ CX, DX", "MOVQ $8, R13", "CMPQ CX, R13",
				"CMOVQGT R13, CX")
			s.Op("SUBQ CX, DX")
			narrowMask(s, planeLoad)
			s.Op("MOVQ DX, CX")
			narrowMask(s, planeMore)
		}
		s.Op("MOVQ halvedPlanes_srcPitch(BX), R13")
		if !e.right || e.narrow {
			halvedVectorNarrow(s, e)
			return
		}
		s.Ops("MOVQ planeRun_cols(BX), CX", "ADDQ CX, CX", "CMPQ CX, halvedPlanes_in(BX)",
			"JGT "+e.name+"Edge")
		within := e
		within.right = false
		halvedVectorNarrow(s, within)
		s.Op("JMP %sPast", e.name)
		s.Label(e.name + "Edge")
		e.name += "Odd"
		halvedVectorNarrow(s, e)
		s.Label(within.name + "Past")
	})
}

// halvedVectorNarrow computes a vector of columns: output rows that see two rows of the input from
// theirs on, then one that sees one.
func halvedVectorNarrow(s *asm.File, e edges) {
	s.Ops("MOVQ SI, R15", "MOVQ DI, AX", "MOVQ halvedPlanes_below(BX), DX",
		"VMOVUPS "+planeBias+", Y0", "TESTQ DX, DX", "JZ "+e.name+"Last")
	s.Label(e.name + "Row")
	halvedRowNarrow(s, e)
	halvedTapsNarrow(s, 0, 1)
	s.Op("ADDQ R13, R15")
	halvedRowNarrow(s, e)
	s.Ops("ADDQ R13, R15", "VMOVUPS "+planeBias+", Y1")
	halvedTapsNarrow(s, 0, 2)
	halvedTapsNarrow(s, 1, 0)
	s.Op("VPERMPD $0xd8, Y0, Y0")
	narrowFinish(s, e, 0, 5, e.name+"Both")
	s.Ops("VMOVAPS Y1, Y0", "ADDQ planeRun_pitch(BX), AX", "DECQ DX", "JNZ "+e.name+"Row")
	s.Label(e.name + "Last")
	s.Ops("MOVQ halvedPlanes_below(BX), DX", "CMPQ DX, planeRun_rows(BX)", "JEQ "+e.name+"End")
	halvedRowNarrow(s, e)
	halvedTapsNarrow(s, 0, 1)
	s.Op("VPERMPD $0xd8, Y0, Y0")
	narrowFinish(s, e, 0, 5, e.name+"One")
	s.Label(e.name + "End")
	s.Ops("ADDQ $64, SI", "ADDQ $32, DI")
}

// halvedRowNarrow loads a row of the input: 16 columns from the one left of the first even one on,
// of which the even and odd ones are what is left of the even columns and they themselves, and 16
// from that on.
func halvedRowNarrow(s *asm.File, e edges) {
	if e.narrow {
		s.Ops("VMOVUPS "+planeLoad+", Y5", "VMASKMOVPS (R15), Y5, Y4",
			"VMOVUPS "+planeMore+", Y5", "VMASKMOVPS 32(R15), Y5, Y6",
			"VPERM2F128 $0x21, Y6, Y4, Y5", "VPALIGNR $12, Y5, Y6, Y5")
	} else {
		s.Ops("VMOVUPS (R15), Y4", "VMOVUPS 28(R15), Y5")
		fetchNext(s, e, 64)
	}
	if e.left {
		fromLeft(s, 4, 3)
	} else {
		s.Op("VMOVUPS -4(R15), Y3")
	}
	switch {
	case e.narrow:
	case e.right:
		fromRight(s, 5, 6)
	default:
		s.Op("VMOVUPS 32(R15), Y6")
	}
	s.Ops("VSHUFPS $0x88, Y5, Y3, Y2", "VSHUFPS $0xdd, Y5, Y3, Y3", "VSHUFPS $0xdd, Y6, Y4, Y4")
}

// halvedTapsNarrow adds the loaded row under row ky of the taps to a sum.
func halvedTapsNarrow(s *asm.File, sum, ky int) {
	for kx := range 3 {
		s.Op("VFMADD231PS Y%d, Y%d, Y%d", 2+kx, 7+3*ky+kx, sum)
	}
}
