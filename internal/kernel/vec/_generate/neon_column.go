package main

import "github.com/weirgpu/weir/internal/asm"

// neonWidth is how many vectors of arm64 a row has.
const neonWidth = 4

// registersNEON gives registers to the vectors of v and those that are added to.
func (c column) registersNEON(a *unrolled, copies int) (v, acc accumulator) {
	for range neonWidth {
		v = append(v, a.fix())
	}
	if !c.keeps && !c.sums {
		return v, accumulator{""}
	}
	for range copies {
		acc = append(acc, a.fix())
	}
	return v, acc
}

func (c column) probeNEON(table *constants, copies int) *unrolled {
	p := probe(asm.VectorNEON, table, copies)
	p.arrange(0, copies)
	v, acc := c.registersNEON(p, copies)
	c.body(p, p.newValue(), v, acc)
	return p
}

// writeNEON returns the routine for arm64.
func (c column) writeNEON(t *asm.Text, table *constants) {
	copies := neonWidth * c.rows["AVX512"]
	for copies > neonWidth && c.probeNEON(table, copies).free(copies) < 0 {
		copies -= neonWidth
	}
	a := after(c.probeNEON(table, copies), t)
	size, last := 24, ""
	if c.sums {
		size, last = 32, ", sum"
	}
	a.Open(c.name+a.Name, "(x *float32, rows int, v"+last+" *float32)", frame, size)
	a.Line("\tMOVD x+0(FP), R3\n\tMOVD rows+8(FP), R2\n\tMOVD v+16(FP), R4")
	a.withTable(func() { c.restNEON(a, copies) })
}

// restNEON is what follows the loads of the arguments.
func (c column) restNEON(a *unrolled, copies int) {
	v, acc := c.registersNEON(a, copies)
	a.copies = neonWidth
	a.whole("R4", 0, func(i int) string { return string(v[i]) }, false)
	c.startNEON(a, v, acc)
	a.neonHoist(copies)
	c.loopsNEON(a, copies, v, acc)
	c.finishNEON(a, acc)
}

// startNEON fills the accumulators: the first row of them with what was there, or all with v when
// its greatest is kept.
func (c column) startNEON(a *unrolled, v, acc accumulator) {
	if c.sums {
		a.Line("\tMOVD sum+24(FP), R5")
		a.whole("R5", 0, func(i int) string { return string(acc[i]) }, false)
		acc = acc[neonWidth:]
	}
	for i, r := range acc {
		switch {
		case c.keeps:
			a.vec("MOV", string(r), string(v[i%neonWidth]))
		case c.sums:
			a.vec("EOR", string(r), string(r), string(r))
		}
	}
}

func (c column) loopsNEON(a *unrolled, copies int, v, acc accumulator) {
	rows := copies / neonWidth
	if rows > 1 {
		a.Line("\tSUBS $%d, R2\n\tBLT rest\n\tPCALIGN $16\nlong:", rows)
		c.iterationNEON(a, copies, v, acc)
		a.Line("\tSUBS $%d, R2\n\tBGE long\nrest:\n\tADDS $%d, R2\n\tBEQ done", rows, rows)
	}
	a.Line("\tPCALIGN $16\nsingle:")
	c.iterationNEON(a, neonWidth, v, acc)
	a.Line("\tSUBS $1, R2\n\tBNE single\ndone:")
}

func (c column) iterationNEON(a *unrolled, copies int, v, acc accumulator) {
	a.copies, a.values = copies, 0
	a.arrange(a.total, copies)
	x := a.newValue()
	reg := func(i int) string { return a.name(x, i) }
	a.whole("R3", 0, reg, false)
	c.body(a, x, v, acc)
	if c.writes {
		a.whole("R3", 0, reg, true)
	}
	a.Line("\tADD $%d, R3", copies*4*a.Lanes)
}

// finishNEON joins the accumulators and stores a row.
func (c column) finishNEON(a *unrolled, acc accumulator) {
	join, to := "FADD", "R5"
	if c.keeps {
		join, to = "FMAX", "R4"
	} else if !c.sums {
		return
	}
	for i := neonWidth; i < len(acc); i++ {
		a.vec(join, string(acc[i%neonWidth]), string(acc[i%neonWidth]), string(acc[i]))
	}
	a.copies = neonWidth
	a.whole(to, 0, func(i int) string { return string(acc[i]) }, true)
}
