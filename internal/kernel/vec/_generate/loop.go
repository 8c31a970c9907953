package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// kernel is one loop over slices: its Go signature and the body that turns one vector of each input
// into one of the output, adds to accumulators, or both.
type kernel struct {
	name    string
	inputs  []string // names of the float32 slices read
	writes  bool     // whether a slice dst is written
	scalars []string // names of the float32 parameters
	copies  map[string]int
	sums    bool // whether a float32 is returned
	// lanes is how many sums each instruction set keeps, lane i of the elements i, i+lanes and so
	// on, so that all of them add in the same order: a multiple of restLanes. Zero leaves it to the
	// copies, where the order does not matter.
	lanes int
	start float64 // what accumulators and the lanes beyond the end hold at first
	body  body
	// combine writes the instructions that join register x into register acc; registers 4 and 5 are
	// free.
	combine func(a *unrolled, x, acc string)
}

// restLanes is how many lanes take the elements that do not fill all of them.
const restLanes = 16

// body turns one vector of each input into one of the output, which it returns, or adds to the
// accumulator.
type body func(a *unrolled, in []value, s []fixed, acc accumulator) value

// accumulator has the registers that vectors are added to in turn.
type accumulator []fixed

// from is the accumulator whose turn is that of the vector first.
func (acc accumulator) from(first int) accumulator {
	if len(acc) == 0 {
		return acc
	}
	first %= len(acc)
	return append(append(accumulator{}, acc[first:]...), acc[:first]...)
}

var pointers = []string{"SI", "R8", "R9"}

func (k *kernel) slices() []string {
	if k.writes {
		return append([]string{"dst"}, k.inputs...)
	}
	return k.inputs
}

