package vec

// Gate computes dst[i] = g[i] where x[i]*scale + bias, rounded as in Axpy, is above lo and at most
// hi, and 0 elsewhere, also where it is NaN: the gradient of an activation that clips.
func Gate(dst, g, x []float32, scale, bias, lo, hi float32) {
	gate(dst, g[:len(dst)], x[:len(dst)], scale, bias, lo, hi)
}

// Blend computes dst[i] = a*g[i] + (b*x[i] + c), each sum rounded as in Axpy: the last step of the
// gradient of a normalisation (Ioffe and Szegedy, "Batch Normalization", 2015, section 3).
func Blend(dst, g, x []float32, a, b, c float32) {
	blend(dst, g[:len(dst)], x[:len(dst)], a, b, c)
}

// AffineClamp is [Affine] and then max(lo) and min(hi), where NaN stays.
func AffineClamp(dst, x []float32, scale, bias, lo, hi float32) {
	affineClamp(dst, x[:len(dst)], scale, bias, lo, hi)
}

// TotalDotDiff returns the sum of g[i]*(x[i] - mean), each difference rounded to float32 and the
// products added up as in [Dot], before it is rounded: see [Total]. The bits are the same on every
// path of instructions. Slice x must be at least as long as g.
func TotalDotDiff(g, x []float32, mean float32) float64 {
	x = x[:len(g)]
	var t float64
	for ; len(g) > chunk; g, x = g[chunk:], x[chunk:] {
		t += chunkDotDiff(g[:chunk], x[:chunk], mean)
	}
	return t + chunkDotDiff(g, x, mean)
}

func chunkDotDiff(g, x []float32, mean float32) float64 {
	if s := dotDiff(g, x, mean); s-s == 0 {
		return 0 + float64(s) // lanes that underflow keep -0 on some paths
	}
	return wideDotDiff(g, x, mean)
}
