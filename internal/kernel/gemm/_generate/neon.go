package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// A tile for arm64 has 6 x 16 results in 24 of the 32 registers of four floats; four more hold a
// row of B, and two the elements of A that meet it, each of which is multiplied from its lane.
const (
	neonRows = 6
	neonA    = 24
	neonB    = 26
)

// neonTile writes one micro-kernel: rows x nv registers of the result, held in registers over the
// whole of K.
type neonTile struct {
	*asm.File
	form     string // of numbers, in names
	rows, nv int
	split    int // independent partial sums of a result, to hide the latency of FMLA
	// regs, where it is not nil, are the accumulators by row and register column.
	regs []int
}

// neonFew is the most rows of a product whose results have partial sums. Processors have up to
// sixteen FMLA under way: four begin in each of the four cycles that one takes.
const neonFew = 3

// neonSums are the partial sums of the results of products of so few rows.
func neonSums(rows int) int {
	if rows == 1 {
		return 4
	}
	return 2
}

// neonTiles writes every tile of floats and the function that picks one.
func neonTiles(s *asm.File) {
	for _, t := range neonKernels(s, "NEON") {
		t.emit()
	}
}

// neonKernels returns the tiles of a form of numbers and writes the function that picks one.
func neonKernels(s *asm.File, form string) (all []neonTile) {
	s.Declare("\n// kernel%s runs the kernel of t's rows, of 16 columns where it is wide and "+
		"else of 8.\nfunc kernel%s(t *tile, wide bool) {\n\tkey := 2 * t.rows\n"+
		"\tif wide {\n\t\tkey++\n\t}\n"+
		"\tif t.whole && t.rows <= %d {\n\t\tkey += %d\n\t}\n\tswitch key {\n", form, form, neonFew,
		neonWhole)
	for r := 1; r <= neonRows; r++ {
		all = append(all, neonTile{s, form, r, 2, 1, nil}, neonTile{s, form, r, 4, 1, nil})
	}
	for r := 1; r <= neonFew; r++ {
		all = append(all, neonTile{s, form, r, 2, neonSums(r), nil},
			neonTile{s, form, r, 4, neonSums(r), nil})
	}
	for _, t := range all {
		s.Declare("\tcase %d:\n\t\t%s(t)\n", t.key(), t.symbol())
	}
	s.Declare("\t}\n}\n")
	return all
}

// neonWhole is what keys of kernels with partial sums begin after.
const neonWhole = 2 * (neonRows + 1)

// key is the number by which a kernel is picked.
func (t neonTile) key() int {
	key := 2*t.rows + t.nv/4
	if t.split > 1 {
		key += neonWhole
	}
	return key
}

// symbol is the name of the routine.
func (t neonTile) symbol() string {
	name := fmt.Sprintf("tile%s_%dx%d", t.form, t.rows, 4*t.nv)
	if t.split > 1 {
		name += "whole"
	}
	return name
}

// acc is the accumulator of row i, register column j, partial sum u.
func (t neonTile) acc(i, j, u int) int {
	n := (u*t.rows+i)*t.nv + j
	if t.regs != nil {
		return t.regs[n]
	}
	return n
}

func (t neonTile) emit() {
	t.enter()
	t.loop(t.step)
	t.reduce("FADD")
	t.finish()
	t.Op("RET")
}

// enter reads where the operands lie and clears the results.
func (t neonTile) enter() {
	t.address()
	for n := range t.split * t.rows * t.nv {
		t.Op("VEOR V%d.B16, V%d.B16, V%d.B16", n, n, n)
	}
}

// address reads where the operands lie.
func (t neonTile) address() {
	t.Func(t.symbol(), "t *tile", 8, "")
	t.Ops("MOVD t+0(FP), R0", "MOVD tile_k(R0), R1", "MOVD tile_a(R0), R2",
		"MOVD tile_b(R0), R3", "MOVD tile_c(R0), R4", "MOVD tile_lda(R0), R5", "LSL $2, R5",
		"MOVD tile_ldb(R0), R6", "LSL $2, R6", "MOVD tile_ldc(R0), R7", "LSL $2, R7")
}

// loop multiplies, as many steps of K at a time as there are partial sums, two at least, then one
// by one. Step writes one of a partial sum.
func (t neonTile) loop(step func(u int)) {
	unroll := max(t.split, 2)
	t.Op("LSR $%d, R1, R8", unroll/2)
	t.Ops("CBZ R8, rest", "PCALIGN $32")
	t.Label("loop")
	for u := range unroll {
		step(u % t.split)
	}
	t.Ops("SUB $1, R8", "CBNZ R8, loop")
	t.Label("rest")
	t.Op("AND $%d, R1", unroll-1)
	t.Op("CBZ R1, done")
	t.Label("one")
	step(0)
	t.Ops("SUB $1, R1", "CBNZ R1, one")
	t.Label("done")
}

// step is one k: a row of B and the elements of A.
func (t neonTile) step(u int) {
	t.Op("FLDPQ (R3), (F%d, F%d)", neonB, neonB+1)
	if t.nv == 4 {
		t.Op("FLDPQ 32(R3), (F%d, F%d)", neonB+2, neonB+3)
	}
	lane := t.loadA()
	t.Ops("ADD R6, R3", "ADD R5, R2")
	for i := range t.rows {
		for j := range t.nv {
			t.VecLane("FMLA", t.acc(i, j, u), neonB+j, lane[i][0], lane[i][1])
		}
	}
}

// loadA reads the elements of A of one k, of which no more are read than there are, and returns the
// register and lane of each; what is left of the registers is zero.
func (t neonTile) loadA() [][2]int {
	lanes := t.lanes()
	for i := 0; i < t.rows; {
		n := 1
		for i+n < t.rows && lanes[i+n][0] == lanes[i][0] {
			n++
		}
		t.Op("%s %d(R2), F%d", map[int]string{1: "FMOVS", 2: "FMOVD", 4: "FMOVQ"}[n], 4*i,
			lanes[i][0])
		i += n
	}
	return lanes
}

