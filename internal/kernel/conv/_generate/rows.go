package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of the rows kernels: BX the arguments, AX the output, DI the stride of its rows, DX the
// columns left, R8 the first row of the input. Vectors 0 to 3 are the sums of up to four rows, 5 to
// 7 the bias and the limits, and Y8 the mask of the last columns where there are no mask registers.
// Tight kernels need those for the taps, and read them when they finish.

// taps writes the part of a rows kernel that multiplies.
type taps struct {
	name, doc string
	asm.Vector
	tight bool
	load  func(s *asm.File)        // loads what the whole call needs
	bases func(s *asm.File, n int) // sets up the pointers of n rows from R8
	// adds all taps of one vector of columns of n rows, one row after the other R8 SI apart
	columns func(s *asm.File, n int)
	next    func(s *asm.File, n int) // moves the pointers to the next vector of columns
}

// rows writes a depthwise kernel: four rows at a time as long as there are four.
func rows(s *asm.File, t taps) {
	v := t.Vector
	s.Func(t.name, "t *rows", 8, t.doc)
	s.Ops("MOVQ t+0(FP), BX")
	if v.Wide() {
		s.Ops("MOVQ rows_cols(BX), CX", "ANDQ $15, CX", "MOVL $1, SI", "SHLL CX, SI", "DECL SI",
			"KMOVW SI, K1")
	} else if !t.tight {
		s.Ops("MOVQ rows_cols(BX), DX", "ANDQ $7, DX", "NEGQ DX", "LEAQ ·laneMask<>(SB), SI",
			"VMOVUPS 64(SI)(DX*4), Y8")
	}
	if !t.tight {
		for i, field := range []string{"bias", "lo", "hi"} {
			s.Op("VBROADCASTSS rows_%s(BX), %s%d", field, v.Reg, 5+i)
		}
	}
	t.load(s)
	s.Ops("MOVQ rows_n(BX), AX", "MOVQ AX, left-8(SP)", "MOVQ rows_src(BX), R8",
		"MOVQ rows_dst(BX), AX", "MOVQ rows_stride(BX), DI", "SHLQ $2, DI")
	s.Label("group")
	s.Ops("MOVQ R8, src-16(SP)", "MOVQ AX, dst-24(SP)", "MOVQ rows_cols(BX), DX",
		"MOVQ left-8(SP), R15")
	for n := 3; n >= 1; n-- {
		s.Op("CMPQ R15, $%d", n)
		s.Op("JEQ rows%d", n)
	}
	for n := 4; n >= 1; n-- {
		rowGroup(s, t, n)
	}
	s.Label("done")
	s.Ops("VZEROUPPER", "RET")
}

// rowGroup computes n rows, one vector of columns of all of them at a time.
func rowGroup(s *asm.File, t taps, n int) {
	name := func(label string) string { return fmt.Sprintf("%s%d", label, n) }
	s.Label(name("rows"))
	t.bases(s, n)
	s.Label(name("columns"))
	for i := range n {
		if t.tight {
			s.Op("VBROADCASTSS rows_bias(BX), %s%d", t.Reg, i)
		} else {
			s.Op("VMOVAPS %s5, %s%d", t.Reg, t.Reg, i)
		}
	}
	t.columns(s, n)
	s.Op("CMPQ DX, $%d", t.Lanes)
	s.Op("JLT %s", name("part"))
	rowsFinish(s, t, n, false)
	s.Op("SUBQ $%d, DX", t.Lanes)
	s.Op("JZ %s", name("next"))
	t.next(s, n)
	s.Op("ADDQ $%d, AX", 4*t.Lanes)
	s.Op("JMP %s", name("columns"))
	s.Label(name("part"))
	rowsFinish(s, t, n, true)
	s.Label(name("next"))
	if n < 4 {
		s.Op("JMP done")
		return
	}
	s.Ops("SUBQ $4, left-8(SP)", "JZ done", "MOVQ rows_srcStride(BX), SI", "SHLQ $4, SI",
		"MOVQ src-16(SP), R8", "ADDQ SI, R8", "MOVQ dst-24(SP), AX", "LEAQ (AX)(DI*4), AX",
		"JMP group")
}

