package main

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// The registers of the loops of arm64: the elements left, the result and the operands.
const (
	neonCount  = "R2"
	neonResult = "R3"
)

var neonOperands = []string{"R4", "R5", "R6"}

// probeNEON runs the body once to count.
func (k *kernel) probeNEON(table *constants, copies int) *unrolled {
	p := probe(asm.VectorNEON, table, copies)
	p.arrange(0, copies)
	live := k.prepareNEON(p, copies)
	in := make([]value, len(k.inputs))
	for i := range in {
		in[i] = p.newValue()
	}
	k.body(p, in, live.scalars, live.acc)
	return p
}

// writeNEON returns the routine for arm64.
func (k *kernel) writeNEON(t *asm.Text, table *constants) {
	copies := neonCopies(func(n int) *unrolled { return k.probeNEON(table, n) })
	p := k.probeNEON(table, copies)
	a := after(p, t)
	size, result := k.argumentBytes()
	a.Open(k.name+a.Name, "("+k.parameters()+")"+k.result(), frame, size)
	k.loadNEON(a)
	a.withTable(func() {
		live := k.prepareNEON(a, copies)
		k.startNEON(a, live)
		a.neonHoist(copies)
		k.loopsNEON(a, copies, live)
		k.finishNEON(a, live, result)
	})
}

// withTable writes the rest of a routine, before which the register that points into the table is
// set, where it reads the table.
func (a *unrolled) withTable(write func()) {
	t := a.Text
	a.Text = new(asm.Text)
	write()
	text := strings.TrimSuffix(a.String(), "\n")
	if a.Text = t; strings.Contains(text, "("+neonTable+")") {
		a.Line("\tMOVD $%s<>+%d(SB), %s", a.table.symbol, neonTableMiddle, neonTable)
	}
	a.Line("%s\n\tRET", text)
}

// prepareNEON gives registers to scalars, accumulators and the mask of the tail, and fills the
// scalars.
func (k *kernel) prepareNEON(a *unrolled, copies int) resident {
	var r resident
	offset := 24 * len(k.slices())
	for i, s := range k.scalars {
		reg := a.fix()
		a.Line("\tFMOVS %s+%d(FP), F%d\n\tVDUP %s.S[0], %s.S4", s, offset+4*i, number(string(reg)),
			reg, reg)
		r.scalars = append(r.scalars, reg)
	}
	if !k.sums {
		return r
	}
	a.mask = string(a.fix())
	if k.lanes > 0 {
		copies = k.lanes / a.Lanes
	}
	for range copies {
		r.acc = append(r.acc, a.fix())
	}
	return r
}

// startNEON fills the accumulators with what a sum begins with.
func (k *kernel) startNEON(a *unrolled, live resident) {
	for _, reg := range live.acc {
		if k.start == 0 {
			a.vec("EOR", string(reg), string(reg), string(reg))
			continue
		}
		a.Line("\tFMOVQ %s, F%d", a.address(string(a.table.operand(float32bits(k.start)))),
			number(string(reg)))
	}
}

func (k *kernel) loadNEON(a *unrolled) {
	for i, s := range k.slices() {
		a.Line("\tMOVD %s_base+%d(FP), %s", s, 24*i, k.pointersNEON()[i])
	}
	a.Line("\tMOVD %s_len+8(FP), %s", k.slices()[0], neonCount)
}

// pointersNEON are the registers of the slices.
func (k *kernel) pointersNEON() []string {
	list := neonOperands[:len(k.inputs)]
	if k.writes {
		return append([]string{neonResult}, list...)
	}
	return list
}

// advance moves on by so many elements.
func (k *kernel) advance(a *unrolled, elements int) {
	for _, p := range k.pointersNEON() {
		a.Line("\tADD $%d, %s", 4*elements, p)
	}
}

// loopsNEON writes the unrolled loop, the loop over single vectors or those of the rest's lanes,
// and the tail.
func (k *kernel) loopsNEON(a *unrolled, copies int, live resident) {
	step, rest := copies*a.Lanes, a.Lanes
	if k.lanes > 0 {
		step, rest = max(step, k.lanes), restLanes
	}
	a.Line("\tSUBS $%d, %s\n\tBLT rest\n\tPCALIGN $16\nlong:", step, neonCount)
	k.vectorsNEON(a, step/a.Lanes, copies, live)
	k.advance(a, step)
	a.Line("\tSUBS $%d, %s\n\tBGE long\nrest:", step, neonCount)
	if step > rest {
		a.Line("\tADDS $%d, %s\n\tBLT tail\nsingle:", step-rest, neonCount)
		k.vectorsNEON(a, rest/a.Lanes, copies, live)
		k.advance(a, rest)
		a.Line("\tSUBS $%d, %s\n\tBGE single", rest, neonCount)
	}
	a.Line("tail:\n\tADDS $%d, %s\n\tBEQ done", rest, neonCount)
	for turn := range rest/a.Lanes - 1 {
		a.Line("\tSUBS $%d, %s\n\tBLT last%d", a.Lanes, neonCount, turn)
		k.iterationNEON(a, 0, 1, false, resident{live.scalars, live.acc.from(turn)})
		k.advance(a, a.Lanes)
		a.Line("\tCBZ %s, done", neonCount)
	}
	for turn := rest/a.Lanes - 1; turn >= 0; turn-- {
		k.tailNEON(a, resident{live.scalars, live.acc.from(turn)})
		if turn > 0 {
			a.Line("\tB done\nlast%d:\n\tADD $%d, %s", turn-1, a.Lanes, neonCount)
		}
	}
	a.Line("done:")
}

