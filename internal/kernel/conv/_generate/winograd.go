package main

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/asm"
)

// winogradFactors are the numbers of the transforms.
var winogradFactors = []string{"2.0", "4.0", "5.0", "8.0"}

// winogradTables are the lanes after the first of one vector, followed by the first of another, or
// the second, and the numbers of the transforms.
func winogradTables(s *asm.File) {
	s.Words("nextLanes", "%d", 32, func(i int) any { return i%16 + 1 + i/31 })
	s.Line("")
	s.Words("winogradFactors", "%s", 4, func(i int) any { return winogradFactors[i] })
}

const (
	factor2 = "·winogradFactors<>+0(SB)"
	factor4 = "·winogradFactors<>+4(SB)"
	factor5 = "·winogradFactors<>+8(SB)"
	factor8 = "·winogradFactors<>+12(SB)"
)

// winogradIn writes the transform of the input: the rows of each tile are cut into columns, and
// B'dB is computed for 16 tiles at a time.
func winogradIn(s *asm.File) {
	s.Func(
		"winogradInAVX512",
		"v *float32, step int, src *float32, rows *tileRow, n int, tiles *float32, halves int",
		56,
		"cuts the n rows into tiles, 36 rows of 32 lanes, and writes the transform of their first "+
			"16*halves lanes to v, where a frequency is step floats from the next.",
	)
	s.Ops("MOVQ v+0(FP), DI", "MOVQ step+8(FP), R11", "SHLQ $2, R11", "MOVQ src+16(FP), SI",
		"MOVQ rows+24(FP), R8", "MOVQ n+32(FP), CX", "MOVQ tiles+40(FP), R10",
		"MOVQ halves+48(FP), DX")
	s.Ops("VMOVUPS ·evenLanes<>(SB), Z24", "VPTERNLOGD $0xff, Z25, Z25, Z25",
		"VPSUBD Z25, Z24, Z25", "VMOVUPS ·nextLanes<>(SB), Z26", "VMOVUPS ·nextLanes<>+64(SB), Z27")
	s.Label("row")
	s.Ops("MOVQ tileRow_at(R8), AX", "LEAQ (SI)(AX*4), R9", "MOVQ tileRow_to(R8), AX",
		"LEAQ (R10)(AX*4), R12", "MOVQ tileRow_lanes(R8), AX", "KMOVW AX, K7")
	winogradCut(s)
	for i, column := range []int{8, 9, 4, 0, 10, 11} {
		s.Op("VMOVUPS Z%d, K7, %d(R12)", column, 128*i)
	}
	s.Ops("ADDQ $tileRow__size, R8", "DECQ CX", "JNZ row")
	s.Op("VBROADCASTSS %s, Z28", factor4)
	s.Op("VBROADCASTSS %s, Z29", factor5)
	s.Op("VBROADCASTSS %s, Z30", factor2)
	s.Label("half")
	winogradTransform(s, "Z", 128, winogradInLine)
	s.Ops("ADDQ $64, R10", "ADDQ $64, DI", "DECQ DX", "JNZ half", "VZEROUPPER", "RET")
}

// winogradTransform transforms a vector of each of the 36 rows of tiles, which are pitch bytes
// apart from R10 on: down the columns where they lie, then along the rows to the frequencies from
// DI on. line transforms six registers into the six after them.
func winogradTransform(s *asm.File, reg string, pitch int, line func(*asm.File)) {
	for j := range 6 {
		for i := range 6 {
			s.Op("VMOVUPS %d(R10), %s%d", pitch*(6*i+j), reg, i)
		}
		line(s)
		for i := range 6 {
			s.Op("VMOVUPS %s%d, %d(R10)", reg, 6+i, pitch*(6*i+j))
		}
	}
	s.Op("MOVQ DI, R12")
	for i := range 6 {
		for j := range 6 {
			s.Op("VMOVUPS %d(R10), %s%d", pitch*(6*i+j), reg, j)
		}
		line(s)
		for j := range 6 {
			s.Op("VMOVUPS %s%d, (R12)", reg, 6+j)
			s.Op("ADDQ R11, R12")
		}
	}
}

