package main

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// vector describes one instruction set, and a form of numbers, to the tile generator.
type vector struct {
	asm.Vector      // whose name functions end in
	mr         int  // largest number of rows of a tile
	pairs      bool // a lane holds two bfloat16
	bytes      int  // a lane holds four bytes: 1 when those of B are signed, 2 when those of A are
	// what a lane of B holds is multiplied in two halves, by two words of A: see wide.go
	wide bool
}

var (
	avx2   = vector{Vector: asm.AVX2, mr: 6}
	avx512 = vector{Vector: asm.AVX512, mr: 14}
	bf16   = vector{Vector: avx512.and("BF16"), mr: 14, pairs: true}
	u8s8   = vector{Vector: avx512.and("U8S8"), mr: 14, bytes: 1}
	s8u8   = vector{Vector: avx512.and("S8U8"), mr: 14, bytes: 2}
)

// and is the instruction set with an extension, or for a form of numbers.
func (v vector) and(name string) asm.Vector {
	v.Name += name
	return v.Vector
}

// tileGen writes one micro-kernel: rows x nv registers of the result, held in registers over the
// whole of K.
type tileGen struct {
	*asm.File
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
	// rest says that the kernel computes the last rows of a product, in the order of those before.
	rest bool
	// narrow says that the kernel computes rows of a product of at most one register of columns.
	narrow bool
}

// aheadRows is the least rows of a kernel that fetches memory which is needed after it: fewer leave
// no time for that, and a few instructions matter to them. Two registers of AVX2 are as many as one
// of AVX-512.
const (
	aheadRows     = 8
	aheadRowsAVX2 = 4
)

// Each of few rows has partial sums, as long as a tile of one register of columns has fewer
// accumulators than fused multiply-adds are under way, two of which begin in each of the four
// cycles that one takes, and as far as there are registers for a tile of two.
const (
	fewRows  = 4
	inFlight = 8
)

// sums is the number of partial sums of an element of a product of so many rows.
func (v vector) sums(rows int) int {
	n := 1
	for rows <= fewRows && n < 4 && n*rows < inFlight && 4*n*rows <= v.Regs-4 {
		n *= 2
	}
	return n
}

// rests is the most rows for which there is a kernel that computes the last ones of a product of
// more rows than a tile has, whose elements have one sum each. Sums of bytes are the same in any
// order.
func (v vector) rests() (rows int) {
	for v.bytes == 0 && v.sums(rows+1) > 1 {
		rows++
	}
	return rows
}

// narrowSums is the number of partial sums of every element of a product of several rows whose
// columns fit into one register, where a tile of the most rows has fewer accumulators than fused
// multiply-adds are under way; else 0.
func (v vector) narrowSums() int {
	if v.Name == avx2.Name && v.mr < inFlight {
		return 2
	}
	return 0
}

// tiles writes every tile of one instruction set and the function that picks one.
func tiles(s *asm.File, v vector) {
	v.dispatch(s)
	for nv := 1; nv <= 2; nv++ {
		for r := 1; r <= v.mr; r++ {
			t := tileGen{File: s, vector: v, rows: r, nv: nv, split: v.sums(r)}
			t.strips = v.Name == avx512.Name && nv == 1 && t.split == 1
			t.emit()
			if t.strips && r >= aheadRows {
				t.strips, t.single = false, true
				t.emit()
			}
			if r <= v.rests() {
				t.split, t.rest = 1, true
				t.emit()
			}
			if n := v.narrowSums(); n > 0 && nv == 1 && v.sums(r) != n {
				t.split, t.rest, t.narrow = n, false, true
				t.emit()
			}
		}
	}
}

