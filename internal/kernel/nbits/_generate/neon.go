package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// neonRows is the most rows of a tile for arm64.
const neonRows = 3

// The registers of a tile for arm64 beside those of its columns, two of each kind.
const (
	neonScales = 0  // of the columns
	neonWords  = 2  // numbers as they lie, then their high halves
	neonLow    = 4  // low halves
	neonRow    = 6  // eight bytes of a row
	neonOff    = 8  // distances of zero points from 8
	neonScale  = 10 // of a row's block, and the sum of its bytes
	neonC      = 12 // sums of blocks, of each row
	neonSums   = 18 // of the block, of each row
	neonEight  = 29
	neonTemp   = 30
	neonHalf   = 31 // a mask of the low halves
)

// neon writes the functions for arm64.
func neon(folder string) error {
	f := asm.NewFileFor("arm64", "internal/kernel/nbits/_generate", "nbits")
	for rows := 1; rows <= neonRows; rows++ {
		bytesNEON(f, rows)
	}
	widenNEON(f)
	return f.Save(folder, "nbits_arm64")
}

// bytesNEON writes the product of so many rows of bytes by a panel of eight columns: SDOT
// multiplies four steps of four columns by those of a row, in a lane.
func bytesNEON(f *asm.File, rows int) {
	f.Func(fmt.Sprintf("bytesDot%d", rows), "t *tile", 8, "")
	f.Ops("MOVD t+0(FP), R0", "MOVD tile_q(R0), R1", "MOVD tile_blocks(R0), R4",
		"MOVD tile_zeros(R0), R6", "MOVD tile_c(R0), R7", "MOVD tile_ldc(R0), R8",
		"MOVD tile_lda(R0), R3", "MOVD tile_a(R0), R9", "ADD R3, R9, R10", "ADD R3, R10, R11",
		"FMOVS $8.0, F29", "VDUP V29.S[0], V29.S4", "VMOVI $15, V31.B16")
	for n := range 2 * rows {
		f.Vec("EOR", neonC+n, neonC+n, neonC+n)
	}
	f.Label("block")
	f.Op("FLDPQ.P 32(R1), (F%d, F%d)", neonScales, neonScales+1)
	for i := range rows {
		f.Op("FMOVS.P 4(R%d), F%d", 9+i, neonTemp)
		for j := range 2 {
			f.Op("VDUP V%d.S[0], V%d.S4", neonTemp, neonSums+2*i+j)
		}
	}
	f.Op("MOVD tile_chunks(R0), R5")
	f.Label("chunk")
	f.Op("FLDPQ.P 32(R1), (F%d, F%d)", neonWords, neonWords+1)
	for j := range 2 {
		f.Vec("AND", neonLow+j, neonWords+j, neonHalf)
		f.Vec("USHR", neonWords+j, neonWords+j, 4)
		f.Vec("AND", neonWords+j, neonWords+j, neonHalf)
	}
	for i := range rows {
		f.Op("FMOVD.P 8(R%d), F%d", 9+i, neonRow)
		for j := range 2 {
			f.VecLane("SDOT", neonSums+2*i+j, neonLow+j, neonRow, 0)
			f.VecLane("SDOT", neonSums+2*i+j, neonWords+j, neonRow, 1)
		}
	}
	f.Ops("SUB $1, R5", "CBNZ R5, chunk")
	for n := range 2 * rows {
		f.Vec("SCVTF", neonSums+n, neonSums+n)
	}
	f.Op("CBZ R6, centred")
	f.Op("FMOVD.P 8(R6), F%d", neonOff)
	f.Vec("UXTL.B", neonOff, neonOff)
	f.Vec("UXTL2", neonOff+1, neonOff)
	f.Vec("UXTL", neonOff, neonOff)
	for j := range 2 {
		f.Vec("SCVTF", neonOff+j, neonOff+j)
		f.Vec("FSUB", neonOff+j, neonEight, neonOff+j)
		for i := range rows {
			f.Op("FMOVS 4(R%d), F%d", 9+i, neonScale+1)
			f.VecLane("FMLA", neonSums+2*i+j, neonOff+j, neonScale+1, 0)
		}
	}
	f.Label("centred")
	for i := range rows {
		f.Op("FMOVS.P 8(R%d), F%d", 9+i, neonScale)
		for j := range 2 {
			f.VecLane("FMUL", neonTemp, neonScales+j, neonScale, 0)
			f.Vec("FMLA", neonC+2*i+j, neonSums+2*i+j, neonTemp)
		}
	}
	f.Ops("SUB $1, R4", "CBNZ R4, block")
	for i := range rows {
		f.Op("FSTPQ (F%d, F%d), (R7)", neonC+2*i, neonC+2*i+1)
		f.Op("ADD R8, R7")
	}
	f.Op("RET")
}

// widenNEON writes the chunks of a block of eight columns as floats.
func widenNEON(f *asm.File) {
	f.Func("widenNEON", "dst *float32, stride int, scales, q *byte, zeros *float32, chunks int", 48,
		"does what widenGo does of one block of eight columns, with zero points less 8 as floats. "+
			"The stride is in bytes.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD stride+8(FP), R1", "MOVD scales+16(FP), R2",
		"MOVD q+24(FP), R3", "MOVD zeros+32(FP), R4", "MOVD chunks+40(FP), R5",
		"FLDPQ (R2), (F0, F1)", "FLDPQ (R4), (F8, F9)", "MOVD $15, R6", "VDUP R6, V31.S4",
		"MOVD $8, R6", "VDUP R6, V29.S4")
	f.Label("chunk")
	f.Op("FLDPQ.P 32(R3), (F%d, F%d)", neonWords, neonWords+1)
	for k := range 8 {
		for j := range 2 {
			x := neonLow + j
			if shift := k%4*8 + k/4*4; shift > 0 {
				f.Vec("USHR", x, neonWords+j, shift)
				f.Vec("AND", x, x, neonHalf)
			} else {
				f.Vec("AND", x, neonWords+j, neonHalf)
			}
			f.Vec("SUB", x, x, neonEight)
			f.Vec("SCVTF", x, x)
			f.Vec("FSUB", x, x, neonOff+j)
			f.Vec("FMUL", x, x, neonScales+j)
		}
		f.Op("FSTPQ (F%d, F%d), (R0)", neonLow, neonLow+1)
		f.Op("ADD R1, R0")
	}
	f.Ops("SUB $1, R5", "CBNZ R5, chunk", "RET")
}
