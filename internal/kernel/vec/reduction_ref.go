package vec

import "math"

// The sums of a row are kept in sumLanes lanes. The elements that do not fill all of them go to the
// first restLanes, in turn.
const (
	sumLanes  = 64
	restLanes = 16
)

func sumRef(x []float32) float32 {
	var lanes [sumLanes]float32
	for ; len(x) >= sumLanes; x = x[sumLanes:] {
		for i, v := range x[:sumLanes] {
			lanes[i] += v
		}
	}
	for i, v := range x {
		lanes[i%restLanes] += v
	}
	return joinLanes(&lanes)
}

// joinLanes adds the upper half of the lanes to the lower until one is left.
func joinLanes(lanes *[sumLanes]float32) float32 {
	for n := sumLanes / 2; n > 0; n /= 2 {
		for i, v := range lanes[n : 2*n] {
			lanes[i] += v
		}
	}
	return lanes[0]
}

// SumEvery returns the sum of x[0], x[stride], x[2*stride] and so on to the end of x. Each addition
// is in float64, whose range such a sum cannot leave. It is slow, and meant for the few elements
// whose sums in [ColumnSums] are infinite or NaN. The stride must be at least 1.
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

// SumAbsEvery is SumEvery of magnitudes.
func SumAbsEvery(x []float32, stride int) float64 {
	var t float64
	for i := 0; i < len(x); i += stride {
		t += math.Abs(float64(x[i]))
	}
	return t
}

func dotRef(a, b []float32) float32 {
	var lanes [sumLanes]float32
	for ; len(a) >= sumLanes; a, b = a[sumLanes:], b[sumLanes:] {
		fmaRef(lanes[:], a, b, lanes[:])
	}
	for i, v := range a {
		lanes[i%restLanes] = fusedRef(v, b[i], lanes[i%restLanes])
	}
	return joinLanes(&lanes)
}

func wideDot(a, b []float32) float64 {
	var t float64
	for i := range a {
		t += float64(a[i]) * float64(b[i])
	}
	return t
}

// sumSquaredDiffRef rounds each difference to float32, as the fast paths do.
func sumSquaredDiffRef(x []float32, mean float32) float32 {
	var lanes, diff [sumLanes]float32
	for ; len(x) >= sumLanes; x = x[sumLanes:] {
		for i, v := range x[:sumLanes] {
			diff[i] = v - mean
		}
		fmaRef(lanes[:], diff[:], diff[:], lanes[:])
	}
	for i, v := range x {
		d := v - mean
		lanes[i%restLanes] = fusedRef(d, d, lanes[i%restLanes])
	}
	return joinLanes(&lanes)
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
