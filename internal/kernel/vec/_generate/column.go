package main

import "github.com/weirgpu/weir/internal/asm"

// column is a loop over the rows of a matrix that is two vectors wide. Its Go side is written by
// hand. The parameters are x, the number of rows, a vector pair v and, when it sums, a vector pair
// to add to.
type column struct {
	name   string
	writes bool           // whether x is replaced
	keeps  bool           // whether v is replaced by the accumulator that starts as v
	sums   bool           // whether there is a pair sum
	rows   map[string]int // how many rows the loop is unrolled by
	body   func(a *unrolled, x value, v, acc accumulator)
}

func (column) declaration(asm.Vector) string { return "" }
func (column) dispatch() string              { return "" }
func (column) reference() string             { return "" }

func columns() []routine {
	rows := map[string]int{"AVX512": 2, "AVX2": 1}
	return []routine{
		column{name: "maxRows", keeps: true, rows: map[string]int{"AVX512": 4, "AVX2": 2},
			body: func(a *unrolled, x value, v, acc accumulator) {
				if a.isNEON() {
					a.op(maximumOrNaN, x, acc, acc)
					return
				}
				a.op("VMAXPS", x, acc, acc)
			}},
		column{name: "expRows", writes: true, sums: true, rows: rows,
			body: func(a *unrolled, x value, v, acc accumulator) {
				a.op("VSUBPS", v, x, x)
				clamp(a, x, -104, 89)
				exponential(a, x, a.newValue())
				a.op("VADDPS", x, acc, acc)
			}},
		column{name: "mulRows", writes: true, rows: map[string]int{"AVX512": 4, "AVX2": 4},
			body: func(a *unrolled, x value, v, acc accumulator) { a.op("VMULPS", v, x, x) }},
	}
}

// write returns the routine for one instruction set.
func (c column) write(t *asm.Text, set asm.Vector, table *constants) {
	if set.Name == asm.VectorNEON.Name {
		c.writeNEON(t, table)
		return
	}
	copies := 2 * c.rows[set.Name]
	probe := probe(set, table, copies)
	c.body(probe, probe.newValue(), accumulator{probe.fix(), probe.fix()},
		c.accumulator(probe, copies))
	a := after(probe, t)
	size, last := 24, ""
	if c.sums {
		size, last = 32, ", sum"
	}
	a.Open(c.name+set.Name, "(x *float32, rows int, v"+last+" *float32)", frame, size)
	a.Line("\tMOVQ x+0(FP), DI\n\tMOVQ rows+8(FP), CX\n\tMOVQ v+16(FP), SI")
	v := accumulator{a.fix(), a.fix()}
	acc := c.accumulator(a, copies)
	for i, r := range v {
		a.Line("\tVMOVUPS %d(SI), %s", i*4*a.Lanes, r)
	}
	c.start(a, v, acc)
	a.hoist(copies)
	c.loops(a, copies, v, acc)
	c.finish(a, acc)
	a.Line("\tVZEROUPPER\n\tRET")
}

// accumulator gives registers to a pair for each row that is in flight.
func (c column) accumulator(a *unrolled, copies int) (acc accumulator) {
	if !c.keeps && !c.sums {
		return accumulator{""}
	}
	for range copies {
		acc = append(acc, a.fix())
	}
	return acc
}

// start fills the accumulators: the first pair with what was there, or all with v when its greatest
// is kept.
func (c column) start(a *unrolled, v, acc accumulator) {
	for i, r := range acc {
		switch {
		case c.keeps:
			a.Line("\tVMOVAPS %s, %s", v[i%2], r)
		case c.sums && i < 2:
			if i == 0 {
				a.Line("\tMOVQ sum+24(FP), R8")
			}
			a.Line("\tVMOVUPS %d(R8), %s", i*4*a.Lanes, r)
		case c.sums:
			a.Line("\tVXORPS %s, %s, %s", r, r, r)
		}
	}
}

func (c column) loops(a *unrolled, copies int, v, acc accumulator) {
	a.Line("\tSUBQ $%d, CX\n\tJL rest\n\tPCALIGN $32\nlong:", copies/2)
	c.iteration(a, copies, v, acc)
	a.Line("\tSUBQ $%d, CX\n\tJGE long\nrest:\n\tADDQ $%d, CX\n\tJZ done\nsingle:", copies/2,
		copies/2)
	c.iteration(a, 2, v, acc)
	a.Line("\tDECQ CX\n\tJNZ single\ndone:")
}

func (c column) iteration(a *unrolled, copies int, v, acc accumulator) {
	a.copies, a.values, a.masks = copies, 0, 0
	x := a.newValue()
	for i := range copies {
		a.Line("\tVMOVUPS %d(DI), %s", i*4*a.Lanes, a.name(x, i))
	}
	c.body(a, x, v, acc)
	for i := range copies {
		if c.writes {
			a.Line("\tVMOVUPS %s, %d(DI)", a.name(x, i), i*4*a.Lanes)
		}
	}
	a.Line("\tADDQ $%d, DI", copies*4*a.Lanes)
}

// finish joins the accumulators and stores the pair.
func (c column) finish(a *unrolled, acc accumulator) {
	join, to := "VADDPS", "R8"
	if c.keeps {
		join, to = "VMAXPS", "SI"
	} else if !c.sums {
		return
	}
	for i := 2; i < len(acc); i++ {
		a.Line("\t%s %s, %s, %s", join, acc[i], acc[i%2], acc[i%2])
	}
	for i, r := range acc[:2] {
		a.Line("\tVMOVUPS %s, %d(%s)", r, i*4*a.Lanes, to)
	}
}
