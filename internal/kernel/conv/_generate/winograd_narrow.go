package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// The transforms with AVX2: eight tiles at a time, the factors from memory, and what sixteen
// registers do not hold in scratch.

// narrowFactor is the operand that holds a factor in every lane.
func narrowFactor(factor int) string {
	at := map[int]int{2: 0, 4: 32, 5: 64, 8: 96}[factor]
	return fmt.Sprintf("·winogradVectors<>+%d(SB)", at)
}

func winogradNarrowTables(s *asm.File) {
	s.Words("winogradVectors", "%s", 32, func(i int) any { return winogradFactors[i/8] })
}

// winogradInNarrow writes the transform of the input. A row of a tile in scratch has pitch floats:
// vectors are stored whole, and the next tiles over what is too much.
func winogradInNarrow(s *asm.File) {
	const pitch = 48
	s.Func(
		"winogradInAVX2",
		"v *float32, step int, src *float32, rows *tileRow, n int, tiles *float32, halves, half, "+
			"plane int",
		72,
		fmt.Sprintf(
			"cuts the n rows into tiles, 36 rows of %d lanes, and writes the transform of their "+
				"first 16*halves lanes to v, where a frequency is step floats from the next and "+
				"16 lanes half floats from the next. It fetches what lies plane floats after "+
				"what the rows are cut from.",
			pitch,
		),
	)
	s.Ops("MOVQ v+0(FP), DI", "MOVQ step+8(FP), R11", "SHLQ $2, R11", "MOVQ src+16(FP), SI",
		"MOVQ rows+24(FP), R8", "MOVQ n+32(FP), CX", "MOVQ tiles+40(FP), R10",
		"MOVQ halves+48(FP), DX", "MOVQ half+56(FP), R13", "SHLQ $2, R13", "SUBQ $64, R13",
		"MOVQ plane+64(FP), BX", "SHLQ $2, BX")
	for k := range 4 {
		s.Op("VMOVUPS ·laneBits<>+%d(SB), Y%d", 32*k, 12+k)
	}
	s.Label("row")
	s.Ops("MOVQ tileRow_at(R8), AX", "LEAQ (SI)(AX*4), R9", "MOVQ tileRow_to(R8), AX",
		"LEAQ (R10)(AX*4), R12")
	for g := range 2 {
		if g == 1 {
			s.Ops("MOVQ tileRow_lanes(R8), AX", "SHRQ $8, AX", "JZ next")
		}
		s.Op("PREFETCHT0 %d(R9)(BX*1)", 128*g)
		s.Op("PREFETCHT0 %d(R9)(BX*1)", 128*g+64)
		cutColumns(s, g)
		for p, column := range []int{4, 5, 6, 7, 2, 3} {
			s.Op("VMOVUPS Y%d, %d(R12)", column, 4*pitch*p+32*g)
		}
	}
	s.Label("next")
	s.Ops("ADDQ $tileRow__size, R8", "DECQ CX", "JNZ row")
	s.Ops("VMOVUPS "+narrowFactor(4)+", Y14", "VMOVUPS "+narrowFactor(5)+", Y15")
	s.Label("half")
	s.Op("MOVQ $2, R14")
	s.Label("vector")
	s.Ops("MOVQ R10, R9", "MOVQ $6, AX")
	s.Label("down")
	for i := range 6 {
		s.Op("VMOVUPS %d(R9), Y%d", 24*pitch*i, i)
	}
	winogradInLineNarrow(s)
	for i := range 6 {
		s.Op("VMOVUPS Y%d, %d(R9)", 6+i, 24*pitch*i)
	}
	s.Op("ADDQ $%d, R9", 4*pitch)
	s.Ops("DECQ AX", "JNZ down", "MOVQ R10, R9", "MOVQ DI, R12", "MOVQ $6, AX")
	s.Label("along")
	for j := range 6 {
		s.Op("VMOVUPS %d(R9), Y%d", 4*pitch*j, j)
	}
	winogradInLineNarrow(s)
	for j := range 6 {
		s.Op("VMOVUPS Y%d, (R12)", 6+j)
		s.Op("ADDQ R11, R12")
	}
	s.Op("ADDQ $%d, R9", 24*pitch)
	s.Ops("DECQ AX", "JNZ along", "ADDQ $32, R10", "ADDQ $32, DI", "DECQ R14", "JNZ vector",
		"ADDQ R13, DI", "DECQ DX", "JNZ half", "VZEROUPPER", "RET")
}

