package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// bytesNEON writes the loops of arm64 between numbers and bytes, whose Go side is written by hand.
func bytesNEON(folder string) error {
	f := asm.NewFileFor("arm64", generator, "vec")
	for _, k := range quantized {
		k.write(f)
	}
	for _, signed := range []bool{false, true} {
		dequantizeNEON(f, signed)
	}
	interleaveNEON(f)
	if err := f.Save(folder, "quantize_arm64"); err != nil {
		return err
	}
	f = asm.NewFileFor("arm64", generator, "vec")
	transposeNEON(f, 4)
	transposeNEON(f, 2)
	return f.Save(folder, "transpose_arm64")
}

// The registers of the parameters of a Requantization, in the order of that struct.
const (
	neonAdd = 20 + iota
	neonScale
	neonLo
	neonHi
	neonZero
	neonThenScale
	neonThenBias
	neonThenLo
	neonThenHi
	neonThenZero
)

// quantizedNEON is a loop from numbers to bytes for arm64: as toBytes, which see.
type quantizedNEON struct {
	name   string
	from   string // element type of x
	second bool   // of bytes, there is an operand y
	scaled func(f *asm.File, v int)
}

var quantized = []quantizedNEON{
	{"requantizeInts", "int32", false, sumsNEON},
	{"requantizeFloats", "float32", false, func(f *asm.File, v int) {
		f.Vec("FCVTZS", v, v)
		sumsNEON(f, v)
	}},
	{"quantizeFloats", "float32", false, func(f *asm.File, v int) {
		f.Vec("FDIV", v, v, neonScale)
	}},
	{"rescaleUint8", "uint8", false, rescaledNEON},
	{"rescaleInt8", "int8", false, rescaledNEON},
	{"addUint8", "uint8", true, addedNEON},
	{"addInt8", "int8", true, addedNEON},
}

// sumsNEON makes numbers of sums of products.
func sumsNEON(f *asm.File, v int) {
	f.Vec("ADD", v, v, neonAdd)
	f.Vec("SCVTF", v, v)
	f.Vec("FMUL", v, v, neonScale)
}

// rescaledNEON makes numbers of bytes on another scale.
func rescaledNEON(f *asm.File, v int) {
	f.Vec("SCVTF", 8+v, v)
	f.Vec("MOV", v, neonAdd)
	f.Vec("FMLA", v, 8+v, neonScale)
}

// addedNEON makes numbers of bytes and those of the second operand, four registers further.
func addedNEON(f *asm.File, v int) {
	f.Vec("SCVTF", 8+v, v)
	f.Vec("MOV", v, neonThenBias)
	f.Vec("FMLA", v, 8+v, neonScale)
	f.Vec("SCVTF", 8+v, 4+v)
	f.Vec("FMLA", v, 8+v, neonAdd)
}

func (k quantizedNEON) write(f *asm.File) {
	y, size := "", 32
	if k.second {
		y, size = fmt.Sprintf(", y *%s", k.from), 40
	}
	f.Func(k.name+"NEON", fmt.Sprintf("dst *byte, x *%s%s, n int, p *Requantization", k.from, y),
		size, "computes what "+k.name+"Ref does of n numbers, a multiple of 4 and not 0.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1")
	if k.second {
		f.Op("MOVD y+16(FP), R2")
	}
	f.Op("MOVD n+%d(FP), R3", size-16)
	f.Op("MOVD p+%d(FP), R4", size-8)
	for i := range 10 {
		f.Op("FMOVS %d(R4), F%d", 4*i, neonAdd+i)
		f.Op("VDUP V%d.S[0], V%d.S4", neonAdd+i, neonAdd+i)
	}
	f.Op("MOVWU 40(R4), R5")
	for _, vectors := range []int{4, 1} {
		f.Op("SUBS $%d, R3", 4*vectors)
		f.Op("BLT end%d", vectors)
		f.Label(fmt.Sprint("loop", vectors))
		k.read(f, "R1", 0, vectors)
		if k.second {
			k.read(f, "R2", 4, vectors)
		}
		for v := range vectors {
			k.scaled(f, v)
			toGridNEON(f, v, neonLo)
		}
		if !k.second {
			k.again(f, vectors)
		}
		narrowNEON(f, vectors)
		f.Op("SUBS $%d, R3", 4*vectors)
		f.Op("BGE loop%d", vectors)
		f.Label(fmt.Sprint("end", vectors))
		f.Op("ADD $%d, R3", 4*vectors)
	}
	f.Op("RET")
}

// again writes the second stage, which runs where there is one.
func (k quantizedNEON) again(f *asm.File, vectors int) {
	f.Op("CBZ R5, once%d", vectors)
	for v := range vectors {
		f.Vec("SCVTF", 8+v, v)
		f.Vec("MOV", v, neonThenBias)
		f.Vec("FMLA", v, 8+v, neonThenScale)
		toGridNEON(f, v, neonThenLo)
	}
	f.Label(fmt.Sprint("once", vectors))
}

