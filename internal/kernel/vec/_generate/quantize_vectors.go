package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

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

// The starts of the loops; see quantize.

// sumsNEON makes numbers of sums of products.
func sumsNEON(f *asm.Text, v int) {
	f.Vec("ADD", v, v, neonAdd)
	f.Vec("SCVTF", v, v)
	f.Vec("FMUL", v, v, neonScale)
}

// roundedNEON does so of floats that are such sums.
func roundedNEON(f *asm.Text, v int) {
	f.Vec("FCVTZS", v, v)
	sumsNEON(f, v)
}

func dividedNEON(f *asm.Text, v int) { f.Vec("FDIV", v, v, neonScale) }

// rescaledNEON makes numbers of bytes on another scale.
func rescaledNEON(f *asm.Text, v int) {
	f.Vec("SCVTF", 8+v, v)
	f.Vec("MOV", v, neonAdd)
	f.Vec("FMLA", v, 8+v, neonScale)
}

// addedNEON makes numbers of bytes and those of the second operand, four registers further.
func addedNEON(f *asm.Text, v int) {
	f.Vec("SCVTF", 8+v, v)
	f.Vec("MOV", v, neonThenBias)
	f.Vec("FMLA", v, 8+v, neonScale)
	f.Vec("SCVTF", 8+v, 4+v)
	f.Vec("FMLA", v, 8+v, neonAdd)
}

// writeNEON writes the loop for arm64.
func (k *toBytes) writeNEON(f *asm.File) {
	y, size := "", 32
	if k.second != "" {
		y, size = fmt.Sprintf(", y *%s", k.from), 40
	}
	f.Func(k.name+"NEON", fmt.Sprintf("dst *byte, x *%s%s, n int, p *Requantization", k.from, y),
		size, "computes what "+k.name+"Ref does of n numbers, a multiple of 4 and not 0.")
	f.Ops("MOVD dst+0(FP), R0", "MOVD x+8(FP), R1")
	if k.second != "" {
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
		if k.second != "" {
			k.read(f, "R2", 4, vectors)
		}
		for v := range vectors {
			k.neon(&f.Text, v)
			toGridNEON(f, v, neonLo)
		}
		if k.second == "" {
			k.again(f, vectors)
		}
		narrowNEON(&f.Text, vectors)
		f.Op("SUBS $%d, R3", 4*vectors)
		f.Op("BGE loop%d", vectors)
		f.Label(fmt.Sprint("end", vectors))
		f.Op("ADD $%d, R3", 4*vectors)
	}
	f.Op("RET")
}

// again writes the second stage, which runs where there is one.
func (k *toBytes) again(f *asm.File, vectors int) {
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
func (k *toBytes) read(f *asm.File, from string, first, vectors int) {
	switch {
	case k.from != "uint8" && k.from != "int8":
		for v := range vectors {
			f.Op("FMOVQ.P 16(%s), F%d", from, first+v)
		}
	default:
		widenNEON(&f.Text, from, k.from == "int8", first, vectors)
	}
}

// widenNEON reads four vectors of bytes, or one, as integers of 32 bits.
func widenNEON(f *asm.Text, from string, signed bool, first, vectors int) {
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
func narrowNEON(f *asm.Text, vectors int) {
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

// quantizedNEON writes the loops of quantize for arm64. The Go side of those to bytes is written by
// hand.
func quantizedNEON(f *asm.File) {
	f.Declare("\nimport \"github.com/weirgpu/weir/internal/cpuinfo\"\n")
	for _, r := range quantize() {
		switch k := r.(type) {
		case *toBytes:
			k.writeNEON(f)
		case *conversion:
			k.writeNEON(&f.Text)
			f.Declare("\n%s\n%s", k.dispatchNEON(), k.declaration(asm.VectorNEON))
		}
	}
}