// cutColumns loads 32 floats from R9, of half g of 64, and two after them, those that lie in the
// image, and leaves columns 0 to 3 of eight tiles in Y4 to Y7 and columns 4 and 5, the first two of
// the tile after, in Y2 and Y3.
func cutColumns(s *asm.File, g int) {
	s.Op("VPBROADCASTD (tileRow_near+%d)(R8), Y4", 4*g)
	for k := range 4 {
		s.Op("VPAND Y%d, Y4, Y5", 12+k)
		s.Op("VPCMPEQD Y%d, Y5, Y5", 12+k)
		s.Op("VMASKMOVPS %d(R9), Y5, Y%d", 128*g+32*k, k)
	}
	s.Op("VPBROADCASTD (tileRow_far+%d)(R8), Y8", 4*g)
	s.Ops("VPAND Y15, Y8, Y8", "VPCMPEQD Y15, Y8, Y8")
	s.Op("VMASKMOVPS %d(R9), Y8, Y8", 128*g+112) // lanes 4 and 5 are the two
	s.Ops("VPERM2F128 $0x20, Y2, Y0, Y4", "VPERM2F128 $0x31, Y2, Y0, Y5",
		"VPERM2F128 $0x20, Y3, Y1, Y6", "VPERM2F128 $0x31, Y3, Y1, Y7", "VUNPCKLPS Y5, Y4, Y0",
		"VUNPCKLPS Y7, Y6, Y2", "VUNPCKHPS Y5, Y4, Y1", "VUNPCKHPS Y7, Y6, Y3",
		"VUNPCKLPD Y2, Y0, Y4", "VUNPCKHPD Y2, Y0, Y5", "VUNPCKLPD Y3, Y1, Y6",
		"VUNPCKHPD Y3, Y1, Y7")
	s.Ops("VPERM2F128 $0x31, Y8, Y4, Y2", "VPALIGNR $4, Y4, Y2, Y2", "VMOVSHDUP Y8, Y8",
		"VPERM2F128 $0x31, Y8, Y5, Y3", "VPALIGNR $4, Y5, Y3, Y3")
}

// winogradInLineNarrow computes B'd of Y0 to Y5 in Y6 to Y11.
func winogradInLineNarrow(s *asm.File) {
	two := narrowFactor(2)
	s.Ops("VMOVAPS Y4, Y6", "VFNMADD231PS Y15, Y2, Y6", "VFMADD231PS Y14, Y0, Y6",
		"VMOVAPS Y4, Y12", "VFNMADD231PS Y14, Y2, Y12", "VMOVAPS Y3, Y13",
		"VFNMADD231PS Y14, Y1, Y13", "VADDPS Y13, Y12, Y7", "VSUBPS Y13, Y12, Y8",
		"VSUBPS Y2, Y4, Y9", "VSUBPS Y1, Y3, Y13", "VMOVAPS Y9, Y10",
		"VFMADD231PS "+two+", Y13, Y9", "VFNMADD231PS "+two+", Y13, Y10", "VMOVAPS Y5, Y11",
		"VFNMADD231PS Y15, Y3, Y11", "VFMADD231PS Y14, Y1, Y11")
}

// winogradOutNarrow writes the transform of the output.
func winogradOutNarrow(s *asm.File) {
	s.Func(
		"winogradOutAVX2",
		"dst, m *float32, step int, res *float32, vectors, clamp int, tiles *float32, bias, lo, "+
			"hi float32",
		68,
		"does what winogradOutAVX512 does, for 8*vectors lanes, with 192 floats of scratch in "+
			"tiles.",
	)
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ m+8(FP), SI", "MOVQ step+16(FP), R11", "SHLQ $2, R11",
		"MOVQ res+24(FP), R14", "MOVQ vectors+32(FP), DX", "MOVQ clamp+40(FP), BX",
		"MOVQ tiles+48(FP), R10", "LEAQ (R11)(R11*2), R12", "ADDQ R12, R12",
		"VBROADCASTSS bias+56(FP), Y12", "VBROADCASTSS lo+60(FP), Y13",
		"VBROADCASTSS hi+64(FP), Y14")
	s.Label("vector")
	s.Ops("MOVQ SI, R9", "MOVQ R10, R8", "MOVQ $6, AX")
	s.Label("down")
	s.Ops("LEAQ (R9)(R12*2), R13", "ADDQ R12, R13", "VMOVUPS (R9), Y0", "VMOVUPS (R9)(R12*1), Y1",
		"VMOVUPS (R9)(R12*2), Y2", "VMOVUPS (R13), Y3", "VMOVUPS (R13)(R12*1), Y4",
		"VMOVUPS (R13)(R12*2), Y5")
	winogradOutLineNarrow(s)
	for i := range 4 {
		s.Op("VMOVUPS Y%d, %d(R8)", 8+i, 192*i)
	}
	s.Ops("ADDQ R11, R9", "ADDQ $32, R8", "DECQ AX", "JNZ down", "MOVQ R10, R8", "MOVQ DI, R9",
		"MOVQ R14, R13", "MOVQ $4, AX")
	s.Label("along")
	for j := range 6 {
		s.Op("VMOVUPS %d(R8), Y%d", 32*j, j)
	}
	winogradOutLineNarrow(s)
	winogradOutRowNarrow(s)
	s.Ops("ADDQ $192, R8", "ADDQ $512, R9", "DECQ AX", "JNZ along", "ADDQ $32, SI",
		"ADDQ $128, DI", "TESTQ R14, R14", "JZ next", "ADDQ $128, R14")
	s.Label("next")
	s.Ops("DECQ DX", "JNZ vector", "VZEROUPPER", "RET")
}

