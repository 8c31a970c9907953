//go:build !amd64 || noasm

package vec

func joinWords(dst []float32, x []int32, add int32, scale, bias float32) {
	joinWordsRef(dst, x, add, scale, bias)
}