// read reads so many vectors of elements into registers from first on, bytes as integers.
func (k quantizedNEON) read(f *asm.File, from string, first, vectors int) {
	switch {
	case k.from != "uint8" && k.from != "int8":
		for v := range vectors {
			f.Op("FMOVQ.P 16(%s), F%d", from, first+v)
		}
	default:
		widenNEON(f, from, k.from == "int8", first, vectors)
	}
}

// widenNEON reads four vectors of bytes, or one, as integers of 32 bits.
func widenNEON(f *asm.File, from string, signed bool, first, vectors int) {
	u := map[bool]string{false: "U", true: "S"}[signed]
	if vectors == 1 {
		f.Op("FMOVS.P 4(%s), F%d", from, first)
		f.Vec(u+"XTL.B", first, first)
		f.Vec(u+"XTL", first, first)
		return
	}
	f.Op("FMOVQ.P 16(%s), F%d", from, first)
	f.Vec(u+"XTL2.B", first+2, first)
	f.Vec(u+"XTL.B", first, first)
	for v := first; v < first+4; v += 2 {
		f.Vec(u+"XTL2", v+1, v)
		f.Vec(u+"XTL", v, v)
	}
}

// toGridNEON limits numbers to two parameters from lo on, NaN to the least, and makes integers of
// them with the zero point that follows.
func toGridNEON(f *asm.File, v, lo int) {
	f.Vec("FMAXNM", v, v, lo)
	f.Vec("FMINNM", v, v, lo+1)
	f.Vec("FCVTNS", v, v)
	f.Vec("ADD", v, v, lo+2)
}

// narrowNEON writes the low bytes of four vectors, or of one.
func narrowNEON(f *asm.File, vectors int) {
	if vectors == 1 {
		f.Vec("XTN", 0, 0)
		f.Vec("XTN.B", 0, 0)
		f.Op("FMOVS.P F0, 4(R0)")
		return
	}
	f.Vec("UZP1.H", 0, 0, 1)
	f.Vec("UZP1.H", 2, 2, 3)
	f.Vec("UZP1.B", 0, 0, 2)
	f.Op("FMOVQ.P F0, 16(R0)")
}

// dequantizeNEON writes a loop from bytes to numbers.
func dequantizeNEON(f *asm.File, signed bool) {
	name, typ := "dequantizeUint8", "uint8"
	if signed {
		name, typ = "dequantizeInt8", "int8"
	}
	f.Func(name+"NEON", "dst *float32, x *"+typ+", n int, scale, zero float32", 32, "computes "+
		"what "+name+"Ref does of n bytes, a multiple of 4 and not 0.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1", "MOVD n+16(FP), R3", "FMOVS scale+24(FP), F20",
		"VDUP V20.S[0], V20.S4", "FMOVS zero+28(FP), F21", "VDUP V21.S[0], V21.S4")
	for _, vectors := range []int{4, 1} {
		f.Op("SUBS $%d, R3", 4*vectors)
		f.Op("BLT end%d", vectors)
		f.Label(fmt.Sprint("loop", vectors))
		widenNEON(f, "R1", signed, 0, vectors)
		for v := range vectors {
			f.Vec("SCVTF", v, v)
			f.Vec("FSUB", v, v, 21)
			f.Vec("FMUL", v, v, 20)
			f.Op("FMOVQ.P F%d, 16(R0)", v)
		}
		f.Op("SUBS $%d, R3", 4*vectors)
		f.Op("BGE loop%d", vectors)
		f.Label(fmt.Sprint("end", vectors))
		f.Op("ADD $%d, R3", 4*vectors)
	}
	f.Op("RET")
}

// interleaveNEON writes the loop that makes words of four planes of bytes.
func interleaveNEON(f *asm.File) {
	f.Func("interleaveNEON", "dst *uint32, x *byte, stride, n int, flip uint32", 36, "does what "+
		"interleaveRef does for n words, a multiple of 16 and not 0.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1", "MOVD stride+16(FP), R5", "MOVD n+24(FP), R6",
		"FMOVS flip+32(FP), F4", "VDUP V4.S[0], V4.S4", "ADD R5, R1, R2", "ADD R5, R2, R3",
		"ADD R5, R3, R4")
	f.Label("loop")
	for i := range 4 {
		f.Op("FMOVQ.P 16(R%d), F%d", 1+i, i)
		f.Vec("EOR", i, i, 4)
	}
	f.Ops("VST4.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)", "SUB $16, R6", "CBNZ R6, loop", "RET")
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
	f.Label("loop")
	for i := range rows {
		f.Op("FMOVQ.P 16(R%d), F%d", 2+i, i)
	}
	for i := 0; i < rows; i += 2 {
		f.Vec("TRN1", 4+i, i, i+1)
		f.Vec("TRN2", 5+i, i, i+1)
	}
	for c := range 4 {
		from := 4 + c%2
		switch {
		case rows == 4:
			f.Vec(fmt.Sprintf("TRN%d.D", 1+c/2), 16+c, from, from+2)
			f.Op("FMOVQ F%d, (R0)", 16+c)
		case c < 2:
			f.Op("FMOVD F%d, (R0)", from)
		default:
			f.Op("VST1 V%d.D[1], (R0)", from)
		}
		f.Op("ADD R1, R0")
	}
	f.Ops("SUB $4, R6", "CBNZ R6, loop", "RET")
}
