package vec

import "math"

// Softmax computes dst[i] = exp(x[i] - m) / Σ exp(x[j] - m) over j < len(dst), m the greatest x[j]
// (ONNX Softmax-13 over one row). A row that holds NaN or +Inf, or nothing but -Inf, becomes NaN,
// as the formula says. The relative error is at most 4e-7 * (2 + |log(dst[i])|), the second term
// from the rounding of x[i] - m.
func Softmax(dst, x []float32) {
	x = x[:len(dst)]
	m := MaxReduce(x)
	var t float64
	for i := 0; i < len(dst); i += chunk {
		end := min(i+chunk, len(dst))
		t += float64(expShift(dst[i:end], x[i:end], m))
	}
	mulScalar(dst, dst, float32(1/t))
}

// LogSoftmax computes dst[i] = x[i] - m - log(Σ exp(x[j] - m)) over j < len(dst), m the greatest
// x[j] (ONNX LogSoftmax-13 over one row), with an absolute error of at most 5e-7 times (1 +
// |dst[i]|). NaN appears as in Softmax.
func LogSoftmax(dst, x []float32) {
	x = x[:len(dst)]
	m := MaxReduce(x)
	var t float64
	for i := 0; i < len(x); i += chunk {
		t += float64(sumExp(x[i:min(i+chunk, len(x))], m))
	}
	shiftTwice(dst, x, m, float32(math.Log(t)))
}
