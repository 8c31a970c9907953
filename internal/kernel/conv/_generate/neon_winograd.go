package main

import (
	"fmt"
	"math"
)

// Lanes of the register of the transforms' numbers.
const (
	lane2 = iota
	lane4
	lane5
	lane8
	factors = 31
)

func (n neon) winogradFactors() {
	n.Line("")
	n.Words("winogradFactors", "0x%08x", 4,
		func(i int) any { return math.Float32bits([]float32{2, 4, 5, 8}[i]) })
}

func (n neon) loadFactors(free string) {
	n.Op("MOVD $·winogradFactors<>(SB), %s", free)
	n.Op("FMOVQ (%s), F%d", free, factors)
}

// winogradIn writes the transform of the input. Registers: R1 a line of 80 floats, R2 the rows of
// tiles and R3 how many are left, R4 the input, R5 the tiles, which have pitch floats a row, R6 a
// frequency and R7 the bytes to the next one, R8 the halves left and R9 the bytes to the next one.
func (n neon) winogradIn() {
	const pitch = 4 * 48
	n.Func("winogradInNEON", "v *float32, step int, src *float32, rows *tileRow, n int, "+
		"tiles, line *float32, halves, half int", 72,
		fmt.Sprintf("cuts the n rows into tiles, 36 rows of %d lanes, by a line of 80 floats, and "+
			"writes the transform of their first 16*halves lanes to v, where a frequency is step "+
			"floats from the next and 16 lanes half floats from the next.", pitch/4))
	n.Ops("MOVD v+0(FP), R6", "MOVD step+8(FP), R7", "MOVD src+16(FP), R4", "MOVD rows+24(FP), R2",
		"MOVD n+32(FP), R3", "MOVD tiles+40(FP), R5", "MOVD line+48(FP), R1",
		"MOVD halves+56(FP), R8", "MOVD half+64(FP), R9", "LSL $2, R7", "LSL $2, R9",
		"SUB $64, R9")
	n.zero(30)
	n.Label("row")
	n.tileLine()
	n.tileCut(pitch)
	n.Ops("ADD $tileRow__size, R2", "SUB $1, R3", "CBNZ R3, row")
	n.loadFactors("R10")
	n.Label("half")
	n.Op("MOVD $4, R10")
	n.Label("tiles")
	n.transformIn(pitch)
	n.Ops("ADD $16, R5", "ADD $16, R6", "SUB $1, R10", "CBNZ R10, tiles", "ADD R9, R6",
		"SUB $1, R8", "CBNZ R8, half", "RET")
}

// tileLine copies the part of a row that lies in the image to the line, with zeros around it, as
// many as R11 fours of tiles see. R12 to R15 are free.
func (n neon) tileLine() {
	n.Ops("MOVD tileRow_lanes(R2), R11", "CLZ R11, R11", "MOVD $67, R12", "SUB R11, R12, R11",
		"LSR $2, R11", "MOVD R1, R13", "MOVD R11, R12")
	n.Label("zeros")
	n.Ops("FSTPQ (F30, F30), (R13)", "FSTPQ (F30, F30), 32(R13)", "ADD $64, R13", "SUB $1, R12",
		"CBNZ R12, zeros", "FMOVQ F30, (R13)", "MOVD tileRow_lead(R2), R12", "ADD R12<<2, R1, R13",
		"MOVD tileRow_at(R2), R14", "ADD R12, R14", "ADD R14<<2, R4, R14",
		"MOVD tileRow_n(R2), R12", "CMP $4, R12", "BLT few")
	n.Label("copy")
	n.Ops("FMOVQ.P 16(R14), F0", "FMOVQ.P F0, 16(R13)", "SUB $4, R12", "CMP $4, R12", "BGE copy",
		"CBZ R12, cut", "SUB $4, R12", "ADD R12<<2, R14", "ADD R12<<2, R13", "FMOVQ (R14), F0",
		"FMOVQ F0, (R13)", "B cut")
	n.Label("few")
	n.Op("CBZ R12, cut")
	n.Ops("FMOVS.P 4(R14), F0", "FMOVS.P F0, 4(R13)", "SUB $1, R12", "B few")
	n.Label("cut")
}

