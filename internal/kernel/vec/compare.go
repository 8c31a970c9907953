package vec

// EqualInt32 tells of each element of x whether it is v (ONNX Equal-19). Len(x) must be at least
// len(dst).
func EqualInt32(dst []bool, x []int32, v int32) {
	for x = x[:len(dst)]; len(dst) > 0; {
		n := min(len(dst), chunk)
		equalInt32(dst[:n], x[:n], v)
		dst, x = dst[n:], x[n:]
	}
}

func equalInt32Ref(dst []bool, x []int32, v int32) {
	for i, e := range x[:len(dst)] {
		dst[i] = e == v
	}
}