// anyTaps takes taps of any number from a table: R8 to R11 are the rows under tap 0, R12 the
// weights, R13 the offsets, CX their number.
func anyTaps(v asm.Vector) taps {
	return taps{
		name: "rows" + v.Name, doc: "computes t; rowsGo defines it.", Vector: v,
		load: func(s *asm.File) {
			s.Ops("MOVQ rows_w(BX), R12", "MOVQ rows_offsets(BX), R13",
				"MOVQ (rows_offsets+8)(BX), CX")
		},
		bases: func(s *asm.File, n int) {
			s.Ops("MOVQ rows_srcStride(BX), SI", "SHLQ $2, SI")
			for i := 1; i < n; i++ {
				s.Op("LEAQ (R%d)(SI*1), R%d", 7+i, 8+i)
			}
		},
		columns: func(s *asm.File, n int) {
			s.Op("XORL SI, SI")
			s.Label(fmt.Sprintf("tap%d", n))
			s.Op("MOVQ (R13)(SI*8), R15")
			s.Op("VBROADCASTSS (R12)(SI*4), %s4", v.Reg)
			for i := range n {
				s.Op("VFMADD231PS (R%d)(R15*4), %s4, %s%d", 8+i, v.Reg, v.Reg, i)
			}
			s.Ops("INCQ SI", "CMPQ SI, CX", fmt.Sprintf("JLT tap%d", n))
		},
		next: func(s *asm.File, n int) {
			for i := range n {
				s.Op("ADDQ $%d, R%d", 4*v.Lanes, 8+i)
			}
		},
	}
}

// square is a window of size x size taps without dilation, down rows and along columns by strides.
type square struct{ size, down, along int }

// squares are the windows that have a kernel of their own.
func squares(v asm.Vector) []square {
	list := []square{{3, 1, 1}, {3, 2, 2}, {3, 2, 1}, {3, 1, 2}}
	if v.Wide() { // which has registers for 25 weights
		list = append(list, square{5, 1, 1}, square{5, 2, 1})
	}
	return list
}

// inputs is the number of input rows that n output rows see.
func (q square) inputs(n int) int { return (n-1)*q.down + q.size }

// squareTaps holds the weights in registers and loads every input once for all the rows that see
// it. The bases R8, R9, ... are rows 0, 3, ... of the input; with a stride of 2 along columns, R11,
// R12 and R13 are the odd columns of the first three. CX is the distance of the rows.
func squareTaps(v asm.Vector, q square) taps {
	groups := func(n int) int { return (q.inputs(n) + 2) / 3 }
	weights, inputs := 16, 25
	tight := v.Regs == 16 || q.size == 5
	if tight {
		weights, inputs = 7, 4
	}
	return taps{
		name:   fmt.Sprintf("rows%dx%ds%dx%d%s", q.size, q.size, q.down, q.along, v.Name),
		Vector: v,
		tight:  tight,
		doc: fmt.Sprintf("computes t for %dx%d taps without dilation, %d rows and %d columns "+
			"apart.", q.size, q.size, q.down, q.along),
		load: func(s *asm.File) {
			s.Op("MOVQ rows_w(BX), R12")
			for i := range q.size * q.size {
				s.Op("VBROADCASTSS %d(R12), %s%d", 4*i, v.Reg, weights+i)
			}
		},
		bases: func(s *asm.File, n int) {
			s.Op("MOVQ rows_offsets(BX), R15")
			s.Op("MOVQ %d(R15), CX", 8*q.size)
			s.Ops("SHLQ $2, CX", "MOVQ 8(R15), R15", "LEAQ (CX)(CX*2), SI")
			for g := range groups(n) {
				if g > 0 {
					s.Op("LEAQ (R%d)(SI*1), R%d", 7+g, 8+g)
				}
				if q.along == 2 {
					s.Op("LEAQ (R%d)(R15*4), R%d", 8+g, 11+g)
				}
			}
		},
		columns: func(s *asm.File, n int) {
			for row := range q.inputs(n) {
				// as many inputs at a time as there are registers for
				for first := 0; first < q.size; first += 3 {
					last := min(first+3, q.size)
					for kx := first; kx < last; kx++ {
						base, off := 8+row/3, 4*kx
						if q.along == 2 {
							base, off = base+3*(kx%2), 4*(kx/2)
						}
						s.Op("VMOVUPS %d(R%d)%s, %s%d", off, base,
							[]string{"", "(CX*1)", "(CX*2)"}[row%3], v.Reg, inputs+kx-first)
					}
					for kx := first; kx < last; kx++ {
						for i := range n {
							if ky := row - i*q.down; ky >= 0 && ky < q.size {
								s.Op("VFMADD231PS %[1]s%[2]d, %[1]s%[3]d, %[1]s%[4]d", v.Reg,
									inputs+kx-first, weights+q.size*ky+kx, i)
							}
						}
					}
				}
			}
		},
		next: func(s *asm.File, n int) {
			for g := range groups(n) {
				s.Op("ADDQ $%d, R%d", 4*v.Lanes, 8+g)
				if q.along == 2 {
					s.Op("ADDQ $%d, R%d", 4*v.Lanes, 11+g)
				}
			}
		},
	}
}

