package vec

import "math"

func negRef(dst, x []float32) {
	for i := range dst {
		dst[i] = -x[i]
	}
}

func absRef(dst, x []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(x[i]) &^ (1 << 31))
	}
}

func squareRef(dst, x []float32) {
	for i := range dst {
		dst[i] = x[i] * x[i]
	}
}

func cubeRef(dst, x []float32) {
	for i := range dst {
		dst[i] = x[i] * x[i] * x[i]
	}
}

// sqrtRef relies on float64 having more than twice the precision of float32, which makes the second
// rounding harmless.
func sqrtRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Sqrt(float64(x[i])))
	}
}

func rsqrtRef(dst, x []float32) {
	for i := range dst {
		dst[i] = 1 / float32(math.Sqrt(float64(x[i])))
	}
}

func expRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Exp(float64(x[i])))
	}
}

func logRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Log(float64(x[i])))
	}
}

func tanhRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Tanh(float64(x[i])))
	}
}

func erfRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Erf(float64(x[i])))
	}
}

func roundEvenRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.RoundToEven(float64(x[i])))
	}
}

func floorRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Floor(float64(x[i])))
	}
}

func ceilRef(dst, x []float32) {
	for i := range dst {
		dst[i] = float32(math.Ceil(float64(x[i])))
	}
}
