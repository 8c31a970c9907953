package main

import "fmt"

// Registers of the depthwise kernels for 3x3 taps that read the image where it lies: R0 the
// arguments, R1 and R2 the planes of the input and the output, R3 the weights and R4 the bias of a
// plane, R5 the planes left, R6 the bytes of a row of the output, R7 from the output to the
// residual and R23 the flags, R8 and R12 the first column of a strip in either plane and R16 how
// many columns are left from there, R9 and R10 rows of input and output, R13 and R14 the same of
// the last vector of a row, R11 the rows left, R15 the bytes of a row of the input, R19 where the
// bias lies twice. Vectors 29 to 31 are the weights, 27 and 28 the limits, 25 is zero.
//
// A row is cut into strips of up to four vectors, each of which goes down the plane. The last
// vector of a row lies over the one before, in the same strip: a residual that lies where the
// results go is read before.
const (
	planeLowest  = 27
	planeHighest = 28
	planeZero    = 25
	planeWeights = 29
	stripMost    = 4
)

// strip is so many vectors of columns, at the edges of the image or not.
type strip struct {
	n           int
	left, right bool
}

func (s strip) name() string {
	name := fmt.Sprint("strip", s.n)
	if s.left {
		name += "L"
	}
	if s.right {
		name += "R"
	}
	return name
}

// apart says that the last vector has pointers of its own.
func (s strip) apart(v int) bool { return s.right && s.n > 1 && v == s.n-1 }

// strips are all that a row may be cut into, when it has vectors of that number at least.
func strips(least int) (list []strip) {
	for n := least; n <= stripMost; n++ {
		list = append(list, strip{n, true, true})
	}
	for n := stripMost - 1; n <= stripMost; n++ {
		list = append(list, strip{n, true, false}, strip{n, false, false})
	}
	for n := 2; n <= stripMost; n++ {
		list = append(list, strip{n, false, true})
	}
	return list
}

// planes writes the loops over planes and strips. What a strip is computed by is given; along is
// how many columns of the input an output is from the next.
func (n neon) planes(of string, least, along int, strip func(strip)) {
	n.Func(of+"NEON", "t *"+of, 8, "computes t.")
	n.args("planeRun_src(R0), R1", "planeRun_dst(R0), R2", "planeRun_w(R0), R3",
		"planeRun_bias(R0), R4", "planeRun_planes(R0), R5", "planeRun_pitch(R0), R6",
		"planeRun_res(R0), R7")
	n.Ops("SUB R2, R7", "MOVWU planeRun_flags(R0), R23", "ADD $planeRun_lo, R0, R19")
	n.Op("VLD1R (R19), [V%d.S4]", planeLowest)
	n.Op("ADD $planeRun_hi, R0, R19")
	n.Op("VLD1R (R19), [V%d.S4]", planeHighest)
	n.zero(planeZero)
	n.Op("MOVD $bias-32(SP), R19")
	n.stores2(planeZero, "R19")
	n.Label("plane")
	n.Op("FLDPQ (R3), (F%d, F%d)", planeWeights, planeWeights+1)
	n.Op("FMOVS 32(R3), F%d", planeWeights+2)
	n.Ops("ADD $36, R3", "CBZ R4, unbiased", "VLD1R (R4), [V26.S4]", "ADD $4, R4")
	n.stores2(26, "R19")
	n.Label("unbiased")
	n.Ops("MOVD R1, R8", "MOVD R2, R12", "MOVD planeRun_cols(R0), R16")
	n.chooseStrip(least, true)
	for _, s := range strips(least) {
		n.Label(s.name())
		strip(s)
		if s.right {
			n.Op("B next")
			continue
		}
		n.Op("ADD $%d, R8", 16*along*s.n)
		n.Op("ADD $%d, R12", 16*s.n)
		n.Op("SUB $%d, R16", 4*s.n)
		n.Op("B inner")
	}
	n.Label("next")
	n.Ops("MOVD planeRun_srcSkip(R0), R8", "ADD R8, R1", "MOVD planeRun_dstSkip(R0), R8",
		"ADD R8, R2", "SUB $1, R5", "CBNZ R5, plane", "RET")
}

// stores2 writes a register twice.
func (n neon) stores2(r int, base string) { n.Op("FSTPQ (F%d, F%d), (%s)", r, r, base) }

// chooseStrip leads to the first strip of a row, and to those after it. Of five vectors three are
// taken, so that two are left.
func (n neon) chooseStrip(least int, first bool) {
	if first {
		for k := least; k <= stripMost; k++ {
			n.Op("CMP $%d, R16", 4*k)
			n.Op("BLE %s", strip{k, true, true}.name())
		}
		n.Op("CMP $%d, R16", 4*(stripMost+1))
		n.Op("BLE %s", strip{stripMost - 1, true, false}.name())
		n.Op("B %s", strip{stripMost, true, false}.name())
		n.Label("inner")
	}
	for k := 2; k <= stripMost; k++ {
		n.Op("CMP $%d, R16", 4*k)
		n.Op("BLE %s", strip{k, false, true}.name())
	}
	n.Op("CMP $%d, R16", 4*(stripMost+1))
	n.Op("BLE %s", strip{stripMost - 1, false, false}.name())
	n.Op("B %s", strip{stripMost, false, false}.name())
}

// planeBegins sets up the rows of a strip.
func (n neon) planeBegins(s strip, along int) {
	n.Ops("MOVD R8, R9", "MOVD R12, R10", "MOVD planeRun_rows(R0), R11")
	if s.apart(s.n - 1) {
		n.Ops("SUB $4, R16, R17", "LSL $2, R17")
		n.Ops("ADD R17, R10, R14")
		if along == 2 {
			n.Op("LSL $1, R17")
		}
		n.Op("ADD R17, R9, R13")
	}
}