// winogradOutLineNarrow computes A'm of Y0 to Y5 in Y8 to Y11.
func winogradOutLineNarrow(s *asm.File) {
	s.Ops("VADDPS Y2, Y1, Y6", "VSUBPS Y2, Y1, Y1", "VADDPS Y4, Y3, Y7", "VSUBPS Y4, Y3, Y3",
		"VADDPS Y6, Y0, Y8", "VADDPS Y7, Y8, Y8", "VMOVAPS Y1, Y9",
		"VFMADD231PS "+narrowFactor(2)+", Y3, Y9", "VMOVAPS Y6, Y10",
		"VFMADD231PS "+narrowFactor(4)+", Y7, Y10", "VADDPS Y5, Y1, Y11",
		"VFMADD231PS "+narrowFactor(8)+", Y3, Y11")
}

// winogradOutRowNarrow puts columns Y8 to Y11 of eight tiles together and finishes a row of the
// output, R9, with the residual at R13.
func winogradOutRowNarrow(s *asm.File) {
	s.Ops("VUNPCKLPS Y9, Y8, Y0", "VUNPCKHPS Y9, Y8, Y1", "VUNPCKLPS Y11, Y10, Y2",
		"VUNPCKHPS Y11, Y10, Y3", "VUNPCKLPD Y2, Y0, Y4", "VUNPCKHPD Y2, Y0, Y5",
		"VUNPCKLPD Y3, Y1, Y6", "VUNPCKHPD Y3, Y1, Y7", "VPERM2F128 $0x20, Y5, Y4, Y0",
		"VPERM2F128 $0x20, Y7, Y6, Y1", "VPERM2F128 $0x31, Y5, Y4, Y2",
		"VPERM2F128 $0x31, Y7, Y6, Y3")
	for k := range 4 {
		s.Op("VADDPS Y12, Y%d, Y%d", k, k)
	}
	s.Ops("TESTQ R14, R14", "JZ bounds")
	for k := range 4 {
		s.Op("VADDPS %d(R13), Y%d, Y%d", 32*k, k, k)
	}
	s.Op("ADDQ $512, R13")
	s.Label("bounds")
	s.Ops("TESTQ BX, BX", "JZ store")
	for k := range 4 {
		s.Op("VMAXPS Y%d, Y13, Y%d", k, k)
		s.Op("VMINPS Y%d, Y14, Y%d", k, k)
	}
	s.Label("store")
	for k := range 4 {
		s.Op("VMOVUPS Y%d, %d(R9)", k, 32*k)
	}
}

// storeRunsNarrow writes the copy of runs without masks: what is left of a run behind whole vectors
// is copied by a vector that ends with it, over what is there already, or is less than a vector.
func storeRunsNarrow(s *asm.File) {
	s.Func("storeRunsAVX2", "plane, stage *float32, runs *stagedRun, n int", 32,
		"copies n >= 1 runs of 1 float at least.")
	s.Ops("MOVQ plane+0(FP), DI", "MOVQ stage+8(FP), SI", "MOVQ runs+16(FP), R8",
		"MOVQ n+24(FP), DX")
	s.Label("run")
	s.Ops("MOVQ stagedRun_stage(R8), AX", "LEAQ (SI)(AX*4), R9", "MOVQ stagedRun_plane(R8), AX",
		"LEAQ (DI)(AX*4), R10", "MOVQ stagedRun_n(R8), CX", "SUBQ $8, CX", "JLT part")
	s.Label("whole")
	s.Ops("VMOVUPS (R9), Y0", "VMOVUPS Y0, (R10)", "ADDQ $32, R9", "ADDQ $32, R10",
		"SUBQ $8, CX", "JGE whole", "CMPQ CX, $-8", "JEQ next", "VMOVUPS (R9)(CX*4), Y0",
		"VMOVUPS Y0, (R10)(CX*4)", "JMP next")
	s.Label("part")
	s.Ops("ADDQ $4, CX", "JLT few", "VMOVUPS (R9), X0", "VMOVUPS (R9)(CX*4), X1",
		"VMOVUPS X0, (R10)", "VMOVUPS X1, (R10)(CX*4)", "JMP next")
	s.Label("few")
	s.Op("ADDQ $4, CX")
	s.Label("one")
	s.Ops("MOVL -4(R9)(CX*4), AX", "MOVL AX, -4(R10)(CX*4)", "DECQ CX", "JNZ one")
	s.Label("next")
	s.Ops("ADDQ $stagedRun__size, R8", "DECQ DX", "JNZ run", "VZEROUPPER", "RET")
}
