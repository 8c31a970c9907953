package vec

// ArgMax returns the index of the first greatest element of x (ONNX ArgMax-13,
// select_last_index=0), of the first NaN if there is one, and -1 for an empty slice.
func ArgMax(x []float32) int {
	m := MaxReduce(x)
	if m != m {
		return findNaN(x)
	}
	for start := 0; start < len(x); start += chunk {
		part := x[start:min(start+chunk, len(x))]
		if i := find(part, m); i >= 0 {
			return start + i
		}
	}
	return -1
}
