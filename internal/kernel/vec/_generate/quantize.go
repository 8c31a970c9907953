package main

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// toBytes is a loop from numbers to bytes on a scale: Requantization in package vec defines it. The
// parameters lie in memory in the order of that struct, at offsets that the loop takes them from.
type toBytes struct {
	name   string
	from   string // element type of x
	second string // of a second operand y, if there is one
	start  func(l *lane)
	// neon is start for arm64, which quantize_vectors.go writes the rest of
	neon func(f *asm.Text, v int)
}

// The registers of the parameters, above those that the body uses.
const (
	regAdd = 31 - iota
	regScale
	regLo
	regHi
	regZero
	regThenScale
	regThenBias
	regThenLo
	regThenHi
	regThenZero
)

// lane writes the instructions for one vector.
type lane struct {
	*unrolled
	masked bool
}

// r is the register of a parameter.
func (l *lane) r(reg int) string {
	if !l.Wide() {
		return fmt.Sprintf("Y%d", reg-16)
	}
	return fmt.Sprintf("Z%d", reg)
}

// load reads a vector of elements of that type from the operand at the pointer.
func (l *lane) load(typ, pointer string, to int) {
	z := ""
	if l.masked {
		z = ".Z"
	}
	at := fmt.Sprintf("(%s)(AX*%d)", pointer, elementBytes[typ])
	mask := ""
	if l.masked {
		mask = "K1, "
	}
	mnemonic := map[string]string{"uint8": "VPMOVZXBD", "int8": "VPMOVSXBD"}[typ]
	if mnemonic == "" {
		mnemonic = "VMOVUPS"
	}
	l.Line("\t%s%s %s, %s%s%d", mnemonic, z, at, mask, l.Reg, to)
}

func (l *lane) ops(lines ...string) {
	for _, s := range lines {
		l.Line("\t%s", strings.NewReplacer("%V", l.Reg, "%add", l.r(regAdd), "%scale",
			l.r(regScale), "%bias", l.r(regThenBias)).Replace(s))
	}
}

// clamped limits register 0 and rounds it to integers.
func (l *lane) clamped(lo, hi, zero int) {
	l.Line("\tVMAXPS %s, %s0, %s0", l.r(lo), l.Reg, l.Reg)
	l.Line("\tVMINPS %s, %s0, %s0", l.r(hi), l.Reg, l.Reg)
	l.Line("\tVCVTPS2DQ %s0, %s0", l.Reg, l.Reg)
	l.Line("\tVPADDD %s, %s0, %s0", l.r(zero), l.Reg, l.Reg)
}

// store writes the low bytes of register 0.
func (l *lane) store() {
	if !l.Wide() {
		// The bytes, signed or not, are the low ones of integers in range: other bits must not
		// saturate.
		l.ops("VPAND Y4, Y0, Y0", "VEXTRACTI128 $1, Y0, X1", "VPACKUSDW X1, X0, X0",
			"VPACKUSWB X0, X0, X0", "VMOVQ X0, (DI)(AX*1)")
		return
	}
	mask := ""
	if l.masked {
		mask = "K1, "
	}
	l.Line("\tVPMOVDB Z0, %s(DI)(AX*1)", mask)
}

func (k *toBytes) signature() string {
	y := ""
	if k.second != "" {
		y = fmt.Sprintf(", y *%s", k.second)
	}
	return fmt.Sprintf("(dst *byte, x *%s%s, n int, p *Requantization)", k.from, y)
}

func (k *toBytes) write(t *asm.Text, set asm.Vector, _ *constants) {
	a := &unrolled{Text: t, Vector: set}
	size := 32
	if k.second != "" {
		size = 40
	}
	a.Open(k.name+set.Name, k.signature(), frame, size)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+8(FP), SI")
	if k.second != "" {
		a.Line("\tMOVQ y+16(FP), R8")
	}
	a.Line("\tMOVQ n+%d(FP), CX\n\tMOVQ p+%d(FP), BX", size-16, size-8)
	l := &lane{unrolled: a}
	l.parameters()
	if !set.Wide() {
		a.Line("\tVPCMPEQD Y4, Y4, Y4\n\tVPSRLD $24, Y4, Y4")
	}
	a.Line("\tXORQ AX, AX\n\tSUBQ $%d, CX\n\tJL tail\n\tPCALIGN $32\nloop:", set.Lanes)
	k.iteration(l, "loop")
	a.Line("\tADDQ $%d, AX\n\tSUBQ $%d, CX\n\tJGE loop\ntail:\n\tADDQ $%d, CX\n\tJZ done",
		set.Lanes, set.Lanes, set.Lanes)
	if set.Wide() {
		a.Line("\tMOVL $1, DX\n\tSHLL CX, DX\n\tDECL DX\n\tKMOVW DX, K1")
		l.masked = true
		k.iteration(l, "tail")
	}
	a.Line("done:\n\tVZEROUPPER\n\tRET")
}

