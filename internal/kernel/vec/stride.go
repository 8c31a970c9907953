package vec

// Gather computes dst[i] = src[i*stride]: one column of a matrix, or one axis of ONNX Slice-13 with
// a step. The stride counts elements and must be at least 1.
func Gather[T Word](dst, src []T, stride int) {
	if len(dst) == 0 {
		return
	}
	if stride == 1 {
		copy(dst, src[:len(dst)])
		return
	}
	src = src[:(len(dst)-1)*stride+1]
	for i := range dst {
		dst[i] = src[i*stride]
	}
}

// Scatter computes dst[i*stride] = src[i] for every i < len(src); elements of dst between are left
// alone. The stride counts elements and must be at least 1.
func Scatter[T Word](dst, src []T, stride int) {
	if len(src) == 0 {
		return
	}
	if stride == 1 {
		copy(dst[:len(src)], src)
		return
	}
	dst = dst[:(len(src)-1)*stride+1]
	for i, v := range src {
		dst[i*stride] = v
	}
}
