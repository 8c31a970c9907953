//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func equalInt32(dst []bool, x []int32, v int32) {
	whole := 0
	if len(dst) >= 16 && cpuinfo.HasNEON() {
		whole = len(dst) &^ 15
		equalInt32NEON(&dst[0], &x[:whole][0], whole/16, v)
	}
	equalInt32Ref(dst[whole:], x[whole:], v)
}