// parameters loads the parameters that BX points to.
func (l *lane) parameters() {
	for reg := regAdd; reg >= regThenZero; reg-- {
		l.Line("\tVBROADCASTSS %d(BX), %s", 4*(regAdd-reg), l.r(reg))
	}
	l.Line("\tMOVL 40(BX), R9")
}

// rowsToBytes is a loop for the rows of a matrix, each with parameters of its own, in one call.
type rowsToBytes struct {
	name string
	row  *toBytes
}

// named writes a text in which NAME stands for the routine, ROW for that of a row and TYPE for the
// type of its elements.
func (k *rowsToBytes) named(text string) string {
	return strings.NewReplacer("NAME", k.name, "ROW", k.row.name, "TYPE", k.row.from).Replace(text)
}

func (k *rowsToBytes) write(t *asm.Text, set asm.Vector, _ *constants) {
	if !set.Wide() {
		return
	}
	a := &unrolled{Text: t, Vector: set}
	l := &lane{unrolled: a}
	a.Open(k.name+"AVX512", k.named("(dst *byte, ldd int, x *TYPE, ldx, rows, cols int, p "+
		"*Requantization)"), frame, 56)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ ldd+8(FP), R10\n\tMOVQ x+16(FP), SI\n\tMOVQ ldx+24(FP), " +
		"R11\n\tMOVQ rows+32(FP), R12")
	a.Line("\tMOVQ p+48(FP), BX\n\tSHLQ $2, R11")
	a.Line("\tMOVQ cols+40(FP), CX\n\tANDQ $15, CX\n\tMOVL $1, DX\n\tSHLL CX, DX\n\tDECL " +
		"DX\n\tKMOVW DX, K1")
	a.Line("row:\n\tMOVQ cols+40(FP), CX")
	l.parameters()
	a.Line("\tXORQ AX, AX\n\tSUBQ $16, CX\n\tJL tail\nloop:")
	k.row.iteration(l, "loop")
	a.Line("\tADDQ $16, AX\n\tSUBQ $16, CX\n\tJGE loop\ntail:\n\tADDQ $16, CX\n\tJZ done")
	l.masked = true
	k.row.iteration(l, "tail")
	a.Line("done:\n\tADDQ R10, DI\n\tADDQ R11, SI\n\tADDQ $44, BX\n\tDECQ R12\n\tJNZ " +
		"row\n\tVZEROUPPER\n\tRET")
}

func (k *rowsToBytes) declaration(set asm.Vector) string {
	if !set.Wide() {
		return ""
	}
	return k.named("// NAMEAVX512 does what ROWRef does for each row; neither rows nor columns " +
		"may be 0.\n//\n//go:noescape\n" +
		"func NAMEAVX512(dst *byte, ldd int, x *TYPE, ldx, rows, cols int, p *Requantization)\n")
}

func (k *rowsToBytes) dispatch() string {
	return k.named(`func NAME(dst []byte, ldd int, x []TYPE, ldx, cols int, p []Requantization) {
	if cpuinfo.Current() != cpuinfo.AVX512 {
		for i := range p {
			ROW(dst[i*ldd:][:cols], x[i*ldx:][:cols], &p[i])
		}
		return
	}
	for step := max(1, block/cols); len(p) > 0; {
		n := min(step, len(p))
		NAMEAVX512(&dst[0], ldd, &x[0], ldx, n, cols, &p[0])
		if p = p[n:]; len(p) > 0 {
			dst, x = dst[n*ldd:], x[n*ldx:]
		}
	}
}
`)
}

