package main

import "fmt"

// halvedPlanes writes the kernel for strides of 2. Registers 0 to 7 are the sums of an output row
// and of the next in turn, R20 is what the last output of a row sees of the column right of it,
// which is a zero in the frame where that is outside the image, and R21 the bytes to the next row
// of that.
func (n neon) halvedPlanes() {
	n.planes("halvedPlanes", 2, 2, func(s strip) {
		name := func(l string, p int) string { return fmt.Sprint(s.name(), l, p) }
		n.planeBegins(s, 2)
		n.Ops("MOVD halvedPlanes_srcPitch(R0), R15", "MOVD halvedPlanes_below(R0), R11")
		if s.right {
			n.halvedEdge(s)
		}
		n.beginSums(s, 0)
		n.Op("CBZ R11, %s", name("end", 1))
		n.Label(s.name() + "row")
		for p := range 2 {
			n.halvedRow(s)
			n.halvedTaps(s, p, 1)
			n.halvedNext(s)
			n.halvedRow(s)
			n.beginSums(s, 1-p)
			n.halvedTaps(s, p, 2)
			n.halvedTaps(s, 1-p, 0)
			n.halvedNext(s)
			n.planeFinish(s, p, name("both", p))
			n.nextRow(s, "R6", "R10", "R14")
			n.Op("SUB $1, R11")
			if p == 0 {
				n.Op("CBZ R11, %s", name("end", p))
			} else {
				n.Op("CBNZ R11, %srow", s.name())
			}
		}
		n.halvedEnds(s, name)
		n.Label(s.name() + "done")
	})
}

// halvedEnds computes the last output row, which sees one row of the input, where there is one, and
// has the residuals of all.
func (n neon) halvedEnds(s strip, name func(string, int) string) {
	for _, p := range []int{1, 0} {
		n.Label(name("end", p))
		n.Ops("MOVD halvedPlanes_below(R0), R11", "MOVD planeRun_rows(R0), R17", "CMP R11, R17",
			"BEQ "+s.name()+"done")
		n.halvedRow(s)
		n.halvedTaps(s, 1-p, 1)
		n.planeFinish(s, 1-p, name("last", p))
		n.Op("B %sdone", s.name())
	}
	for p := range 2 {
		n.planeResidual(s, p, name("both", p))
		n.planeResidual(s, 1-p, name("last", p))
	}
}

// halvedEdge finds what the last output of a row sees of the column right of it.
func (n neon) halvedEdge(s strip) {
	last := "R13"
	if !s.apart(s.n - 1) {
		last = "R9"
	}
	n.Op("ADD $28, %s, R20", last)
	n.Ops("MOVD R15, R21", "MOVD planeRun_cols(R0), R17", "MOVD halvedPlanes_in(R0), R22",
		"CMP R17<<1, R22")
	n.Op("BGE %swithin", s.name())
	n.Ops("MOVD $outside-48(SP), R20", "MOVD ZR, (R20)", "MOVD ZR, R21")
	n.Label(s.name() + "within")
}

// halvedNext moves to the next row of the input.
func (n neon) halvedNext(s strip) {
	n.nextRow(s, "R15", "R9", "R13")
	if s.right {
		n.Op("ADD R21, R20")
	}
}

// halvedRow reads a row of the input: of each vector the columns left of its outputs, those at them
// and those right of them, from register 8 on.
func (n neon) halvedRow(s strip) {
	for v := range s.n {
		base, at, to := "R9", 32*v, 8+3*v
		if s.apart(v) {
			base, at = "R13", 0
		}
		if s.left && v == 0 {
			n.Op("FLDPQ (%s), (F20, F21)", base)
			n.words("VUZP1", 21, 20, to+1)
			n.words("VUZP2", 21, 20, to+2)
			n.shift(3, planeZero, to+2, to)
			continue
		}
		n.Op("FMOVQ %d(%s), F20", at-4, base)
		n.Op("FMOVQ %d(%s), F21", at+12, base)
		if s.right && v == s.n-1 {
			n.Op("FMOVS (R20), F22")
		} else {
			n.Op("FMOVS %d(%s), F22", at+28, base)
		}
		n.words("VUZP1", 21, 20, to)
		n.words("VUZP2", 21, 20, to+1)
		n.shift(1, to, 22, to+2)
	}
}

// halvedTaps adds the row under row ky of the taps to a sum.
func (n neon) halvedTaps(s strip, sum, ky int) {
	for kx := range 3 {
		for v := range s.n {
			n.tap(sum*s.n+v, 8+3*v+kx, 3*ky+kx)
		}
	}
}
