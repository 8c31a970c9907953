package main

import "fmt"

// vector describes one instruction set.
type vector struct {
	name   string
	reg    string
	lanes  int
	masked bool
}

// regs is the number of registers.
func (v vector) regs() int { return 2 * v.lanes }

var (
	avx2   = vector{name: "AVX2", reg: "Y", lanes: 8}
	avx512 = vector{name: "AVX512", reg: "Z", lanes: 16, masked: true}
)

// Registers of the rows kernels: BX the arguments, AX the output, DI the stride of its rows, DX the
// columns left, R8 the first row of the input. Vectors 0 to 3 are the sums of up to four rows, 5 to
// 7 the bias and the limits, and Y8 the mask of the last columns where there are no mask registers.
// Tight kernels need those for the taps, and read them when they finish.

// taps writes the part of a rows kernel that multiplies.
type taps struct {
	name, doc string
	vector
	tight bool
	load  func(s *asm)        // loads what the whole call needs
	bases func(s *asm, n int) // sets up the pointers of n rows from R8
	// adds all taps of one vector of columns of n rows, one row after the other R8 SI apart
	columns func(s *asm, n int)
	next    func(s *asm, n int) // moves the pointers to the next vector of columns
}

// rows writes a depthwise kernel: four rows at a time as long as there are four.
func rows(s *asm, t taps) {
	v := t.vector
	s.text(t.name, "t *rows", 8, t.doc)
	s.ops("MOVQ t+0(FP), BX")
	if v.masked {
		s.ops(
			"MOVQ rows_cols(BX), CX",
			"ANDQ $15, CX",
			"MOVL $1, SI",
			"SHLL CX, SI",
			"DECL SI",
			"KMOVW SI, K1",
		)
	} else if !t.tight {
		s.ops(
			"MOVQ rows_cols(BX), DX",
			"ANDQ $7, DX",
			"NEGQ DX",
			"LEAQ ·laneMask<>(SB), SI",
			"VMOVUPS 64(SI)(DX*4), Y8",
		)
	}
	if !t.tight {
		for i, field := range []string{"bias", "lo", "hi"} {
			s.op("VBROADCASTSS rows_%s(BX), %s%d", field, v.reg, 5+i)
		}
	}
	t.load(s)
	s.ops(
		"MOVQ rows_n(BX), AX",
		"MOVQ AX, left-8(SP)",
		"MOVQ rows_src(BX), R8",
		"MOVQ rows_dst(BX), AX",
		"MOVQ rows_stride(BX), DI",
		"SHLQ $2, DI",
	)
	s.label("group")
	s.ops(
		"MOVQ R8, src-16(SP)",
		"MOVQ AX, dst-24(SP)",
		"MOVQ rows_cols(BX), DX",
		"MOVQ left-8(SP), R15",
	)
	for n := 3; n >= 1; n-- {
		s.op("CMPQ R15, $%d", n)
		s.op("JEQ rows%d", n)
	}
	for n := 4; n >= 1; n-- {
		rowGroup(s, t, n)
	}
	s.label("done")
	s.ops("VZEROUPPER", "RET")
}

// rowGroup computes n rows, one vector of columns of all of them at a time.
func rowGroup(s *asm, t taps, n int) {
	name := func(label string) string { return fmt.Sprintf("%s%d", label, n) }
	s.label(name("rows"))
	t.bases(s, n)
	s.label(name("columns"))
	for i := range n {
		if t.tight {
			s.op("VBROADCASTSS rows_bias(BX), %s%d", t.reg, i)
		} else {
			s.op("VMOVAPS %s5, %s%d", t.reg, t.reg, i)
		}
	}
	t.columns(s, n)
	s.op("CMPQ DX, $%d", t.lanes)
	s.op("JLT %s", name("part"))
	rowsFinish(s, t, n, false)
	s.op("SUBQ $%d, DX", t.lanes)
	s.op("JZ %s", name("next"))
	t.next(s, n)
	s.op("ADDQ $%d, AX", 4*t.lanes)
	s.op("JMP %s", name("columns"))
	s.label(name("part"))
	rowsFinish(s, t, n, true)
	s.label(name("next"))
	if n < 4 {
		s.op("JMP done")
		return
	}
	s.ops(
		"SUBQ $4, left-8(SP)",
		"JZ done",
		"MOVQ rows_srcStride(BX), SI",
		"SHLQ $4, SI",
		"MOVQ src-16(SP), R8",
		"ADDQ SI, R8",
		"MOVQ dst-24(SP), AX",
		"LEAQ (AX)(DI*4), AX",
		"JMP group",
	)
}