func (k *rowsToBytes) reference() string {
	return k.named("func NAME(dst []byte, ldd int, x []TYPE, ldx, cols int, p []Requantization) " +
		"{\n" +
		"\tfor i := range p {\n\t\tROWRef(dst[i*ldd:][:cols], x[i*ldx:][:cols], &p[i])\n\t}\n}\n")
}

// iteration turns one vector into bytes; R9 says whether there is a second stage.
func (k *toBytes) iteration(l *lane, where string) {
	l.load(k.from, "SI", 0)
	if k.second != "" {
		l.load(k.second, "R8", 1)
	}
	k.start(l)
	k.finish(l, where)
}

// finish makes bytes of the scaled numbers in register 0 and stores them.
func (k *toBytes) finish(l *lane, where string) {
	l.clamped(regLo, regHi, regZero)
	if k.second == "" {
		l.Line("\tTESTL R9, R9\n\tJZ %sOnce", where)
		l.ops("VCVTDQ2PS %V0, %V0")
		l.Line("\tVFMADD213PS %s, %s, %s0", l.r(regThenBias), l.r(regThenScale), l.Reg)
		l.clamped(regThenLo, regThenHi, regThenZero)
		l.Line("%sOnce:", where)
	}
	l.store()
}

func (k *toBytes) declaration(set asm.Vector) string {
	whole := ""
	if !set.Wide() {
		whole = ", whole vectors of 8 of them"
	}
	return fmt.Sprintf("// %[1]s%[2]s computes what %[1]sRef does for n "+
		"elements%[3]s.\n//\n//go:noescape\nfunc %[1]s%[2]s%[4]s\n",
		k.name, set.Name, whole, k.signature())
}

func (k *toBytes) arguments() string {
	y := ""
	if k.second != "" {
		y = fmt.Sprintf(", y []%s", k.second)
	}
	return fmt.Sprintf("dst []byte, x []%s%s, p *Requantization", k.from, y)
}

// operand is the second operand cut or addressed by format, with the comma before it.
func (k *toBytes) operand(format string) string {
	if k.second == "" {
		return ""
	}
	return ", " + fmt.Sprintf(format, "y")
}

func (k *toBytes) reference() string {
	return fmt.Sprintf("func %[1]s(%[2]s) { %[1]sRef(dst, x%[3]s, p) }\n", k.name, k.arguments(),
		k.operand("%s"))
}

func (k *toBytes) dispatch() string {
	advance := ""
	if k.second != "" {
		advance = "\n\t\ty = y[n:]"
	}
	return fmt.Sprintf(`func %[1]s(%[2]s) {
	level := cpuinfo.Current()
	for len(dst) > 0 {
		n := min(len(dst), block)
		whole := 0
		switch level {
		case cpuinfo.AVX512:
			whole = n
			%[1]sAVX512(&dst[0], &x[0]%[3]s, n, p)
		case cpuinfo.AVX2:
			if whole = n &^ 7; whole > 0 {
				%[1]sAVX2(&dst[0], &x[0]%[3]s, whole, p)
			}
		}
		%[1]sRef(dst[whole:n], x[whole:n]%[4]s, p)
		dst, x = dst[n:], x[n:]%[5]s
	}
}
`, k.name, k.arguments(), k.operand("&%s[0]"), k.operand("%s[whole:n]"), advance)
}

