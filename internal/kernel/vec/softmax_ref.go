package vec

import "math"

// expShiftRef writes exp(x[i] - shift) and returns the sum of what it wrote.
func expShiftRef(dst, x []float32, shift float32) float32 {
	var t float64
	for i := range dst {
		dst[i] = float32(math.Exp(float64(x[i] - shift)))
		t += float64(dst[i])
	}
	return float32(t)
}

// sumExpRef returns the sum of exp(x[i] - shift).
func sumExpRef(x []float32, shift float32) float32 {
	var t float64
	for _, v := range x {
		t += math.Exp(float64(v - shift))
	}
	return float32(t)
}

func shiftTwiceRef(dst, x []float32, a, b float32) {
	for i := range dst {
		dst[i] = x[i] - a - b
	}
}
