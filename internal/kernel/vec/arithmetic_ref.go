package vec

import "math"

func addRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mulRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func divRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func maximumRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minimumRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

func addScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = x[i] + s
	}
}

func rsubScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = s - x[i]
	}
}

func mulScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = x[i] * s
	}
}

func divScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = x[i] / s
	}
}

func rdivScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = s / x[i]
	}
}

func maxScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = max(x[i], s)
	}
}

func minScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = min(x[i], s)
	}
}

// fusedRef is a*b + c, rounded once. The product of two float32 is exact in float64. The sum is
// rounded to float64 and then to float32, which gives the same as rounding once, except where the
// float64 sum lies halfway between two float32. Loops repeat this code, since the compiler does not
// inline a function of its length.
func fusedRef(a, b, c float32) float32 {
	if s := float64(a)*float64(b) + float64(c); !halfway(s) {
		return float32(s)
	}
	return roundedOnce(a, b, c)
}

// halfway reports whether s may lie halfway between two float32, judging by its bits. For normal
// float32 the lower 29 bits are lost, and s lies halfway when only the highest of them is set.
// Subnormal float32 lose more bits, so all s of their size count.
func halfway(s float64) bool {
	bits := math.Float64bits(s)
	return bits&(1<<29-1) == 1<<28 || bits<<1 < 2*(1023-126)<<52
}

// roundedOnce computes the sum in float64, and moves it one step towards the exact sum if rounding
// lost anything (Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums: proved
// algorithms using rounding to odd", 2008). Knuth's TwoSum tells what was lost.
func roundedOnce(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	r := s - p
	switch lost := (p - (s - r)) + (q - r); {
	case lost > 0:
		s = math.Nextafter(s, math.Inf(1))
	case lost < 0:
		s = math.Nextafter(s, math.Inf(-1))
	}
	return float32(s)
}

func axpyRef(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		if s := float64(a)*float64(x[i]) + float64(y[i]); halfway(s) {
			dst[i] = roundedOnce(a, x[i], y[i])
		} else {
			dst[i] = float32(s)
		}
	}
}

func axpyBitsRef(dst, x, y []float32, a float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(a)*math.Float32bits(x[i]) +
			math.Float32bits(y[i]))
	}
}

func fmaRef(dst, a, b, c []float32) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		if s := float64(a[i])*float64(b[i]) + float64(c[i]); halfway(s) {
			dst[i] = roundedOnce(a[i], b[i], c[i])
		} else {
			dst[i] = float32(s)
		}
	}
}

func affineRef(dst, x []float32, scale, bias float32) {
	x = x[:len(dst)]
	for i := range dst {
		if s := float64(x[i])*float64(scale) + float64(bias); halfway(s) {
			dst[i] = roundedOnce(x[i], scale, bias)
		} else {
			dst[i] = float32(s)
		}
	}
}

func addBitsRef(dst, a, b []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(a[i]) + math.Float32bits(b[i]))
	}
}

func addBitsScalarRef(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(x[i]) + math.Float32bits(s))
	}
}
