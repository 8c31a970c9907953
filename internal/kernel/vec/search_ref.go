package vec

// findRef returns the index of the first element equal to v, or -1.
func findRef(x []float32, v float32) int {
	for i, e := range x {
		if e == v {
			return i
		}
	}
	return -1
}

// findNaN returns the index of the first NaN, or -1.
func findNaN(x []float32) int {
	for i, e := range x {
		if e != e {
			return i
		}
	}
	return -1
}
