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

// LookupWords replaces each element of x by what the table has in its place.
func LookupWords(x []uint16, table *[1 << 16]uint16) {
	// several at a time, so that loads that miss the first cache wait together
	for len(x) >= 8 {
		p := (*[8]uint16)(x)
		a, b, c, d := table[p[0]], table[p[1]], table[p[2]], table[p[3]]
		e, f, g, h := table[p[4]], table[p[5]], table[p[6]], table[p[7]]
		p[0], p[1], p[2], p[3] = a, b, c, d
		p[4], p[5], p[6], p[7] = e, f, g, h
		x = x[8:]
	}
	for i, v := range x {
		x[i] = table[v]
	}
}
