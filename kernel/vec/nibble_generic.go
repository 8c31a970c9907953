//go:build !amd64 || noasm

package vec

func nibbleRows(dst []float32, x []byte, _ int, zero, scale []float32) {
	nibbleRowsRef(dst, x, zero, scale)
}
