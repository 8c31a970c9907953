package asm

// Instructions of arm64 on vectors of four floats that Go's assembler does not know. Register and
// lane numbers are those of the Arm Architecture Reference Manual (DDI 0487), chapter C7.2, by the
// name of the instruction.

// NEON writes op on registers n and m, whose result goes to d.
func (t *Text) NEON(op NEON, d, n, m int) {
	t.Op("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.4S", uint32(op)|uint32(m<<16|n<<5|d), op.name(),
		d, n, m)
}

// NEON is an instruction on three vectors, without their numbers.
type NEON uint32

// The instructions: FADD and FMUL; FMLA, which adds the product to what d holds, rounded once;
// FCMGT, which sets the bits of lanes where n is greater than m; and BIT, which puts bits of n into
// d where those of m are set.
const (
	FADD  NEON = 0x4e20d400
	FMUL  NEON = 0x6e20dc00
	FMLA  NEON = 0x4e20cc00
	FCMGT NEON = 0x6ea0e400
	BIT   NEON = 0x6ea01c00
)

func (op NEON) name() string {
	return map[NEON]string{FADD: "FADD", FMUL: "FMUL", FMLA: "FMLA", FCMGT: "FCMGT", BIT: "BIT"}[op]
}

// FMLALane adds to d the product of n with the number in a lane of m.
func (t *Text) FMLALane(d, n, m, lane int) {
	w := uint32(0x4f801000) | uint32(lane&1<<21|m<<16|lane>>1<<11|n<<5|d)
	t.Op("WORD $0x%08x // FMLA V%d.4S, V%d.4S, V%d.S[%d]", w, d, n, m, lane)
}