// smallPlanes writes the kernel for strides of 1. Registers 0 to 11 are the sums of three output
// rows in turn: that of the row before that of the input, of the same and of the next.
func (n neon) smallPlanes() {
	n.planes("smallPlanes", 1, 1, func(s strip) {
		name := func(l string, p int) string { return fmt.Sprint(s.name(), l, p) }
		n.planeBegins(s, 1)
		n.smallRow(s, []int{2, 0, 1}, 1)
		n.Ops("SUB $1, R11", "CBZ R11, "+name("end", 2))
		n.Label(s.name() + "row")
		for p := range 3 {
			n.nextRow(s, "R6", "R9", "R13")
			n.smallRow(s, []int{p, (p + 1) % 3, (p + 2) % 3}, 0)
			n.planeFinish(s, p, name("above", p))
			n.nextRow(s, "R6", "R10", "R14")
			n.Op("SUB $1, R11")
			if p < 2 {
				n.Op("CBZ R11, %s", name("end", p))
			} else {
				n.Op("CBNZ R11, %srow", s.name())
			}
		}
		for _, p := range []int{2, 0, 1} {
			n.Label(name("end", p))
			n.planeFinish(s, (p+1)%3, name("last", p))
			if p != 1 {
				n.Op("B %sdone", s.name())
			}
		}
		n.Op("B %sdone", s.name())
		for p := range 3 {
			n.planeResidual(s, p, name("above", p))
			n.planeResidual(s, (p+1)%3, name("last", p))
		}
		n.Label(s.name() + "done")
	})
}

// nextRow moves the pointers of a strip.
func (n neon) nextRow(s strip, by, row, last string) {
	n.Op("ADD %s, %s", by, row)
	if s.apart(s.n - 1) {
		n.Op("ADD %s, %s", by, last)
	}
}

// smallRow adds a row of the input to the sums of output rows from a number on, which are given;
// those of the next row begin with the bias, and so do those of the same row when there was none
// before.
func (n neon) smallRow(s strip, sums []int, from int) {
	for v := range s.n {
		n.smallColumns(s, v, 12+3*v)
	}
	for _, sum := range sums[max(2-from, 1):] {
		n.beginSums(s, sum)
	}
	for kx := range 3 {
		for i, sum := range sums[from:] {
			for v := range s.n {
				n.tap(sum*s.n+v, 12+3*v+kx, 3*(2-from-i)+kx)
			}
		}
	}
}

// beginSums sets the sums of a row to the bias.
func (n neon) beginSums(s strip, sum int) {
	for v := range s.n {
		if r := sum*s.n + v; v%2 == 1 {
			n.Op("FLDPQ (R19), (F%d, F%d)", r-1, r)
		} else if v == s.n-1 {
			n.Op("FMOVQ (R19), F%d", r)
		}
	}
}

// tap adds a vector times a weight to a sum.
func (n neon) tap(sum, vector, weight int) {
	n.VecLane("FMLA", sum, vector, planeWeights+weight/4, weight%4)
}

// smallColumns reads the columns left of a vector, its own and those right of it.
func (n neon) smallColumns(s strip, v, to int) {
	base, at := "R9", 16*v
	if s.apart(v) {
		base, at = "R13", 0
	}
	switch paired := v%2 == 0 && v+1 < s.n && !s.apart(v+1); {
	case paired:
		n.Op("FLDPQ %d(%s), (F%d, F%d)", at, base, to+1, to+4)
	case v%2 == 0 || s.apart(v):
		n.Op("FMOVQ %d(%s), F%d", at, base, to+1)
	}
	if s.left && v == 0 {
		n.shift(3, planeZero, to+1, to)
	} else {
		n.Op("FMOVQ %d(%s), F%d", at-4, base, to)
	}
	if s.right && v == s.n-1 {
		n.shift(1, to+1, planeZero, to+2)
	} else {
		n.Op("FMOVQ %d(%s), F%d", at+4, base, to+2)
	}
}

// planeFinish applies the epilogue to the sums of a row and stores it.
func (n neon) planeFinish(s strip, sum int, name string) {
	n.Op("CBNZ R23, %sadd", name)
	n.Label(name + "added")
	for v := range s.n {
		n.Vec("FMAX", sum*s.n+v, sum*s.n+v, planeLowest)
	}
	for v := range s.n {
		n.Vec("FMIN", sum*s.n+v, sum*s.n+v, planeHighest)
	}
	if s.apart(s.n - 1) {
		n.stores(s.n-1, sum*s.n, "R10")
		n.Op("VST1 [V%d.S4], (R14)", sum*s.n+s.n-1)
		return
	}
	n.stores(s.n, sum*s.n, "R10")
}

// planeResidual adds the residual to the sums of a row, all of it before any of them is stored.
func (n neon) planeResidual(s strip, sum int, name string) {
	n.Label(name + "add")
	n.Op("ADD R7, R10, R17")
	for v := range s.n {
		if s.apart(v) {
			n.Op("ADD R7, R14, R17")
			n.Op("FMOVQ (R17), F%d", 12+v)
		} else {
			n.Op("FMOVQ %d(R17), F%d", 16*v, 12+v)
		}
	}
	for v := range s.n {
		n.Vec("FADD", sum*s.n+v, sum*s.n+v, 12+v)
	}
	n.Op("B %sadded", name)
}