// quantize lists the loops from numbers to bytes. The parameter that the others add to a sum is
// what the second operand of addBytes is multiplied by.
func quantize() []routine {
	scaled := []string{"VPADDD %add, %V0, %V0", "VCVTDQ2PS %V0, %V0", "VMULPS %scale, %V0, %V0"}
	var list []routine
	ints := &toBytes{name: "requantizeInts", from: "int32", neon: sumsNEON,
		start: func(l *lane) {
			l.ops(scaled...)
		}}
	floats := &toBytes{name: "requantizeFloats", from: "float32", neon: roundedNEON,
		start: func(l *lane) {
			l.ops("VCVTPS2DQ %V0, %V0")
			l.ops(scaled...)
		}}
	list = append(list, ints, &rowsToBytes{"requantizeRows", ints}, floats,
		&rowsToBytes{"requantizeFloatRows", floats},
		&toBytes{name: "quantizeFloats", from: "float32", neon: dividedNEON,
			start: func(l *lane) {
				l.ops("VDIVPS %scale, %V0, %V0")
			}},
	)
	for _, typ := range []string{"uint8", "int8"} {
		name := strings.ToUpper(typ[:1]) + typ[1:]
		list = append(list, &toBytes{name: "rescale" + name, from: typ, neon: rescaledNEON,
			start: func(l *lane) {
				l.ops("VCVTDQ2PS %V0, %V0", "VFMADD213PS %add, %scale, %V0")
			}}, &toBytes{name: "add" + name, from: typ, second: typ, neon: addedNEON,
			start: func(l *lane) {
				l.ops("VCVTDQ2PS %V0, %V0", "VCVTDQ2PS %V1, %V1", "VFMADD213PS %bias, %scale, %V0",
					"VFMADD231PS %add, %V1, %V0")
			}})
	}
	return append(list, addBlocks{"addBlocksUint8", "VPMOVZXBD"},
		addBlocks{"addBlocksInt8", "VPMOVSXBD"}, lookup{}, windows{ints}, copyRows{},
		fromBytes("dequantizeUint8", "uint8", "VPMOVZXBD"),
		fromBytes("dequantizeInt8", "int8", "VPMOVSXBD"),
		fromBytes("dequantizeUint16", "uint16", "VPMOVZXWD"),
		fromBytes("dequantizeInt16", "int16", "VPMOVSXWD"),
		toWords("quantizeUint16", "uint16", "VPACKUSDW"),
		toWords("quantizeInt16", "int16", "VPACKSSDW"))
}

// windows is the loop of Windows3, by AVX-512 VNNI and VBMI: a permutation makes a word of the
// three bytes under a row of the kernel for each of 16 outputs, and a dot product multiplies them.
type windows struct{ sums *toBytes }

func (k windows) write(t *asm.Text, set asm.Vector, _ *constants) {
	if !set.Wide() {
		return
	}
	a := &unrolled{Text: t, Vector: set}
	l := &lane{unrolled: a}
	a.Open("windows3VBMI", "(dst *byte, cols int, x *byte, pitch, stride, rows int, w "+
		"*[3]uint32, at *[64]byte, p *Requantization)", frame, 72)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+16(FP), SI\n\tMOVQ pitch+24(FP), R10\n\tMOVQ " +
		"stride+32(FP), R11\n\tMOVQ rows+40(FP), R12")
	a.Line("\tMOVQ w+48(FP), DX\n\tMOVQ at+56(FP), BX\n\tVMOVDQU8 (BX), Z20\n\tMOVQ p+64(FP), BX")
	for i := range 3 {
		a.Line("\tVPBROADCASTD %d(DX), Z%d", 4*i, 16+i)
	}
	l.parameters()
	a.Line("\tMOVQ R11, R13\n\tIMULQ R10, R13\n\tSHLQ $4, R11")
	a.Line("\tMOVQ cols+8(FP), CX\n\tANDQ $15, CX\n\tMOVL $1, DX\n\tSHLL CX, DX\n\tDECL " +
		"DX\n\tKMOVW DX, K1")
	a.Line("row:\n\tMOVQ cols+8(FP), CX\n\tXORQ AX, AX\n\tMOVQ SI, R8\n\tSUBQ $16, CX\n\tJL " +
		"tail\nloop:")
	body := func(where string) {
		a.Line("\tVMOVDQU8 (R8), Z1\n\tVMOVDQU8 (R8)(R10*1), Z2\n\tVMOVDQU8 (R8)(R10*2), " +
			"Z3\n\tVPXORD Z0, Z0, Z0")
		for i := range 3 {
			a.Line("\tVPERMB Z%d, Z20, Z%d\n\tVPDPBUSD Z%d, Z%d, Z0", 1+i, 1+i, 16+i, 1+i)
		}
		k.sums.start(l)
		k.sums.finish(l, where)
	}
	body("loop")
	a.Line("\tADDQ $16, AX\n\tADDQ R11, R8\n\tSUBQ $16, CX\n\tJGE loop\ntail:\n\tADDQ $16, " +
		"CX\n\tJZ done")
	l.masked = true
	body("tail")
	a.Line("done:\n\tADDQ cols+8(FP), DI\n\tADDQ R13, SI\n\tDECQ R12\n\tJNZ " +
		"row\n\tVZEROUPPER\n\tRET")
}

