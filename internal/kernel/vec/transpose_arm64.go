//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

// transpose moves four rows at a time, then two, in assembly, and what remains at the right and at
// the bottom in Go.
func transpose(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	whole := cols &^ 3
	if !cpuinfo.HasNEON() || rows < 2 || whole == 0 {
		transposeRef(dst, src, rows, cols, ldDst, ldSrc)
		return
	}
	for c := 0; c < whole; c += block {
		n := min(block, whole-c)
		r := 0
		for ; r+4 <= rows; r += 4 {
			transpose4NEON(&dst[c*ldDst+r], &src[r*ldSrc+c], n, ldDst, ldSrc)
		}
		if r+2 <= rows {
			transpose2NEON(&dst[c*ldDst+r], &src[r*ldSrc+c], n, ldDst, ldSrc)
		}
	}
	if whole < cols {
		transposeRef(dst[whole*ldDst:], src[whole:], rows, cols-whole, ldDst, ldSrc)
	}
	if last := rows - 1; rows%2 > 0 {
		for c, x := range src[last*ldSrc:][:whole] {
			dst[c*ldDst+last] = x
		}
	}
}
