package vec

import "math"

func reluRef(dst, x []float32) {
	for i := range dst {
		v := x[i]
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

func clipRef(dst, x []float32, lo, hi float32) {
	for i := range dst {
		v := x[i]
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		dst[i] = v
	}
}

// gridRef computes what gridPlain does for the bounds lo and hi that least and most are the
// products of; inverse and rest are 1/scale.
func gridRef(dst, x []float32, scale, least, most, _, _ float32) {
	for i, v := range x[:len(dst)] {
		if !(v > least) {
			v = least
		}
		dst[i] = (float32(math.RoundToEven(float64(min(v, most)/scale))) + 0) * scale
	}
}

// gridPlain is the definition of Grid.
func gridPlain(dst, x []float32, scale, lo, hi float32) {
	for i := range dst {
		dst[i] = (onGrid(x[i]/scale, lo, hi) + 0) * scale
	}
}

func leakyReluRef(dst, x []float32, alpha float32) {
	for i := range dst {
		v := x[i]
		if v < 0 {
			v *= alpha
		}
		dst[i] = v
	}
}

func hardSigmoidRef(dst, x []float32, alpha, beta float32) {
	for i := range dst {
		dst[i] = max(0, min(1, fusedRef(x[i], alpha, beta)))
	}
}

func hardSwishRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(v * max(0, min(1, v/6+0.5)))
	}
}

func sigmoidRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(1 / (1 + math.Exp(-float64(x[i]))))
	}
}

func siluRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(v / (1 + math.Exp(-v)))
	}
}

func geluRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(v / 2 * (1 + math.Erf(v/math.Sqrt2)))
	}
}

// geluTanhRef uses 1 + tanh(a) = 2/(1 + exp(-2a)), which does not cancel.
func geluTanhRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		a := math.Sqrt2 / math.SqrtPi * (v + 0.044715*v*v*v)
		dst[i] = float32(v / (1 + math.Exp(-2*a)))
	}
}

func softplusRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))))
	}
}

func eluRef(dst, x []float32, alpha float32) {
	for i := range dst {
		v := x[i]
		if v < 0 {
			v = float32(float64(alpha) * math.Expm1(float64(v)))
		}
		dst[i] = v
	}
}

func mishRef(dst, x []float32) {
	for i := range dst {
		v := float64(x[i])
		dst[i] = float32(v * math.Tanh(max(v, 0)+math.Log1p(math.Exp(-math.Abs(v)))))
	}
}