// dispatch writes the function that picks a tile.
func (v vector) dispatch(s *asm.File) {
	s.Declare("\n// tile%s computes t with the kernel of its rows and columns; tileGo defines "+
		"it.\nfunc tile%s(t *tile) {\n", v.Name, v.Name)
	if v.narrowSums() > 0 {
		s.Declare("\tif t.narrow {\n\t\ttile%sNarrow(t)\n\t\treturn\n\t}\n", v.Name)
	}
	if v.rests() > 0 {
		s.Declare("\tif !t.whole && t.rows <= %d {\n\t\ttile%sRest(t)\n\t\treturn\n\t}\n",
			v.rests(), v.Name)
	}
	s.Declare("\tif t.cols > %d%s {\n", v.Lanes, v.unless())
	for nv := 2; nv >= 1; nv-- {
		if nv == 1 && v.Name == avx512.Name {
			s.Declare("\tif t.cols <= 16 && t.aheadStep != 0 {\n\t\tswitch t.rows {\n")
			for r := aheadRows; r <= v.mr; r++ {
				s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%dahead(t)\n\t\t\treturn\n", r,
					v.Name, r, v.Lanes)
			}
			s.Declare("\t\t}\n\t}\n")
		}
		s.Declare("\t\tswitch t.rows {\n")
		for r := 1; r <= v.mr; r++ {
			s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%d(t)\n", r, v.Name, r, nv*v.Lanes)
		}
		s.Declare("\t\t}\n")
		if nv == 2 {
			s.Declare("\t\treturn\n\t}\n")
		}
	}
	s.Declare("}\n")
	v.dispatchRest(s)
	v.dispatchNarrow(s)
}

// dispatchRest writes the function that picks a tile of the last rows.
func (v vector) dispatchRest(s *asm.File) {
	if v.rests() == 0 {
		return
	}
	s.Declare("\n// tile%sRest is tile%s for the last rows of a product.\n"+
		"func tile%sRest(t *tile) {\n", v.Name, v.Name, v.Name)
	for nv := 2; nv >= 1; nv-- {
		if nv == 2 {
			s.Declare("\tif t.cols > %d {\n", v.Lanes)
		}
		s.Declare("\t\tswitch t.rows {\n")
		for r := 1; r <= v.rests(); r++ {
			s.Declare("\t\tcase %d:\n\t\t\ttile%s_%dx%drest(t)\n", r, v.Name, r, nv*v.Lanes)
		}
		s.Declare("\t\t}\n")
		if nv == 2 {
			s.Declare("\t\treturn\n\t}\n")
		}
	}
	s.Declare("}\n")
}

// dispatchNarrow writes the function that picks a tile of a narrow product.
func (v vector) dispatchNarrow(s *asm.File) {
	n := v.narrowSums()
	if n == 0 {
		return
	}
	s.Declare("\n// tile%sNarrow is tile%s for products of one register of columns.\n"+
		"func tile%sNarrow(t *tile) {\n\tswitch t.rows {\n", v.Name, v.Name, v.Name)
	for r := 1; r <= v.mr; r++ {
		suffix := ""
		if v.sums(r) != n {
			suffix = "narrow"
		}
		s.Declare("\tcase %d:\n\t\ttile%s_%dx%d%s(t)\n", r, v.Name, r, v.Lanes, suffix)
	}
	s.Declare("\t}\n}\n")
}

// unless is when two registers of columns are computed one after the other.
func (v vector) unless() string {
	if v.Name == avx512.Name {
		return " && !t.inStrips()"
	}
	return ""
}

// acc is the accumulator of row i, register column j, partial sum u.
func (t *tileGen) acc(i, j, u int) string {
	return t.R((u%t.split*t.rows+i)*t.nv + j)
}

// tmp is the n-th register above the accumulators.
func (t *tileGen) tmp(n int) string {
	return t.R(t.split*t.rows*t.nv + n)
}

func (t *tileGen) emit() {
	t.Func(t.symbol(), "t *tile", 8, "")
	t.Op("MOVQ t+0(FP), BX")
	t.Label("tile")
	if t.strips {
		t.Op("XORL R15, R15") // the bytes of a row that earlier strips have dealt with
		t.Label("strip")
	}
	t.operands()
	t.prefetch()
	t.clear()
	t.loop()
	t.reduce()
	if t.Wide() {
		t.masks()
		t.finish("", true)
		return
	}
	t.Op("CMPQ tile_cols(BX), $%d", t.nv*t.Lanes)
	t.Op("JLT tail")
	t.finish("", false)
	t.Label("tail")
	t.finish("t", true)
}

// symbol is the name of the routine.
func (t *tileGen) symbol() string {
	name := fmt.Sprintf("tile%s_%dx%d", t.Name, t.rows, t.nv*t.Lanes)
	if t.single {
		name += "ahead"
	}
	if t.rest {
		name += "rest"
	}
	if t.narrow {
		name += "narrow"
	}
	return name
}

