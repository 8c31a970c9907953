package vec

func normalizeRef(dst, x, gamma, beta []float32, mean, scale float32) {
	for i := range dst {
		dst[i] = fusedRef((x[i]-mean)*scale, gamma[i], beta[i])
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
