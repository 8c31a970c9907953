//go:build (!amd64 && !arm64) || noasm

package vec

func transpose(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	transposeRef(dst, src, rows, cols, ldDst, ldSrc)
}