// winogradCut writes the six columns of 16 tiles, of which each begins four columns after the one
// before: Z8, Z9, Z4 and Z0, taken twice the even and the odd lanes of 64 columns from R9, and the
// first two of the tile after, Z10 and Z11.
func winogradCut(s *asm.File) {
	s.Ops("MOVQ tileRow_near(R8), AX", "MOVQ tileRow_far(R8), BX", "SHRQ $60, BX", "KMOVW BX, K5")
	for i := range 4 {
		s.Op("KMOVW AX, K%d", 1+i)
		s.Op("VMOVUPS.Z %d(R9), K%d, Z%d", 64*i, 1+i, i)
		if i < 3 {
			s.Op("SHRQ $16, AX")
		}
	}
	s.Op("VMOVUPS.Z 256(R9), K5, Z12")
	part := func(x, y, even int) { // the even lanes of x and y, and in x the odd ones
		s.Op("VMOVAPS Z%d, Z%d", x, even)
		s.Op("VPERMT2PS Z%d, Z24, Z%d", y, even)
		s.Op("VPERMT2PS Z%d, Z25, Z%d", y, x)
	}
	part(0, 1, 4)
	part(2, 3, 5)
	part(4, 5, 8)
	part(0, 2, 9)
	for i := range 2 {
		s.Op("VMOVAPS Z%d, Z%d", 8+i, 10+i)
		s.Op("VPERMT2PS Z12, Z%d, Z%d", 26+i, 10+i)
	}
}

// winogradInLine computes B'd of Z0 to Z5 in Z6 to Z11.
func winogradInLine(s *asm.File) {
	s.Ops("VMOVAPS Z4, Z6", "VFNMADD231PS Z29, Z2, Z6", "VFMADD231PS Z28, Z0, Z6",
		"VMOVAPS Z4, Z12", "VFNMADD231PS Z28, Z2, Z12", "VMOVAPS Z3, Z13",
		"VFNMADD231PS Z28, Z1, Z13", "VADDPS Z13, Z12, Z7", "VSUBPS Z13, Z12, Z8",
		"VSUBPS Z2, Z4, Z9", "VSUBPS Z1, Z3, Z13", "VMOVAPS Z9, Z10", "VFMADD231PS Z30, Z13, Z9",
		"VFNMADD231PS Z30, Z13, Z10", "VMOVAPS Z5, Z11", "VFNMADD231PS Z29, Z3, Z11",
		"VFMADD231PS Z28, Z1, Z11")
}

// winogradOut writes the transform of the output: A'mA for 16 tiles at a time, and the epilogue.
func winogradOut(s *asm.File) {
	s.Func(
		"winogradOutAVX512",
		"dst, m *float32, step int, res *float32, halves, clamp int, bias, lo, hi float32",
		60,
		"transforms 16*halves lanes of the 36 frequencies m, step floats apart, into 4 rows of "+
			"128 floats, 4 of each tile: plus bias, plus res, which is laid out as dst, unless "+
			"that is nil, and limited to [lo, hi] unless clamp is 0.",
	)
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ m+8(FP), SI", "MOVQ step+16(FP), R11", "SHLQ $2, R11",
		"MOVQ res+24(FP), R14", "MOVQ halves+32(FP), DX", "MOVQ clamp+40(FP), BX",
		"LEAQ (R11)(R11*2), R12", "ADDQ R12, R12")
	s.Label("half")
	s.Op("MOVQ SI, R9")
	for j := range 6 {
		s.Ops("LEAQ (R9)(R12*2), R13", "ADDQ R12, R13",
			"VMOVUPS (R9), Z24", "VMOVUPS (R9)(R12*1), Z25", "VMOVUPS (R9)(R12*2), Z26",
			"VMOVUPS (R13), Z27", "VMOVUPS (R13)(R12*1), Z28", "VMOVUPS (R13)(R12*2), Z29")
		winogradOutLine(s, [6]int{24, 25, 26, 27, 28, 29}, [4]int{j, 6 + j, 12 + j, 18 + j}, 30, 31)
		s.Op("ADDQ R11, R9")
	}
	for i := range 4 {
		winogradOutLine(s, [6]int{6 * i, 6*i + 1, 6*i + 2, 6*i + 3, 6*i + 4, 6*i + 5},
			[4]int{28, 29, 30, 31}, 24, 25)
		winogradOutRow(s, i)
	}
	s.Ops("ADDQ $64, SI", "ADDQ $256, DI", "TESTQ R14, R14", "JZ next", "ADDQ $256, R14")
	s.Label("next")
	s.Ops("DECQ DX", "JNZ half", "VZEROUPPER", "RET")
}

