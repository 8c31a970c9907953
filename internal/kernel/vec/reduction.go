package vec

import "math"

// chunk is how many elements one call of a reduction kernel adds up in float32 before float64 takes
// over: 64 for each of its lanes.
const chunk = 4096

// Sum returns the sum of x, 0 for an empty slice (ONNX ReduceSum-13 over one run). It is within
// 1e-5 of the exact sum, relative to the sum of magnitudes, for up to 2^40 elements: not more than
// 73 float32 additions follow each other, each with a relative error of 2^-24. It does not leave
// the range of float32 on the way: where lanes do, their elements are added up again in float64. So
// it is infinite or NaN only where the exact sum rounds to that, or where x holds an infinity or
// NaN.
//
// The order of the additions depends on nothing but the number of elements, and the bits are the
// same on every path of instructions. Of each 4096 elements, lane i of 64 adds up the elements i,
// i+64 and so on, the rest, fewer than 64, going to the first 16 lanes in turn; the upper half of
// the lanes is added to the lower until one is left. These sums are added up in float64.
func Sum(x []float32) float32 { return float32(Total(x)) }

// Mean returns the mean of x, NaN for an empty slice (ONNX ReduceMean-18 over one run), within 1e-5
// relative to the mean of magnitudes: see Sum.
func Mean(x []float32) float32 { return float32(Total(x) / float64(len(x))) }

// Total is Sum before it is rounded: what those of the parts of a row are added up from.
func Total(x []float32) float64 {
	var t float64
	for ; len(x) > chunk; x = x[chunk:] {
		t += chunkSum(x[:chunk])
	}
	return t + chunkSum(x)
}

func chunkSum(x []float32) float64 {
	if s := sum(x); s-s == 0 {
		return float64(s)
	}
	return SumEvery(x, 1)
}

// SumSquares returns the sum of x[i]² (ONNX ReduceSumSquare-18 over one run), with the errors of
// Dot.
func SumSquares(x []float32) float32 { return float32(totalDot(x, x)) }

// TotalSquares is SumSquares before it is rounded: see Total.
func TotalSquares(x []float32) float64 { return totalDot(x, x) }

// SumAbs returns the sum of |x[i]| (ONNX ReduceL1-18 over one run), with the error of Sum. The
// order is that of Sum for each 1024 elements, whose sums are added up in float64, and the bits are
// the same on every path of instructions.
func SumAbs(x []float32) float32 { return float32(TotalAbs(x)) }

// TotalAbs is SumAbs before it is rounded: see Total.
func TotalAbs(x []float32) float64 {
	var t float64
	var row [absChunk]float32
	for len(x) > 0 {
		block := row[:min(len(x), absChunk)]
		Abs(block, x)
		t += chunkSum(block)
		x = x[len(block):]
	}
	return t
}

// absChunk is chunk for sums of magnitudes, which are kept on the stack.
const absChunk = chunk / 4

// Norm returns the square root of the sum of x[i]² (ONNX ReduceL2-18 over one run), within 1e-5 of
// itself and 2^-75 for the root of the number of elements: see Dot. The squares may leave the range
// of float32.
func Norm(x []float32) float32 { return float32(math.Sqrt(totalDot(x, x))) }

// Dot returns the sum of a[i]*b[i] over a. Slice b must be at least as long as a. The products are
// not rounded on their own. The order and the bits are those of Sum. So is the error, relative to
// the sum of the magnitudes of products, plus 2^-150 for each product that is below the normal
// range of float32. A result of zero is positive.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	if len(a) <= chunk {
		if s := dot(a, b); s-s == 0 {
			return 0 + s // lanes that underflow keep -0 unless the path adds zeros beyond the end
		}
	}
	return float32(totalDot(a, b))
}

func totalDot(a, b []float32) float64 {
	var t float64
	for ; len(a) > chunk; a, b = a[chunk:], b[chunk:] {
		t += chunkDot(a[:chunk], b[:chunk])
	}
	return t + chunkDot(a, b)
}

func chunkDot(a, b []float32) float64 {
	if s := dot(a, b); s-s == 0 {
		return float64(s)
	}
	return wideDot(a, b)
}

// SumSquaredDiff returns the sum of (x[i] - mean)², each difference rounded to float32 and the
// squares added up as in Dot.
func SumSquaredDiff(x []float32, mean float32) float32 {
	return float32(TotalSquaredDiff(x, mean))
}

// TotalSquaredDiff is SumSquaredDiff before it is rounded: see Total.
func TotalSquaredDiff(x []float32, mean float32) float64 {
	var t float64
	for ; len(x) > chunk; x = x[chunk:] {
		t += chunkSquaredDiff(x[:chunk], mean)
	}
	return t + chunkSquaredDiff(x, mean)
}

func chunkSquaredDiff(x []float32, mean float32) float64 {
	if s := sumSquaredDiff(x, mean); s-s == 0 {
		return float64(s)
	}
	return wideSquaredDiff(x, mean)
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
