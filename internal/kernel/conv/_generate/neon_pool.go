package main

import "fmt"

// reduce takes a register into a result.
func (n neon) reduce(largest bool, to, from int) {
	if largest {
		n.Vec("FMAX", to, to, from)
	} else {
		n.Vec("FADD", to, to, from)
	}
}

// Registers of the kernels of separable pooling: R0 the arguments, R3 an output row, R4 how many
// are left and R5 the planes left, R6 a plane of the input, R7 the bytes from one row under a
// window to the next, R8 a line, R9 and R10 the columns of a vector in the input and in the line,
// R11 those left, R12 and R13 what a window sees and how much of it is left, R14 how far back the
// last vector of a row begins. Vectors 0 to 3 are results, 4 to 7 what they take, 16 to 19 are what
// reducing with changes nothing.

// poolDown writes the reduction of the rows under each output row into a line, of 16 columns at a
// time, then of four, the last of which lie over those before.
func (n neon) poolDown(largest bool) {
	n.Func(fmt.Sprintf("pool%sDownNEON", poolKind(largest)), "t *separablePool", 8,
		"reduces the rows under each output row into a line.")
	n.args("separablePool_src(R0), R6", "separablePool_lines(R0), R8", "separablePool_lead(R0), R9",
		"separablePool_step(R0), R7", "separablePool_planes(R0), R5")
	n.Ops("ADD R9, R8", "ADD $separablePool_neutral, R0, R9", "VLD1R (R9), [V16.S4]")
	n.Label("plane")
	n.Ops("MOVD separablePool_rows(R0), R3", "MOVD (separablePool_rows+8)(R0), R4")
	n.Label("row")
	n.Ops("MOVD poolRow_at(R3), R9", "ADD R6, R9", "MOVD separablePool_lead(R0), R10",
		"ADD R10, R9", "MOVD R8, R10", "MOVD separablePool_in(R0), R11", "CMP $4, R11", "BLT few")
	n.Label("wide")
	n.Ops("CMP $16, R11", "BLT narrow")
	n.downVectors(largest, "wide", 4)
	n.Ops("ADD $64, R9", "ADD $64, R10", "SUB $16, R11", "B wide")
	n.Label("narrow")
	n.Ops("CBZ R11, next", "CMP $4, R11", "BGE whole", "SUB $4, R11, R14", "ADD R14<<2, R9",
		"ADD R14<<2, R10", "MOVD $4, R11")
	n.Label("whole")
	n.downVectors(largest, "narrow", 1)
	n.Ops("ADD $16, R9", "ADD $16, R10", "SUB $4, R11", "B narrow")
	n.Label("few")
	n.Op("CBZ R11, next")
	n.downVectors(largest, "few", 0)
	n.Ops("ADD $4, R9", "ADD $4, R10", "SUB $1, R11", "B few")
	n.Label("next")
	n.Ops("MOVD separablePool_pitch(R0), R9", "ADD R9, R8", "ADD $poolRow__size, R3", "SUB $1, R4",
		"CBNZ R4, row", "MOVD separablePool_plane(R0), R9", "ADD R9, R6", "SUB $1, R5",
		"CBNZ R5, plane", "RET")
}

// downVectors reduces so many vectors of columns, or with 0 one column.
func (n neon) downVectors(largest bool, name string, vectors int) {
	for v := range max(vectors, 1) {
		n.bytes("VORR", 16, 16, v)
	}
	n.Ops("MOVD R9, R12", "MOVD poolRow_n(R3), R13", "CBZ R13, "+name+"Done")
	n.Label(name + "Load")
	if vectors == 0 {
		n.Op("FMOVS (R12), F4")
	} else {
		n.loads(vectors, 4, "R12", 0)
	}
	for v := range max(vectors, 1) {
		n.reduce(largest, v, 4+v)
	}
	n.Ops("ADD R7, R12", "SUB $1, R13", "CBNZ R13, "+name+"Load")
	n.Label(name + "Done")
	if vectors == 0 {
		n.Op("FMOVS F0, (R10)")
	} else {
		n.stores(vectors, 0, "R10")
	}
}

