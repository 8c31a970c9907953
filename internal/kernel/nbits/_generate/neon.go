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

// arm64 writes the functions for arm64.
func arm64(folder string) error {
	k := newKernels("arm64")
	for rows := 1; rows <= neonRows; rows++ {
		bytesNEON(k.File, rows)
	}
	k.use(neon)
	widen(k)
	return k.Save(folder, "nbits_arm64")
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