// operands loads where the operands lie, and how far apart their rows are.
func (t *tileGen) operands() {
	t.Ops("MOVQ tile_k(BX), CX", "MOVQ tile_a(BX), SI", "MOVQ tile_b(BX), DI",
		"MOVQ tile_ldb(BX), R10", "SHLQ $2, R10", "LEAQ (R10)(R10*2), R11", "MOVQ tile_c(BX), R8",
		"MOVQ tile_ldc(BX), R9", "SHLQ $2, R9")
	if t.strided() {
		t.Ops("MOVQ tile_lda(BX), AX", "SHLQ $2, AX", "LEAQ (AX)(AX*2), R13")
	}
	if t.strips {
		t.Ops("ADDQ R15, DI", "ADDQ R15, R8")
	}
}

// masks sets K1, and K2 for the second register, to the lanes of the tile.
func (t *tileGen) masks() {
	t.Op("MOVL tile_mask(BX), DX")
	if t.strips {
		t.Ops("MOVL R15, CX", "SHRL $2, CX", "SHRL CX, DX")
	}
	t.Ops("KMOVW DX, K1", "SHRL $16, DX", "KMOVW DX, K2")
}

// prefetch fetches the lines of C, and of a residual.
func (t *tileGen) prefetch() {
	t.Op("MOVQ R8, R12")
	t.each("R9", func(_, addr string, _ int) { t.Op("PREFETCHT0 %s", addr) })
	if !t.aheads() && !t.strips || t.rows < aheadRowsAVX2 {
		return
	}
	t.Ops("TESTL $const_flagResidual, tile_flags(BX)", "JZ fetched",
		"MOVQ tile_res(BX), R12", "MOVQ tile_ldr(BX), R14", "SHLQ $2, R14")
	t.skip("R12")
	t.each("R14", func(_, addr string, _ int) { t.Op("PREFETCHT0 %s", addr) })
	t.Label("fetched")
}

func (t *tileGen) clear() {
	for i := range t.split * t.rows * t.nv {
		if t.Wide() {
			t.Op("VPXORD Z%d, Z%d, Z%d", i, i, i)
		} else {
			t.Op("VXORPS Y%d, Y%d, Y%d", i, i, i)
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
	t.Op("MOVQ CX, DX")
	t.Op("SHRQ $%d, DX", unroll/2)
	t.Ops("JZ rest")
	if t.aheads() {
		t.fetches()
	}
	t.Op("PCALIGN $64")
	t.Label("loop")
	for u, addr := range addresses[:unroll] {
		step(u, addr)
		t.ahead()
	}
	t.Op("LEAQ (DI)(R10*%d), DI", unroll)
	if t.strided() {
		t.Op("LEAQ (SI)(AX*4), SI")
	} else {
		t.Op("ADDQ $%d, SI", unroll*sizeA)
	}
	t.Ops("DECQ DX", "JNZ loop")
	if t.aheads() {
		t.Op("MOVQ R12, tile_ahead(BX)")
	}
	t.Label("rest")
	t.Op("ANDQ $%d, CX", unroll-1)
	t.Op("JZ done")
	t.Label("one")
	step(0, "(DI)")
	t.Op("ADDQ R10, DI")
	if t.strided() {
		t.Op("ADDQ AX, SI")
	} else {
		t.Op("ADDQ $%d, SI", sizeA)
	}
	t.Ops("DECQ CX", "JNZ one")
	t.Label("done")
}

// fetches sets what the tile fetches ahead, from R12 on, R14 bytes a step: where there is an
// aheadLast, that or the tile below, and else where the tile before has stopped. It does not
// branch: between branches of unknown length and PCALIGN the assembler finds no end.
func (t *tileGen) fetches() {
	t.Ops("MOVQ tile_ahead(BX), R12", "MOVQ tile_aheadLast(BX), R15", "MOVQ tile_nextA(BX), R14",
		"ADDQ SI, R14", "CMPQ tile_more(BX), $0", "CMOVQLE R15, R14", "TESTQ R15, R15",
		"CMOVQNE R14, R12", "MOVQ tile_aheadStep(BX), R14")
}

// aheads says that the kernel fetches memory that is needed after it.
func (t *tileGen) aheads() bool {
	switch t.Name {
	case avx512.Name:
		return t.rows >= aheadRows && !t.strips
	case avx2.Name:
		return t.rows >= aheadRowsAVX2 && t.nv == 2
	}
	return false
}

// ahead fetches a line.
func (t *tileGen) ahead() {
	if t.aheads() {
		t.Ops("PREFETCHT1 (R12)", "ADDQ R14, R12")
	}
}

// step is one k: the row of B into registers, and each element of A's column broadcast and
// multiplied with it. Where an element is multiplied once, the multiplication broadcasts it.
func (t *tileGen) step(u int, addr string) {
	for j := range t.nv {
		t.Op("VMOVUPS %d%s, %s", j*t.Size(), addr, t.tmp(j))
	}
	for i := range t.rows {
		if t.nv == 1 && t.Wide() && t.strided() && t.vector.bytes == 0 {
			t.Op("VFMADD231PS.BCST %s, %s, %s", t.element(u, i), t.tmp(0), t.acc(i, 0, u))
			continue
		}
		a := t.tmp(t.nv + i%2)
		t.Op("VBROADCASTSS %s, %s", t.element(u, i), a)
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
		t.Op("VPDPBUSD %s, %s, %s", b, a, acc)
	case t.vector.bytes == 2:
		t.Op("VPDPBUSD %s, %s, %s", a, b, acc)
	default:
		t.Op("VFMADD231PS %s, %s, %s", b, a, acc)
	}
}

// add writes the addition of two accumulators.
func (t *tileGen) add(x, y, sum string) {
	if t.vector.bytes > 0 {
		t.Op("VPADDD %s, %s, %s", x, y, sum)
		return
	}
	t.Op("VADDPS %s, %s, %s", x, y, sum)
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
			f(t.acc(i, j, 0), fmt.Sprintf("%d(R12)", j*t.Size()), j)
		}
		if ld != "" && i < t.rows-1 {
			t.Op("ADDQ %s, R12", ld)
		}
	}
}

