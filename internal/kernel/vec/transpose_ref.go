package vec

// transposeTile is the side of the squares that transposeRef moves: one cache line of 4-byte
// elements.
const transposeTile = 16

func transposeRef(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	for r0 := 0; r0 < rows; r0 += transposeTile {
		r1 := min(r0+transposeTile, rows)
		for c := range cols {
			out := dst[c*ldDst+r0 : c*ldDst+r1]
			for i := range out {
				out[i] = src[(r0+i)*ldSrc+c]
			}
		}
	}
}