// poolAlong writes the reduction of the columns of the lines, with R1 the output, R6 a line, R7 the
// distance of taps and R15 the divisors of the columns; V20 is that of the row. Of rows of less
// than four columns those that there are are stored one by one.
func (n neon) poolAlong(largest bool, stride int) {
	n.Func(fmt.Sprintf("pool%sAlongS%dNEON", poolKind(largest), stride), "t *separablePool", 8,
		fmt.Sprintf("reduces the columns of the lines with a stride of %d.", stride))
	n.args("separablePool_dst(R0), R1", "separablePool_lines(R0), R6", "separablePool_tap(R0), R7",
		"separablePool_planes(R0), R5")
	n.Ops("ADD $separablePool_neutral, R0, R9", "VLD1R (R9), [V16.S4]")
	n.Label("plane")
	n.Ops("MOVD separablePool_rows(R0), R3", "MOVD (separablePool_rows+8)(R0), R4")
	n.Label("row")
	n.Ops("MOVD R6, R9", "MOVD separablePool_columns(R0), R15",
		"MOVD separablePool_cols(R0), R11")
	if !largest {
		n.Ops("ADD $poolRow_divisor, R3, R12", "VLD1R (R12), [V20.S4]")
	}
	n.Label("wide")
	n.Ops("CMP $8, R11", "BLT narrow")
	n.alongVectors(largest, stride, "wide", 2)
	n.Op("ADD $%d, R9", 32*stride)
	n.Ops("FSTPQ.P (F0, F1), 32(R1)", "SUB $8, R11", "B wide")
	n.Label("narrow")
	n.Ops("CBZ R11, next", "CMP $4, R11", "BGE whole", "MOVD separablePool_cols(R0), R14",
		"CMP $4, R14", "BLT whole", "SUB $4, R11, R14", "ADD R14<<2, R1", "ADD R14<<2, R15")
	n.Op("ADD R14<<%d, R9", 1+stride)
	n.Op("MOVD $4, R11")
	n.Label("whole")
	n.alongVectors(largest, stride, "narrow", 1)
	n.Ops("CMP $4, R11", "BLT few")
	n.Op("ADD $%d, R9", 16*stride)
	n.Ops("FMOVQ.P F0, 16(R1)", "SUB $4, R11", "B narrow")
	n.Label("few")
	n.part(0, "R1", "R11", "R12", "stored")
	n.Op("ADD R11<<2, R1")
	n.Label("next")
	n.Ops("MOVD separablePool_pitch(R0), R9", "ADD R9, R6", "ADD $poolRow__size, R3", "SUB $1, R4",
		"CBNZ R4, row", "SUB $1, R5", "CBNZ R5, plane", "RET")
}

// alongVectors reduces what so many vectors of outputs see from R9 on.
func (n neon) alongVectors(largest bool, stride int, name string, vectors int) {
	for v := range vectors {
		n.bytes("VORR", 16, 16, v)
	}
	n.Ops("MOVD R9, R12", "MOVD separablePool_width(R0), R13")
	if stride == 1 {
		n.Label(name + "Tap")
		n.loads(vectors, 4, "R12", 0)
		for v := range vectors {
			n.reduce(largest, v, 4+v)
		}
		n.Ops("ADD R7, R12", "SUB $1, R13", "CBNZ R13, "+name+"Tap")
	} else {
		n.Ops("LSR $1, R13", "CBZ R13, "+name+"Last")
		n.Label(name + "Tap")
		n.alongPairs(largest, vectors, true)
		n.Ops("ADD $8, R12", "SUB $1, R13", "CBNZ R13, "+name+"Tap")
		n.Label(name + "Last")
		n.Ops("MOVD separablePool_width(R0), R13", "TBZ $0, R13, "+name+"Done")
		n.alongPairs(largest, vectors, false)
		n.Label(name + "Done")
	}
	if !largest {
		n.loads(vectors, 4, "R15", 0)
		n.Op("ADD $%d, R15", 16*vectors)
		for v := range vectors {
			n.Vec("FMUL", 4+v, 20, 4+v)
			n.Vec("FDIV", v, v, 4+v)
		}
	}
}

// alongPairs takes the even columns from R12 on and, if so asked, then the odd ones.
func (n neon) alongPairs(largest bool, vectors int, odd bool) {
	for v := range vectors {
		n.Op("FLDPQ %d(R12), (F%d, F%d)", 32*v, 4+2*v, 5+2*v)
		n.words("VUZP1", 5+2*v, 4+2*v, 8+v)
		n.reduce(largest, v, 8+v)
		if odd {
			n.words("VUZP2", 5+2*v, 4+2*v, 10+v)
			n.reduce(largest, v, 10+v)
		}
	}
}
