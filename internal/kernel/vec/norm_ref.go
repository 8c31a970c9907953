package vec

func normalizeRef(dst, x, gamma, beta []float32, mean, scale float32) {
	for i := range dst {
		v := (x[i] - mean) * scale
		if s := float64(v)*float64(gamma[i]) + float64(beta[i]); halfway(s) {
			dst[i] = roundedOnce(v, gamma[i], beta[i])
		} else {
			dst[i] = float32(s)
		}
	}
}

func centerRef(dst, x []float32, mean, scale float32) {
	for i := range dst {
		dst[i] = (x[i] - mean) * scale
	}
}

func mulScaledRef(dst, x, gamma []float32, scale float32) {
	for i := range dst {
		dst[i] = x[i] * scale * gamma[i]
	}
}
