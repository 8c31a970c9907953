package vec

import "math"

// MeanVariance returns the mean of x and its population variance, the mean of (x[i] - mean)²,
// computed in two passes. An empty slice gives NaN for both. The mean m has the error of [Mean].
// The variance is within 1e-5 of the mean of (x[i] - m)², which exceeds the true variance by the
// square of m's error. The bits are the same on every path of instructions: see [Sum].
func MeanVariance(x []float32) (mean, variance float32) {
	mean, v := moments(x)
	return mean, float32(v)
}

func moments(x []float32) (mean float32, variance float64) {
	mean = Mean(x)
	return mean, TotalSquaredDiff(x, mean) / float64(len(x))
}

// LayerNorm computes dst[i] = (x[i] - mean) / sqrt(variance + eps) * gamma[i] + beta[i] over one
// row of len(dst) elements, mean and variance as in MeanVariance, with the same bits on every path
// of instructions (ONNX LayerNormalization-17; Ba, Kiros, Hinton, "Layer Normalization", 2016,
// equation 4). A nil gamma means ones, a nil beta zeros; given, they must be as long as dst. It
// returns the mean and 1 / sqrt(variance + eps), by which it normalised.
func LayerNorm(dst, x, gamma, beta []float32, eps float32) (mean, inverse float32) {
	x = x[:len(dst)]
	mean, variance := moments(x)
	inverse = InverseDeviation(variance, eps)
	Normalize(dst, x, gamma, beta, mean, inverse)
	return mean, inverse
}

// InverseDeviation is 1 / sqrt(variance + eps), rounded once.
func InverseDeviation(variance float64, eps float32) float32 {
	return float32(1 / math.Sqrt(variance+float64(eps)))
}

// Normalize computes dst[i] = (x[i] - mean) * scale * gamma[i] + beta[i], the last step of
// LayerNorm, for slices of any part of a row. A nil gamma means ones, a nil beta zeros; given, they
// must be as long as dst.
func Normalize(dst, x, gamma, beta []float32, mean, scale float32) {
	x = x[:len(dst)]
	if gamma != nil && beta != nil {
		normalize(dst, x, gamma[:len(dst)], beta[:len(dst)], mean, scale)
		return
	}
	center(dst, x, mean, scale)
	if gamma != nil {
		Mul(dst, dst, gamma)
	}
	if beta != nil {
		Add(dst, dst, beta)
	}
}

// RMSNorm computes dst[i] = x[i] / sqrt(mean of x² + eps) * gamma[i] over one row of len(dst)
// elements, with the error and the bits of [SumSquares] (ONNX RMSNormalization-23; Zhang, Sennrich,
// "Root Mean Square Layer Normalization", 2019, equation 4). A nil gamma means ones.
func RMSNorm(dst, x, gamma []float32, eps float32) {
	x = x[:len(dst)]
	scale := InverseDeviation(totalDot(x, x)/float64(len(x)), eps)
	if gamma == nil {
		mulScalar(dst, x, scale)
		return
	}
	mulScaled(dst, x, gamma[:len(dst)], scale)
}
