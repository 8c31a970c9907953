package vec

import "math"

// chunk is how many elements one call of a reduction kernel adds up in float32 before float64 takes
// over.
const chunk = 8192

// Sum returns the sum of x, 0 for an empty slice (ONNX ReduceSum-13 over one run).
func Sum(x []float32) float32 { return float32(total(x)) }

func total(x []float32) float64 {
	var t float64
	for len(x) > chunk {
		t += float64(sum(x[:chunk]))
		x = x[chunk:]
	}
	return t + float64(sum(x))
}

// SumSquares returns the sum of x[i]² (ONNX ReduceSumSquare-18 over one run).
func SumSquares(x []float32) float32 { return float32(totalDot(x, x)) }

// Dot returns the sum of a[i]*b[i] over a. Slice b must be at least as long as a.
func Dot(a, b []float32) float32 { return float32(totalDot(a, b[:len(a)])) }

func totalDot(a, b []float32) float64 {
	var t float64
	for len(a) > chunk {
		t += float64(dot(a[:chunk], b[:chunk]))
		a, b = a[chunk:], b[chunk:]
	}
	return t + float64(dot(a, b))
}

// SumSquaredDiff returns the sum of (x[i] - mean)².
func SumSquaredDiff(x []float32, mean float32) float32 { return float32(totalSquaredDiff(x, mean)) }

func totalSquaredDiff(x []float32, mean float32) float64 {
	var t float64
	for len(x) > chunk {
		t += float64(sumSquaredDiff(x[:chunk], mean))
		x = x[chunk:]
	}
	return t + float64(sumSquaredDiff(x, mean))
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
