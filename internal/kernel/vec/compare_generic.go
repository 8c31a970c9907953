//go:build (!amd64 && !arm64) || noasm

package vec

func equalInt32(dst []bool, x []int32, v int32) { equalInt32Ref(dst, x, v) }