func (windows) declaration(set asm.Vector) string {
	if !set.Wide() {
		return ""
	}
	return "// windows3VBMI computes what windows3Ref does; it reads 64 bytes of x from the " +
		"first under each 16 outputs on. Neither rows nor columns may be 0; at lists the bytes " +
		"under the outputs, four for each.\n//\n//go:noescape\n" +
		"func windows3VBMI(dst *byte, cols int, x *byte, pitch, stride, rows int, w *[3]uint32, " +
		"at *[64]byte, p *Requantization)\n"
}

func (windows) reference() string {
	return "func windows3(dst []byte, cols int, x []byte, pitch, stride, rows int, w *[3]uint32, " +
		"p *Requantization) {\n" +
		"\twindows3Ref(dst, cols, x, pitch, stride, rows, w, p)\n}\n"
}

func (windows) dispatch() string {
	return "func windows3(dst []byte, cols int, x []byte, pitch, stride, rows int, w *[3]uint32, " +
		`p *Requantization) {
	if !cpuinfo.HasAVX512VBMI() || stride > 2 {
		windows3Ref(dst, cols, x, pitch, stride, rows, w, p)
		return
	}
	for step := max(1, block/cols); rows > 0; rows -= step {
		windows3VBMI(&dst[0], cols, &x[0], pitch, stride, min(step, rows), w,
			&windowBytes[stride-1], p)
		if rows > step {
			dst, x = dst[step*cols:], x[step*stride*pitch:]
		}
	}
}
`
}

// copyRows is the loop of CopyRows: 64 bytes of a row at a time, the last of them under a mask.
type copyRows struct{}

func (copyRows) write(t *asm.Text, set asm.Vector, _ *constants) {
	if !set.Wide() {
		return
	}
	a := &unrolled{Text: t, Vector: set}
	a.Open("copyRowsAVX512", "(dst *byte, ldd int, src *byte, lds, cols, rows int, flip uint32)",
		frame, 52)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ ldd+8(FP), R10\n\tMOVQ src+16(FP), SI\n\tMOVQ " +
		"lds+24(FP), R11")
	a.Line("\tMOVQ cols+32(FP), R8\n\tMOVQ rows+40(FP), R12\n\tMOVL flip+48(FP), AX\n\tVMOVD AX, " +
		"X1\n\tVPBROADCASTD X1, Z1")
	a.Line("\tMOVQ R8, CX\n\tANDQ $63, CX\n\tMOVQ $1, DX\n\tSHLQ CX, DX\n\tDECQ DX\n\tKMOVQ DX, " +
		"K1\n\tSUBQ CX, R8")
	a.Line("row:\n\tXORQ AX, AX\n\tCMPQ AX, R8\n\tJGE tail\nloop:")
	a.Line("\tVPXORD (SI)(AX*1), Z1, Z0\n\tVMOVDQU8 Z0, (DI)(AX*1)\n\tADDQ $64, AX\n\tCMPQ AX, " +
		"R8\n\tJLT loop\ntail:")
	a.Line("\tVMOVDQU8.Z (SI)(AX*1), K1, Z0\n\tVPXORD Z1, Z0, Z0\n\tVMOVDQU8 Z0, K1, (DI)(AX*1)")
	a.Line("\tADDQ R10, DI\n\tADDQ R11, SI\n\tDECQ R12\n\tJNZ row\n\tVZEROUPPER\n\tRET")
}

func (copyRows) declaration(set asm.Vector) string {
	if !set.Wide() {
		return ""
	}
	return "// copyRowsAVX512 does what copyRowsRef does; there is a row.\n//\n//go:noescape\n" +
		"func copyRowsAVX512(dst *byte, ldd int, src *byte, lds, cols, rows int, flip uint32)\n"
}

func (copyRows) reference() string {
	return "func copyRows(dst []byte, ldd int, src []byte, lds, cols, rows int, flip uint32) {\n" +
		"\tcopyRowsRef(dst, ldd, src, lds, cols, rows, flip)\n}\n"
}

func (copyRows) dispatch() string {
	return `func copyRows(dst []byte, ldd int, src []byte, lds, cols, rows int, flip uint32) {
	if cpuinfo.Current() != cpuinfo.AVX512 {
		copyRowsRef(dst, ldd, src, lds, cols, rows, flip)
		return
	}
	for step := max(1, 8*block/cols); rows > 0; rows -= step {
		copyRowsAVX512(&dst[0], ldd, &src[0], lds, cols, min(step, rows), flip)
		if rows > step {
			dst, src = dst[step*ldd:], src[step*lds:]
		}
	}
}
`
}

