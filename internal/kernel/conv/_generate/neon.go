package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// neon writes kernels for arm64: 32 registers of four floats, without masks.
type neon struct{ *asm.File }

// neonKernels writes all of them.
func neonKernels(s *asm.File) {
	n := neon{s}
	for stride := 1; stride <= 2; stride++ {
		n.tapBits(stride)
		n.copyTaps(stride, 2)
		n.copyTaps(stride, 4)
	}
	n.winogradFactors()
	n.winogradIn()
	n.winogradOut()
	separables(s, asm.VectorNEON)
	n.smallPlanes()
	n.halvedPlanes()
	depthwises(s, asm.VectorNEON)
}

// args loads fields of the struct that R0 points to, after loading R0.
func (n neon) args(fields ...string) {
	n.Op("MOVD t+0(FP), R0")
	for _, f := range fields {
		n.Ops("MOVD " + f)
	}
}

// loads reads so many vectors from an address in a register on, into the registers from first on.
func (n neon) loads(vectors, first int, base string, at int) {
	for i := 0; i < vectors; i++ {
		if pair := at + 16*i; i+1 < vectors && pair%16 == 0 && pair <= 1008 {
			n.Op("FLDPQ %d(%s), (F%d, F%d)", pair, base, first+i, first+i+1)
			i++
			continue
		}
		n.Op("FMOVQ %d(%s), F%d", at+16*i, base, first+i)
	}
}

// stores is the opposite of loads.
func (n neon) stores(vectors, first int, base string) {
	for i := 0; i < vectors; i++ {
		if i+1 < vectors {
			n.Op("FSTPQ (F%d, F%d), %d(%s)", first+i, first+i+1, 16*i, base)
			i++
			continue
		}
		n.Op("FMOVQ F%d, %d(%s)", first+i, 16*i, base)
	}
}

// bytes writes an instruction on three registers as a whole, with Go's order of operands.
func (n neon) bytes(op string, a, b, to int) {
	n.Op("%s V%d.B16, V%d.B16, V%d.B16", op, a, b, to)
}

// words is bytes for instructions on four numbers of 32 bits.
func (n neon) words(op string, a, b, to int) {
	n.Op("%s V%d.S4, V%d.S4, V%d.S4", op, a, b, to)
}

// shift joins lanes of two registers: those of low from number by on, then as many of high.
func (n neon) shift(by, low, high, to int) {
	n.Op("VEXT $%d, V%d.B16, V%d.B16, V%d.B16", 4*by, high, low, to)
}

// zero clears a register.
func (n neon) zero(r int) { n.bytes("VEOR", r, r, r) }

// label is the name of a label of a part.
func label(name string, args ...any) string { return name + fmt.Sprint(args...) }
