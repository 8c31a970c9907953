package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of a block being finished: its rows four at a time from Z0 on, two registers each, what
// is read beside them from Z8 on, and what all rows share.
const (
	finishAlpha = 24 + iota
	finishBeta
	finishLo
	finishHi
	finishBias
	_
	finishRows = 4
)

// finishing writes the epilogue of a block of 32 columns that tiles have computed. K1 and K2 are
// the columns that there are.
func finishing(s *asm.File) {
	s.Line("")
	s.Func("finishAVX512", "t *tile, block *float32, rows int", 24,
		"does what tile.finishGo does, for rows >= 1.")
	s.Ops("MOVQ t+0(FP), DI", "MOVQ block+8(FP), SI", "MOVQ rows+16(FP), CX",
		"MOVL tile_mask(DI), DX", "KMOVW DX, K1", "SHRL $16, DX", "KMOVW DX, K2",
		"MOVQ tile_c(DI), R8", "MOVQ tile_ldc(DI), R9", "SHLQ $2, R9", "MOVQ tile_res(DI), R10",
		"MOVQ tile_ldr(DI), R11", "SHLQ $2, R11",
		"MOVQ tile_bias(DI), R12", "MOVL tile_flags(DI), AX")
	for i, field := range []string{"alpha", "beta", "lo", "hi"} {
		s.Op("VBROADCASTSS tile_%s(DI), Z%d", field, finishAlpha+i)
	}
	s.Ops("TESTL $const_flagBiasCol, AX", "JEQ many")
	s.Op("VMOVUPS.Z (R12), K1, Z%d", finishBias)
	s.Op("VMOVUPS.Z 64(R12), K2, Z%d", finishBias+1)
	s.Label("many")
	s.Op("CMPQ CX, $%d", finishRows)
	s.Op("JLT few")
	finishSome(s, finishRows)
	s.Op("JMP many")
	s.Label("few")
	s.Ops("TESTQ CX, CX", "JEQ done")
	finishSome(s, 1)
	s.Op("JMP few")
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
}

// finishSome finishes some rows and goes on to those below.
func finishSome(s *asm.File, rows int) {
	each := func(f func(x, half int)) {
		for x := range 2 * rows {
			f(x, x%2)
		}
	}
	optional := func(flag string, part func()) {
		past := fmt.Sprintf("no_%s_%d", flag, rows)
		s.Op("TESTL $const_%s, AX", flag)
		s.Op("JEQ %s", past)
		part()
		s.Label(past)
	}
	each(func(x, _ int) { s.Op("VMOVUPS %d(SI), Z%d", 64*x, x) })
	s.Op("ADDQ $%d, SI", 128*rows)
	optional("flagScale", func() {
		each(func(x, _ int) { s.Op("VMULPS Z%d, Z%d, Z%[2]d", finishAlpha, x) })
	})
	optional("flagBiasRow", func() {
		for i := range rows {
			s.Op("VBROADCASTSS %d(R12), Z%d", 4*i, 8+i)
		}
		s.Op("ADDQ $%d, R12", 4*rows)
		each(func(x, _ int) { s.Op("VADDPS Z%d, Z%d, Z%[2]d", 8+x/2, x) })
	})
	optional("flagBiasCol", func() {
		each(func(x, half int) { s.Op("VADDPS Z%d, Z%d, Z%[2]d", finishBias+half, x) })
	})
	optional("flagResidual", func() {
		each(func(x, half int) {
			s.Op("VMOVUPS.Z %d(R10), K%d, Z%d", 64*half, 1+half, 8+x)
			if half == 1 {
				s.Op("ADDQ R11, R10")
			}
		})
		each(func(x, _ int) { s.Op("VFMADD231PS Z%d, Z%d, Z%d", 8+x, finishBeta, x) })
	})
	// the second operand is what stays where one is a NaN
	optional("flagLo", func() {
		each(func(x, _ int) { s.Op("VMAXPS Z%d, Z%d, Z%[1]d", x, finishLo) })
	})
	optional("flagHi", func() {
		each(func(x, _ int) { s.Op("VMINPS Z%d, Z%d, Z%[1]d", x, finishHi) })
	})
	each(func(x, half int) {
		s.Op("VMOVUPS Z%d, K%d, %d(R8)", x, 1+half, 64*half)
		if half == 1 {
			s.Op("ADDQ R9, R8")
		}
	})
	s.Op("SUBQ $%d, CX", rows)
}