// lookup is the loop of Lookup, by AVX-512 VBMI: two permutations of half of the table each, of
// which the top bit chooses.
type lookup struct{}

func (lookup) write(t *asm.Text, set asm.Vector, _ *constants) {
	if !set.Wide() {
		return
	}
	a := &unrolled{Text: t, Vector: set}
	a.Open("lookupVBMI", "(dst, x *byte, n int, table *byte)", frame, 32)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+8(FP), SI\n\tMOVQ n+16(FP), CX\n\tMOVQ table+24(FP), BX")
	for i := range 4 {
		a.Line("\tVMOVDQU8 %d(BX), Z%d", 64*i, i)
	}
	body := func(mask string) {
		z := ""
		if mask != "" {
			z = ".Z"
		}
		a.Line("\tVMOVDQU8%s (SI), %sZ4\n\tVMOVDQA64 Z4, Z5\n\tVMOVDQA64 Z4, Z6\n\tVPERMI2B Z1, "+
			"Z0, Z5\n\tVPERMI2B Z3, Z2, Z6", z, mask)
		a.Line("\tVPMOVB2M Z4, K2\n\tVMOVDQU8 Z6, K2, Z5\n\tVMOVDQU8 Z5, %s(DI)", mask)
	}
	a.Line("\tSUBQ $64, CX\n\tJL tail\n\tPCALIGN $32\nloop:")
	body("")
	a.Line("\tADDQ $64, SI\n\tADDQ $64, DI\n\tSUBQ $64, CX\n\tJGE loop\ntail:\n\tADDQ $64, " +
		"CX\n\tJZ done")
	a.Line("\tMOVQ $1, DX\n\tSHLQ CX, DX\n\tDECQ DX\n\tKMOVQ DX, K1")
	body("K1, ")
	a.Line("done:\n\tVZEROUPPER\n\tRET")
}

func (lookup) declaration(set asm.Vector) string {
	if !set.Wide() {
		return ""
	}
	return "// lookupVBMI computes what lookupRef does for n bytes.\n//\n//go:noescape\nfunc " +
		"lookupVBMI(dst, x *byte, n int, table *byte)\n"
}

func (lookup) reference() string {
	return "func lookup(dst, x []byte, table *[256]byte) { lookupRef(dst, x, table) }\n"
}

func (lookup) dispatch() string {
	return `func lookup(dst, x []byte, table *[256]byte) {
	if !cpuinfo.HasAVX512VBMI() {
		lookupRef(dst, x, table)
		return
	}
	for len(dst) > 0 {
		n := min(len(dst), 4*block)
		lookupVBMI(&dst[0], &x[0], n, &table[0])
		dst, x = dst[n:], x[n:]
	}
}
`
}

// toWords is the loop from numbers to integers of 16 bits, which pack narrows. The bound comes
// second in the maximum, which the instruction returns for NaN.
func toWords(name, typ, pack string) routine {
	return &conversion{name: name, from: "float32", to: typ,
		scalars: []string{"scale", "zero", "lo", "hi"}, neon: quantizedWordNEON,
		body: func(a *unrolled, in, out string) {
			a.each("VMOVUPS "+in+", %V0", "VDIVPS %V12, %V0, %V0", "VMAXPS %V14, %V0, %V0",
				"VMINPS %V15, %V0, %V0", "VCVTPS2DQ %V0, %V0", "VCVTDQ2PS %V0, %V0",
				"VADDPS %V13, %V0, %V0", "VCVTPS2DQ %V0, %V0")
			if a.Wide() {
				a.Line("\tVPMOVDW Z0, %s", out)
				return
			}
			a.Line("\tVEXTRACTI128 $1, Y0, X1\n\t%s X1, X0, X0\n\tVMOVDQU X0, %s", pack, out)
		}}
}

