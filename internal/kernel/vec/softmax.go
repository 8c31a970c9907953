package vec

import "math"

// expChunk is chunk for the sums of exponentials, which have 16 lanes.
const expChunk = chunk / 2

// Softmax computes dst[i] = exp(x[i] - m) / Σ exp(x[j] - m) over j < len(dst), where m is the
// greatest x[j] (ONNX Softmax-13 over one row). A row that holds NaN or +Inf, or nothing but -Inf,
// becomes NaN, as the formula says. The relative error is at most 4e-7 * (2 + |log(dst[i])|), where
// the second term comes from the rounding of x[i] - m, plus the error of the sum, which is 2^-24
// for each 16 elements and at most 1e-5, for up to 2^40 of them: see [Sum]. The bits are the same
// with AVX-512 and AVX2; plain Go has exponentials of its own.
func Softmax(dst, x []float32) {
	x = x[:len(dst)]
	mulScalar(dst, dst, float32(1/ExpShift(dst, x, MaxReduce(x))))
}

// ExpShift writes exp(x[i] - shift) to dst[i] and returns the sum of what it wrote, with the error
// of the sum in Softmax.
func ExpShift(dst, x []float32, shift float32) float64 {
	x = x[:len(dst)]
	var t float64
	for i := 0; i < len(dst); i += expChunk {
		end := min(i+expChunk, len(dst))
		t += float64(expShift(dst[i:end], x[i:end], shift))
	}
	return t
}

// LogSoftmax computes dst[i] = x[i] - m - log(Σ exp(x[j] - m)) over j < len(dst), where m is the
// greatest x[j] (ONNX LogSoftmax-13 over one row). The absolute error is at most 5e-7 * (1 +
// |dst[i]|) plus the relative error of the sum. That error, the bits and NaN are as in Softmax.
func LogSoftmax(dst, x []float32) {
	x = x[:len(dst)]
	m := MaxReduce(x)
	shiftTwice(dst, x, m, float32(math.Log(SumExp(x, m))))
}

// SumExp returns the sum of exp(x[i] - shift), with the error of the sum in Softmax.
func SumExp(x []float32, shift float32) float64 {
	var t float64
	for ; len(x) > expChunk; x = x[expChunk:] {
		t += float64(sumExp(x[:expChunk], shift))
	}
	return t + float64(sumExp(x, shift))
}

// LogSumExp returns log(Σ exp(x[i])), -Inf for an empty slice (ONNX ReduceLogSumExp-18 over one
// run), computed as m + log(Σ exp(x[i] - m)), where m is the greatest element, so that it does not
// overflow; m is 0 where that is infinite. The absolute error is at most 5e-7 * (1 + |m|) plus the
// relative error of the sum. That error, the bits and NaN are as in Softmax.
func LogSumExp(x []float32) float32 {
	m := FinitePeak(MaxReduce(x))
	return float32(float64(m) + math.Log(SumExp(x, m)))
}

// FinitePeak returns m, or 0 where m is infinite: what LogSumExp takes from elements of which m is
// the greatest, so that infinities show through.
func FinitePeak(m float32) float32 {
	if math.IsInf(float64(m), 0) {
		return 0
	}
	return m
}

// ShiftTwice computes dst[i] = x[i] - a - b, each difference rounded: a + b would lose the low bits
// of the smaller one.
func ShiftTwice(dst, x []float32, a, b float32) { shiftTwice(dst, x[:len(dst)], a, b) }