// rowsFinish applies the epilogue to one vector of each row and stores it.
func rowsFinish(s *asm.File, t taps, n int, part bool) {
	v, lo, hi := t.Vector, 6, 7
	if t.tight {
		lo, hi = 5, 6
	}
	suffix := fmt.Sprintf("_%d_%t", n, part)
	mask := rowsMask(s, t, part)
	s.Ops("MOVL rows_flags(BX), SI", "TESTL $const_flagResidual, SI")
	s.Op("JZ plain%s", suffix)
	rowsResidual(s, v, n, part, mask)
	s.Label("plain" + suffix)
	s.Op("TESTL $const_flagClamp, SI")
	s.Op("JZ store%s", suffix)
	if t.tight {
		s.Op("VBROADCASTSS rows_lo(BX), %s%d", v.Reg, lo)
		s.Op("VBROADCASTSS rows_hi(BX), %s%d", v.Reg, hi)
	}
	for i := range n {
		s.Op("VMAXPS %s%d, %s%d, %s%d", v.Reg, i, v.Reg, lo, v.Reg, i)
		s.Op("VMINPS %s%d, %s%d, %s%d", v.Reg, i, v.Reg, hi, v.Reg, i)
	}
	s.Label("store" + suffix)
	rowsMask(s, t, part)
	s.Op("MOVQ AX, R15")
	rowsStore(s, v, n, part, mask)
}

// rowsResidual adds the rows of the residual.
func rowsResidual(s *asm.File, v asm.Vector, n int, part bool, mask int) {
	s.Ops("MOVQ AX, R15", "SUBQ rows_dst(BX), R15", "ADDQ rows_res(BX), R15")
	for i := range n {
		s.Op("%s, %s4", maskedLoad(v, part, mask), v.Reg)
		s.Op("VADDPS %s4, %s%d, %s%d", v.Reg, v.Reg, i, v.Reg, i)
		if i < n-1 {
			s.Op("ADDQ DI, R15")
		}
	}
}

// rowsStore stores the rows, or parts of them.
func rowsStore(s *asm.File, v asm.Vector, n int, part bool, mask int) {
	for i := range n {
		switch {
		case !part:
			s.Op("VMOVUPS %s%d, (R15)", v.Reg, i)
		case v.Wide():
			s.Op("VMOVUPS Z%d, K1, (R15)", i)
		default:
			s.Op("VMASKMOVPS Y%d, Y%d, (R15)", i, mask)
		}
		if i < n-1 {
			s.Op("ADDQ DI, R15")
		}
	}
}

// maskedLoad is a load from R15, less its destination.
func maskedLoad(v asm.Vector, part bool, mask int) string {
	switch {
	case !part:
		return "VMOVUPS (R15)"
	case v.Wide():
		return "VMOVUPS.Z (R15), K1"
	}
	return fmt.Sprintf("VMASKMOVPS (R15), Y%d", mask)
}

// rowsMask returns the number of the register that masks the last columns, which a tight kernel
// fills now. R15 is lost.
func rowsMask(s *asm.File, t taps, part bool) int {
	if !t.tight || t.Wide() {
		return 8
	}
	if part {
		s.Ops("MOVQ rows_cols(BX), SI", "ANDQ $7, SI", "NEGQ SI", "LEAQ ·laneMask<>(SB), R15",
			"VMOVUPS 64(R15)(SI*4), Y5")
	}
	return 5
}
