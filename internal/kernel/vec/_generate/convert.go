package main

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// conversion is a loop between slices of different element types, for either architecture. It
// handles whole vectors only; the reference does the rest, since there is no masked access to
// narrow elements before AVX-512.
type conversion struct {
	name     string
	from, to string   // element types
	wideOnly bool     // whether the AVX2 instructions are missing
	scalars  []string // names of float32 parameters, in the registers up to 15
	body     func(a *unrolled, in, out string)
	// neon turns the elements in a register of arm64, widened to 32 bits, into those that are
	// narrowed to the result; see neonConversion.
	neon func(a *asm.Text, v int)
	bits []uint32 // constants of neon
}

var elementBytes = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2,
	"int32": 4, "float32": 4,
	"int64": 8}

func (c *conversion) parameters() string {
	list := fmt.Sprintf("dst []%s, x []%s", c.to, c.from)
	if len(c.scalars) > 0 {
		list += ", " + strings.Join(c.scalars, ", ") + " float32"
	}
	return list
}

// more are the scalars as further arguments.
func (c *conversion) more() string {
	return strings.Join(append([]string{""}, c.scalars...), ", ")
}

func (c *conversion) write(t *asm.Text, set asm.Vector, table *constants) {
	if !c.has(set) {
		return
	}
	if set.Name == asm.VectorNEON.Name {
		c.writeNEON(t)
		return
	}
	a := &unrolled{Text: t, Vector: set, table: table, copies: 1, pinned: map[uint32]int{},
		hoisted: map[uint32]fixed{}}
	a.Open(c.name+set.Name, "("+c.parameters()+")", frame, 48+4*len(c.scalars))
	for i, s := range c.scalars {
		a.Line("\tVBROADCASTSS %s+%d(FP), %s%d", s, 48+4*i, set.Reg,
			16-len(c.scalars)+i)
	}
	a.Line("\tMOVQ dst_base+0(FP), DI\n\tMOVQ dst_len+8(FP), CX\n\tMOVQ x_base+24(FP), SI")
	a.Line("\tSHRQ $%d, CX\n\tJZ done\n\tPCALIGN $32\nloop:", bits.TrailingZeros(uint(set.Lanes)))
	c.body(a, "(SI)", "(DI)")
	a.Line("\tADDQ $%d, SI\n\tADDQ $%d, DI\n\tDECQ CX\n\tJNZ loop",
		set.Lanes*elementBytes[c.from], set.Lanes*elementBytes[c.to])
	a.Line("done:\n\tVZEROUPPER\n\tRET")
}

// has says that there is a routine for the instruction set.
func (c *conversion) has(set asm.Vector) bool {
	if set.Name == asm.VectorNEON.Name {
		return c.neon != nil
	}
	return !c.wideOnly || set.Wide()
}

func (c *conversion) declaration(set asm.Vector) string {
	if !c.has(set) {
		return ""
	}
	return fmt.Sprintf("// %[1]s%[2]s computes what %[1]sRef does for the whole vectors in "+
		"dst.\n//\n//go:noescape\n"+
		"func %[1]s%[2]s(%[3]s)\n", c.name, set.Name, c.parameters())
}

func (c *conversion) reference() string {
	return fmt.Sprintf("func %[1]s(%[2]s) { %[1]sRef(dst, x%[3]s) }\n", c.name, c.parameters(),
		c.more())
}

func (c *conversion) dispatch() string {
	narrow := fmt.Sprintf(`case cpuinfo.AVX2:
			whole = n &^ %d
			%sAVX2(dst[:whole], x%s)
		`, asm.AVX2.Lanes-1, c.name, c.more())
	if c.wideOnly {
		narrow = ""
	}
	return fmt.Sprintf(`func %[1]s(%[2]s) {
	level := cpuinfo.Current()
	for len(dst) > 0 {
		n := min(len(dst), block)
		whole := 0
		switch level {
		case cpuinfo.AVX512:
			whole = n &^ %[3]d
			%[1]sAVX512(dst[:whole], x%[5]s)
		%[4]s}
		%[1]sRef(dst[whole:n], x[whole:n]%[5]s)
		dst, x = dst[n:], x[n:]
	}
}
`, c.name, c.parameters(), asm.AVX512.Lanes-1, narrow, c.more())
}

// each writes lines in which V stands for the prefix of a full register and H for that of half a
// register.
func (a *unrolled) each(lines ...string) {
	half := map[string]string{"Z": "Y", "Y": "X"}[a.Reg]
	for _, l := range lines {
		a.Line("\t%s", strings.NewReplacer("%V", a.Reg, "%H", half).Replace(l))
	}
}

