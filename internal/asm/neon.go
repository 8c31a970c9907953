package asm

import (
	"fmt"
	"strings"
)

// VectorNEON is the vector registers of arm64, of four floats.
var VectorNEON = Vector{Name: "NEON", Reg: "V", Lanes: 4, Regs: 32}

// vectorForm is what the operands of an instruction on vectors are.
type vectorForm int

const (
	ofThree vectorForm = iota // the result and two operands
	ofTwo                     // the result and one
	ofLeft                    // the result, one, and a number of bits to shift it left by
	ofRight                   // the same to the right
)

// vectorOp is an instruction on vectors: its bits without registers, and how its registers are
// written, from the result on: the width of their lanes.
type vectorOp struct {
	bits  uint32
	form  vectorForm
	lanes string
}

// The instructions of arm64 on vectors that [Text.Vec] writes, from chapter C7.2 of the Arm
// Architecture Reference Manual (DDI 0487).
var vectorOps = map[string]vectorOp{
	"FADD": {0x4e20d400, ofThree, "4S"}, "FSUB": {0x4ea0d400, ofThree, "4S"},
	"FMUL": {0x6e20dc00, ofThree, "4S"}, "FDIV": {0x6e20fc00, ofThree, "4S"},
	"FMAX": {0x4e20f400, ofThree, "4S"}, "FMIN": {0x4ea0f400, ofThree, "4S"},
	"FMAXNM": {0x4e20c400, ofThree, "4S"}, "FMINNM": {0x4ea0c400, ofThree, "4S"},
	"FMLA": {0x4e20cc00, ofThree, "4S"}, "FMLS": {0x4ea0cc00, ofThree, "4S"},
	"FCMEQ": {0x4e20e400, ofThree, "4S"}, "FCMGE": {0x6e20e400, ofThree, "4S"},
	"FCMGT": {0x6ea0e400, ofThree, "4S"}, "CMEQ": {0x6ea08c00, ofThree, "4S"},
	"ADD": {0x4ea08400, ofThree, "4S"}, "SUB": {0x6ea08400, ofThree, "4S"},
	"MUL": {0x4ea09c00, ofThree, "4S"},
	// 2x2 numbers of 32 bits, to which the product of 2x8 bytes, or 2x4 bfloat16, with as many
	// transposed is added: of unsigned bytes with signed ones
	"USMMLA": {0x4e80ac00, ofThree, "4S 16B"}, "BFMMLA": {0x6e40ec00, ofThree, "4S 8H"},
	// four numbers of 32 bits, to each of which the products of four bytes with four are added
	"SDOT": {0x4e809400, ofThree, "4S 16B"}, "UDOT": {0x6e809400, ofThree, "4S 16B"},
	// the products of bytes in 16 bits, and sums of neighbours in twice their width
	"SMULL": {0x0e20c000, ofThree, "8H 8B"}, "SMULL2": {0x4e20c000, ofThree, "8H 16B"},
	"UMULL": {0x2e20c000, ofThree, "8H 8B"}, "UMULL2": {0x6e20c000, ofThree, "8H 16B"},
	"SADALP": {0x4e606800, ofTwo, "4S 8H"}, "UADALP": {0x6e606800, ofTwo, "4S 8H"},
	"SADDLP": {0x4e202800, ofTwo, "8H 16B"}, "UADDLP": {0x6e202800, ofTwo, "8H 16B"},
	"ADDP": {0x4ea0bc00, ofThree, "4S"},
	"TRN1": {0x4e802800, ofThree, "4S"}, "TRN2": {0x4e806800, ofThree, "4S"},
	"TRN1.D": {0x4ec02800, ofThree, "2D"}, "TRN2.D": {0x4ec06800, ofThree, "2D"},
	"UZP1.H": {0x4e401800, ofThree, "8H"}, "UZP1.B": {0x4e001800, ofThree, "16B"},
	"AND": {0x4e201c00, ofThree, "16B"}, "ORR": {0x4ea01c00, ofThree, "16B"},
	"EOR": {0x6e201c00, ofThree, "16B"}, "BSL": {0x6e601c00, ofThree, "16B"},
	"BIT": {0x6ea01c00, ofThree, "16B"}, "BIF": {0x6ee01c00, ofThree, "16B"},

	"FRINTN": {0x4e218800, ofTwo, "4S"}, "FRINTM": {0x4e219800, ofTwo, "4S"},
	"FRINTP": {0x4ea18800, ofTwo, "4S"}, "FCVTNS": {0x4e21a800, ofTwo, "4S"},
	"FCVTZS": {0x4ea1b800, ofTwo, "4S"}, "SCVTF": {0x4e21d800, ofTwo, "4S"},
	"FSQRT": {0x6ea1f800, ofTwo, "4S"}, "FNEG": {0x6ea0f800, ofTwo, "4S"},
	"NOT": {0x6e205800, ofTwo, "16B"}, "MOV": {0x4ea01c00, ofTwo, "16B"},

	"FCVTL":   {0x0e217800, ofTwo, "4S 4H"},
	"FCVTL.D": {0x0e617800, ofTwo, "2D 2S"}, "FCVTL2.D": {0x4e617800, ofTwo, "2D 4S"},
	"FCVTZS.D": {0x4ee1b800, ofTwo, "2D"},
	"FCVTL2":   {0x4e217800, ofTwo, "4S 8H"}, "FCVTN": {0x0e216800, ofTwo, "4H 4S"},
	"FCVTN2": {0x4e216800, ofTwo, "8H 4S"}, "XTN": {0x0e612800, ofTwo, "4H 4S"},
	"XTN2": {0x4e612800, ofTwo, "8H 4S"}, "XTN.B": {0x0e212800, ofTwo, "8B 8H"},
	"XTN2.B": {0x4e212800, ofTwo, "16B 8H"}, "BFCVTN": {0x0ea16800, ofTwo, "4H 4S"},

	"SHL": {0x4f205400, ofLeft, "4S"}, "SSHR": {0x4f000400, ofRight, "4S"},
	"USHR": {0x6f000400, ofRight, "4S"},
	"UXTL": {0x2f10a400, ofTwo, "4S 4H"}, "UXTL2": {0x6f10a400, ofTwo, "4S 8H"},
	"SXTL": {0x0f10a400, ofTwo, "4S 4H"}, "SXTL2": {0x4f10a400, ofTwo, "4S 8H"},
	"UXTL.B": {0x2f08a400, ofTwo, "8H 8B"}, "UXTL2.B": {0x6f08a400, ofTwo, "8H 16B"},
	"SXTL.B": {0x0f08a400, ofTwo, "8H 8B"}, "SXTL2.B": {0x4f08a400, ofTwo, "8H 16B"},
}