// winogradOutLine computes A'm of the registers m in y; p and r are free.
func winogradOutLine(s *asm.File, m [6]int, y [4]int, p, r int) {
	s.Op("VADDPS Z%d, Z%d, Z%d", m[2], m[1], p)
	s.Op("VSUBPS Z%d, Z%d, Z%d", m[2], m[1], m[1])
	s.Op("VADDPS Z%d, Z%d, Z%d", m[4], m[3], r)
	s.Op("VSUBPS Z%d, Z%d, Z%d", m[4], m[3], m[3])
	s.Op("VADDPS Z%d, Z%d, Z%d", p, m[0], y[0])
	s.Op("VADDPS Z%d, Z%d, Z%d", r, y[0], y[0])
	s.Op("VMOVAPS Z%d, Z%d", m[1], y[1])
	s.Op("VFMADD231PS.BCST %s, Z%d, Z%d", factor2, m[3], y[1])
	s.Op("VMOVAPS Z%d, Z%d", p, y[2])
	s.Op("VFMADD231PS.BCST %s, Z%d, Z%d", factor4, r, y[2])
	s.Op("VADDPS Z%d, Z%d, Z%d", m[5], m[1], y[3])
	s.Op("VFMADD231PS.BCST %s, Z%d, Z%d", factor8, m[3], y[3])
}

// winogradOutRow puts columns Z28 to Z31 of the tiles together and finishes row i of the output.
// Z24 to Z27 are free, and the registers that the row came from.
func winogradOutRow(s *asm.File, i int) {
	s.Ops("VUNPCKLPS Z29, Z28, Z24", "VUNPCKHPS Z29, Z28, Z25", "VUNPCKLPS Z31, Z30, Z26",
		"VUNPCKHPS Z31, Z30, Z27", "VUNPCKLPD Z26, Z24, Z28", "VUNPCKHPD Z26, Z24, Z29",
		"VUNPCKLPD Z27, Z25, Z30", "VUNPCKHPD Z27, Z25, Z31", "VSHUFF32X4 $0x44, Z29, Z28, Z24",
		"VSHUFF32X4 $0xee, Z29, Z28, Z25", "VSHUFF32X4 $0x44, Z31, Z30, Z26",
		"VSHUFF32X4 $0xee, Z31, Z30, Z27", "VSHUFF32X4 $0x88, Z26, Z24, Z28",
		"VSHUFF32X4 $0xdd, Z26, Z24, Z29", "VSHUFF32X4 $0x88, Z27, Z25, Z30",
		"VSHUFF32X4 $0xdd, Z27, Z25, Z31")
	for k := range 4 {
		s.Op("VADDPS.BCST bias+48(FP), Z%d, Z%d", 28+k, 28+k)
	}
	s.Ops("TESTQ R14, R14", fmt.Sprintf("JZ bounds%d", i))
	for k := range 4 {
		s.Op("VADDPS %d(R14), Z%d, Z%d", 512*i+64*k, 28+k, 28+k)
	}
	s.Label(fmt.Sprintf("bounds%d", i))
	s.Ops("TESTQ BX, BX", fmt.Sprintf("JZ store%d", i), "VBROADCASTSS lo+52(FP), Z24",
		"VBROADCASTSS hi+56(FP), Z25")
	for k := range 4 {
		s.Op("VMAXPS Z%d, Z24, Z%d", 28+k, 28+k)
		s.Op("VMINPS Z%d, Z25, Z%d", 28+k, 28+k)
	}
	s.Label(fmt.Sprintf("store%d", i))
	for k := range 4 {
		s.Op("VMOVUPS Z%d, %d(DI)", 28+k, 512*i+64*k)
	}
}

// storeRuns writes the copy of runs of outputs from the stage to a plane.
func storeRuns(s *asm.File) {
	s.Func("storeRunsAVX512", "plane, stage *float32, runs *stagedRun, n int", 32,
		"copies n >= 1 runs of 1 float at least.")
	s.Ops("MOVQ plane+0(FP), DI", "MOVQ stage+8(FP), SI", "MOVQ runs+16(FP), R8",
		"MOVQ n+24(FP), DX")
	s.Label("run")
	s.Ops("MOVQ stagedRun_stage(R8), AX", "LEAQ (SI)(AX*4), R9", "MOVQ stagedRun_plane(R8), AX",
		"LEAQ (DI)(AX*4), R10", "MOVQ stagedRun_n(R8), CX", "SUBQ $16, CX", "JLT part")
	s.Label("whole")
	s.Ops("VMOVUPS (R9), Z0", "VMOVUPS Z0, (R10)", "ADDQ $64, R9", "ADDQ $64, R10",
		"SUBQ $16, CX", "JGE whole")
	s.Label("part")
	s.Ops("ADDQ $16, CX", "MOVL $1, AX", "SHLL CX, AX", "DECL AX", "KMOVW AX, K1",
		"VMOVUPS.Z (R9), K1, Z0", "VMOVUPS Z0, K1, (R10)", "ADDQ $stagedRun__size, R8", "DECQ DX",
		"JNZ run", "VZEROUPPER", "RET")
}

