package vec

func gateRef(dst, g, x []float32, scale, bias, lo, hi float32) {
	for i := range dst {
		v := fusedRef(x[i], scale, bias)
		if v > lo && v <= hi {
			dst[i] = g[i]
		} else {
			dst[i] = 0
		}
	}
}

func blendRef(dst, g, x []float32, a, b, c float32) {
	for i := range dst {
		dst[i] = fusedRef(g[i], a, fusedRef(x[i], b, c))
	}
}

func affineClampRef(dst, x []float32, scale, bias, lo, hi float32) {
	for i := range dst {
		dst[i] = min(max(fusedRef(x[i], scale, bias), lo), hi)
	}
}

// dotDiffRef rounds each difference to float32, as the fast paths do.
func dotDiffRef(g, x []float32, mean float32) float32 {
	var lanes, diff [sumLanes]float32
	for ; len(g) >= sumLanes; g, x = g[sumLanes:], x[sumLanes:] {
		for i, v := range x[:sumLanes] {
			diff[i] = v - mean
		}
		fmaRef(lanes[:], g, diff[:], lanes[:])
	}
	for i, v := range g {
		lanes[i%restLanes] = fusedRef(v, x[i]-mean, lanes[i%restLanes])
	}
	return joinLanes(&lanes)
}

func wideDotDiff(g, x []float32, mean float32) float64 {
	var t float64
	for i, v := range g {
		t += float64(v) * (float64(x[i]) - float64(mean))
	}
	return t
}