// load reads a register, only the lanes inside the tile when masked.
func (t *tileGen) load(addr, dst string, j int, masked bool) {
	switch {
	case !masked:
		t.Op("VMOVUPS %s, %s", addr, dst)
	case t.Wide():
		t.Op("VMOVUPS.Z %s, K%d, %s", addr, j+1, dst)
	default:
		t.Op("VMASKMOVPS %s, %s, %s", addr, t.tmp(2+j), dst)
	}
}

// store writes a register, only the lanes inside the tile when masked.
func (t *tileGen) store(src, addr string, j int, masked bool) {
	switch {
	case !masked:
		t.Op("VMOVUPS %s, %s", src, addr)
	case t.Wide():
		t.Op("VMOVUPS %s, K%d, %s", src, j+1, addr)
	default:
		t.Op("VMASKMOVPS %s, %s, %s", src, t.tmp(2+j), addr)
	}
}

// optional opens a part that runs only when one of the bits of flag is set; the caller writes the
// returned label after it.
func (t *tileGen) optional(flag, suffix string) string {
	t.Op("TESTL $const_%s, DX", flag)
	t.Op("JZ no_%s%s", flag, suffix)
	return fmt.Sprintf("no_%s%s", flag, suffix)
}

// finish applies the epilogue in the order that tileGo gives it and stores the tile.
func (t *tileGen) finish(suffix string, masked bool) {
	x := t.tmp(0)
	if masked && !t.vector.Wide() {
		t.Ops("MOVQ tile_cols(BX), R12", "NEGQ R12", "LEAQ ·laneMask<>(SB), R13",
			"LEAQ 64(R13)(R12*4), R13")
		for j := range t.nv {
			t.Op("VMOVUPS %d(R13), %s", j*t.Size(), t.tmp(2+j))
		}
	}
	t.Op("MOVL tile_flags(BX), DX")
	l := t.optional("flagAccumulate", suffix)
	t.Op("MOVQ R8, R12")
	t.each("R9", func(acc, addr string, j int) {
		t.load(addr, x, j, masked)
		t.add(x, acc, acc)
	})
	t.Label(l)
	if t.vector.bytes == 0 {
		t.epilogue(suffix, masked)
	}
	t.Op("MOVQ R8, R12")
	t.each("R9", func(acc, addr string, j int) { t.store(acc, addr, j, masked) })
	if t.strips {
		t.Ops("ADDQ $64, R15", "MOVQ tile_cols(BX), DX", "SHLQ $2, DX", "CMPQ R15, DX", "JLT strip")
	}
	t.onward(suffix)
}

