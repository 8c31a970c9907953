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

// fusedRef is a*b + c. The product of two float32 is exact in float64, so only the sum rounds
// before the result does.
func fusedRef(a, b, c float32) float32 {
	return float32(math.FMA(float64(a), float64(b), float64(c)))
}

func axpyRef(dst, x, y []float32, a float32) {
	for i := range dst {
		dst[i] = fusedRef(a, x[i], y[i])
	}
}

func axpyBitsRef(dst, x, y []float32, a float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(a)*math.Float32bits(x[i]) +
			math.Float32bits(y[i]))
	}
}

func fmaRef(dst, a, b, c []float32) {
	for i := range dst {
		dst[i] = fusedRef(a[i], b[i], c[i])
	}
}

func affineRef(dst, x []float32, scale, bias float32) {
	for i := range dst {
		dst[i] = fusedRef(x[i], scale, bias)
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
