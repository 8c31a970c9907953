package main

import (
	"bytes"
	"fmt"
)

// vector describes one instruction set to the tile generator.
type vector struct {
	name   string // suffix of the generated functions
	reg    string // register prefix
	lanes  int    // floats per register
	regs   int    // number of registers
	mr     int    // largest number of rows of a tile
	masked bool   // has mask registers
	pairs  bool   // a lane holds two bfloat16
	bytes  int    // a lane holds four bytes: 1 when those of B are signed, 2 when those of A are
	// what a lane of B holds is multiplied in two halves, by two words of A: see wide.go
	wide bool
}

var (
	avx2   = vector{name: "AVX2", reg: "Y", lanes: 8, regs: 16, mr: 6}
	avx512 = vector{name: "AVX512", reg: "Z", lanes: 16, regs: 32, mr: 14, masked: true}
	bf16   = vector{name: "AVX512BF16", reg: "Z", lanes: 16, regs: 32, mr: 14, masked: true,
		pairs: true}
	u8s8 = vector{name: "AVX512U8S8", reg: "Z", lanes: 16, regs: 32, mr: 14, masked: true,
		bytes: 1}
	s8u8 = vector{name: "AVX512S8U8", reg: "Z", lanes: 16, regs: 32, mr: 14, masked: true,
		bytes: 2}
)

// size is the number of bytes of one register.
func (v vector) size() int { return 4 * v.lanes }

// tileGen writes one micro-kernel: rows x nv registers of the result, held in registers over the
// whole of K.
type tileGen struct {
	*asm
	vector
	rows, nv int
	// independent partial sums per accumulator, to hide the latency of the fused multiply-add
	split int
	// strips says that the kernel computes all columns of the tile, one register of them after
	// another, with the sums of the kernel of two registers.
	strips bool
	// single says that the kernel is the one of strips for tiles of one register of columns, which
	// has time to fetch what comes after it.
	single bool
}

// aheadRows is the least rows of a kernel that fetches memory which is needed after it: fewer leave
// no time for that, and a few instructions matter to them. Two registers of AVX2 are as many as one
// of AVX-512.
const (
	aheadRows     = 8
	aheadRowsAVX2 = 4
)

// tiles writes every tile of one instruction set and the function that picks one.
func tiles(s *asm, g *bytes.Buffer, v vector) {
	fmt.Fprintf(g, "\n// tile%s computes t with the kernel of its rows and columns; tileGo "+
		"defines it.\nfunc tile%s(t *tile) {\n\tif t.cols > %d%s {\n", v.name, v.name, v.lanes,
		v.unless())
	for nv := 2; nv >= 1; nv-- {
		if nv == 1 && v.name == avx512.name {
			g.WriteString("\tif t.cols <= 16 && t.aheadStep != 0 {\n\t\tswitch t.rows {\n")
			for r := aheadRows; r <= v.mr; r++ {
				fmt.Fprintf(g, "\t\tcase %d:\n\t\t\ttile%s_%dx%dahead(t)\n\t\t\treturn\n", r,
					v.name, r, v.lanes)
			}
			g.WriteString("\t\t}\n\t}\n")
		}
		g.WriteString("\t\tswitch t.rows {\n")
		for r := 1; r <= v.mr; r++ {
			fmt.Fprintf(g, "\t\tcase %d:\n\t\t\ttile%s_%dx%d(t)\n", r, v.name, r, nv*v.lanes)
		}
		g.WriteString("\t\t}\n")
		if nv == 2 {
			g.WriteString("\t\treturn\n\t}\n")
		}
	}
	g.WriteString("}\n")
	for nv := 1; nv <= 2; nv++ {
		for r := 1; r <= v.mr; r++ {
			t := tileGen{asm: s, vector: v, rows: r, nv: nv, split: 1}
			for t.split < 4 && 2*t.split*r*nv <= min(8, v.regs-4) {
				t.split *= 2
			}
			t.strips = v.name == avx512.name && nv == 1 && t.split == 1
			t.emit(g)
			if t.strips && r >= aheadRows {
				t.strips, t.single = false, true
				t.emit(g)
			}
		}
	}
}

// unless is when two registers of columns are computed one after the other.
func (v vector) unless() string {
	if v.name == avx512.name {
		return " && !t.inStrips()"
	}
	return ""
}

// acc is the accumulator of row i, register column j, partial sum u.
func (t *tileGen) acc(i, j, u int) string {
	return fmt.Sprintf("%s%d", t.reg, (u%t.split*t.rows+i)*t.nv+j)
}