// anyTaps takes taps of any number from a table: R8 to R11 are the rows under tap 0, R12 the
// weights, R13 the offsets, CX their number.
func anyTaps(v vector) taps {
	return taps{
		name: "rows" + v.name, doc: "computes t; rowsGo defines it.", vector: v,
		load: func(s *asm) {
			s.ops(
				"MOVQ rows_w(BX), R12",
				"MOVQ rows_offsets(BX), R13",
				"MOVQ (rows_offsets+8)(BX), CX",
			)
		},
		bases: func(s *asm, n int) {
			s.ops("MOVQ rows_srcStride(BX), SI", "SHLQ $2, SI")
			for i := 1; i < n; i++ {
				s.op("LEAQ (R%d)(SI*1), R%d", 7+i, 8+i)
			}
		},
		columns: func(s *asm, n int) {
			s.op("XORL SI, SI")
			s.label(fmt.Sprintf("tap%d", n))
			s.op("MOVQ (R13)(SI*8), R15")
			s.op("VBROADCASTSS (R12)(SI*4), %s4", v.reg)
			for i := range n {
				s.op("VFMADD231PS (R%d)(R15*4), %s4, %s%d", 8+i, v.reg, v.reg, i)
			}
			s.ops("INCQ SI", "CMPQ SI, CX", fmt.Sprintf("JLT tap%d", n))
		},
		next: func(s *asm, n int) {
			for i := range n {
				s.op("ADDQ $%d, R%d", 4*v.lanes, 8+i)
			}
		},
	}
}

// threeByThree holds the nine weights in registers and loads every input once for all the rows that
// see it. The bases R8, R9 and R10 are rows 0, 3 and 6 of the input; with a stride of 2, R11, R12
// and R13 are their odd columns. CX is the distance of the rows.
func threeByThree(v vector, stride int) taps {
	groups := func(n int) int { return ((n-1)*stride + 5) / 3 }
	weights, inputs := 16, 25
	if v.regs() == 16 {
		weights, inputs = 7, 4
	}
	return taps{
		name:   fmt.Sprintf("rows3x3s%d%s", stride, v.name),
		vector: v,
		tight:  v.regs() == 16,
		doc: fmt.Sprintf(
			"computes t for 3x3 taps without dilation and a stride of %d on both axes.",
			stride,
		),
		load: func(s *asm) {
			s.op("MOVQ rows_w(BX), R12")
			for i := range 9 {
				s.op("VBROADCASTSS %d(R12), %s%d", 4*i, v.reg, weights+i)
			}
		},
		bases: func(s *asm, n int) {
			s.ops(
				"MOVQ rows_offsets(BX), R15",
				"MOVQ 24(R15), CX",
				"SHLQ $2, CX",
				"MOVQ 8(R15), R15",
				"LEAQ (CX)(CX*2), SI",
			)
			for g := range groups(n) {
				if g > 0 {
					s.op("LEAQ (R%d)(SI*1), R%d", 7+g, 8+g)
				}
				if stride == 2 {
					s.op("LEAQ (R%d)(R15*4), R%d", 8+g, 11+g)
				}
			}
		},
		columns: func(s *asm, n int) {
			for row := range (n-1)*stride + 3 {
				for kx := range 3 {
					base, off := 8+row/3, 4*kx
					if stride == 2 {
						base, off = base+3*(kx%2), 4*(kx/2)
					}
					s.op(
						"VMOVUPS %d(R%d)%s, %s%d",
						off,
						base,
						[]string{"", "(CX*1)", "(CX*2)"}[row%3],
						v.reg,
						inputs+kx,
					)
				}
				for kx := range 3 {
					for i := range n {
						if ky := row - i*stride; ky >= 0 && ky < 3 {
							s.op(
								"VFMADD231PS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d",
								v.reg,
								inputs+kx,
								weights+3*ky+kx,
								i,
							)
						}
					}
				}
			}
		},
		next: func(s *asm, n int) {
			for g := range groups(n) {
				s.op("ADDQ $%d, R%d", 4*v.lanes, 8+g)
				if stride == 2 {
					s.op("ADDQ $%d, R%d", 4*v.lanes, 11+g)
				}
			}
		},
	}
}

