package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// maskedRows is the depthwise kernels of amd64. Registers: BX the arguments, AX the output, DI the
// stride of its rows, DX the columns left, R8 the first row of the input. Vectors 0 to 3 are the
// sums of up to four rows, 5 to 7 the bias and the limits, and Y8 the mask of the last columns
// where there are no mask registers. Tight kernels need those for the taps, and read them when they
// finish.
//
// For any taps R8 to R11 are the rows under tap 0, R12 the weights, R13 the offsets, CX their
// number. With AVX2 two vectors of columns are taken at a time, as four sums are too few for its
// two multipliers, which have a result after four cycles; vectors 9 to 12 are the second ones.
// Windows hold the weights in registers; the bases R8, R9, ... are rows 0, 3, ... of the input;
// with a stride of 2 along columns, R11, R12 and R13 are the odd columns of the first three. CX is
// the distance of the rows.
type maskedRows struct{ tight bool }

func (m *maskedRows) begin(k *depthwise) {
	k.Ops("MOVQ t+0(FP), BX")
	if k.Wide() {
		k.Ops("MOVQ rows_cols(BX), CX", "ANDQ $15, CX", "MOVL $1, SI", "SHLL CX, SI", "DECL SI",
			"KMOVW SI, K1")
	} else if !m.tight {
		k.Ops("MOVQ rows_cols(BX), DX", "ANDQ $7, DX", "NEGQ DX", "LEAQ ·laneMask<>(SB), SI",
			"VMOVUPS 64(SI)(DX*4), Y8")
	}
	if !m.tight {
		for i, field := range []string{"bias", "lo", "hi"} {
			k.Op("VBROADCASTSS rows_%s(BX), %s%d", field, k.Reg, 5+i)
		}
	}
}

// first are the registers of the weights and of the inputs.
func (m *maskedRows) first() (weights, inputs int) {
	if m.tight {
		return 7, 4
	}
	return 16, 25
}

func (m *maskedRows) weights(k *depthwise) {
	if k.size == 0 {
		k.Ops("MOVQ rows_w(BX), R12", "MOVQ rows_offsets(BX), R13",
			"MOVQ (rows_offsets+8)(BX), CX")
	} else {
		k.Op("MOVQ rows_w(BX), R12")
		weights, _ := m.first()
		for i := range k.size * k.size {
			k.Op("VBROADCASTSS %d(R12), %s%d", 4*i, k.Reg, weights+i)
		}
	}
	k.Ops("MOVQ rows_n(BX), AX", "MOVQ AX, left-8(SP)", "MOVQ rows_src(BX), R8",
		"MOVQ rows_dst(BX), AX", "MOVQ rows_stride(BX), DI", "SHLQ $2, DI")
}

func (*maskedRows) group(k *depthwise) {
	k.Ops("MOVQ R8, src-16(SP)", "MOVQ AX, dst-24(SP)", "MOVQ rows_cols(BX), DX",
		"MOVQ left-8(SP), R15")
}

func (*maskedRows) only(k *depthwise, n int) {
	k.Op("CMPQ R15, $%d", n)
	k.Op("JEQ rows%d", n)
}

func (*maskedRows) end(k *depthwise) {
	k.Label("done")
	k.Return()
}

// secondSums is the first of the sums of the second vector of columns.
const secondSums = 9