// winogradWeights writes the transform of kernels. Eight are taken at a time, in float64, whose
// roundings are those of transformKernel.
func winogradWeights(s *asm.File) {
	s.Func(
		"winogradWeightsAVX512",
		"dst *float32, step, width int, src *float32, row, channel, tap, n int, mask uint32",
		68,
		"writes GgG' of the kernels of n channels, for the rows of mask, at most 8, to dst, where "+
			"a channel is width floats from the next and a frequency step. In src rows, channels "+
			"and taps are so many floats apart.",
	)
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ step+8(FP), R11", "SHLQ $2, R11", "MOVQ width+16(FP), R13",
		"MOVQ src+24(FP), SI", "MOVQ row+32(FP), AX", "MOVQ channel+40(FP), R10",
		"MOVQ tap+48(FP), R9", "SHLQ $2, R9", "MOVQ n+56(FP), CX", "MOVL mask+64(FP), DX",
		"KMOVW DX, K7", "VPBROADCASTD AX, Y31", "VPMULLD ·evenLanes<>(SB), Y31, Y31",
		"VPSRLD $1, Y31, Y31")
	for i, bits := range []uint64{math.Float64bits(1.0 / 4), math.Float64bits(-1.0 / 6),
		math.Float64bits(1.0 / 6), math.Float64bits(1.0 / 24), math.Float64bits(1.0 / 12)} {
		s.Op("MOVQ $0x%016x, AX", bits)
		s.Op("VPBROADCASTQ AX, Z%d", 26+i)
	}
	s.Label("channel")
	s.Op("MOVQ SI, R8")
	for tap := range 9 {
		s.Op("KMOVW K7, K1")
		s.Op("VXORPS Y9, Y9, Y9")
		s.Op("VGATHERDPS (R8)(Y31*4), K1, Y9")
		s.Op("VCVTPS2PD Y9, Z%d", tap)
		s.Op("ADDQ R9, R8")
	}
	s.Op("MOVQ DI, R12")
	for i := range 6 {
		if i != 2 && i != 4 { // which come with the line before
			for x := range 3 {
				winogradWeightsLines(s, i, [3]int{x, 3 + x, 6 + x}, 9+x, 12+x)
			}
		}
		line := [3]int{9, 10, 11}
		if i == 2 || i == 4 {
			line = [3]int{12, 13, 14}
		}
		for _, j := range []int{0, 1, 3, 5} {
			winogradWeightsLines(s, j, line, 15, 16)
			winogradWeightsStore(s, 15)
			if j == 1 || j == 3 {
				winogradWeightsStore(s, 16)
			}
		}
	}
	s.Ops("LEAQ (SI)(R10*4), SI", "LEAQ (DI)(R13*4), DI", "DECQ CX", "JNZ channel", "VZEROUPPER",
		"RET")
}

// winogradWeightsStore stores a frequency.
func winogradWeightsStore(s *asm.File, from int) {
	s.Op("VCVTPD2PS Z%d, Y%d", from, from)
	s.Op("VMOVUPS Y%d, K7, (R12)", from)
	s.Op("ADDQ R11, R12")
}

// winogradWeightsLines computes row i of G times the column g in register to, and of rows 1 and 3
// the next in register next.
func winogradWeightsLines(s *asm.File, i int, g [3]int, to, next int) {
	switch i {
	case 0:
		s.Op("VMULPD Z26, Z%d, Z%d", g[0], to)
		return
	case 5:
		s.Op("VMOVAPD Z%d, Z%d", g[2], to)
		return
	case 1:
		s.Op("VADDPD Z%d, Z%d, Z17", g[2], g[0])
		s.Op("VMULPD Z27, Z17, Z17")
		s.Op("VMULPD Z28, Z%d, Z18", g[1])
		s.Op("VSUBPD Z18, Z17, Z%d", to)
		s.Op("VADDPD Z18, Z17, Z%d", next)
		return
	}
	s.Op("VMULPD Z29, Z%d, Z17", g[0])
	s.Op("VMULPD Z28, Z%d, Z18", g[2])
	s.Op("VADDPD Z18, Z17, Z17")
	s.Op("VMULPD Z30, Z%d, Z18", g[1])
	s.Op("VADDPD Z18, Z17, Z%d", to)
	s.Op("VSUBPD Z18, Z17, Z%d", next)
}
