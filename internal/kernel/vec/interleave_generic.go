//go:build (!amd64 && !arm64) || noasm

package vec

func interleave(dst []uint32, x []byte, stride int, flip uint32) {
	interleaveRef(dst, x, stride, flip)
}