// twice takes two vectors of columns of all rows at a time, as long as there are two.
func (m *maskedRows) twice(k *depthwise, n int) {
	name := func(l string) string { return label(l, n) }
	k.Label(name("twice"))
	k.Op("CMPQ DX, $%d", 2*k.Lanes)
	k.Op("JLT %s", name("columns"))
	for i := range n {
		k.Op("VMOVAPS %s5, %s%d", k.Reg, k.Reg, i)
		k.Op("VMOVAPS %s5, %s%d", k.Reg, k.Reg, secondSums+i)
	}
	k.sums(n, 2, func(int) {}, func(int) {})
	m.finish(k, n, false, "first")
	for i := range n {
		k.Op("VMOVAPS %s%d, %s%d", k.Reg, secondSums+i, k.Reg, i)
	}
	k.Op("ADDQ $%d, AX", 4*k.Lanes)
	m.finish(k, n, false, "second")
	k.Op("SUBQ $%d, DX", 2*k.Lanes)
	k.Op("JZ %s", name("next"))
	m.next(k, n, 2)
	k.Op("ADDQ $%d, AX", 4*k.Lanes)
	k.Op("JMP %s", name("twice"))
}

// rows takes one vector of columns of all rows at a time.
func (m *maskedRows) rows(k *depthwise, n int) {
	name := func(l string) string { return label(l, n) }
	m.bases(k, n)
	if k.size == 0 && !k.Wide() {
		m.twice(k, n)
	}
	k.Label(name("columns"))
	for i := range n {
		if m.tight {
			k.Op("VBROADCASTSS rows_bias(BX), %s%d", k.Reg, i)
		} else {
			k.Op("VMOVAPS %s5, %s%d", k.Reg, k.Reg, i)
		}
	}
	k.sums(n, 1, func(int) {}, func(int) {})
	k.Op("CMPQ DX, $%d", k.Lanes)
	k.Op("JLT %s", name("part"))
	m.finish(k, n, false, "")
	k.Op("SUBQ $%d, DX", k.Lanes)
	k.Op("JZ %s", name("next"))
	m.next(k, n, 1)
	k.Op("ADDQ $%d, AX", 4*k.Lanes)
	k.Op("JMP %s", name("columns"))
	k.Label(name("part"))
	m.finish(k, n, true, "part")
	k.Label(name("next"))
	if n < 4 {
		k.Op("JMP done")
		return
	}
	k.Ops("SUBQ $4, left-8(SP)", "JZ done", "MOVQ rows_srcStride(BX), SI", "SHLQ $4, SI",
		"MOVQ src-16(SP), R8", "ADDQ SI, R8", "MOVQ dst-24(SP), AX", "LEAQ (AX)(DI*4), AX",
		"JMP group")
}

// groups is how many bases rows of inputs have, each for three of them.
func (*maskedRows) groups(k *depthwise, n int) int { return (k.square.inputs(n) + 2) / 3 }

// bases sets up the pointers of n rows from R8.
func (m *maskedRows) bases(k *depthwise, n int) {
	if k.size == 0 {
		k.Ops("MOVQ rows_srcStride(BX), SI", "SHLQ $2, SI")
		for i := 1; i < n; i++ {
			k.Op("LEAQ (R%d)(SI*1), R%d", 7+i, 8+i)
		}
		return
	}
	k.Op("MOVQ rows_offsets(BX), R15")
	k.Op("MOVQ %d(R15), CX", 8*k.size)
	k.Ops("SHLQ $2, CX", "MOVQ 8(R15), R15", "LEAQ (CX)(CX*2), SI")
	for g := range m.groups(k, n) {
		if g > 0 {
			k.Op("LEAQ (R%d)(SI*1), R%d", 7+g, 8+g)
		}
		if k.along == 2 {
			k.Op("LEAQ (R%d)(R15*4), R%d", 8+g, 11+g)
		}
	}
}

// next moves the pointers on by so many vectors of columns.
func (m *maskedRows) next(k *depthwise, n, vectors int) {
	if k.size == 0 {
		for i := range n {
			k.Op("ADDQ $%d, R%d", 4*k.Lanes*vectors, 8+i)
		}
		return
	}
	for g := range m.groups(k, n) {
		k.Op("ADDQ $%d, R%d", 4*k.Lanes, 8+g)
		if k.along == 2 {
			k.Op("ADDQ $%d, R%d", 4*k.Lanes, 11+g)
		}
	}
}

// together is as many as there are registers for.
func (*maskedRows) together() int { return 3 }

