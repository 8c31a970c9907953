package vec

// JoinWords makes one number of each two sums of products, of the low and of the high bytes of
// integers of 16 bits: dst[i] = float32(x[2i] + 256·x[2i+1] + add)·scale + bias, where integers
// wrap, and the product is rounded as in [Affine].
func JoinWords(dst []float32, x []int32, add int32, scale, bias float32) {
	joinWords(dst, x[:2*len(dst)], add, scale, bias)
}

func joinWordsRef(dst []float32, x []int32, add int32, scale, bias float32) {
	for i := range dst {
		dst[i] = fusedRef(float32(x[2*i]+x[2*i+1]<<8+add), scale, bias)
	}
}