// tmp is the n-th register above the accumulators.
func (t *tileGen) tmp(n int) string {
	return fmt.Sprintf("%s%d", t.reg, t.split*t.rows*t.nv+n)
}

func (t *tileGen) emit(g *bytes.Buffer) {
	name := fmt.Sprintf("tile%s_%dx%d", t.name, t.rows, t.nv*t.lanes)
	if t.single {
		name += "ahead"
	}
	fmt.Fprintf(g, "\n//go:noescape\nfunc %s(t *tile)\n", name)
	t.text(name+"(t *tile)", name, 8)
	if t.strips {
		t.op("XORL R15, R15") // the bytes of a row that earlier strips have dealt with
		t.label("strip")
	}
	t.ops(
		"MOVQ t+0(FP), BX", "MOVQ tile_k(BX), CX", "MOVQ tile_a(BX), SI", "MOVQ tile_b(BX), DI",
		"MOVQ tile_ldb(BX), R10", "SHLQ $2, R10", "LEAQ (R10)(R10*2), R11", "MOVQ tile_c(BX), R8",
		"MOVQ tile_ldc(BX), R9", "SHLQ $2, R9",
	)
	if t.strided() {
		t.ops("MOVQ tile_lda(BX), AX", "SHLQ $2, AX", "LEAQ (AX)(AX*2), R13")
	}
	if t.strips {
		t.ops("ADDQ R15, DI", "ADDQ R15, R8")
	}
	t.prefetch()
	t.clear()
	t.loop()
	t.reduce()
	if t.masked {
		t.masks()
		t.finish("", true)
		return
	}
	t.op("CMPQ tile_cols(BX), $%d", t.nv*t.lanes)
	t.op("JLT tail")
	t.finish("", false)
	t.label("tail")
	t.finish("t", true)
}

// masks sets K1, and K2 for the second register, to the lanes of the tile.
func (t *tileGen) masks() {
	t.op("MOVL tile_mask(BX), DX")
	if t.strips {
		t.ops("MOVL R15, CX", "SHRL $2, CX", "SHRL CX, DX")
	}
	t.ops("KMOVW DX, K1", "SHRL $16, DX", "KMOVW DX, K2")
}

// prefetch fetches the lines of C, and of a residual.
func (t *tileGen) prefetch() {
	t.op("MOVQ R8, R12")
	t.each("R9", func(_, addr string, _ int) { t.op("PREFETCHT0 %s", addr) })
	if !t.aheads() && !t.strips || t.rows < aheadRowsAVX2 {
		return
	}
	t.ops("TESTL $const_flagResidual, tile_flags(BX)", "JZ fetched",
		"MOVQ tile_res(BX), R12", "MOVQ tile_ldr(BX), R14", "SHLQ $2, R14")
	t.skip("R12")
	t.each("R14", func(_, addr string, _ int) { t.op("PREFETCHT0 %s", addr) })
	t.label("fetched")
}

func (t *tileGen) clear() {
	for i := range t.split * t.rows * t.nv {
		if t.masked {
			t.op("VPXORD Z%d, Z%d, Z%d", i, i, i)
		} else {
			t.op("VXORPS Y%d, Y%d, Y%d", i, i, i)
		}
	}
}

// loop multiplies: some steps of K at a time, then one by one.
func (t *tileGen) loop() {
	unroll, sizeA := 4, 4*t.rows
	addresses := []string{"(DI)", "(DI)(R10*1)", "(DI)(R10*2)", "(DI)(R11*1)"}
	step := t.step
	if t.wide {
		unroll, sizeA, step = 2, 8*t.rows, t.wideStep
		t.wideConstants()
	}
	t.op("MOVQ CX, DX")
	t.op("SHRQ $%d, DX", unroll/2)
	t.ops("JZ rest")
	if t.aheads() {
		t.ops("MOVQ tile_ahead(BX), R12", "MOVQ tile_aheadStep(BX), R14")
	}
	t.op("PCALIGN $64")
	t.label("loop")
	for u, addr := range addresses[:unroll] {
		step(u, addr)
		t.ahead()
	}
	t.op("LEAQ (DI)(R10*%d), DI", unroll)
	if t.strided() {
		t.op("LEAQ (SI)(AX*4), SI")
	} else {
		t.op("ADDQ $%d, SI", unroll*sizeA)
	}
	t.ops("DECQ DX", "JNZ loop")
	if t.aheads() {
		t.op("MOVQ R12, tile_ahead(BX)")
	}
	t.label("rest")
	t.op("ANDQ $%d, CX", unroll-1)
	t.op("JZ done")
	t.label("one")
	step(0, "(DI)")
	t.op("ADDQ R10, DI")
	if t.strided() {
		t.op("ADDQ AX, SI")
	} else {
		t.op("ADDQ $%d, SI", sizeA)
	}
	t.ops("DECQ CX", "JNZ one")
	t.label("done")
}

