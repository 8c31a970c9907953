package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// tile writes one micro-kernel, for either architecture: rows x nv registers of the result, held in
// registers over the whole of K. The loops, which register holds what, where operands are read and
// what happens to results is described here and in epilogue.go; what multiplies is a [way].
type tile struct {
	asm.Code
	form
	rows, nv int
	// independent partial sums per accumulator, to hide the latency of the fused multiply-add
	split int
	chain
	// regs, where it is not nil, are the registers of the results by row and column.
	regs []int
	// round says that a step is one of a round of several, and not one by itself.
	round bool
}

// Registers of the tiles. Those without a name on arm64 are of what only tiles of amd64 do: see
// chain.go.
var (
	args    = asm.Reg{AMD64: "BX", ARM64: "R0"}
	steps   = asm.Reg{AMD64: "CX", ARM64: "R1"}
	rounds  = asm.Reg{AMD64: "DX", ARM64: "R8"}
	fromA   = asm.Reg{AMD64: "SI", ARM64: "R2"}
	strideA = asm.Reg{AMD64: "AX", ARM64: "R5"}
	thriceA = asm.Reg{AMD64: "R13"}
	fromB   = asm.Reg{AMD64: "DI", ARM64: "R3"}
	strideB = asm.Reg{AMD64: "R10", ARM64: "R6"}
	thriceB = asm.Reg{AMD64: "R11"}
	toC     = asm.Reg{AMD64: "R8", ARM64: "R4"}
	strideC = asm.Reg{AMD64: "R9", ARM64: "R7"}
	strideR = asm.Reg{AMD64: "R13", ARM64: "R11"}
	row     = asm.Reg{AMD64: "R12", ARM64: "R8"}
	flags   = asm.Reg{AMD64: "DX", ARM64: "R9"}
	bit     = asm.Reg{ARM64: "R10"}
)

// grid is how many registers results are added up in: of how many rows, and of how many columns
// each.
func (t *tile) grid() (rows, columns int) { return t.way.grid(t) }

// acc is the accumulator of row i of the grid, column j, partial sum u.
func (t *tile) acc(i, j, u int) int {
	rows, columns := t.grid()
	return (u%t.split*rows+i)*columns + j
}

// result is the register of row i of the tile and column j.
func (t *tile) result(i, j int) int {
	if t.regs != nil {
		return t.regs[i*t.nv+j]
	}
	return t.acc(i, j, 0)
}

// armFree is the first register above the accumulators of every tile of arm64, of which the largest
// has 24.
const armFree = 24

// tmp is the n-th register above the accumulators.
func (t *tile) tmp(n int) int {
	if t.ARM64() {
		return armFree + n
	}
	return t.split*t.rows*t.nv + n
}

func (t *tile) emit() {
	t.Func(t.symbol(), "t *tile", 8, "")
	t.Argument("t", 0, args)
	t.again()
	t.operands()
	t.prefetch()
	rows, columns := t.grid()
	for r := range t.split * rows * columns {
		t.Zero(r)
	}
	t.way.begin(t)
	t.loop()
	t.reduce()
	t.way.settle(t)
	t.finishes()
}

// symbol is the name of the routine.
func (t *tile) symbol() string {
	return fmt.Sprintf("%s%s_%dx%d%s", t.prefix(), t.Name, t.rows, t.nv*t.columns(),
		t.suffix())
}

// operands loads where the operands lie, and how far apart their rows are.
func (t *tile) operands() {
	t.Field("tile_k", args, steps)
	t.Field("tile_a", args, fromA)
	t.Field("tile_b", args, fromB)
	t.stride("tile_ldb", t.way.apart(t), strideB, thriceB)
	t.Field("tile_c", args, toC)
	t.stride("tile_ldc", 2, strideC, asm.Reg{})
	switch {
	case t.lying:
		t.stride("tile_rowA", 2, strideA, thriceA)
	case t.way.strided(t):
		t.stride("tile_lda", 2, strideA, thriceA)
	}
	t.stripBegins()
}

// stride reads a distance of floats as one of bytes, and three times that, where memory can be
// addressed by it.
func (t *tile) stride(field string, power int, to, thrice asm.Reg) {
	t.Field(field, args, to)
	t.Shift(power, to)
	if t.indexed() && thrice != (asm.Reg{}) {
		t.Op("LEAQ (%s)(%[1]s*2), %s", to.AMD64, thrice.AMD64)
	}
}

// indexed says that instructions which read memory add a register to the address, so that several
// steps are read before pointers move.
func (t *tile) indexed() bool { return !t.ARM64() }

// loop multiplies: some steps of K at a time, then one by one.
func (t *tile) loop() {
	n, along := t.way.unroll(t), steps
	if n > 1 {
		along = rounds
		t.Rounds(steps, rounds, n, "rest")
		t.fetches()
		t.fifthRow()
	} else {
		t.IfZero(steps, "done")
	}
	t.Align()
	t.Label("loop")
	t.round = n > 1
	for u := range n {
		t.step(u)
		t.ahead()
		if !t.indexed() {
			t.advance(1)
		}
	}
	if t.indexed() {
		t.advance(n)
	}
	t.Down(along, "loop")
	t.round = false
	if n > 1 {
		t.fetched()
		t.Label("rest")
		t.Rest(steps, n, "done")
		t.fifthRow()
		t.Label("one")
		t.step(0)
		t.advance(1)
		t.Down(steps, "one")
	}
	t.Label("done")
}

// step is one step of K: each part of the row of B meets the elements of A.
func (t *tile) step(u int) {
	t.way.read(t, u)
	rows, _ := t.grid()
	for p := range t.way.parts(t) {
		b := t.way.load(t, u, p)
		for i := range rows {
			a := t.way.element(t, u, i, p)
			for k, column := range b.columns {
				t.way.multiply(t, t.acc(i, column, b.sum), a, b.regs[k])
			}
		}
	}
	t.way.end(t)
}

// part is what is loaded of a row of B at once: for each column of the grid that it meets the
// register, and which of the partial sums takes their products.
type part struct {
	regs, columns []int
	sum           int
}

// advance moves the pointers on by so many steps, those that reading has not moved.
func (t *tile) advance(n int) {
	if !t.way.walks(t) {
		t.AddTimes(fromB, strideB, n)
	}
	switch {
	case t.lying:
		t.Advance(fromA, 4*n)
	case t.way.strided(t):
		t.AddTimes(fromA, strideA, n)
	case !t.dense || !t.round:
		t.Advance(fromA, 4*n*t.rows*t.way.words(t))
	}
}

// reduce adds the partial sums into the first.
func (t *tile) reduce() {
	rows, columns := t.grid()
	for n := t.split / 2; n >= 1; n /= 2 {
		for u := range n {
			for i := range rows {
				for j := range columns {
					t.Do(t.of.add(), t.acc(i, j, u), t.acc(i, j, u), t.acc(i, j, u+n))
				}
			}
		}
	}
	t.split = 1
}
