//go:build (!amd64 && !arm64) || noasm

package vec

func find(x []float32, v float32) int { return findRef(x, v) }