// vectorsNEON writes the body for n vectors, so many copies at a time.
func (k *kernel) vectorsNEON(a *unrolled, n, copies int, live resident) {
	copies = min(copies, n)
	for first := 0; first < n; first += copies {
		k.iterationNEON(a, first, copies, false, live)
	}
}

// tailNEON writes the body for the one to three elements of the last vector.
func (k *kernel) tailNEON(a *unrolled, live resident) {
	if k.sums {
		a.Line("\tMOVD $lanes<>+16(SB), R7\n\tSUB %s<<2, R7\n\tFMOVQ (R7), F%d", neonCount,
			number(a.mask))
	}
	k.iterationNEON(a, 0, 1, true, live)
}

// iterationNEON writes the body once, for as many vectors as copies says, from the vector first on.
func (k *kernel) iterationNEON(a *unrolled, first, copies int, tail bool, live resident) {
	total := a.total
	a.copies, a.inTail, a.values = copies, tail, 0
	a.arrange(total, copies)
	in := make([]value, len(k.inputs))
	for i := range in {
		in[i] = a.newValue()
		reg := func(c int) string { return a.name(in[i], c) }
		if tail {
			a.part(neonOperands[i], reg(0), false)
		} else {
			a.whole(neonOperands[i], first, reg, false)
		}
	}
	if tail && k.start != 0 {
		empty := a.spare(0)
		a.Line("\tFMOVQ %s, F%d", a.address(string(a.table.operand(float32bits(k.start)))),
			number(empty))
		a.vec("BIF", a.name(in[0], 0), empty, a.mask)
	}
	a.collects = !tail
	out := k.body(a, in, live.scalars, live.acc.from(first))
	a.collects = false
	for _, o := range interleaved(a.operations) {
		a.neon(o.mnemonic, o.operands)
	}
	a.operations = nil
	switch {
	case !k.writes:
	case tail:
		a.part(neonResult, a.name(out, 0), true)
	default:
		a.whole(neonResult, first, func(c int) string { return a.name(out, c) }, true)
	}
}

// whole loads or stores the vectors of the copies, in pairs.
func (a *unrolled) whole(pointer string, first int, reg func(c int) string, store bool) {
	for c := 0; c < a.copies; c += 2 {
		at := fmt.Sprintf("%d(%s)", (first+c)*a.Lanes*4, pointer)
		name := fmt.Sprintf("F%d", number(reg(c)))
		load, save := "FMOVQ", "FMOVQ"
		if c+1 < a.copies {
			name = fmt.Sprintf("(%s, F%d)", name, number(reg(c+1)))
			load, save = "FLDPQ", "FSTPQ"
		}
		if store {
			a.Line("\t%s %s, %s", save, name, at)
		} else {
			a.Line("\t%s %s, %s", load, at, name)
		}
	}
}

// part loads or stores the one to three elements that are left.
func (a *unrolled) part(pointer, reg string, store bool) {
	a.labels++
	n, f := a.labels, number(reg)
	move := func(mnemonic string) {
		if store {
			a.Line("\t%s F%d, (%s)", mnemonic, f, pointer)
		} else {
			a.Line("\t%s (%s), F%d", mnemonic, pointer, f)
		}
	}
	a.Line("\tTBZ $1, %s, one%d", neonCount, n)
	move("FMOVD")
	a.Line("\tTBZ $0, %s, end%d\n\tADD $8, %s, R7", neonCount, n, pointer)
	if store {
		a.Line("\tVST1 V%d.S[2], (R7)", f)
	} else {
		a.Line("\tVLD1 (R7), V%d.S[2]", f)
	}
	a.Line("\tB end%d\none%d:", n, n)
	move("FMOVS")
	a.Line("end%d:", n)
}

// finishNEON joins the accumulators pairwise, then the lanes, and returns the result.
func (k *kernel) finishNEON(a *unrolled, live resident, result int) {
	if !k.sums {
		return
	}
	acc := live.acc
	for half := len(acc) / 2; half > 0; half /= 2 {
		for i := range half {
			k.combine(a, string(acc[i+half]), string(acc[i]))
		}
	}
	first, other := string(acc[0]), "V0"
	for _, bytes := range []int{8, 4} {
		a.Line("\tVEXT $%d, %[2]s.B16, %[2]s.B16, %[3]s.B16", bytes, first, other)
		k.combine(a, other, first)
	}
	a.Line("\tFMOVS F%d, ret+%d(FP)", number(first), result)
}
