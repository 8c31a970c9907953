package vec

import (
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// A read beyond a slice shows only where there is no memory.
func TestNothingOutsideIsTouched(t *testing.T) {
	const most = 150
	for _, atStart := range []bool{true, false} {
		buffers := [4][]float32{}
		for i := range buffers {
			buffers[i] = cputest.Fenced(t, most, atStart)
		}
		cut := func(i, n int) []float32 {
			if atStart {
				return buffers[i][:n]
			}
			return buffers[i][most-n:]
		}
		atEachLevel(t, func(t *testing.T) {
			for n := 1; n <= most; n++ {
				in := [3][]float32{cut(1, n), cut(2, n), cut(3, n)}
				for _, e := range everyFunction() {
					e.fast(cut(0, n), in)
				}
				for rows := 1; rows <= n; rows += 5 {
					cols := n / rows
					Transpose(cut(0, rows*cols), cut(1, rows*cols), rows, cols, rows, cols)
				}
			}
		})
	}
}
