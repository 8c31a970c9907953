package asm

import "fmt"

// FloatsNEON writes an instruction on vectors of four floats, as [Text.NEON] does, by its name:
// FADD, FSUB, FMUL, FDIV; FMLA and FMLS, which add the product to d or subtract it, rounded once;
// FMAX and FMIN, which give NaN where either is. Of FSUB and FDIV it is n less m, and n by m. Any
// other name is an error of [File.Save].
func (t *Text) FloatsNEON(op string, d, n, m int) {
	w, ok := floatsNEON[op]
	if !ok {
		t.fail("no instruction %s on three vectors", op)
	}
	t.Op("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.4S", w|uint32(m<<16|n<<5|d), op, d, n, m)
}

var floatsNEON = map[string]uint32{
	"FADD": 0x4e20d400, "FSUB": 0x4ea0d400, "FMUL": 0x6e20dc00, "FDIV": 0x6e20fc00,
	"FMLA": 0x4e20cc00, "FMLS": 0x4ea0cc00, "FMAX": 0x4e20f400, "FMIN": 0x4ea0f400,
}

// LaneNEON is [Text.FloatsNEON] for a number in a lane of m, which all lanes of n meet: for FMUL,
// FMLA and FMLS.
func (t *Text) LaneNEON(op string, d, n, m, lane int) {
	w, ok := lanesNEON[op]
	if !ok || lane < 0 || lane > 3 {
		t.fail("no instruction %s with lane %d", op, lane)
	}
	w |= uint32(lane&1<<21 | m<<16 | lane>>1<<11 | n<<5 | d)
	t.Op("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.S[%d]", w, op, d, n, m, lane)
}

var lanesNEON = map[string]uint32{"FMUL": 0x4f809000, "FMLA": 0x4f801000, "FMLS": 0x4f805000}

// fail keeps the first of what is wrong.
func (t *Text) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}