// fromBytes is the loop from bytes, or integers of 16 bits, to numbers: whole vectors of
// (x - zero) · scale.
func fromBytes(name, typ, widen string) routine {
	return &conversion{name: name, from: typ, to: "float32", scalars: []string{"scale", "zero"},
		neon: dequantizedNEON,
		body: func(a *unrolled, in, out string) {
			a.each(widen+" "+in+", %V0", "VCVTDQ2PS %V0, %V0", "VSUBPS %V15, %V0, %V0",
				"VMULPS %V14, %V0, %V0", "VMOVUPS %V0, "+out)
		}}
}

// addBlocks is the loop of AddBytes whose sums are in range of 32-bit integers, by AVX-512: blocks
// of 64 bytes, which packing saturates.
type addBlocks struct{ name, widen string }

func (k addBlocks) write(t *asm.Text, set asm.Vector, _ *constants) {
	if !set.Wide() {
		return
	}
	a := &unrolled{Text: t, Vector: set}
	l := &lane{unrolled: a}
	a.Open(k.name+"AVX512", "(dst, x, y *byte, n int, p *Requantization, offset, flip uint32, "+
		"order *uint32)", frame, 56)
	a.Line("\tMOVQ dst+0(FP), DI\n\tMOVQ x+8(FP), SI\n\tMOVQ y+16(FP), R8\n\tMOVQ n+24(FP), " +
		"CX\n\tMOVQ p+32(FP), BX")
	l.parameters()
	a.Line("\tMOVL offset+40(FP), DX\n\tVPBROADCASTD DX, Z16\n\tMOVL flip+44(FP), " +
		"DX\n\tVPBROADCASTD DX, Z17\n\tMOVQ order+48(FP), DX\n\tVMOVDQU32 (DX), Z18")
	a.Line("\tXORQ AX, AX\n\tPCALIGN $32\nloop:")
	for i := range 4 {
		a.Line("\t%s %d(SI)(AX*1), Z%d\n\t%s %d(R8)(AX*1), Z%d", k.widen, 16*i, i, k.widen, 16*i,
			4+i)
		a.Line("\tVCVTDQ2PS Z%d, Z%d\n\tVCVTDQ2PS Z%d, Z%d", i, i, 4+i, 4+i)
		l.ops(fmt.Sprintf("VFMADD213PS %%bias, %%scale, Z%d", i),
			fmt.Sprintf("VFMADD231PS %%add, Z%d, Z%d", 4+i, i))
		a.Line("\tVCVTPS2DQ Z%d, Z%d", i, i)
	}
	a.Line("\tVPACKSSDW Z1, Z0, Z0\n\tVPACKSSDW Z3, Z2, Z2\n\tVPADDSW Z16, Z0, Z0")
	a.Line("\tVPADDSW Z16, Z2, Z2\n\tVPACKUSWB Z2, Z0, Z0")
	a.Line("\tVPXORD Z17, Z0, Z0\n\tVPERMD Z0, Z18, Z0\n\tVMOVDQU32 Z0, (DI)(AX*1)")
	a.Line("\tADDQ $64, AX\n\tCMPQ AX, CX\n\tJLT loop\n\tVZEROUPPER\n\tRET")
}

func (k addBlocks) declaration(set asm.Vector) string {
	if !set.Wide() {
		return ""
	}
	return fmt.Sprintf("// %[1]sAVX512 adds n bytes, a multiple of 64 and not 0. The zero point "+
		"of an unsigned result is in both halves of offset; flip makes a signed one of it, and "+
		"order is blockOrder.\n//\n//go:noescape\n"+
		"func %[1]sAVX512(dst, x, y *byte, n int, p *Requantization, offset, flip uint32, order "+
		"*uint32)\n", k.name)
}

func (k addBlocks) reference() string {
	return fmt.Sprintf("func %s(_, _, _ []byte, _ *Requantization) int { return 0 }\n", k.name)
}

func (k addBlocks) dispatch() string {
	return fmt.Sprintf(`// %[1]s adds the first bytes and returns how many.
func %[1]s(dst, x, y []byte, p *Requantization) int {
	whole := len(dst) &^ 63
	if cpuinfo.Current() != cpuinfo.AVX512 || !p.sumsInRange() {
		return 0
	}
	offset, flip := p.unsigned()
	for i := 0; i < whole; i += 4 * block {
		%[1]sAVX512(&dst[i], &x[i], &y[i], min(4*block, whole-i), p, offset, flip, &blockOrder[0])
	}
	return whole
}
`, k.name)
}