func (k *kernel) parameters() string {
	list := strings.Join(k.slices(), ", ") + " []float32"
	if len(k.scalars) > 0 {
		list += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	return list
}

func (k *kernel) arguments() string {
	return strings.Join(append(append([]string{}, k.slices()...), k.scalars...), ", ")
}

func (k *kernel) result() string {
	if k.sums {
		return " float32"
	}
	return ""
}

// argumentBytes returns the size of the arguments with the result, and the offset of the result.
func (k *kernel) argumentBytes() (size, result int) {
	size = 24*len(k.slices()) + 4*len(k.scalars)
	if !k.sums {
		return size, 0
	}
	result = (size + 7) &^ 7
	return result + 4, result
}

// write returns the routine for one instruction set.
func (k *kernel) write(t *asm.Text, set asm.Vector, table *constants) {
	if set.Name == asm.VectorNEON.Name {
		k.writeNEON(t, table)
		return
	}
	copies := k.copies[set.Name]
	if copies == 0 {
		copies = 4
	}
	probe := probe(set, table, copies)
	live := k.prepare(probe, copies)
	in := make([]value, len(k.inputs))
	for i := range in {
		in[i] = probe.newValue()
	}
	k.body(probe, in, live.scalars, live.acc)

	a := after(probe, t)
	size, result := k.argumentBytes()
	a.Open(k.name+set.Name, "("+k.parameters()+")"+k.result(), frame, size)
	k.loadArguments(a)
	live = k.prepare(a, copies)
	a.hoist(copies)
	a.Line("\tXORQ AX, AX")
	k.loops(a, copies, live)
	k.finish(a, live, result)
	a.Line("\tVZEROUPPER\n\tRET")
}

// resident holds what stays in registers throughout a routine.
type resident struct {
	scalars []fixed
	acc     accumulator
}

// prepare gives registers to scalars and accumulators and fills them.
func (k *kernel) prepare(a *unrolled, copies int) resident {
	var r resident
	offset := 24 * len(k.slices())
	for i, s := range k.scalars {
		reg := a.fix()
		a.Line("\tVBROADCASTSS %s+%d(FP), %s", s, offset+4*i, reg)
		r.scalars = append(r.scalars, reg)
	}
	if !k.sums {
		return r
	}
	if k.lanes > 0 {
		copies = k.lanes / a.Lanes
	}
	r.acc = k.accumulators(a, copies)
	return r
}

// accumulators makes registers that hold what a sum begins with.
func (k *kernel) accumulators(a *unrolled, copies int) (acc []fixed) {
	for i := range copies {
		reg := a.fix()
		acc = append(acc, reg)
		switch {
		case k.start == 0:
			a.Line("\tVXORPS %s, %s, %s", reg, reg, reg)
		case i == 0:
			a.Line("\tVBROADCASTSS %s, %s", a.table.operand(float32bits(k.start)), reg)
		default:
			a.Line("\tVMOVAPS %s, %s", acc[0], reg)
		}
	}
	return acc
}

func (k *kernel) loadArguments(a *unrolled) {
	regs := append([]string{}, pointers...)
	if k.writes {
		regs = append([]string{"DI"}, pointers...)
	}
	for i, s := range k.slices() {
		a.Line("\tMOVQ %s_base+%d(FP), %s", s, 24*i, regs[i])
	}
	a.Line("\tMOVQ %s_len+8(FP), CX", k.slices()[0])
}

// loops writes the unrolled loop, the loop over single vectors or those of the rest's lanes, and
// the tail.
func (k *kernel) loops(a *unrolled, copies int, live resident) {
	step, rest := copies*a.Lanes, a.Lanes
	if k.lanes > 0 {
		step, rest = max(step, k.lanes), restLanes
	}
	a.Line("\tSUBQ $%d, CX\n\tJL rest\n\tPCALIGN $32\nlong:", step)
	k.vectors(a, step/a.Lanes, copies, live)
	a.Line("\tADDQ $%d, AX\n\tSUBQ $%d, CX\n\tJGE long", step, step)
	a.Line("rest:")
	if step > rest {
		a.Line("\tADDQ $%d, CX\n\tJL tail", step-rest)
		a.Line("single:")
		k.vectors(a, rest/a.Lanes, copies, live)
		a.Line("\tADDQ $%d, AX\n\tSUBQ $%d, CX\n\tJGE single", rest, rest)
	}
	a.Line("tail:\n\tADDQ $%d, CX\n\tJZ done", rest)
	if rest > a.Lanes {
		a.Line("\tSUBQ $%d, CX\n\tJL last", a.Lanes)
		k.iteration(a, 0, 1, false, live)
		a.Line("\tADDQ $%d, AX\n\tTESTQ CX, CX\n\tJZ done", a.Lanes)
		k.tail(a, 1, live)
		a.Line("\tJMP done\nlast:\n\tADDQ $%d, CX", a.Lanes)
	}
	k.tail(a, 0, live)
	a.Line("done:")
}

// vectors writes the body for n vectors, so many copies at a time.
func (k *kernel) vectors(a *unrolled, n, copies int, live resident) {
	copies = min(copies, n)
	for first := 0; first < n; first += copies {
		k.iteration(a, first, copies, false, live)
	}
}

// tail writes the body for the CX elements of the last vector, which is added to the accumulator
// whose turn is that of turn.
func (k *kernel) tail(a *unrolled, turn int, live resident) {
	if !a.Wide() {
		a.Line("\tLEAQ lanes<>+32(SB), BX\n\tSHLQ $2, CX\n\tSUBQ CX, BX")
		a.Line("\tVMOVUPS (BX), %s", tailMask)
	} else {
		a.Line("\tMOVL $1, BX\n\tSHLL CX, BX\n\tDECL BX\n\tKMOVW BX, K1")
	}
	live.acc = live.acc.from(turn)
	k.iteration(a, 0, 1, true, live)
}

// iteration writes the body once, for as many vectors as copies says, from the vector first on.
func (k *kernel) iteration(a *unrolled, first, copies int, tail bool, live resident) {
	a.copies, a.inTail, a.values, a.masks = copies, tail, 0, 0
	in := make([]value, len(k.inputs))
	for i := range in {
		in[i] = a.newValue()
		for c := range copies {
			a.loadInput(pointers[i], first+c, a.name(in[i], c))
		}
	}
	if tail && k.start != 0 {
		a.fill(in[0], a.table.operand(float32bits(k.start)))
	}
	out := k.body(a, in, live.scalars, live.acc.from(first))
	if !k.writes {
		return
	}
	for c := range copies {
		a.storeOutput(first+c, a.name(out, c))
	}
}

func (a *unrolled) loadInput(pointer string, copy int, reg string) {
	at := fmt.Sprintf("%d(%s)(AX*4)", copy*a.Lanes*4, pointer)
	switch {
	case !a.inTail:
		a.Line("\tVMOVUPS %s, %s", at, reg)
	case !a.Wide():
		a.Line("\tVMASKMOVPS %s, %s, %s", at, tailMask, reg)
	default:
		a.Line("\tVMOVUPS.Z %s, K1, %s", at, reg)
	}
}

// fill sets the lanes beyond the end to c.
func (a *unrolled) fill(v value, c fixed) {
	reg := a.name(v, 0)
	if !a.Wide() {
		empty := a.name(a.newValue(), 0)
		a.Line("\tVMOVUPS %s, %s\n\tVBLENDVPS %s, %s, %s, %s", c, empty, tailMask, reg, empty, reg)
		return
	}
	a.Line("\tKNOTW K1, K2\n\tVBROADCASTSS %s, K2, %s", c, reg)
}

func (a *unrolled) storeOutput(copy int, reg string) {
	at := fmt.Sprintf("%d(DI)(AX*4)", copy*a.Lanes*4)
	switch {
	case !a.inTail:
		a.Line("\tVMOVUPS %s, %s", reg, at)
	case !a.Wide():
		a.Line("\tVMASKMOVPS %s, %s, %s", reg, tailMask, at)
	default:
		a.Line("\tVMOVUPS %s, K1, %s", reg, at)
	}
}

// finish joins the accumulators pairwise, then the lanes, and returns the result.
func (k *kernel) finish(a *unrolled, live resident, result int) {
	if !k.sums {
		return
	}
	acc := live.acc
	for half := len(acc) / 2; half > 0; half /= 2 {
		for i := range half {
			k.combine(a, string(acc[i+half]), string(acc[i]))
		}
	}
	first := string(acc[0])
	if a.Wide() {
		a.Line("\tVEXTRACTF64X4 $1, %s, Y1\n\tVMOVAPS %s, Y0", first, "Y"+first[1:])
		k.combine(a, "Y1", "Y0")
	} else {
		a.Line("\tVMOVAPS %s, Y0", first)
	}
	a.Line("\tVEXTRACTF128 $1, Y0, X1")
	k.combine(a, "X1", "X0")
	a.Line("\tVPERMILPS $0x0e, X0, X1")
	k.combine(a, "X1", "X0")
	a.Line("\tVPERMILPS $0x01, X0, X1")
	k.combine(a, "X1", "X0")
	a.Line("\tVMOVSS X0, ret+%d(FP)", result)
}

func float32bits(x float64) uint32 { return math.Float32bits(float32(x)) }