// rowsFinish applies the epilogue to one vector of each row and stores it.
func rowsFinish(s *asm, t taps, n int, part bool) {
	v, lo, hi := t.vector, 6, 7
	if t.tight {
		lo, hi = 5, 6
	}
	suffix := fmt.Sprintf("_%d_%t", n, part)
	mask := rowsMask(s, t, part)
	s.ops(
		"MOVL rows_flags(BX), SI", "TESTL $const_flagResidual, SI",
	)
	s.op("JZ plain%s", suffix)
	s.ops("MOVQ AX, R15", "SUBQ rows_dst(BX), R15", "ADDQ rows_res(BX), R15")
	for i := range n {
		s.op("%s, %s4", maskedLoad(v, part, mask), v.reg)
		s.op("VADDPS %s4, %s%d, %s%d", v.reg, v.reg, i, v.reg, i)
		if i < n-1 {
			s.op("ADDQ DI, R15")
		}
	}
	s.label("plain" + suffix)
	s.op("TESTL $const_flagClamp, SI")
	s.op("JZ store%s", suffix)
	if t.tight {
		s.op("VBROADCASTSS rows_lo(BX), %s%d", v.reg, lo)
		s.op("VBROADCASTSS rows_hi(BX), %s%d", v.reg, hi)
	}
	for i := range n {
		s.op("VMAXPS %s%d, %s%d, %s%d", v.reg, i, v.reg, lo, v.reg, i)
		s.op("VMINPS %s%d, %s%d, %s%d", v.reg, i, v.reg, hi, v.reg, i)
	}
	s.label("store" + suffix)
	rowsMask(s, t, part)
	s.op("MOVQ AX, R15")
	for i := range n {
		switch {
		case !part:
			s.op("VMOVUPS %s%d, (R15)", v.reg, i)
		case v.masked:
			s.op("VMOVUPS Z%d, K1, (R15)", i)
		default:
			s.op("VMASKMOVPS Y%d, Y%d, (R15)", i, mask)
		}
		if i < n-1 {
			s.op("ADDQ DI, R15")
		}
	}
}

// maskedLoad is a load from R15, less its destination.
func maskedLoad(v vector, part bool, mask int) string {
	switch {
	case !part:
		return "VMOVUPS (R15)"
	case v.masked:
		return "VMOVUPS.Z (R15), K1"
	}
	return fmt.Sprintf("VMASKMOVPS (R15), Y%d", mask)
}

// rowsMask returns the number of the register that masks the last columns, which a tight kernel
// fills now. R15 is lost.
func rowsMask(s *asm, t taps, part bool) int {
	if !t.tight {
		return 8
	}
	if part {
		s.ops(
			"MOVQ rows_cols(BX), SI",
			"ANDQ $7, SI",
			"NEGQ SI",
			"LEAQ ·laneMask<>(SB), R15",
			"VMOVUPS 64(R15)(SI*4), Y5",
		)
	}
	return 5
}
