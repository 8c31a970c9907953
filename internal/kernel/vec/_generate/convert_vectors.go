package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of the conversions for arm64 beside the elements, which are in 0 to 3, and 8 to 15,
// which are free: the scalars and the constants. R0 is the result, R1 the elements, R3 how many are
// left.
const (
	neonScalar   = 20
	neonConstant = 24
)

// writeNEON writes a conversion for arm64: some vectors at a time, four by four, then one by one.
func (c *conversion) writeNEON(a *asm.Text) {
	a.Open(c.name+asm.VectorNEON.Name, "("+c.parameters()+")", frame, 48+4*len(c.scalars))
	a.Ops("MOVD dst_base+0(FP), R0", "MOVD dst_len+8(FP), R3", "MOVD x_base+24(FP), R1")
	for i, s := range c.scalars {
		a.Op("FMOVS %s+%d(FP), F%d", s, 48+4*i, neonScalar+i)
		a.Op("VDUP V%d.S[0], V%[1]d.S4", neonScalar+i)
	}
	for i, b := range c.bits {
		a.Op("MOVW $%d, R5", int32(b))
		a.Op("VDUP R5, V%d.S4", neonConstant+i)
	}
	for _, vectors := range c.rounds() {
		a.Op("SUBS $%d, R3", 4*vectors)
		a.Op("BLT end%d", vectors)
		a.Label(fmt.Sprint("loop", vectors))
		for left := vectors; left > 0; left -= 4 {
			n := min(vectors, 4)
			c.read(a, n)
			for v := range n {
				c.neon(a, v)
			}
			c.store(a, n)
		}
		a.Op("SUBS $%d, R3", 4*vectors)
		a.Op("BGE loop%d", vectors)
		a.Label(fmt.Sprint("end", vectors))
		a.Op("ADD $%d, R3", 4*vectors)
	}
	a.Op("RET")
	if err := a.Err(); err != nil {
		panic(err)
	}
}

// rounds are how many vectors a round of each loop takes. Where one instruction converts a vector,
// four are so few that the end of a round takes as long as they do.
func (c *conversion) rounds() []int {
	if c.half() || elementBytes[c.from] == 4 && elementBytes[c.to] == 4 {
		return []int{8, 4, 1}
	}
	return []int{4, 1}
}

// half says that 16 bits are a binary16, which is converted as it is read or stored.
func (c *conversion) half() bool {
	return c.name == "float16ToFloat32" || c.name == "float32ToFloat16"
}

// read reads so many vectors, four or one, and widens their elements to 32 bits.
func (c *conversion) read(a *asm.Text, vectors int) {
	switch elementBytes[c.from] {
	case 1:
		widenNEON(a, "R1", c.from == "int8", 0, vectors)
	case 2:
		widen := map[string]string{"uint16": "UXTL", "int16": "SXTL"}[c.from]
		if c.half() {
			widen = "FCVTL"
		}
		if vectors == 1 {
			a.Op("FMOVD.P 8(R1), F0")
			a.Vec(widen, 0, 0)
			return
		}
		a.Op("FLDPQ.P 32(R1), (F0, F2)")
		for v := 0; v < 4; v += 2 {
			a.Vec(widen+"2", v+1, v)
			a.Vec(widen, v, v)
		}
	default:
		if vectors == 1 {
			a.Op("FMOVQ.P 16(R1), F0")
			return
		}
		a.Ops("FLDPQ.P 32(R1), (F0, F1)", "FLDPQ.P 32(R1), (F2, F3)")
	}
}

// store narrows so many vectors and stores them.
func (c *conversion) store(a *asm.Text, vectors int) {
	switch elementBytes[c.to] {
	case 1:
		narrowNEON(a, vectors)
	case 2:
		c.store16(a, vectors)
	case 8:
		for v := range vectors {
			a.Vec("FCVTL2.D", 9, v)
			a.Vec("FCVTL.D", 8, v)
			a.Vec("FCVTZS.D", 8, 8)
			a.Vec("FCVTZS.D", 9, 9)
			a.Op("FSTPQ.P (F8, F9), 32(R0)")
		}
	default:
		if vectors == 1 {
			a.Op("FMOVQ.P F0, 16(R0)")
			return
		}
		a.Ops("FSTPQ.P (F0, F1), 32(R0)", "FSTPQ.P (F2, F3), 32(R0)")
	}
}

// store16 stores 16 bits of each element.
func (c *conversion) store16(a *asm.Text, vectors int) {
	if vectors == 1 {
		a.Vec(map[bool]string{true: "FCVTN", false: "XTN"}[c.half()], 0, 0)
		a.Op("FMOVD.P F0, 8(R0)")
		return
	}
	for v := 0; v < 4; v += 2 {
		if c.half() {
			a.Vec("FCVTN", v, v)
			a.Vec("FCVTN2", v, v+1)
		} else {
			a.Vec("UZP1.H", v, v, v+1)
		}
	}
	a.Op("FSTPQ.P (F0, F2), 32(R0)")
}

// asItIs is for conversions that reading and storing do.
func asItIs(*asm.Text, int) {}

func fromInteger(a *asm.Text, v int) { a.Vec("SCVTF", v, v) }

// saturateNEON is saturate: what is not greater than the lowest, as is NaN, becomes that.
func saturateNEON(a *asm.Text, v int) {
	const lo, hi = neonConstant, neonConstant + 1
	a.Vec("FCMGT", 8+v, v, lo)
	a.Vec("BIF", v, lo, 8+v)
	a.Vec("FMIN", v, v, hi)
	a.Vec("FCVTNS", v, v)
}

// roundBFloat16NEON is roundBFloat16.
func roundBFloat16NEON(a *asm.Text, v int) {
	const one, most, quiet = neonConstant, neonConstant + 1, neonConstant + 2
	a.Vec("USHR", 8+v, v, 16)
	a.Vec("FCMEQ", 12+v, v, v)
	a.Vec("AND", 8+v, 8+v, one)
	a.Vec("ADD", 8+v, 8+v, most)
	a.Vec("ADD", 8+v, 8+v, v)
	a.Vec("ORR", v, v, quiet)
	a.Vec("BIT", v, 8+v, 12+v)
	a.Vec("USHR", v, v, 16)
}

// dequantizedNEON computes (x - zero) · scale.
func dequantizedNEON(a *asm.Text, v int) {
	fromInteger(a, v)
	a.Vec("FSUB", v, v, neonScalar+1)
	a.Vec("FMUL", v, v, neonScalar)
}

// quantizedWordNEON computes x/scale, limited and rounded, plus zero.
func quantizedWordNEON(a *asm.Text, v int) {
	a.Vec("FDIV", v, v, neonScalar)
	a.Vec("FMAXNM", v, v, neonScalar+2)
	a.Vec("FMINNM", v, v, neonScalar+3)
	a.Vec("FRINTN", v, v)
	a.Vec("FADD", v, v, neonScalar+1)
	a.Vec("FCVTNS", v, v)
}

// dispatchNEON is dispatch for arm64.
func (c *conversion) dispatchNEON() string {
	if c.neon == nil {
		return c.reference()
	}
	return fmt.Sprintf(`func %[1]s(%[2]s) {
	if !cpuinfo.HasNEON() {
		%[1]sRef(dst, x%[3]s)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst), block)
		whole := n &^ 3
		%[1]sNEON(dst[:whole], x%[3]s)
		%[1]sRef(dst[whole:n], x[whole:n]%[3]s)
		dst, x = dst[n:], x[n:]
	}
}
`, c.name, c.parameters(), c.more())
}
