package conv

// gatherGo writes, for n channels, columns lo to hi of a row of width floats: element (lo+i) of row
// ch is src[ch*plane + i*stride]. The other columns stay.
func gatherGo(dst []float32, width, lo, hi int, src []float32, plane, stride, n int) {
	for ch := range n {
		row := dst[ch*width:][lo:hi]
		if stride == 1 {
			copy(row, src[ch*plane:][:len(row)])
			continue
		}
		from := src[ch*plane:]
		for i := range row {
			row[i] = from[i*stride]
		}
	}
}