// onward begins the next tile below, or the first of the next product, or returns after the last.
func (t *tileGen) onward(suffix string) {
	advance := func(by string, operands ...string) {
		for _, x := range operands {
			t.Op("MOVQ tile_%s%s(BX), DX", by, x)
			t.Op("ADDQ DX, tile_%s(BX)", strings.ToLower(x))
		}
	}
	t.Ops("DECQ tile_more(BX)", "JLT last"+suffix)
	advance("next", "A", "C", "Bias", "Res")
	t.Op("JMP tile")
	t.Label("last" + suffix)
	t.Ops("DECQ tile_again(BX)", "JLT out"+suffix, "MOVQ tile_below(BX), DX",
		"MOVQ DX, tile_more(BX)")
	advance("again", "A", "B", "C")
	if t.aheads() {
		t.Ops("MOVQ tile_againAheadLast(BX), DX", "ADDQ DX, tile_aheadLast(BX)")
	}
	t.Op("JMP tile")
	t.Label("out" + suffix)
	t.Ops("VZEROUPPER", "RET")
}

// epilogue writes what happens to a finished element.
func (t *tileGen) epilogue(suffix string, masked bool) {
	x, y := t.tmp(0), t.tmp(1)
	l := t.optional("flagScale", suffix)
	t.Op("VBROADCASTSS tile_alpha(BX), %s", x)
	t.each("", func(acc, _ string, _ int) { t.Op("VMULPS %s, %s, %s", x, acc, acc) })
	t.Label(l)
	t.bias(suffix, masked)
	l = t.optional("flagResidual", suffix)
	t.Ops("MOVQ tile_res(BX), R12", "MOVQ tile_ldr(BX), R13", "SHLQ $2, R13")
	t.skip("R12")
	t.Op("VBROADCASTSS tile_beta(BX), %s", y)
	t.each("R13", func(acc, addr string, j int) {
		t.load(addr, x, j, masked)
		t.Op("VFMADD231PS %s, %s, %s", x, y, acc)
	})
	t.Label(l)
	l = t.optional("flagLo", suffix)
	t.Op("VBROADCASTSS tile_lo(BX), %s", x)
	t.each("", func(acc, _ string, _ int) { t.Op("VMAXPS %s, %s, %s", acc, x, acc) })
	t.Label(l)
	l = t.optional("flagHi", suffix)
	t.Op("VBROADCASTSS tile_hi(BX), %s", x)
	t.each("", func(acc, _ string, _ int) { t.Op("VMINPS %s, %s, %s", acc, x, acc) })
	t.Label(l)
}

// skip moves a pointer into a row to the columns of the strip.
func (t *tileGen) skip(reg string) {
	if t.strips {
		t.Op("ADDQ R15, %s", reg)
	}
}

// bias adds one value per row or one per column.
func (t *tileGen) bias(suffix string, masked bool) {
	x := t.tmp(0)
	l := t.optional("flagBiasRow", suffix)
	t.Op("MOVQ tile_bias(BX), R12")
	for i := range t.rows {
		t.Op("VBROADCASTSS %d(R12), %s", 4*i, x)
		for j := range t.nv {
			t.Op("VADDPS %s, %s, %s", x, t.acc(i, j, 0), t.acc(i, j, 0))
		}
	}
	t.Label(l)
	l = t.optional("flagBiasCol", suffix)
	t.Op("MOVQ tile_bias(BX), R12")
	t.skip("R12")
	for j := range t.nv {
		t.load(fmt.Sprintf("%d(R12)", j*t.Size()), t.tmp(j), j, masked)
	}
	for i := range t.rows {
		for j := range t.nv {
			t.Op("VADDPS %s, %s, %s", t.tmp(j), t.acc(i, j, 0), t.acc(i, j, 0))
		}
	}
	t.Label(l)
}
