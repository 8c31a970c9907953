package vec

// Nibbles turns rows of numbers of four bits into floats, w = len(scale) a row: column j of row i becomes (q - zero[j])*scale[j],
// where q is the low half of byte i*w/2 + j of x for j < w/2, and the high half of byte i*w/2 + j - w/2 from there on. It panics
// when w is odd or len(dst) no multiple of it.
func Nibbles(dst []float32, x []byte, zero, scale []float32) {
	w := len(scale)
	if w%2 != 0 {
		panic("vec: rows of an odd number of halves of bytes")
	}
	rows := rowsOf(dst, scale)
	if zero, x = zero[:w], x[:rows*w/2]; rows > 0 {
		nibbleRows(dst, x, rows, zero, scale)
	}
}

func nibbleRowsRef(dst []float32, x []byte, zero, scale []float32) {
	w := len(scale)
	half := w / 2
	for i := range len(dst) / w {
		for j, b := range x[i*half : (i+1)*half] {
			dst[i*w+j] = (float32(b&15) - zero[j]) * scale[j]
			dst[i*w+half+j] = (float32(b>>4) - zero[half+j]) * scale[half+j]
		}
	}
}