// aheads says that the kernel fetches memory that is needed after it.
func (t *tileGen) aheads() bool {
	switch t.name {
	case avx512.name:
		return t.rows >= aheadRows && !t.strips
	case avx2.name:
		return t.rows >= aheadRowsAVX2 && t.nv == 2
	}
	return false
}

// ahead fetches a line.
func (t *tileGen) ahead() {
	if t.aheads() {
		t.ops("PREFETCHT1 (R12)", "ADDQ R14, R12")
	}
}

// step is one k: the row of B into registers, and each element of A's column broadcast and
// multiplied with it. Where an element is multiplied once, the multiplication broadcasts it.
func (t *tileGen) step(u int, addr string) {
	for j := range t.nv {
		t.op("VMOVUPS %d%s, %s", j*t.size(), addr, t.tmp(j))
	}
	for i := range t.rows {
		if t.nv == 1 && t.masked && t.strided() && t.vector.bytes == 0 {
			t.op("VFMADD231PS.BCST %s, %s, %s", t.element(u, i), t.tmp(0), t.acc(i, 0, u))
			continue
		}
		a := t.tmp(t.nv + i%2)
		t.op("VBROADCASTSS %s, %s", t.element(u, i), a)
		for j := range t.nv {
			t.multiply(a, t.tmp(j), t.acc(i, j, u))
		}
	}
}

// strided says that steps of A lie tile.lda apart: operands of words that are multiplied as they
// are may be read where they are.
func (t *tileGen) strided() bool { return !t.pairs && !t.wide }

// element is the address of element i of A in step u of those at SI.
func (t *tileGen) element(u, i int) string {
	if !t.strided() {
		return fmt.Sprintf("%d(SI)", 4*(u*t.rows+i))
	}
	return fmt.Sprintf("%d(SI)%s", 4*i, []string{"", "(AX*1)", "(AX*2)", "(R13*1)"}[u])
}

// multiply adds the products of an element of A, in every lane, with a row of B. The second operand
// of VPDPBUSD, which Go writes in the middle, is the unsigned one.
func (t *tileGen) multiply(a, b, acc string) {
	switch {
	case t.pairs:
		t.dpbf16(b, a, acc)
	case t.vector.bytes == 1:
		t.op("VPDPBUSD %s, %s, %s", b, a, acc)
	case t.vector.bytes == 2:
		t.op("VPDPBUSD %s, %s, %s", a, b, acc)
	default:
		t.op("VFMADD231PS %s, %s, %s", b, a, acc)
	}
}

// add writes the addition of two accumulators.
func (t *tileGen) add(x, y, sum string) {
	if t.vector.bytes > 0 {
		t.op("VPADDD %s, %s, %s", x, y, sum)
		return
	}
	t.op("VADDPS %s, %s, %s", x, y, sum)
}

// reduce adds the partial sums into the first.
func (t *tileGen) reduce() {
	for n := t.split / 2; n >= 1; n /= 2 {
		for u := range n {
			for i := range t.rows {
				for j := range t.nv {
					t.add(t.acc(i, j, u+n), t.acc(i, j, u), t.acc(i, j, u))
				}
			}
		}
	}
	t.split = 1
}

// each runs f for every accumulator, with R12 walking down the rows by the stride in register ld.
func (t *tileGen) each(ld string, f func(acc, addr string, j int)) {
	for i := range t.rows {
		for j := range t.nv {
			f(t.acc(i, j, 0), fmt.Sprintf("%d(R12)", j*t.size()), j)
		}
		if ld != "" && i < t.rows-1 {
			t.op("ADDQ %s, R12", ld)
		}
	}
}

// load reads a register, only the lanes inside the tile when masked.
func (t *tileGen) load(addr, dst string, j int, masked bool) {
	switch {
	case !masked:
		t.op("VMOVUPS %s, %s", addr, dst)
	case t.masked:
		t.op("VMOVUPS.Z %s, K%d, %s", addr, j+1, dst)
	default:
		t.op("VMASKMOVPS %s, %s, %s", addr, t.tmp(2+j), dst)
	}
}

