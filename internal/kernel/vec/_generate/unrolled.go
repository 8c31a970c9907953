package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// frame is the bytes of the frames of the routines.
const frame = 128

const tailMask = "Y15"

// value is a vector that each unrolled copy of a loop body has for itself.
type value int

// fixed is an operand that all copies share: a register, or a constant in memory.
type fixed string

// mask is the result of a comparison: a mask register, or a vector in AVX2, which has none.
type mask struct {
	vector value
	index  int
}

// unrolled writes one routine. A body is run once to see which values and constants it uses, into a
// text that nobody reads, and then once per loop.
type unrolled struct {
	*asm.Text
	asm.Vector
	table  *constants
	copies int  // how often the body is unrolled in the loop being written
	inTail bool // whether only some lanes are live

	values, masks int
	total         int            // values of the whole body
	labels        int            // given out
	taken         int            // fixed registers given out, from the top
	wanted        []uint32       // constants in order of first use
	pinned        map[uint32]int // constants that must be in a register
	hoisted       map[uint32]fixed

	// Of arm64 alone: registers that hold nothing; those of values that changed their places;
	// constants that are read otherwise than to be added; the mask of the tail; operations that
	// wait to be written in another order.
	spares []string
	moved  map[int]string
	loaded map[string]bool
	mask   string

	collects   bool
	operations []operation
}

// probe is where the body is run to count.
func probe(set asm.Vector, table *constants, copies int) *unrolled {
	return &unrolled{Text: new(asm.Text), Vector: set, table: table, copies: copies,
		pinned: map[uint32]int{}, loaded: map[string]bool{}}
}

// after is where the routine is written, once the probe has seen its body.
func after(probe *unrolled, t *asm.Text) *unrolled {
	return &unrolled{Text: t, Vector: probe.Vector, table: probe.table, pinned: probe.pinned,
		wanted: probe.wanted, hoisted: map[uint32]fixed{}, values: probe.values,
		masks: probe.masks, total: probe.values, loaded: probe.loaded}
}

// pool is the number of registers that bodies and constants share. The last one of AVX2 holds the
// mask of the tail.
func (a *unrolled) pool() int {
	if a.Wide() || a.isNEON() {
		return a.Regs
	}
	return a.Regs - 1
}

// newValue returns a vector register for each copy.
func (a *unrolled) newValue() value {
	a.values++
	return value(a.values - 1)
}

// newMask returns a mask for each copy.
func (a *unrolled) newMask() mask {
	if !a.Wide() {
		return mask{vector: a.newValue()}
	}
	a.masks++
	return mask{index: a.masks - 1}
}

// fix takes a register out of the pool for the whole routine.
func (a *unrolled) fix() fixed {
	a.taken++
	return fixed(a.R(a.pool() - a.taken))
}

func (a *unrolled) name(v any, copy int) string {
	switch v := v.(type) {
	case value:
		at := int(v)*a.copies + copy
		if r, ok := a.moved[at]; ok {
			return r
		}
		return a.R(at)
	case mask:
		if !a.Wide() {
			return a.name(v.vector, copy)
		}
		return fmt.Sprintf("K%d", 2+v.index*a.copies+copy)
	case accumulator:
		return string(v[copy%len(v)])
	case fixed:
		return string(v)
	case int:
		return fmt.Sprintf("$%d", v)
	}
	panic(fmt.Sprintf("operand %T", v))
}

// op writes an instruction for every copy, operands in Go's order (destination last).
func (a *unrolled) op(mnemonic string, operands ...any) {
	switch {
	case a.collects:
		a.operations = append(a.operations, operation{mnemonic, operands})
		return
	case a.isNEON():
		a.neon(mnemonic, operands)
		return
	}
	for c := range a.copies {
		names := make([]string, len(operands))
		suffix := ""
		for i, o := range operands {
			names[i] = a.name(o, c)
			if a.Wide() && strings.Contains(names[i], "(SB)") {
				suffix = ".BCST"
			}
		}
		a.Line("\t%s%s %s", mnemonic, suffix, strings.Join(names, ", "))
	}
}

// c returns a float32 constant, for use as first operand.
func (a *unrolled) c(x float64) fixed { return a.bits(math.Float32bits(float32(x))) }

// bits returns a 32-bit pattern as constant, for use as first operand.
func (a *unrolled) bits(b uint32) fixed {
	if r, ok := a.hoisted[b]; ok {
		return r
	}
	for _, w := range a.wanted {
		if w == b {
			return a.table.operand(b)
		}
	}
	a.wanted = append(a.wanted, b)
	return a.table.operand(b)
}

// pin returns a constant that is sure to be in a register, for use as any operand.
func (a *unrolled) pin(x float64) fixed {
	b := math.Float32bits(float32(x))
	if _, ok := a.pinned[b]; !ok {
		a.pinned[b] = len(a.pinned)
	}
	return a.bits(b)
}

