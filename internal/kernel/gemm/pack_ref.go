package gemm

// transposeGo writes element (r, c) of src, rows x k with rows ld apart, to dst[c*stride+r].
func transposeGo(dst []float32, stride int, src []float32, ld, rows, k int) {
	for r := range rows {
		row := src[r*ld:][:k]
		at := r
		for _, x := range row {
			dst[at] = x
			at += stride
		}
	}
}

// copyGo writes element (r, c) of src, k x cols with rows ld apart, to dst[r*stride+c].
func copyGo(dst []float32, stride int, src []float32, ld, cols, k int) {
	for r := range k {
		copy(dst[r*stride:][:cols], src[r*ld:][:cols])
	}
}

// padGo writes element (r, c) of src, k x cols with rows ld apart, to dst[r*width+c], and zeros
// behind cols.
func padGo(dst []float32, width int, src []float32, ld, cols, k int) {
	for r := range k {
		row := dst[r*width:][:width]
		copy(row, src[r*ld:][:cols])
		clear(row[cols:])
	}
}
