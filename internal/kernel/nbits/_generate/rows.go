package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// Registers of widen: a strip's fields, the chunks of a block that are left, and on amd64 the fifth
// row and three times the stride.
var (
	stripOf    = asm.Reg{AMD64: "AX", ARM64: "R0"}
	stripTo    = asm.Reg{AMD64: "DI", ARM64: "R1"}
	stripBy    = asm.Reg{AMD64: "DX", ARM64: "R2"}
	scales     = asm.Reg{AMD64: "R8", ARM64: "R3"}
	words      = asm.Reg{AMD64: "SI", ARM64: "R4"}
	zeroPoints = asm.Reg{AMD64: "R12", ARM64: "R5"}
	wideZeros  = asm.Reg{AMD64: "R10", ARM64: "R6"}
	chunks     = asm.Reg{AMD64: "R13", ARM64: "R7"}
	blocks     = asm.Reg{AMD64: "BX", ARM64: "R8"}
	chunksLeft = asm.Reg{AMD64: "CX", ARM64: "R9"}
)

// Vectors of widen, of which arm64 has two each for the eight columns of a panel.
const (
	wideQ = iota
	wideW
	wideZero
	wideScale
	wideEight
	wideTable // or a mask of four bits
)

// panel is the vectors of one kind, and lanes how many columns they have.
func (k *kernels) panel(kind int) []int {
	if k.ARM64() {
		return []int{2 * kind, 2*kind + 1}
	}
	return []int{kind}
}

func (k *kernels) lanes() int { return len(k.panel(0)) * k.v.Lanes }

// do is [asm.Code.Do] for all vectors of a kind.
func (k *kernels) do(op asm.Operation, d, x, y int) {
	for j := range k.panel(d) {
		k.Do(op, k.panel(d)[j], k.panel(x)[j], k.panel(y)[j])
	}
}

// widen writes the function that turns blocks of a panel into rows of floats.
func widen(k *kernels) {
	k.Func("widen"+k.v.Name, "x *strip", 8, "does what widenGo does.")
	k.Argument("x", 0, stripOf)
	for _, f := range []struct {
		name string
		to   asm.Reg
	}{{"dst", stripTo}, {"stride", stripBy}, {"scales", scales}, {"q", words},
		{"zeros", zeroPoints}, {"wide", wideZeros}, {"chunks", chunks}, {"blocks", blocks}} {
		if f.name == "wide" {
			k.Field8("strip_"+f.name, stripOf, f.to)
		} else {
			k.Field("strip_"+f.name, stripOf, f.to)
		}
	}
	if !k.ARM64() {
		k.Ops("LEAQ (DX)(DX*2), R11")
	}
	k.spreads(wideEight, 8)
	if k.v.Wide() {
		k.op("VMOVUPS", "·centred<>(SB)", wideTable)
	} else {
		k.spreads(wideTable, 15)
	}
	k.Label("block")
	k.take(scales, wideScale)
	k.Copy(chunks, chunksLeft)
	k.blockZeros()
	k.Label("chunk")
	k.widenChunk()
	k.Advance(words, 4*k.lanes())
	k.Down(chunksLeft, "chunk")
	k.Copy(words, scales)
	k.Advance(words, 4*k.lanes())
	k.Down(blocks, "block")
	k.Return()
}

// spreads fills the vectors of a kind with a number.
func (k *kernels) spreads(kind int, value uint32) {
	if !k.ARM64() {
		k.spread(kind, value)
		return
	}
	k.Op("MOVD $%d, R10", value)
	for _, r := range k.panel(kind) {
		k.Op("VDUP R10, V%d.S4", r)
	}
}

// take reads a panel's floats, or words.
func (k *kernels) take(from asm.Reg, kind int) {
	switch {
	case k.ARM64():
		k.Load(0, from, k.panel(kind)...)
	case kind == wideQ:
		k.op(k.v.load, "("+from.AMD64+")", kind)
	default:
		k.op("VMOVUPS", "("+from.AMD64+")", kind)
	}
}

// floating makes floats of whole numbers.
func (k *kernels) floating(to, from int) {
	for j, r := range k.panel(to) {
		if k.ARM64() {
			k.Vec("SCVTF", r, k.panel(from)[j])
		} else {
			k.op("VCVTDQ2PS", from, r)
		}
	}
}

// blockZeros reads the zero points of a block, floats or bytes, less 8, or makes zeros where there
// are none. What follows is the label chunk.
func (k *kernels) blockZeros() {
	for _, r := range k.panel(wideZero) {
		if k.ARM64() {
			k.Zero(r)
		} else {
			k.clear(r)
		}
	}
	k.IfZero(zeroPoints, "chunk")
	k.IfZero(wideZeros, "narrow")
	k.take(zeroPoints, wideZero)
	k.floating(wideW, wideEight)
	k.do(asm.Sub, wideZero, wideZero, wideW)
	k.Advance(zeroPoints, 4*k.lanes())
	k.Jump("chunk")
	k.Label("narrow")
	if zero := k.panel(wideZero); k.ARM64() {
		k.Op("FMOVD (R5), F%d", zero[0])
		k.Vec("UXTL.B", zero[0], zero[0])
		k.Vec("UXTL2", zero[1], zero[0])
		k.Vec("UXTL", zero[0], zero[0])
	} else {
		k.op("VPMOVZXBD", "(R12)", wideZero)
	}
	k.do(asm.SubInt32, wideZero, wideZero, wideEight)
	k.floating(wideZero, wideZero)
	k.Advance(zeroPoints, k.lanes())
}

