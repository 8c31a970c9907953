package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

func transpose() []routine {
	return []routine{raw(func(t *asm.Text, set asm.Vector) {
		if set.Wide() {
			transposeWide(t)
			return
		}
		transposeNarrow(t)
	})}
}

const transposeArguments = `	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ cols+%d(FP), CX
	MOVQ ldDst+%d(FP), R10
	MOVQ ldSrc+%d(FP), R9
	SHLQ $2, R10
	SHLQ $2, R9`

// unpack writes the two stages that turn rows 4g to 4g+3 of register lane L into column 4L+c, c = 0
// to 3.
func unpack(t *asm.Text, prefix string, rows int) {
	for i := 0; i < rows; i += 2 {
		t.Line("\tVUNPCKLPS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d", prefix, i+1, i, rows+i)
		t.Line("\tVUNPCKHPS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d", prefix, i+1, i, rows+i+1)
	}
	for g := 0; g < rows; g += 4 {
		for c := range 4 {
			half := []string{"L", "H"}[c%2]
			from := rows + g + c/2
			t.Line("\tVUNPCK%[1]sPD %[2]s%[3]d, %[2]s%[4]d, %[2]s%[5]d", half, prefix,
				from+2, from, g+c)
		}
	}
}

// transposeWide handles 16 rows or fewer: rows that are missing are read from the last one and
// masked when written.
func transposeWide(t *asm.Text) {
	t.Open("transposeAVX512", "(dst, src *uint32, rows, cols, ldDst, ldSrc int)", frame, 48)
	t.Line(transposeArguments, 24, 32, 40)
	t.Line(`	XORQ R12, R12
	MOVQ rows+16(FP), R11
	MOVL $1, BX
	SHLXL R11, BX, BX
	DECL BX
	KMOVW BX, K2
	MOVQ $16, AX
	PCALIGN $32
loop:
	MOVQ CX, R13
	CMPQ R13, $16
	CMOVQGT AX, R13
	MOVL $1, BX
	SHLXL R13, BX, BX
	DECL BX
	KMOVW BX, K1
	MOVQ SI, R8
	MOVQ R9, DX
	MOVQ rows+16(FP), R11`)
	for i := range 16 {
		t.Line("\tVMOVUPS.Z (R8), K1, Z%d", i)
		if i < 15 {
			t.Line("\tDECQ R11\n\tCMOVQLE R12, DX\n\tADDQ DX, R8")
		}
	}
	unpack(t, "Z", 16)
	exchangeGroups(t)
	for i := range 16 {
		t.Line("\tVMOVUPS Z%d, K2, (DI)\n\tADDQ R10, DI", i)
		if i < 15 {
			t.Line("\tDECQ R13\n\tJZ done")
		}
	}
	t.Line("\tADDQ $64, SI\n\tSUBQ $16, CX\n\tJG loop\ndone:\n\tVZEROUPPER\n\tRET")
}

// exchangeGroups makes columns of the groups of rows: lanes 0 and 2, and 1 and 3, of each pair of
// groups; then the same of the halves gives whole columns.
func exchangeGroups(t *asm.Text) {
	for c := range 4 {
		for pair := range 2 {
			low := 8*pair + c
			t.Line("\tVSHUFF32X4 $0x88, Z%d, Z%d, Z%d", low+4, low, 16+4*c+2*pair)
			t.Line("\tVSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", low+4, low, 16+4*c+2*pair+1)
		}
	}
	for c := range 4 {
		for odd := range 2 {
			from := 16 + 4*c + odd
			t.Line("\tVSHUFF32X4 $0x88, Z%d, Z%d, Z%d", from+2, from, 4*odd+c)
			t.Line("\tVSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", from+2, from, 8+4*odd+c)
		}
	}
}

// transposeNarrow handles 8 rows and whole groups of 8 columns.
func transposeNarrow(t *asm.Text) {
	t.Open("transposeAVX2", "(dst, src *uint32, cols, ldDst, ldSrc int)", frame, 40)
	t.Line(transposeArguments, 16, 24, 32)
	t.Line("\tSHRQ $3, CX\n\tJZ done\n\tPCALIGN $32\nloop:\n\tMOVQ SI, R8")
	for i := range 8 {
		t.Line("\tVMOVUPS (R8), Y%d\n\tADDQ R9, R8", i)
	}
	unpack(t, "Y", 8)
	for c := range 4 {
		t.Line("\tVPERM2F128 $0x20, Y%d, Y%d, Y%d", c+4, c, 8+c)
		t.Line("\tVPERM2F128 $0x31, Y%d, Y%d, Y%d", c+4, c, 12+c)
	}
	for i := range 8 {
		t.Line("\tVMOVUPS Y%d, (DI)\n\tADDQ R10, DI", 8+i)
	}
	t.Line("\tADDQ $32, SI\n\tDECQ CX\n\tJNZ loop\ndone:\n\tVZEROUPPER\n\tRET")
}

// transposeNEON writes the loop that turns columns of four rows, or of two, four at a time.
func transposeNEON(f *asm.File, rows int) {
	f.Func(fmt.Sprintf("transpose%dNEON", rows), "dst, src *uint32, cols, ldDst, ldSrc int", 40,
		fmt.Sprintf("computes what transposeRef does for %d rows and a multiple of 4 columns, not "+
			"0.", rows))
	f.Ops("MOVD dst+0(FP), R0", "MOVD src+8(FP), R2", "MOVD cols+16(FP), R6",
		"MOVD ldDst+24(FP), R1", "LSL $2, R1", "MOVD ldSrc+32(FP), R7", "LSL $2, R7",
		"ADD R7, R2, R3")
	if rows == 4 {
		f.Ops("ADD R7, R3, R4", "ADD R7, R4, R5")
	}
	f.Ops("ADD R1, R0, R8", "ADD R1, R8, R9", "ADD R1, R9, R10", "LSL $2, R1")
	f.Label("loop")
	for i := range rows {
		f.Op("FMOVQ.P 16(R%d), F%d", 2+i, i)
	}
	for i := 0; i < rows; i += 2 {
		f.Vec("TRN1", 4+i, i, i+1)
		f.Vec("TRN2", 5+i, i, i+1)
	}
	for c, to := range []string{"R0", "R8", "R9", "R10"} {
		from := 4 + c%2
		switch {
		case rows == 4:
			f.Vec(fmt.Sprintf("TRN%d.D", 1+c/2), 16+c, from, from+2)
			f.Op("FMOVQ F%d, (%s)", 16+c, to)
		case c < 2:
			f.Op("FMOVD F%d, (%s)", from, to)
		default:
			f.Op("VST1 V%d.D[1], (%s)", from, to)
		}
		f.Op("ADD R1, %s", to)
	}
	f.Ops("SUB $4, R6", "CBNZ R6, loop", "RET")
}
