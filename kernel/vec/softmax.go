package vec

import "math"

// expChunk is chunk for the sums of exponentials, which have half as many accumulators with AVX2.
const expChunk = chunk / 2

// Softmax computes dst[i] = exp(x[i] - m) / Σ exp(x[j] - m) over j < len(dst), m the greatest x[j]
// (ONNX Softmax-13 over one row). A row that holds NaN or +Inf, or nothing but -Inf, becomes NaN,
// as the formula says. The relative error is at most 4e-7 * (2 + |log(dst[i])|), the second term
// from the rounding of x[i] - m, and that of the sum, which is 2^-24 for each 16 elements and 1e-5
// at most, for up to 2^40 of them: see [Sum].
func Softmax(dst, x []float32) {
	x = x[:len(dst)]
	m := MaxReduce(x)
	var t float64
	for i := 0; i < len(dst); i += expChunk {
		end := min(i+expChunk, len(dst))
		t += float64(expShift(dst[i:end], x[i:end], m))
	}
	mulScalar(dst, dst, float32(1/t))
}

// LogSoftmax computes dst[i] = x[i] - m - log(Σ exp(x[j] - m)) over j < len(dst), m the greatest
// x[j] (ONNX LogSoftmax-13 over one row), with an absolute error of at most 5e-7 times (1 +
// |dst[i]|) and the relative error of the sum: see Softmax. NaN appears as in Softmax.
func LogSoftmax(dst, x []float32) {
	x = x[:len(dst)]
	m := MaxReduce(x)
	var t float64
	for i := 0; i < len(x); i += expChunk {
		t += float64(sumExp(x[i:min(i+expChunk, len(x))], m))
	}
	shiftTwice(dst, x, m, float32(math.Log(t)))
}
