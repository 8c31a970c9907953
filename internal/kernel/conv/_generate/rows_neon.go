package main

import "fmt"

// neonRows is the depthwise kernels of arm64.
//
// Registers of the rows kernels: R0 the arguments, R1 the output and R2 the bytes from one row of
// it to the next, R3 and R4 the same of the input, R5 the rows and R6 the columns left, R7 from the
// output to the residual and R23 the flags, R11 what the first column of a step sees, R8 and R9
// rows of that, R19 where the bias lies twice, R24 the output of the first column. Vectors 0 to 15
// are the sums, up to four of each row, 16 and 17 the limits, 18 to 24 what sums take, 25 to 31
// weights.
const (
	rowsLowest  = 16
	rowsHighest = 17
	rowsInputs  = 18
	rowsWeights = 25
	rowsMost    = 4 // vectors of a row
)

type neonRows struct{}

// neon has the instructions of the other kernels of arm64.
func (k *depthwise) neon() neon { return neon{k.File} }

func (neonRows) begin(k *depthwise) {
	n := k.neon()
	n.args("rows_dst(R0), R1", "rows_stride(R0), R2", "rows_src(R0), R3", "rows_srcStride(R0), R4",
		"rows_n(R0), R5", "rows_res(R0), R7")
	n.Ops("LSL $2, R2", "LSL $2, R4", "SUB R1, R7", "MOVWU rows_flags(R0), R23")
	for i, limit := range []string{"lo", "hi", "bias"} {
		n.Op("ADD $rows_%s, R0, R19", limit)
		n.Op("VLD1R (R19), [V%d.S4]", rowsLowest+i) // the bias is not kept there
	}
	n.Op("MOVD $bias-32(SP), R19")
	n.stores2(rowsInputs, "R19")
}

// weights of windows are in registers. R10 is the distance of rows and, with a stride of 2 along
// columns, R12 that of the odd columns from the even ones, of which R9 is a row. For any taps R12
// is the weights, R13 the offsets, R14 their number, R15 those left, R16 what a row sees under a
// tap.
func (neonRows) weights(k *depthwise) {
	if k.size == 0 {
		k.Op("MOVD (rows_offsets+8)(R0), R14")
		return
	}
	k.Op("MOVD rows_w(R0), R12")
	whole := k.size * k.size / 4
	k.neon().loads(whole, rowsWeights, "R12", 0)
	k.Op("FMOVS %d(R12), F%d", 16*whole, rowsWeights+whole)
	k.Op("MOVD rows_offsets(R0), R12")
	k.Op("MOVD %d(R12), R10", 8*k.size)
	k.Ops("LSL $2, R10", "MOVD 8(R12), R12", "LSL $2, R12")
}

func (neonRows) group(k *depthwise) {
	k.Ops("MOVD R3, R11", "MOVD R1, R24", "MOVD rows_cols(R0), R6")
}

func (neonRows) only(k *depthwise, n int) {
	k.Op("CMP $%d, R5", n)
	k.Op("BEQ %s", label("rows", n))
}

func (neonRows) end(*depthwise) {}

// rows takes four vectors of columns of all rows at a time, then two, then one, then what is left.
func (neonRows) rows(k *depthwise, rows int) {
	n, next := k.neon(), label("next", rows)
	for v := rowsMost; v >= 1; v /= 2 {
		past := label("past", rows, "x", v)
		n.Op("CMP $%d, R6", 4*v)
		n.Op("BLT %s", past)
		n.Label(label("step", rows, "x", v))
		n.rowsStep(k, rows, v)
		n.Op("ADD $%d, R11", 16*v)
		n.Op("ADD $%d, R24", 16*v)
		n.Op("SUB $%d, R6", 4*v)
		if v == rowsMost {
			n.Op("CMP $%d, R6", 4*v)
			n.Op("BGE %s", label("step", rows, "x", v))
		}
		n.Label(past)
	}
	n.Op("CBZ R6, %s", next)
	k.sums(rows, 1, func(row int) { n.rowBegins(row, 1) }, func(int) {})
	n.rowsPart(rows)
	n.Label(next)
	if rows < 4 {
		n.Op("RET")
	} else {
		n.Ops("SUB $4, R5", "CBZ R5, done", "ADD R4<<2, R3", "ADD R2<<2, R1", "B group")
		n.Label("done")
		n.Op("RET")
	}
	for v := 1; v <= rowsMost; v *= 2 {
		n.rowsResidual(rows, v)
	}
}

// together is one: what is read meets its weights at once.
func (neonRows) together() int { return 1 }

func (neonRows) inputs(k *depthwise, row, _ int) {
	switch {
	case row == 0 && k.along == 2:
		k.Ops("MOVD R11, R8", "ADD R12, R11, R9")
	case row == 0:
		k.Op("MOVD R11, R8")
	case k.along == 2:
		k.Ops("ADD R10, R8", "ADD R10, R9")
	default:
		k.Op("ADD R10, R8")
	}
}

