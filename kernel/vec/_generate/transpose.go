package main

import (
	"fmt"
	"strings"
)

func transpose() []routine {
	return []routine{raw(func(set isa) string {
		if set.vector == "Z" {
			return transposeWide()
		}
		return transposeNarrow()
	})}
}

const transposeArguments = `	NO_LOCAL_POINTERS
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ cols+%d(FP), CX
	MOVQ ldDst+%d(FP), R10
	MOVQ ldSrc+%d(FP), R9
	SHLQ $2, R10
	SHLQ $2, R9
`

// unpack writes the two stages that turn rows 4g to 4g+3 of register lane L into column 4L+c, c = 0
// to 3.
func unpack(b *strings.Builder, prefix string, rows int) {
	for i := 0; i < rows; i += 2 {
		fmt.Fprintf(b, "\tVUNPCKLPS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d\n", prefix, i+1, i, rows+i)
		fmt.Fprintf(b, "\tVUNPCKHPS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d\n", prefix, i+1, i, rows+i+1)
	}
	for g := 0; g < rows; g += 4 {
		for c := range 4 {
			half := []string{"L", "H"}[c%2]
			from := rows + g + c/2
			fmt.Fprintf(b, "\tVUNPCK%[1]sPD %[2]s%[3]d, %[2]s%[4]d, %[2]s%[5]d\n", half, prefix,
				from+2, from, g+c)
		}
	}
}

// transposeWide handles 16 rows or fewer: rows that are missing are read from the last one and
// masked when written.
func transposeWide() string {
	var b strings.Builder
	b.WriteString("// func transposeAVX512(dst, src *uint32, rows, cols, ldDst, ldSrc int)\n")
	b.WriteString("TEXT ·transposeAVX512(SB), 0, $128-48\n")
	fmt.Fprintf(&b, transposeArguments, 24, 32, 40)
	b.WriteString(`	XORQ R12, R12
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
	MOVQ rows+16(FP), R11
`)
	for i := range 16 {
		fmt.Fprintf(&b, "\tVMOVUPS.Z (R8), K1, Z%d\n", i)
		if i < 15 {
			b.WriteString("\tDECQ R11\n\tCMOVQLE R12, DX\n\tADDQ DX, R8\n")
		}
	}
	unpack(&b, "Z", 16)
	// Lanes 0 and 2, and 1 and 3, of each pair of row groups; then the same of the halves gives
	// whole columns.
	for c := range 4 {
		for pair := range 2 {
			low := 8*pair + c
			fmt.Fprintf(&b, "\tVSHUFF32X4 $0x88, Z%d, Z%d, Z%d\n", low+4, low, 16+4*c+2*pair)
			fmt.Fprintf(&b, "\tVSHUFF32X4 $0xdd, Z%d, Z%d, Z%d\n", low+4, low, 16+4*c+2*pair+1)
		}
	}
	for c := range 4 {
		for odd := range 2 {
			from := 16 + 4*c + odd
			fmt.Fprintf(&b, "\tVSHUFF32X4 $0x88, Z%d, Z%d, Z%d\n", from+2, from, 4*odd+c)
			fmt.Fprintf(&b, "\tVSHUFF32X4 $0xdd, Z%d, Z%d, Z%d\n", from+2, from, 8+4*odd+c)
		}
	}
	for i := range 16 {
		fmt.Fprintf(&b, "\tVMOVUPS Z%d, K2, (DI)\n\tADDQ R10, DI\n", i)
		if i < 15 {
			b.WriteString("\tDECQ R13\n\tJZ done\n")
		}
	}
	b.WriteString("\tADDQ $64, SI\n\tSUBQ $16, CX\n\tJG loop\ndone:\n\tVZEROUPPER\n\tRET\n\n")
	return b.String()
}

// transposeNarrow handles 8 rows and whole groups of 8 columns.
func transposeNarrow() string {
	var b strings.Builder
	b.WriteString("// func transposeAVX2(dst, src *uint32, cols, ldDst, ldSrc int)\n")
	b.WriteString("TEXT ·transposeAVX2(SB), 0, $128-40\n")
	fmt.Fprintf(&b, transposeArguments, 16, 24, 32)
	b.WriteString("\tSHRQ $3, CX\n\tJZ done\n\tPCALIGN $32\nloop:\n\tMOVQ SI, R8\n")
	for i := range 8 {
		fmt.Fprintf(&b, "\tVMOVUPS (R8), Y%d\n\tADDQ R9, R8\n", i)
	}
	unpack(&b, "Y", 8)
	for c := range 4 {
		fmt.Fprintf(&b, "\tVPERM2F128 $0x20, Y%d, Y%d, Y%d\n", c+4, c, 8+c)
		fmt.Fprintf(&b, "\tVPERM2F128 $0x31, Y%d, Y%d, Y%d\n", c+4, c, 12+c)
	}
	for i := range 8 {
		fmt.Fprintf(&b, "\tVMOVUPS Y%d, (DI)\n\tADDQ R10, DI\n", 8+i)
	}
	b.WriteString("\tADDQ $32, SI\n\tDECQ CX\n\tJNZ loop\ndone:\n\tVZEROUPPER\n\tRET\n\n")
	return b.String()
}
