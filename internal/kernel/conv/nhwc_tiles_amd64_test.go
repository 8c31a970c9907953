//go:build !noasm

package conv

import (
	"testing"
	"unsafe"
)

// TestArgumentsOfTiledCalls states how much of the registers a call uses: LDTILECFG refuses what is
// beyond them, and what is loaded beyond the rows of an image is not the image's.
func TestArgumentsOfTiledCalls(t *testing.T) {
	if n := unsafe.Sizeof(tileConfig{}); n != 64 {
		t.Errorf("a configuration has %d bytes", n)
	}
	for rows, want := range map[int][3]int{ // of the upper registers, of the lower, to the 17th
		1: {1, 1, 0}, 16: {16, 1, 0}, 17: {16, 1, 160}, 32: {16, 16, 160},
	} {
		for _, width := range []int{4, 28, 64} {
			c := tiledCall{rows: rows, lda: 10, width: width}
			a := tiledArgs{aTile: tileRows * c.lda}
			c.configure(&a)
			r, b := a.config.rows, a.config.colBytes
			if got := [3]int{int(r[4]), int(r[5]), a.aTile}; got != want || r[0] != r[4] ||
				r[1] != r[4] || r[2] != r[5] || r[3] != r[5] || int(r[6]) != width/4 ||
				r[7] != r[6] || r[8] != 0 || a.config.palette != 1 {
				t.Errorf("%d rows of %d bytes: %v, distance %d; want %v", rows, width, r, a.aTile,
					want)
			}
			if int(b[4]) != width || b[5] != b[4] || b[0] != 64 || b[3] != 64 || b[6] != 64 ||
				b[7] != 64 || b[8] != 0 {
				t.Errorf("%d rows of %d bytes: bytes %v", rows, width, b)
			}
		}
	}
}
