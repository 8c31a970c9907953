package vec

import "math"

func sumRef(x []float32) float32 { return float32(SumEvery(x, 1)) }

// SumEvery returns the sum of x[0], x[stride], x[2*stride] and so on to the end of x, each addition
// in float64, whose range no such sum leaves. It is for the few elements for which [ColumnSums] are
// no numbers, and slow. The stride must be at least 1.
func SumEvery(x []float32, stride int) float64 {
	var t float64
	for i := 0; i < len(x); i += stride {
		t += float64(x[i])
	}
	return t
}

// SumSquaresEvery is SumEvery of squares, which float64 holds without rounding.
func SumSquaresEvery(x []float32, stride int) float64 {
	var t float64
	for i := 0; i < len(x); i += stride {
		t += float64(x[i]) * float64(x[i])
	}
	return t
}

func dotRef(a, b []float32) float32 { return float32(wideDot(a, b)) }

func wideDot(a, b []float32) float64 {
	var t float64
	for i := range a {
		t += float64(a[i]) * float64(b[i])
	}
	return t
}

// sumSquaredDiffRef rounds each difference to float32, as the fast paths do.
func sumSquaredDiffRef(x []float32, mean float32) float32 {
	var t float64
	for _, v := range x {
		d := float64(v - mean)
		t += d * d
	}
	return float32(t)
}

func wideSquaredDiff(x []float32, mean float32) float64 {
	var t float64
	for _, v := range x {
		d := float64(v) - float64(mean)
		t += d * d
	}
	return t
}

func maxReduceRef(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

func minReduceRef(x []float32) float32 {
	m := float32(math.Inf(1))
	for _, v := range x {
		m = min(m, v)
	}
	return m
}