// tileCut writes the six columns of each of four tiles, of which each begins four columns after the
// one before.
func (n neon) tileCut(pitch int) {
	n.Ops("MOVD R1, R13", "MOVD tileRow_to(R2), R14", "ADD R14<<2, R5, R14",
		"VLD4.P 64(R13), [V0.S4, V1.S4, V2.S4, V3.S4]")
	n.Label("four")
	for _, r := range [][2]int{{0, 4}, {4, 0}} {
		n.Op("VLD4.P 64(R13), [V%d.S4, V%d.S4, V%d.S4, V%d.S4]", r[1], r[1]+1, r[1]+2, r[1]+3)
		n.shift(1, r[0], r[1], 8)
		n.shift(1, r[0]+1, r[1]+1, 9)
		for i, column := range []int{r[0], r[0] + 1, r[0] + 2, r[0] + 3, 8, 9} {
			n.Op("FMOVQ F%d, %d(R14)", column, pitch*i)
		}
		n.Ops("ADD $16, R14", "SUB $1, R11")
		if r[0] == 0 {
			n.Op("CBZ R11, stored")
		} else {
			n.Op("CBNZ R11, four")
		}
	}
	n.Label("stored")
}

// transformIn transforms four tiles from R5 on to the frequencies from R6 on. The rows of B'd are
// computed one or two at a time, as they share terms, and then transformed in registers: what is
// loaded more than once costs less than what would be stored in between.
func (n neon) transformIn(pitch int) {
	n.Op("MOVD R6, R12")
	for _, rows := range []int{0, 1, 3, 5} {
		for j := range 6 {
			load := func(i, r int) { n.Op("FMOVQ %d(R5), F%d", pitch*(6*i+j), r) }
			free := 12 + 5*(j%3)
			switch rows {
			case 0:
				n.inOuter(load, 0, j, free)
			case 1:
				n.inMiddle(load, j, free)
			case 3:
				n.inInner(load, j, free)
			case 5:
				n.inOuter(load, 1, j, free)
			}
		}
		n.lineIn(0)
		if rows == 1 || rows == 3 {
			n.lineIn(6)
		}
	}
}

// inOuter computes, of four rows that lie two apart, the last less five times the middle one and
// plus four times the first, which load reads into a register: B'd of the first and the last row.
func (n neon) inOuter(load func(i, r int), first, to, free int) {
	load(first+4, to)
	load(first+2, free)
	load(first, free+1)
	n.VecLane("FMLS", to, free, factors, lane5)
	n.VecLane("FMLA", to, free+1, factors, lane4)
}

// inMiddle computes rows 1 and 2 of B'd, the second six registers after the first.
func (n neon) inMiddle(load func(i, r int), to, free int) {
	for i := range 4 {
		load(4-i, free+i)
	}
	n.VecLane("FMLS", free, free+2, factors, lane4)
	n.VecLane("FMLS", free+1, free+3, factors, lane4)
	n.Vec("FADD", to, free, free+1)
	n.Vec("FSUB", to+6, free, free+1)
}

// inInner computes rows 3 and 4.
func (n neon) inInner(load func(i, r int), to, free int) {
	for i := range 4 {
		load(4-i, free+i)
	}
	n.Vec("FSUB", free+1, free+1, free+3)
	n.Vec("FSUB", free, free, free+2)
	n.Vec("FADD", free+1, free+1, free+1)
	n.Vec("FADD", to, free, free+1)
	n.Vec("FSUB", to+6, free, free+1)
}

// lineIn transforms a row in the registers from c on and stores its frequencies.
func (n neon) lineIn(c int) {
	const first, differ, twice = 27, 28, 29
	n.Vec("FSUB", twice, c+3, c+1)
	n.Vec("FSUB", differ, c+4, c+2)
	n.bytes("VORR", c+4, c+4, first)
	n.VecLane("FMLS", c+5, c+3, factors, lane5)
	n.VecLane("FMLS", c+3, c+1, factors, lane4)
	n.VecLane("FMLS", first, c+2, factors, lane5)
	n.VecLane("FMLS", c+4, c+2, factors, lane4)
	n.Vec("FADD", twice, twice, twice)
	n.VecLane("FMLA", c+5, c+1, factors, lane4)
	n.VecLane("FMLA", first, c, factors, lane4)
	n.Vec("FADD", c, c+4, c+3)
	n.Vec("FSUB", c+1, c+4, c+3)
	n.Vec("FADD", c+2, differ, twice)
	n.Vec("FSUB", c+4, differ, twice)
	for _, r := range []int{first, c, c + 1, c + 2, c + 4, c + 5} {
		n.Op("VST1.P [V%d.S4], (R12)(R7)", r)
	}
}