// Vec writes an instruction of arm64 on vectors as a word, with its text as comment: Go's assembler
// does not know most of them. Name is the manual's, with what follows a point for lanes of another
// width than 32 bits; operands are the numbers of registers, the result first, and of a shift the
// number of bits last. File.Save reports an instruction that is not in the list.
func (t *Text) Vec(name string, operands ...int) {
	op, known := vectorOps[name]
	want := 3
	if op.form == ofTwo {
		want = 2
	}
	if !known || len(operands) != want {
		t.fail("no instruction on vectors %s of %d operands", name, len(operands))
		return
	}
	word, text := op.encode(strings.Split(name, ".")[0], operands)
	t.Op("WORD $0x%08x // %s", word, text)
}

// laneOps are those that VecLane writes, with what the lanes of n and that of m hold.
var laneOps = map[string]struct {
	bits uint32
	n, m string
}{
	"FMUL": {0x4f809000, "4S", "S"}, "FMLA": {0x4f801000, "4S", "S"},
	"FMLS": {0x4f805000, "4S", "S"}, "SDOT": {0x4f80e000, "16B", "4B"},
	"UDOT": {0x6f80e000, "16B", "4B"},
}

// VecLane is [Text.Vec] for the number in a lane of m, which all lanes of n meet: for FMUL, FMLA
// and FMLS, and for SDOT and UDOT, to which the four bytes of a lane are one.
func (t *Text) VecLane(name string, d, n, m, lane int) {
	op, known := laneOps[name]
	if !known || lane < 0 || lane > 3 {
		t.fail("no instruction on vectors %s with lane %d", name, lane)
		return
	}
	word := op.bits | uint32(lane&1<<21|m<<16|lane>>1<<11|n<<5|d)
	t.Op("WORD $0x%08x // %s V%d.4S, V%d.%s, V%d.%s[%d]", word, name, d, n, op.n, m, op.m, lane)
}

// fail keeps the first of what is wrong.
func (t *Text) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// Err is the first instruction that could not be written.
func (t *Text) Err() error { return t.err }

// encode puts operands in their places.
func (op vectorOp) encode(name string, operands []int) (word uint32, text string) {
	lanes := strings.Fields(op.lanes)
	from := lanes[len(lanes)-1]
	d, n := operands[0], operands[1]
	word = op.bits | uint32(n<<5|d)
	text = fmt.Sprintf("%s V%d.%s, V%d.%s", name, d, lanes[0], n, from)
	switch last := operands[len(operands)-1]; op.form {
	case ofThree:
		return word | uint32(last<<16), fmt.Sprintf("%s, V%d.%s", text, last, from)
	case ofLeft:
		return word | uint32(last<<16), fmt.Sprintf("%s, $%d", text, last)
	case ofRight:
		return word | uint32((64-last)<<16), fmt.Sprintf("%s, $%d", text, last)
	}
	if name == "MOV" { // which is ORR of a register with itself
		word |= uint32(n << 16)
	}
	return word, text
}
