package main

// matrix multiplies matrices, which only arm64 has instructions for: each register of the grid
// holds 2x2 results, to which one adds the products of 8 bytes, or 4 bfloat16, of two rows of A
// with those of two columns of B. The last pair of rows may have one row.
type matrix struct{ plain }

func (matrix) grid(t *tile) (rows, columns int) { return (t.rows + 1) / 2, 2 * t.nv }

func (matrix) strided(*tile) bool { return false }
func (matrix) words(*tile) int    { return 2 }
func (matrix) apart(*tile) int    { return 3 }
func (matrix) unroll(*tile) int   { return 1 }
func (matrix) parts(t *tile) int  { return t.nv }

// begin takes two words of K in a step.
func (matrix) begin(t *tile) { t.Op("LSR $1, R1") }

// read reads two words of each row of A.
func (matrix) read(t *tile, _ int) {
	a := t.tmp(0)
	switch t.rows {
	case 1:
		t.Op("FMOVD (R2), F%d", a)
	case 2:
		t.Op("FMOVQ (R2), F%d", a)
	case 3:
		t.Op("FMOVQ (R2), F%d", a)
		t.Op("FMOVD 16(R2), F%d", a+1)
	default:
		t.Op("FLDPQ (R2), (F%d, F%d)", a, a+1)
	}
	switch t.rows {
	case 5:
		t.Op("FMOVD 32(R2), F%d", a+2)
	case 6:
		t.Op("FMOVQ 32(R2), F%d", a+2)
	}
}

// load reads two words of four columns.
func (matrix) load(t *tile, _, p int) part {
	b := t.tmp(3 + p%2*2)
	t.Load(32*p, fromB, b, b+1)
	return part{consecutive(b, 2), consecutive(2*p, 2), 0}
}

func (matrix) element(t *tile, _, i, _ int) element { return element{reg: t.tmp(i)} }

// multiply adds a product of 2x2. The first operand of USMMLA is the unsigned one.
func (matrix) multiply(t *tile, acc int, a element, b int) {
	switch t.of {
	case bf16:
		t.Vec("BFMMLA", acc, a.reg, b)
	case u8s8:
		t.Vec("USMMLA", acc, a.reg, b)
	default:
		t.Vec("USMMLA", acc, b, a.reg)
	}
}

// settle makes rows of four columns of each two blocks beside each other. A block of S8U8 holds its
// results column by column.
func (matrix) settle(t *tile) {
	first, second := "VZIP1 V%d.D2, V%d.D2, V%d.D2", "VZIP2 V%d.D2, V%d.D2, V%d.D2"
	if t.of == s8u8 {
		first, second = "VUZP1 V%d.S4, V%d.S4, V%d.S4", "VUZP2 V%d.S4, V%d.S4, V%d.S4"
	}
	free := t.tmp(6)
	pairs, _ := t.grid()
	regs := make([]int, 2*pairs*t.nv)
	for i := range pairs {
		for j := range t.nv {
			left, right := t.acc(i, 2*j, 0), t.acc(i, 2*j+1, 0)
			t.Op(first, right, left, free)
			if 2*i+1 < t.rows {
				t.Op(second, right, left, right)
			}
			regs[2*i*t.nv+j], regs[(2*i+1)*t.nv+j], free = free, right, left
		}
	}
	t.regs = regs
}