// winogradOut writes the transform of the output. Registers: R1 the output, R2 the frequencies and
// R3 the bytes to the next one, R4 those to the sixth, R5 the residual or 0, R6 the vectors left,
// R7 to R9 are free. Vectors 0 to 23 are the four rows of A'm, of six columns each, 24 to 27 are
// free, 28 the bias, 29 and 30 the limits.
func (n neon) winogradOut() {
	n.Func("winogradOutNEON", "dst, m *float32, step int, res *float32, vectors int, bias, lo, "+
		"hi float32", 52,
		"transforms 4*vectors lanes of the 36 frequencies m, step floats apart, into 4 rows of "+
			"128 floats, 4 of each tile: plus bias, plus res, which is laid out as dst, unless "+
			"that is nil, and limited to [lo, hi].")
	n.Ops("MOVD dst+0(FP), R1", "MOVD m+8(FP), R2", "MOVD step+16(FP), R3", "MOVD res+24(FP), R5",
		"MOVD vectors+32(FP), R6")
	for i, name := range []string{"bias+40", "lo+44", "hi+48"} {
		n.Op("FMOVS %s(FP), F%d", name, 28+i)
		n.Op("VDUP V%d.S[0], V%d.S4", 28+i, 28+i)
	}
	n.loadFactors("R7")
	n.Ops("LSL $2, R3", "ADD R3<<1, R3, R4", "LSL $1, R4")
	n.Label("vector")
	n.Op("MOVD R2, R7")
	for j := range 6 {
		n.outColumn(j)
		n.Op("ADD R3, R7")
	}
	for i := range 4 {
		n.outRow(6 * i)
		n.outFinish(i)
	}
	n.Ops("ADD $16, R2", "ADD $64, R1", "CBZ R5, next", "ADD $64, R5")
	n.Label("next")
	n.Ops("SUB $1, R6", "CBNZ R6, vector", "RET")
}

// outColumn computes A'm of column j.
func (n neon) outColumn(j int) {
	y0, y1, y2, y3 := j, 6+j, 12+j, 18+j
	n.Op("MOVD R7, R8")
	for _, r := range []int{y0, y1, 24, 25, 26, y3} {
		n.Op("VLD1.P (R8)(R4), [V%d.S4]", r)
	}
	n.Vec("FADD", y2, y1, 24)
	n.Vec("FSUB", y1, y1, 24)
	n.Vec("FADD", 24, 25, 26)
	n.Vec("FSUB", 25, 25, 26)
	n.Vec("FADD", y0, y0, y2)
	n.Vec("FADD", y3, y3, y1)
	n.Vec("FADD", y0, y0, 24)
	n.VecLane("FMLA", y1, 25, factors, lane2)
	n.VecLane("FMLA", y2, 24, factors, lane4)
	n.VecLane("FMLA", y3, 25, factors, lane8)
}

// outRow computes the same of the row in registers from c on, in the first four of them.
func (n neon) outRow(c int) {
	n.Vec("FSUB", 24, c+1, c+2)
	n.Vec("FADD", c+2, c+1, c+2)
	n.Vec("FSUB", 25, c+3, c+4)
	n.Vec("FADD", 26, c+3, c+4)
	n.Vec("FADD", c, c, c+2)
	n.Vec("FADD", c+3, 24, c+5)
	n.Vec("FADD", 27, 25, 25)
	n.VecLane("FMLA", c+2, 26, factors, lane4)
	n.Vec("FADD", c, c, 26)
	n.VecLane("FMLA", c+3, 25, factors, lane8)
	n.Vec("FADD", c+1, 24, 27)
}

// outFinish applies the epilogue to row i of the output and puts its tiles together.
func (n neon) outFinish(i int) {
	c := 6 * i
	four := func(first int) string {
		return fmt.Sprintf("[V%d.S4, V%d.S4, V%d.S4, V%d.S4]", first, first+1, first+2, first+3)
	}
	for k := range 4 {
		n.Vec("FADD", c+k, c+k, 28)
	}
	n.Op("CBZ R5, limit%d", i)
	n.Op("ADD $%d, R5, R8", 512*i)
	n.Op("VLD4 (R8), %s", four(24))
	for k := range 4 {
		n.Vec("FADD", c+k, c+k, 24+k)
	}
	n.Label(label("limit", i))
	for k := range 4 {
		n.Vec("FMAX", c+k, c+k, 29)
	}
	for k := range 4 {
		n.Vec("FMIN", c+k, c+k, 30)
	}
	n.Op("ADD $%d, R1, R8", 512*i)
	n.Op("VST4 %s, (R8)", four(c))
}
