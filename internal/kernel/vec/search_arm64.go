//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func find(x []float32, v float32) int {
	from := 0
	if n := len(x) / 16; n > 0 && cpuinfo.HasNEON() {
		from = 16 * findNEON(&x[0], n, v)
	}
	if i := findRef(x[from:], v); i >= 0 {
		return from + i
	}
	return -1
}
