package vec

import "math"

// chunk is how many elements one call of a reduction kernel adds up in float32 before float64 takes
// over: 128 for each lane of the narrowest accumulators, those of AVX2.
const chunk = 4096

// Sum returns the sum of x, 0 for an empty slice (ONNX ReduceSum-13 over one run). It is within
// 1e-5 of the exact sum, relative to the sum of magnitudes, for up to 2^40 elements: not more than
// 133 float32 additions follow each other, each with a relative error of 2^-24. It does not leave
// the range of float32 on the way: where lanes do, the sum is taken again in float64. So it is
// infinite or NaN only where the exact sum rounds to that, or where x holds an infinity or NaN.
func Sum(x []float32) float32 { return float32(total(x)) }

// Mean returns the mean of x, NaN for an empty slice (ONNX ReduceMean-18 over one run), within 1e-5
// relative to the mean of magnitudes: see Sum.
func Mean(x []float32) float32 { return float32(total(x) / float64(len(x))) }

func total(x []float32) float64 {
	var t float64
	rest := x
	for ; len(rest) > chunk; rest = rest[chunk:] {
		t += float64(sum(rest[:chunk]))
	}
	if t += float64(sum(rest)); t-t != 0 {
		return SumEvery(x, 1)
	}
	return t
}

// SumSquares returns the sum of x[i]² (ONNX ReduceSumSquare-18 over one run), with the errors of
// Dot.
func SumSquares(x []float32) float32 { return float32(totalDot(x, x)) }

// Norm returns the square root of the sum of x[i]² (ONNX ReduceL2-18 over one run), within 1e-5 of
// itself and 2^-75 for the root of the number of elements: see Dot. The squares may leave the range
// of float32.
func Norm(x []float32) float32 { return float32(math.Sqrt(totalDot(x, x))) }

// Dot returns the sum of a[i]*b[i] over a. Slice b must be at least as long as a. The products are
// not rounded on their own, the error is that of Sum, relative to the sum of the magnitudes of
// products, and 2^-150 for each product that is below the normal range of float32.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	if len(a) <= chunk {
		if s := dot(a, b); s-s == 0 {
			return s
		}
	}
	return float32(totalDot(a, b))
}

func totalDot(a, b []float32) float64 {
	var t float64
	x, y := a, b
	for ; len(x) > chunk; x, y = x[chunk:], y[chunk:] {
		t += float64(dot(x[:chunk], y[:chunk]))
	}
	if t += float64(dot(x, y)); t-t != 0 {
		return wideDot(a, b)
	}
	return t
}

// SumSquaredDiff returns the sum of (x[i] - mean)², each difference rounded to float32 and the
// squares added up as in Dot.
func SumSquaredDiff(x []float32, mean float32) float32 { return float32(totalSquaredDiff(x, mean)) }

func totalSquaredDiff(x []float32, mean float32) float64 {
	var t float64
	rest := x
	for ; len(rest) > chunk; rest = rest[chunk:] {
		t += float64(sumSquaredDiff(rest[:chunk], mean))
	}
	if t += float64(sumSquaredDiff(rest, mean)); t-t != 0 {
		return wideSquaredDiff(x, mean)
	}
	return t
}

// MaxReduce returns the greatest element of x, NaN if one is NaN, -Inf for an empty slice (ONNX
// ReduceMax-20).
func MaxReduce(x []float32) float32 {
	m := float32(math.Inf(-1))
	for len(x) > chunk {
		m = max(m, maxReduce(x[:chunk]))
		x = x[chunk:]
	}
	return max(m, maxReduce(x))
}

// MinReduce returns the least element of x, NaN if one is NaN, +Inf for an empty slice (ONNX
// ReduceMin-20).
func MinReduce(x []float32) float32 {
	m := float32(math.Inf(1))
	for len(x) > chunk {
		m = min(m, minReduce(x[:chunk]))
		x = x[chunk:]
	}
	return min(m, minReduce(x))
}