// hoist loads constants into the registers that the body leaves free, those pinned first.
func (a *unrolled) hoist(copies int) {
	order := make([]uint32, len(a.pinned))
	for b, i := range a.pinned {
		order[i] = b
	}
	for _, b := range a.wanted {
		if _, ok := a.pinned[b]; !ok {
			order = append(order, b)
		}
	}
	free := a.pool() - a.taken - a.values*copies
	if free < len(a.pinned) || a.masks*copies > 6 {
		panic(fmt.Sprintf("%d values, %d copies, %d pinned: too many registers", a.values, copies,
			len(a.pinned)))
	}
	for _, b := range order[:min(free, len(order))] {
		r := a.fix()
		a.Line("\tVBROADCASTSS %s, %s", a.table.operand(b), r)
		a.hoisted[b] = r
	}
}

// polynomial sets p to c[0] + x*(c[1] + x*(...)).
func (a *unrolled) polynomial(c []float32, x, p value) {
	last := len(c) - 1
	a.load(a.c(float64(c[last])), p)
	for i := last - 1; i >= 0; i-- {
		a.op("VFMADD213PS", a.c(float64(c[i])), x, p)
	}
}

// load copies a constant into a value.
func (a *unrolled) load(c fixed, v value) {
	if a.Wide() && strings.Contains(string(c), "(SB)") {
		for i := range a.copies {
			a.Line("\tVBROADCASTSS %s, %s", c, a.name(v, i))
		}
		return
	}
	a.op("VMOVUPS", c, v)
}

// Predicates of VCMPPS: quiet, and but for the first two false of NaN.
const (
	unordered = 3
	moreOrNaN = 22 // not less or equal
	equal     = 0
	ordered   = 7
	less      = 17
	atMost    = 18
	notLess   = 29 // greater or equal
	greater   = 30
)

// compare sets m where x predicate y.
func (a *unrolled) compare(predicate int, x, y any, m mask) { a.op("VCMPPS", predicate, y, x, m) }

// choose sets dst to yes where m is set and to no elsewhere. Constants must be pinned.
func (a *unrolled) choose(m mask, yes, no, dst any) {
	if !a.Wide() {
		a.op("VBLENDVPS", m, yes, no, dst)
		return
	}
	a.op("VBLENDMPS", yes, no, m, dst)
}

// keepLive sets the lanes of x that lie beyond the end to zero.
func (a *unrolled) keepLive(x value) {
	switch {
	case !a.inTail:
	case a.isNEON():
		a.op("VANDPS", fixed(a.mask), x, x)
	case !a.Wide():
		a.op("VANDPS", fixed(tailMask), x, x)
	default:
		a.op("VMOVAPS.Z", x, fixed("K1"), x)
	}
}

// constants is the read-only table of one file. Each constant fills a 256-bit vector, since AVX2
// has no broadcasting operands.
type constants struct {
	symbol string
	words  []uint32
}

func (t *constants) operand(b uint32) fixed {
	at := -1
	for i, w := range t.words {
		if w == b {
			at = i
		}
	}
	if at < 0 {
		at = len(t.words)
		t.words = append(t.words, b)
	}
	return fixed(fmt.Sprintf("%s<>+%d(SB)", t.symbol, at*32))
}

// at is the constant that an operand is.
func (t *constants) at(operand string) uint32 {
	for _, w := range t.words {
		if string(t.operand(w)) == operand {
			return w
		}
	}
	panic("no constant: " + operand)
}

func (t *constants) write(to *asm.Text) {
	if len(t.words) == 0 {
		return
	}
	to.Line("")
	for i, w := range t.words {
		for k := range 4 {
			to.Line("DATA %s<>+%d(SB)/8, $0x%08x%08x", t.symbol, i*32+k*8, w, w)
		}
	}
	to.Line("GLOBL %s<>(SB), RODATA|NOPTR, $%d", t.symbol, len(t.words)*32)
}

// maskTable is read at an offset so that the first lanes are all ones and the others zero.
const maskTable = `
DATA lanes<>+0(SB)/8, $0xffffffffffffffff
DATA lanes<>+8(SB)/8, $0xffffffffffffffff
DATA lanes<>+16(SB)/8, $0xffffffffffffffff
DATA lanes<>+24(SB)/8, $0xffffffffffffffff
DATA lanes<>+32(SB)/8, $0
DATA lanes<>+40(SB)/8, $0
DATA lanes<>+48(SB)/8, $0
DATA lanes<>+56(SB)/8, $0
GLOBL lanes<>(SB), RODATA|NOPTR, $64`

// maskTableNEON is the same for vectors of four lanes.
const maskTableNEON = `
DATA lanes<>+0(SB)/8, $0xffffffffffffffff
DATA lanes<>+8(SB)/8, $0xffffffffffffffff
DATA lanes<>+16(SB)/8, $0
DATA lanes<>+24(SB)/8, $0
GLOBL lanes<>(SB), RODATA|NOPTR, $32`