func (neonRows) input(k *depthwise, _, kx, v int) {
	base, at := "R8", 4*kx
	if k.along == 2 {
		base, at = []string{"R8", "R9"}[kx%2], 4*(kx/2)
	}
	k.neon().loads(v, rowsInputs, base, at)
}

func (neonRows) tap(k *depthwise, sum, v, ky, kx int) {
	at := k.size*ky + kx
	k.VecLane("FMLA", sum, rowsInputs+v, rowsWeights+at/4, at%4)
}

// taps begins with what a row sees under the first. Where the part of a vector is computed there is
// a whole one, too.
func (neonRows) taps(k *depthwise) string {
	again := label("tap", k.fresh())
	k.Ops("MOVD rows_w(R0), R12", "MOVD rows_offsets(R0), R13", "MOVD R14, R15")
	k.Label(again)
	return again
}

func (neonRows) nextTap(k *depthwise) {
	k.Ops("MOVD.P 8(R13), R16", "ADD R16<<2, R11, R16")
	k.Op("FMOVS.P 4(R12), F%d", rowsWeights)
}

func (neonRows) anyTap(k *depthwise, row, n, v int) {
	k.neon().loads(v, rowsInputs, "R16", 0)
	for vector := range v {
		k.VecLane("FMLA", row*v+vector, rowsInputs+vector, rowsWeights, 0)
	}
	if row < n-1 {
		k.Op("ADD R4, R16")
	}
}

func (neonRows) untilLast(k *depthwise, again string) {
	k.Op("SUB $1, R15")
	k.Op("CBNZ R15, %s", again)
}

// rowsStep computes whole vectors.
func (n neon) rowsStep(k *depthwise, rows, v int) {
	n.Op("MOVD R24, R20")
	k.sums(rows, v, func(row int) { n.rowBegins(row, v) }, func(row int) {
		name := label("sums", rows, "x", v, "x", row)
		n.Op("CBNZ R23, %sadd", name)
		n.Label(name)
		n.rowsLimit(row*v, v)
		n.stores(v, row*v, "R20")
		if row < rows-1 {
			n.Op("ADD R2, R20")
		}
	})
}

// rowBegins sets the sums of a row to the bias.
func (n neon) rowBegins(row, v int) {
	for k := 0; k < v; k += 2 {
		if k+1 < v {
			n.Op("FLDPQ (R19), (F%d, F%d)", row*v+k, row*v+k+1)
		} else {
			n.Op("FMOVQ (R19), F%d", row*v+k)
		}
	}
}

// rowsLimit limits sums, which without limits have infinite ones.
func (n neon) rowsLimit(first, sums int) {
	for i := range sums {
		n.Vec("FMAX", first+i, first+i, rowsLowest)
	}
	for i := range sums {
		n.Vec("FMIN", first+i, first+i, rowsHighest)
	}
}

// rowsResidual adds the residual to whole vectors.
func (n neon) rowsResidual(rows, v int) {
	for row := range rows {
		name := label("sums", rows, "x", v, "x", row)
		n.Label(name + "add")
		n.Op("ADD R7, R20, R21")
		n.loads(v, rowsInputs, "R21", 0)
		for k := range v {
			n.Vec("FADD", row*v+k, row*v+k, rowsInputs+k)
		}
		n.Op("B %s", name)
	}
}

// rowsPart finishes less columns than a vector has, and touches no others.
func (n neon) rowsPart(rows int) {
	name := func(l string, args ...any) string {
		return label(l, append([]any{rows, "x"}, args...)...)
	}
	n.Op("CBZ R23, %s", name("limit"))
	n.Op("ADD R7, R24, R8")
	for i := range rows {
		n.zero(rowsInputs)
		n.Op("TBZ $1, R6, %s", name("one", i))
		n.Op("FMOVD (R8), F%d", rowsInputs)
		n.Op("TBZ $0, R6, %s", name("read", i))
		n.Ops("MOVWU 8(R8), R9", fmt.Sprintf("VMOV R9, V%d.S[2]", rowsInputs))
		n.Op("B %s", name("read", i))
		n.Label(name("one", i))
		n.Op("FMOVS (R8), F%d", rowsInputs)
		n.Label(name("read", i))
		n.Vec("FADD", i, i, rowsInputs)
		n.Op("ADD R2, R8")
	}
	n.Label(name("limit"))
	n.rowsLimit(0, rows)
	n.Op("MOVD R24, R8")
	for i := range rows {
		n.part(i, "R8", "R6", "R9", name("write", i))
		n.Op("ADD R2, R8")
	}
}

// part stores the first lanes of a register, whose number, 1 to 3, is in a register; another is
// free.
func (n neon) part(r int, base, lanes, free, name string) {
	n.Op("TBZ $1, %s, %sone", lanes, name)
	n.Op("FMOVD F%d, (%s)", r, base)
	n.Op("TBZ $0, %s, %s", lanes, name)
	n.Op("VMOV V%d.S[2], %s", r, free)
	n.Op("MOVW %s, 8(%s)", free, base)
	n.Op("B %s", name)
	n.Label(name + "one")
	n.Op("FMOVS F%d, (%s)", r, base)
	n.Label(name)
}
