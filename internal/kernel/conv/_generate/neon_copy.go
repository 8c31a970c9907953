package main

import "fmt"

// Registers of the copies of taps: R0 the arguments, R1 a row of the output and R2 the distance of
// rows, R11 what it sees and R3 the distance of channels, R4 and R9 the first and the last address
// that vectors may be read from and R10 the last they may be written to, R5 where taps are counted
// from, R6 a tap and R7 how many are left, R8 the elements that may be read and R12 those of the
// tap, R13 the rows left, R19 the elements of all columns, R20 not 0 where columns without an
// element keep what they hold. Vectors 0 to 3 are a row, 4 to 7 what it held, 16 to 19 the bit of
// each column, 24 to 27 the columns that have an element. There are no stores of part of a vector:
// a row is stored as whole ones, the next row over what is too much, and the last one, as all that
// reach beyond the memory, column by column.

// tapBits writes the bits of the columns.
func (n neon) tapBits(stride int) {
	n.Line("")
	n.Words(fmt.Sprintf("tapBits%d", stride), "0x%08x", 16,
		func(i int) any { return uint32(1) << (stride * i) })
}

// copyTaps writes the copy of what 4*vectors columns see under taps, n channels of each.
func (n neon) copyTaps(stride, vectors int) {
	n.Func(fmt.Sprintf("copyTapsS%dx%dNEON", stride, vectors), "t *tapCopies", 8,
		fmt.Sprintf("computes t, of at most %d columns, with a stride of %d.", 4*vectors, stride))
	n.args("tapCopies_dst(R0), R1", "tapCopies_pitch(R0), R2", "tapCopies_plane(R0), R3",
		"tapCopies_src(R0), R4", "tapCopies_shift(R0), R5", "tapCopies_taps(R0), R6",
		"(tapCopies_taps+8)(R0), R7", "tapCopies_lanes(R0), R8", "tapCopies_reads(R0), R9",
		"tapCopies_writes(R0), R10")
	n.Ops("ADD R4, R5", "ADD R4, R9", "ADD R1, R10")
	n.Op("SUB $%d, R9", 16*vectors*stride)
	n.Op("SUB $%d, R10", 16*vectors)
	n.Op("MOVD $·tapBits%d<>(SB), R14", stride)
	n.loads(vectors, 16, "R14", 0)
	n.Ops("LSR $2, R2, R14", "MOVD $1, R15", "LSL R14, R15, R20", "SUB $1, R20, R19",
		"MOVWU tapCopies_store(R0), R20", "SUB R19, R20")
	if stride == 2 {
		n.Ops("LSL $1, R14", "LSL R14, R15, R19", "SUB $1, R19", "AND $0x55555555, R19")
	}
	n.Label("tap")
	n.tapBegins(vectors)
	n.tapLoops(stride, vectors)
	n.tapChecked(stride, vectors)
	n.Label("next")
	n.Ops("SUB $1, R7", "CBNZ R7, tap", "RET")
}

// tapBegins reads a tap, and leads to the rows that are checked when one of them reaches outside.
func (n neon) tapBegins(vectors int) {
	n.Ops("MOVD tapCopy_at(R6), R11", "ADD R5, R11", "MOVD tapCopy_load(R6), R12", "AND R8, R12",
		"MOVD tapCopy_n(R6), R13", "ADD $tapCopy__size, R6", "VDUP R12, V20.S4")
	for k := range vectors {
		n.words("VCMTST", 16+k, 20, 24+k)
	}
	n.Ops("SUB $1, R13, R14", "MUL R3, R14, R15", "ADD R11, R15", "MUL R2, R14, R16",
		"ADD R1, R16", "CMP R4, R11", "BLO checked", "CMP R9, R15", "BHI checked", "CMP R10, R16",
		"BHI checked", "CBNZ R20, keep", "AND R19, R12, R14", "CMP R19, R14", "BNE masked")
}

// tapLoops copies the rows of a tap: whole ones, those with zeros, and those that keep columns.
func (n neon) tapLoops(stride, vectors int) {
	for _, kind := range []string{"whole", "masked", "keep"} {
		n.Label(kind)
		n.tapRow(kind, stride, vectors)
		n.Ops("ADD R3, R11", "ADD R2, R1", "SUB $1, R13", "CBNZ R13, "+kind, "B next")
	}
}

// tapRow copies a row.
func (n neon) tapRow(kind string, stride, vectors int) {
	if stride == 1 {
		n.loads(vectors, 0, "R11", 0)
	} else {
		for k := range vectors {
			n.Op("FLDPQ %d(R11), (F%d, F%d)", 32*k, k, 20+k)
			n.words("VUZP1", 20+k, k, k)
		}
	}
	if kind != "keep" {
		for k := 0; k < vectors && kind == "masked"; k++ {
			n.bytes("VAND", 24+k, k, k)
		}
		n.stores(vectors, 0, "R1")
		return
	}
	n.loads(vectors, 4, "R1", 0)
	for k := range vectors {
		n.bytes("VBIT", 24+k, k, 4+k)
	}
	n.stores(vectors, 4, "R1")
}

// tapChecked copies the rows of a tap of which some reach outside the memory.
func (n neon) tapChecked(stride, vectors int) {
	n.Label("checked")
	n.Ops("CMP R4, R11", "BLO each", "CMP R9, R11", "BHI each", "CMP R10, R1", "BHI each",
		"CBNZ R20, keepRow")
	n.tapRow("masked", stride, vectors)
	n.Op("B past")
	n.Label("keepRow")
	n.tapRow("keep", stride, vectors)
	n.Op("B past")
	n.Label("each")
	n.Ops("MOVD R12, R14", "MOVD R11, R15", "MOVD R1, R16", "LSR $2, R2, R17")
	n.Label("column")
	n.Ops("TBNZ $0, R14, take", "CBNZ R20, skip", "MOVW ZR, (R16)", "B skip")
	n.Label("take")
	n.Ops("MOVWU (R15), R21", "MOVW R21, (R16)")
	n.Label("skip")
	n.Op("ADD $%d, R15", 4*stride)
	n.Op("LSR $%d, R14", stride)
	n.Ops("ADD $4, R16", "SUB $1, R17", "CBNZ R17, column")
	n.Label("past")
	n.Ops("ADD R3, R11", "ADD R2, R1", "SUB $1, R13", "CBNZ R13, checked")
}