func convert() []routine {
	return []routine{
		&conversion{name: "float16ToFloat32", from: "uint16", to: "float32",
			neon: asItIs,
			body: func(a *unrolled, in, out string) {
				a.each("VCVTPH2PS "+in+", %V0", "VMOVUPS %V0, "+out)
			}},
		&conversion{name: "float32ToFloat16", from: "float32", to: "uint16",
			neon: asItIs,
			body: func(a *unrolled, in, out string) {
				a.each("VMOVUPS "+in+", %V0", "VCVTPS2PH $0, %V0, "+out)
			}},
		&conversion{name: "bfloat16ToFloat32", from: "uint16", to: "float32",
			neon: func(a *asm.Text, v int) { a.Vec("SHL", v, v, 16) },
			body: func(a *unrolled, in, out string) {
				a.each("VPMOVZXWD "+in+", %V0", "VPSLLD $16, %V0, %V0", "VMOVUPS %V0, "+out)
			}},
		&conversion{name: "float32ToBFloat16", from: "float32", to: "uint16",
			neon: roundBFloat16NEON, bits: []uint32{1, 0x7fff, 1 << 22}, body: roundBFloat16},
		&conversion{name: "int32ToFloat32", from: "int32", to: "float32",
			neon: fromInteger,
			body: func(a *unrolled, in, out string) {
				a.each("VCVTDQ2PS "+in+", %V0", "VMOVUPS %V0, "+out)
			}},
		&conversion{name: "float32ToInt32", from: "float32", to: "int32",
			neon: func(a *asm.Text, v int) { a.Vec("FCVTZS", v, v) }, body: truncateInt32},
		&conversion{name: "int64ToFloat32", from: "int64", to: "float32", wideOnly: true,
			body: func(a *unrolled, in, out string) {
				a.each("VCVTQQ2PS "+in+", Y0", "VCVTQQ2PS 64"+in+", Y1", "VMOVUPS Y0, "+out,
					"VMOVUPS Y1, 32"+out)
			}},
		&conversion{name: "float32ToInt64", from: "float32", to: "int64",
			neon: asItIs, wideOnly: true,
			body: truncateInt64},
		&conversion{name: "uint8ToFloat32", from: "uint8", to: "float32",
			neon: fromInteger,
			body: func(a *unrolled, in, out string) {
				a.each("VPMOVZXBD "+in+", %V0", "VCVTDQ2PS %V0, %V0", "VMOVUPS %V0, "+out)
			}},
		&conversion{name: "float32ToUint8", from: "float32", to: "uint8",
			neon: saturateNEON, bits: []uint32{0, math.Float32bits(255)},
			body: saturate(0, 255, "VPACKUSWB")},
		&conversion{name: "float32ToInt8", from: "float32", to: "int8",
			neon: saturateNEON, bits: []uint32{math.Float32bits(-128), math.Float32bits(127)},
			body: saturate(-128, 127, "VPACKSSWB")},
		&conversion{name: "int8ToFloat32", from: "int8", to: "float32",
			neon: fromInteger,
			body: func(a *unrolled, in, out string) {
				a.each("VPMOVSXBD "+in+", %V0", "VCVTDQ2PS %V0, %V0", "VMOVUPS %V0, "+out)
			}},
	}
}

// saturate rounds to the nearest byte, ties to even. The maximum comes first and has the bound
// second, which the instruction returns for NaN.
func saturate(lo, hi float64, pack string) func(a *unrolled, in, out string) {
	return func(a *unrolled, in, out string) {
		x := a.newValue()
		a.each("VMOVUPS " + in + ", %V0")
		a.op("VMAXPS", a.c(lo), x, x)
		a.op("VMINPS", a.c(hi), x, x)
		a.each("VCVTPS2DQ %V0, %V0")
		if a.Wide() {
			a.Line("\tVPMOVDB Z0, %s", out)
			return
		}
		a.Line("\tVEXTRACTI128 $1, Y0, X1\n\tVPACKSSDW X1, X0, X0\n\t%s X0, X0, X0\n\tVMOVQ X0, %s",
			pack, out)
	}
}

// roundBFloat16 adds half a unit of the kept part, less one if that part is even, and cuts. NaN
// gets its quiet bit instead, so that it cannot carry into an infinity.
func roundBFloat16(a *unrolled, in, out string) {
	x, rounded, nan := a.newValue(), a.newValue(), a.newMask()
	a.each("VMOVUPS " + in + ", %V0")
	a.op("VPSRLD", 16, x, rounded)
	and, or := "VPAND", "VPOR"
	if a.Wide() {
		and, or = "VPANDD", "VPORD"
	}
	a.op(and, a.bits(1), rounded, rounded)
	a.op("VPADDD", a.bits(0x7fff), rounded, rounded)
	a.op("VPADDD", x, rounded, rounded)
	a.compare(unordered, x, x, nan)
	a.op(or, a.bits(1<<22), x, x)
	a.choose(nan, x, rounded, x)
	a.op("VPSRLD", 16, x, x)
	if a.Wide() {
		a.Line("\tVPMOVDW Z0, %s", out)
		return
	}
	a.Line("\tVEXTRACTI128 $1, Y0, X1\n\tVPACKUSDW X1, X0, X0\n\tVMOVDQU X0, %s", out)
}

// truncateInt32 and truncateInt64 mend what the instructions return out of range, the least
// integer: its complement is the greatest, which numbers too large become, and NaN becomes 0.
func truncateInt32(a *unrolled, in, out string) {
	x, y, large := a.newValue(), a.newValue(), a.newMask()
	a.each("VMOVUPS "+in+", %V0", "VCVTTPS2DQ %V0, %V1")
	a.compare(notLess, x, a.c(1<<31), large)
	if a.Wide() {
		a.Line("\tVPTERNLOGD $0x0f, Z1, Z1, K2, Z1")
		a.compare(ordered, x, x, large)
		a.Line("\tVMOVDQA32.Z Z1, K2, Z1")
	} else {
		a.op("VPXOR", large, y, y)
		a.compare(ordered, x, x, large)
		a.op("VPAND", large, y, y)
	}
	a.each("VMOVUPS %V1, " + out)
}

func truncateInt64(a *unrolled, in, out string) {
	for half := range 2 {
		a.Line("\tVMOVUPS %d%s, Y0\n\tVCVTTPS2QQ Y0, Z1", 32*half, in)
		a.Line("\tVMOVAPS Y0, Y2\n\tVCMPPS.BCST $%d, %s, Z2, K2", notLess, a.c(1<<63))
		a.Line("\tVPTERNLOGQ $0x0f, Z1, Z1, K2, Z1")
		a.Line("\tVCMPPS $%d, Z2, Z2, K2\n\tVMOVDQA64.Z Z1, K2, Z1", ordered)
		a.Line("\tVMOVUPS Z1, %d%s", 64*half, out)
	}
}