// store writes a register, only the lanes inside the tile when masked.
func (t *tileGen) store(src, addr string, j int, masked bool) {
	switch {
	case !masked:
		t.op("VMOVUPS %s, %s", src, addr)
	case t.masked:
		t.op("VMOVUPS %s, K%d, %s", src, j+1, addr)
	default:
		t.op("VMASKMOVPS %s, %s, %s", src, t.tmp(2+j), addr)
	}
}

// optional opens a part that runs only when one of the bits of flag is set; the caller writes the
// returned label after it.
func (t *tileGen) optional(flag, suffix string) string {
	t.op("TESTL $const_%s, DX", flag)
	t.op("JZ no_%s%s", flag, suffix)
	return fmt.Sprintf("no_%s%s", flag, suffix)
}

// finish applies the epilogue in the order that tileGo gives it and stores the tile.
func (t *tileGen) finish(suffix string, masked bool) {
	x := t.tmp(0)
	if masked && !t.vector.masked {
		t.ops(
			"MOVQ tile_cols(BX), R12", "NEGQ R12", "LEAQ ·laneMask<>(SB), R13",
			"LEAQ 64(R13)(R12*4), R13",
		)
		for j := range t.nv {
			t.op("VMOVUPS %d(R13), %s", j*t.size(), t.tmp(2+j))
		}
	}
	t.op("MOVL tile_flags(BX), DX")
	l := t.optional("flagAccumulate", suffix)
	t.op("MOVQ R8, R12")
	t.each("R9", func(acc, addr string, j int) {
		t.load(addr, x, j, masked)
		t.add(x, acc, acc)
	})
	t.label(l)
	if t.vector.bytes == 0 {
		t.epilogue(suffix, masked)
	}
	t.op("MOVQ R8, R12")
	t.each("R9", func(acc, addr string, j int) { t.store(acc, addr, j, masked) })
	if t.strips {
		t.ops("ADDQ $64, R15", "MOVQ tile_cols(BX), DX", "SHLQ $2, DX", "CMPQ R15, DX", "JLT strip")
	}
	t.ops(
		"VZEROUPPER", "RET",
	)
}

// epilogue writes what happens to a finished element.
func (t *tileGen) epilogue(suffix string, masked bool) {
	x, y := t.tmp(0), t.tmp(1)
	l := t.optional("flagScale", suffix)
	t.op("VBROADCASTSS tile_alpha(BX), %s", x)
	t.each("", func(acc, _ string, _ int) { t.op("VMULPS %s, %s, %s", x, acc, acc) })
	t.label(l)
	t.bias(suffix, masked)
	l = t.optional("flagResidual", suffix)
	t.ops(
		"MOVQ tile_res(BX), R12", "MOVQ tile_ldr(BX), R13", "SHLQ $2, R13",
	)
	t.skip("R12")
	t.op("VBROADCASTSS tile_beta(BX), %s", y)
	t.each("R13", func(acc, addr string, j int) {
		t.load(addr, x, j, masked)
		t.op("VFMADD231PS %s, %s, %s", x, y, acc)
	})
	t.label(l)
	l = t.optional("flagClamp", suffix)
	t.op("VBROADCASTSS tile_lo(BX), %s", x)
	t.op("VBROADCASTSS tile_hi(BX), %s", y)
	t.each("", func(acc, _ string, _ int) {
		t.op("VMAXPS %s, %s, %s", acc, x, acc)
		t.op("VMINPS %s, %s, %s", acc, y, acc)
	})
	t.label(l)
}

// skip moves a pointer into a row to the columns of the strip.
func (t *tileGen) skip(reg string) {
	if t.strips {
		t.op("ADDQ R15, %s", reg)
	}
}

// bias adds one value per row or one per column.
func (t *tileGen) bias(suffix string, masked bool) {
	x := t.tmp(0)
	l := t.optional("flagBiasRow", suffix)
	t.op("MOVQ tile_bias(BX), R12")
	for i := range t.rows {
		t.op("VBROADCASTSS %d(R12), %s", 4*i, x)
		for j := range t.nv {
			t.op("VADDPS %s, %s, %s", x, t.acc(i, j, 0), t.acc(i, j, 0))
		}
	}
	t.label(l)
	l = t.optional("flagBiasCol", suffix)
	t.op("MOVQ tile_bias(BX), R12")
	t.skip("R12")
	for j := range t.nv {
		t.load(fmt.Sprintf("%d(R12)", j*t.size()), t.tmp(j), j, masked)
	}
	for i := range t.rows {
		for j := range t.nv {
			t.op("VADDPS %s, %s, %s", t.tmp(j), t.acc(i, j, 0), t.acc(i, j, 0))
		}
	}
	t.label(l)
}
