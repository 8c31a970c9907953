package vec

import "math"

func sumRef(x []float32) float32 {
	var t float64
	for _, v := range x {
		t += float64(v)
	}
	return float32(t)
}

func dotRef(a, b []float32) float32 {
	var t float64
	for i := range a {
		t += float64(a[i]) * float64(b[i])
	}
	return float32(t)
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