// widenChunk writes eight rows: on amd64 in the order of a word's numbers, and on arm64 of rows,
// down which the pointer walks.
func (k *kernels) widenChunk() {
	k.take(words, wideQ)
	if !k.ARM64() {
		k.Ops("LEAQ (DI)(DX*4), R9")
	}
	for n := range 8 {
		p := n
		if k.ARM64() {
			p = 2*(n%4) + n/4
		}
		k.weights(p)
		k.do(asm.Sub, wideW, wideW, wideZero)
		k.do(asm.Mul, wideW, wideW, wideScale)
		if k.ARM64() {
			k.Store(0, stripTo, k.panel(wideW)...)
			k.AddTimes(stripTo, stripBy, 1)
			continue
		}
		to := []string{"(%s)", "(%s)(DX*1)", "(%s)(DX*2)", "(%s)(R11*1)"}[place(p)%4]
		k.op("VMOVUPS", wideW, fmt.Sprintf(to, []string{"DI", "R9"}[place(p)/4]))
	}
	if !k.ARM64() {
		k.Ops("LEAQ (DI)(DX*8), DI")
	}
}

// weights makes floats of the p-th numbers of words, less 8.
func (k *kernels) weights(p int) {
	if !k.ARM64() {
		k.weight(p, wideQ, wideW, wideEight, wideTable)
		return
	}
	for j, w := range k.panel(wideW) {
		from, mask := k.panel(wideQ)[j], k.panel(wideTable)[j]
		if p > 0 {
			k.Vec("USHR", w, from, 4*p)
			from = w
		}
		k.Vec("AND", w, from, mask)
	}
	k.do(asm.SubInt32, wideW, wideW, wideEight)
	k.floating(wideW, wideW)
}

// quantise writes the function that rounds the blocks of a row to bytes.
func quantise(k *kernels) {
	const x, most, sum, inverse, mask = 0, 1, 2, 3, 4
	k.Func("quantise"+k.v.Name, "dst *byte, x *float32, vectors, blocks int", 32,
		"does what quantiseGo does, for blocks of that many vectors.")
	k.Ops("MOVQ dst+0(FP), DI", "MOVQ x+8(FP), SI", "MOVQ vectors+16(FP), R13",
		"MOVQ blocks+24(FP), BX")
	k.spread(mask, 0x7fffffff)
	k.Ops("MOVL $0x42fe0000, AX", "VMOVD AX, X7") // 127
	k.Label("block")
	k.Ops("MOVQ SI, R8", "MOVQ R13, CX")
	k.clear(most)
	k.Label("most")
	k.op(k.v.and, "(R8)", mask, x)
	k.op("VPMAXUD", x, most, most)
	k.Ops(fmt.Sprintf("ADDQ $%d, R8", 4*k.v.Lanes), "DECQ CX", "JNZ most")
	k.fold("VPMAXUD", most, x)
	k.Ops("VMOVD X1, AX", "CMPL AX, $0x7f800000", "JB finite", "MOVL $0x7fc00000, AX",
		"VMOVD AX, X1", "JMP small", "finite:", "VDIVSS X1, X7, X3", "VDIVSS X7, X1, X1",
		"VMOVD X1, AX", "CMPL AX, $0x00800000", "JAE scaled", "VPXOR X1, X1, X1", "small:",
		"VPXOR X3, X3, X3", "scaled:")
	k.op("VBROADCASTSS", "X3", inverse)
	k.clear(sum)
	k.Ops("MOVQ R13, CX", "MOVQ DI, R9", "ADDQ $4, DI")
	k.Label("round")
	k.op("VMULPS", "(SI)", inverse, x)
	k.op("VCVTPS2DQ", x, x)
	k.op("VPADDD", x, sum, sum)
	if k.v.Wide() {
		k.Ops("VPMOVSDB Z0, X0", "VMOVDQU X0, (DI)")
	} else {
		k.Ops("VEXTRACTI128 $1, Y0, X5", "VPACKSSDW X5, X0, X0", "VPACKSSWB X0, X0, X0",
			"VMOVQ X0, (DI)")
	}
	k.Ops(fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes), fmt.Sprintf("ADDQ $%d, DI", k.v.Lanes),
		"DECQ CX", "JNZ round")
	k.fold("VPADDD", sum, x)
	k.Ops("VCVTDQ2PS X2, X0", "VMOVSS X1, (DI)", "VMOVSS X0, 4(DI)", "ADDQ $8, DI",
		"VMOVD X2, AX", "SHLL $3, AX", "NEGL AX", "MOVL AX, (R9)", "DECQ BX", "JNZ block")
	k.end()
}

// fold combines the lanes of a register into its first.
func (k *kernels) fold(op string, r, scratch int) {
	if k.v.Wide() {
		k.Ops(fmt.Sprintf("VEXTRACTI64X4 $1, Z%d, Y%d", r, scratch),
			fmt.Sprintf("%s Y%d, Y%d, Y%d", op, scratch, r, r))
	}
	k.Ops(fmt.Sprintf("VEXTRACTI128 $1, Y%d, X%d", r, scratch))
	for _, shuffle := range []string{"", "$0x4e", "$0xb1"} {
		if shuffle != "" {
			k.Ops(fmt.Sprintf("VPSHUFD %s, X%d, X%d", shuffle, r, scratch))
		}
		k.Ops(fmt.Sprintf("%s X%d, X%d, X%d", op, scratch, r, r))
	}
}
