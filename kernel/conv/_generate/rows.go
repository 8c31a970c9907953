package main

import "fmt"

// vector describes one instruction set.
type vector struct {
	name   string
	reg    string
	lanes  int
	masked bool
}

var (
	avx2   = vector{name: "AVX2", reg: "Y", lanes: 8}
	avx512 = vector{name: "AVX512", reg: "Z", lanes: 16, masked: true}
)

// Registers of the rows kernel: R8 to R11 the rows under tap 0, R12 the weights, R13 the offsets of the taps, CX their
// number, DX the columns left, AX the output, DI the stride of its rows, BX the arguments. Vectors 0 to 3 are the sums,
// 5 to 7 the bias and the limits.

// rows writes the depthwise kernel: four rows at a time as long as there are four.
func rows(s *asm, v vector) {
	s.text("rows"+v.name, "t *rows", 8, "computes t; rowsGo defines it.")
	s.ops(
		"MOVQ t+0(FP), BX", "MOVQ rows_n(BX), AX", "MOVQ AX, left-8(SP)", "MOVQ rows_src(BX), R8", "MOVQ rows_dst(BX), AX",
		"MOVQ rows_w(BX), R12", "MOVQ rows_offsets(BX), R13", "MOVQ (rows_offsets+8)(BX), CX",
		"MOVQ rows_stride(BX), DI", "SHLQ $2, DI",
		fmt.Sprintf("VBROADCASTSS rows_bias(BX), %s5", v.reg),
		fmt.Sprintf("VBROADCASTSS rows_lo(BX), %s6", v.reg),
		fmt.Sprintf("VBROADCASTSS rows_hi(BX), %s7", v.reg),
	)
	if v.masked {
		s.ops("MOVQ CX, R15", "MOVQ rows_cols(BX), CX", "ANDQ $15, CX", "MOVL $1, SI", "SHLL CX, SI", "DECL SI", "KMOVW SI, K1", "MOVQ R15, CX")
	} else {
		s.ops("MOVQ rows_cols(BX), DX", "ANDQ $7, DX", "NEGQ DX", "LEAQ ·laneMask<>(SB), SI", "VMOVUPS 64(SI)(DX*4), Y8")
	}
	s.label("group")
	s.ops("MOVQ R8, src-16(SP)", "MOVQ AX, dst-24(SP)", "MOVQ rows_srcStride(BX), SI", "SHLQ $2, SI", "MOVQ rows_cols(BX), DX", "MOVQ left-8(SP), R15")
	for n := 3; n >= 1; n-- {
		s.op("CMPQ R15, $%d", n)
		s.op("JEQ rows%d", n)
	}
	for n := 4; n >= 1; n-- {
		rowGroup(s, v, n)
	}
	s.label("done")
	s.ops("VZEROUPPER", "RET")
}

// rowGroup computes n rows, one vector of columns of all of them at a time, tap by tap.
func rowGroup(s *asm, v vector, n int) {
	name := func(label string) string { return fmt.Sprintf("%s%d", label, n) }
	s.label(name("rows"))
	for i := 1; i < n; i++ {
		s.op("LEAQ (R%d)(SI*1), R%d", 7+i, 8+i)
	}
	s.label(name("columns"))
	for i := range n {
		s.op("VMOVAPS %s5, %s%d", v.reg, v.reg, i)
	}
	s.op("XORL SI, SI")
	s.label(name("tap"))
	s.op("MOVQ (R13)(SI*8), R15")
	s.op("VBROADCASTSS (R12)(SI*4), %s4", v.reg)
	for i := range n {
		s.op("VFMADD231PS (R%d)(R15*4), %s4, %s%d", 8+i, v.reg, v.reg, i)
	}
	s.ops("INCQ SI", "CMPQ SI, CX", "JLT "+name("tap"))
	s.op("CMPQ DX, $%d", v.lanes)
	s.op("JLT %s", name("part"))
	rowsFinish(s, v, n, false)
	s.op("SUBQ $%d, DX", v.lanes)
	s.op("JZ %s", name("next"))
	for i := range n {
		s.op("ADDQ $%d, R%d", 4*v.lanes, 8+i)
	}
	s.op("ADDQ $%d, AX", 4*v.lanes)
	s.op("JMP %s", name("columns"))
	s.label(name("part"))
	rowsFinish(s, v, n, true)
	s.label(name("next"))
	if n < 4 {
		s.op("JMP done")
		return
	}
	s.ops(
		"SUBQ $4, left-8(SP)", "JZ done", "MOVQ rows_srcStride(BX), SI", "SHLQ $4, SI", "MOVQ src-16(SP), R8", "ADDQ SI, R8",
		"MOVQ dst-24(SP), AX", "LEAQ (AX)(DI*4), AX", "JMP group",
	)
}

// rowsFinish applies the epilogue to one vector of each row and stores it.
func rowsFinish(s *asm, v vector, n int, part bool) {
	suffix := fmt.Sprintf("_%d_%t", n, part)
	s.ops(
		"MOVL rows_flags(BX), SI", "TESTL $const_flagResidual, SI",
	)
	s.op("JZ plain%s", suffix)
	s.ops("MOVQ AX, R15", "SUBQ rows_dst(BX), R15", "ADDQ rows_res(BX), R15")
	for i := range n {
		switch {
		case !part:
			s.op("VMOVUPS (R15), %s4", v.reg)
		case v.masked:
			s.op("VMOVUPS.Z (R15), K1, Z4")
		default:
			s.op("VMASKMOVPS (R15), Y8, Y4")
		}
		s.op("VADDPS %s4, %s%d, %s%d", v.reg, v.reg, i, v.reg, i)
		if i < n-1 {
			s.op("ADDQ DI, R15")
		}
	}
	s.label("plain" + suffix)
	s.op("TESTL $const_flagClamp, SI")
	s.op("JZ store%s", suffix)
	for i := range n {
		s.op("VMAXPS %s%d, %s6, %s%d", v.reg, i, v.reg, v.reg, i)
		s.op("VMINPS %s%d, %s7, %s%d", v.reg, i, v.reg, v.reg, i)
	}
	s.label("store" + suffix)
	s.op("MOVQ AX, R15")
	for i := range n {
		switch {
		case !part:
			s.op("VMOVUPS %s%d, (R15)", v.reg, i)
		case v.masked:
			s.op("VMOVUPS Z%d, K1, (R15)", i)
		default:
			s.op("VMASKMOVPS Y%d, Y8, (R15)", i)
		}
		if i < n-1 {
			s.op("ADDQ DI, R15")
		}
	}
}