func (*maskedRows) inputs(*depthwise, int, int) {}

func (m *maskedRows) input(k *depthwise, row, kx, _ int) {
	base, off := 8+row/3, 4*kx
	if k.along == 2 {
		base, off = base+3*(kx%2), 4*(kx/2)
	}
	_, inputs := m.first()
	k.Op("VMOVUPS %d(R%d)%s, %s%d", off, base, []string{"", "(CX*1)", "(CX*2)"}[row%3], k.Reg,
		inputs+kx%m.together())
}

func (m *maskedRows) tap(k *depthwise, sum, _, ky, kx int) {
	weights, inputs := m.first()
	k.Do(asm.MulAdd, sum, weights+k.size*ky+kx, inputs+kx%m.together())
}

func (*maskedRows) taps(k *depthwise) string {
	again := label("tap", k.fresh())
	k.Op("XORL SI, SI")
	k.Label(again)
	return again
}

func (*maskedRows) nextTap(k *depthwise) {
	k.Op("MOVQ (R13)(SI*8), R15")
	k.Op("VBROADCASTSS (R12)(SI*4), %s4", k.Reg)
}

func (*maskedRows) anyTap(k *depthwise, row, _, v int) {
	k.Op("VFMADD231PS (R%d)(R15*4), %s4, %s%d", 8+row, k.Reg, k.Reg, row)
	if v == 2 {
		k.Op("VFMADD231PS %d(R%d)(R15*4), %s4, %s%d", 4*k.Lanes, 8+row, k.Reg, k.Reg,
			secondSums+row)
	}
}

func (*maskedRows) untilLast(k *depthwise, again string) {
	k.Ops("INCQ SI", "CMPQ SI, CX", "JLT "+again)
}

// finish applies the epilogue to one vector of each row, which name tells from others, and stores
// it.
func (m *maskedRows) finish(s *depthwise, n int, part bool, name string) {
	v, lo, hi := s.Vector, 6, 7
	if m.tight {
		lo, hi = 5, 6
	}
	suffix := fmt.Sprintf("_%d%s", n, name)
	mask := m.mask(s, part)
	s.Ops("MOVL rows_flags(BX), SI", "TESTL $const_flagResidual, SI")
	s.Op("JZ plain%s", suffix)
	rowsResidual(s, v, n, part, mask)
	s.Label("plain" + suffix)
	s.Op("TESTL $const_flagClamp, SI")
	s.Op("JZ store%s", suffix)
	if m.tight {
		s.Op("VBROADCASTSS rows_lo(BX), %s%d", v.Reg, lo)
		s.Op("VBROADCASTSS rows_hi(BX), %s%d", v.Reg, hi)
	}
	for i := range n {
		s.Op("VMAXPS %s%d, %s%d, %s%d", v.Reg, i, v.Reg, lo, v.Reg, i)
		s.Op("VMINPS %s%d, %s%d, %s%d", v.Reg, i, v.Reg, hi, v.Reg, i)
	}
	s.Label("store" + suffix)
	m.mask(s, part)
	s.Op("MOVQ AX, R15")
	rowsStore(s, v, n, part, mask)
}

// rowsResidual adds the rows of the residual.
func rowsResidual(s *depthwise, v asm.Vector, n int, part bool, mask int) {
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
func rowsStore(s *depthwise, v asm.Vector, n int, part bool, mask int) {
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

// mask returns the number of the register that masks the last columns, which a tight kernel
// fills now. R15 is lost.
func (m *maskedRows) mask(s *depthwise, part bool) int {
	if !m.tight || s.Wide() {
		return 8
	}
	if part {
		s.Ops("MOVQ rows_cols(BX), SI", "ANDQ $7, SI", "NEGQ SI", "LEAQ ·laneMask<>(SB), R15",
			"VMOVUPS 64(R15)(SI*4), Y5")
	}
	return 5
}