// lanes are the register and lane of the element of A of each row: four, two or one to a register.
func (t neonTile) lanes() (lane [][2]int) {
	at, reg := 0, neonA
	for at < t.rows {
		n := min(t.rows-at, 4)
		if n == 3 {
			n = 2
		}
		for i := range n {
			lane = append(lane, [2]int{reg, i})
		}
		at, reg = at+n, reg+1
	}
	return lane
}

// reduce adds the partial sums into the first.
func (t neonTile) reduce(add string) {
	for n := t.split / 2; n >= 1; n /= 2 {
		for u := range n {
			for i := range t.rows {
				for j := range t.nv {
					t.Vec(add, t.acc(i, j, u), t.acc(i, j, u), t.acc(i, j, u+n))
				}
			}
		}
	}
}

// all writes op of every accumulator with register m.
func (t neonTile) all(op string, m int) {
	for i := range t.rows {
		for j := range t.nv {
			n := t.acc(i, j, 0)
			t.Vec(op, n, n, m)
		}
	}
}

// each runs f for every row, with R8 walking down from where from says by the stride in register
// ld.
func (t neonTile) each(from, ld string, f func(row int)) {
	t.Op("MOVD %s, R8", from)
	for i := range t.rows {
		f(i)
		if i < t.rows-1 {
			t.Op("ADD %s, R8", ld)
		}
	}
}

// load reads a row of the tile at R8 into the registers from first on.
func (t neonTile) load(first int) {
	for j := 0; j < t.nv; j += 2 {
		t.Op("FLDPQ %d(R8), (F%d, F%d)", 16*j, first+j, first+j+1)
	}
}

// optional writes a part that runs only when the flag is set.
func (t neonTile) optional(flag string, part func()) {
	t.Op("AND $const_%s, R9, R10", flag)
	t.Op("CBZ R10, no_%s", flag)
	part()
	t.Label("no_" + flag)
}

// scalar reads a number into every lane of register x.
func (t neonTile) scalar(addr string, x int) {
	t.Op("FMOVS %s, F%d", addr, x)
	t.Op("VDUP V%d.S[0], V%d.S4", x, x)
}

// finish applies the epilogue in the order that tileGo gives it and stores the tile.
func (t neonTile) finish() {
	const x, beta = 24, 28
	t.Op("MOVWU tile_flags(R0), R9")
	t.optional("flagAccumulate", func() {
		t.each("R4", "R7", func(i int) {
			t.load(x)
			for j := range t.nv {
				t.Vec("FADD", t.acc(i, j, 0), t.acc(i, j, 0), x+j)
			}
		})
	})
	t.optional("flagScale", func() {
		t.scalar("tile_alpha(R0)", x)
		t.all("FMUL", x)
	})
	t.bias(x)
	t.optional("flagResidual", func() {
		t.Ops("MOVD tile_ldr(R0), R11", "LSL $2, R11")
		t.scalar("tile_beta(R0)", beta)
		t.each("tile_res(R0)", "R11", func(i int) {
			t.load(x)
			for j := range t.nv {
				t.Vec("FMLA", t.acc(i, j, 0), beta, x+j)
			}
		})
	})
	t.optional("flagLo", func() {
		t.scalar("tile_lo(R0)", x)
		t.limit(x, true)
	})
	t.optional("flagHi", func() {
		t.scalar("tile_hi(R0)", x)
		t.limit(x, false)
	})
	t.store()
}

// finishBytes adds what is there, if asked to, and stores the tile.
func (t neonTile) finishBytes() {
	const x = 24
	t.Op("MOVWU tile_flags(R0), R9")
	t.optional("flagAccumulate", func() {
		t.each("R4", "R7", func(i int) {
			t.load(x)
			for j := range t.nv {
				n := t.acc(i, j, 0)
				t.Op("VADD V%d.S4, V%d.S4, V%d.S4", x+j, n, n)
			}
		})
	})
	t.store()
}

// store writes the tile.
func (t neonTile) store() {
	t.each("R4", "R7", func(i int) {
		for j := 0; j < t.nv; j += 2 {
			t.Op("FSTPQ (F%d, F%d), %d(R8)", t.acc(i, j, 0), t.acc(i, j+1, 0), 16*j)
		}
	})
}

// limit raises every accumulator to register x, or lowers it. A comparison is false for a NaN, on
// either side, which FMAX and FMIN give instead.
func (t neonTile) limit(x int, raise bool) {
	const than = 29
	for i := range t.rows {
		for j := range t.nv {
			n := t.acc(i, j, 0)
			if raise {
				t.Vec("FCMGT", than, x, n)
			} else {
				t.Vec("FCMGT", than, n, x)
			}
			t.Vec("BIT", n, x, than)
		}
	}
}

// bias adds one value per row or one per column.
func (t neonTile) bias(x int) {
	t.optional("flagBiasRow", func() {
		t.Op("MOVD tile_bias(R0), R8")
		for i := range t.rows {
			t.scalar(fmt.Sprintf("%d(R8)", 4*i), x)
			for j := range t.nv {
				t.Vec("FADD", t.acc(i, j, 0), t.acc(i, j, 0), x)
			}
		}
	})
	t.optional("flagBiasCol", func() {
		t.Op("MOVD tile_bias(R0), R8")
		t.load(x)
		for i := range t.rows {
			for j := range t.nv {
				t.Vec("FADD", t.acc(i, j, 0), t.acc(i, j, 0), x+j)
			}
		}
	})
}
