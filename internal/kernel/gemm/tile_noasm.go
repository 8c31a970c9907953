//go:build !amd64 || noasm

package gemm

import (
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// RunPeak returns 0: there are no vectors.
func RunPeak(cpuinfo.Level, int) (flop int64) { return 0 }

// runTileGo computes t as its definition says.
func runTileGo(v level, t *tile) {
	switch v.format() {
	case BF16:
		tileGoBF16(t)
	case U8S8:
		tileGoU8S8(t)
	case S8U8:
		tileGoS8U8(t)
	default:
		tileGo(t)
	}
}

// widenAll does what widenGo does.
func widenAll(dst, src []float32, signed bool) { widenGo(dst, src, signed) }

// quadsAlong does what quadsAlongGo does.
func quadsAlong(v level, dst []float32, stride int, src []float32) {
	done := quadsAlongVectors(v, dst, stride, src)
	if done < len(src) {
		quadsAlongGo(v, dst[v.steps(done)*stride:], stride, src[done:])
	}
}

// joinAlong does what joinGo does of rows of one column that lie side by side.
func joinAlong(_ level, dst, src []float32, k int) { joinGo(dst, src, 1, 1, k) }

// joinRows does what joinRowsGo does.
func joinRows(_ level, dst, src []float32, ld, rows, k int) { joinRowsGo(dst, src, ld, rows, k) }

// finish does what tile.finishGo does.
func finish(_ level, t *tile, block []float32) { t.finishGo(block) }

// joinPairs does what joinGo does, or quadsGo for products of matrices.
func joinPairs(v level, dst, src []float32, ld, cols, k int) {
	if !v.matrix() {
		joinGo(dst, src, ld, cols, k)
		return
	}
	done := quadsVectors(v, dst, src, ld, cols, k)
	if done < k {
		quadsGo(v, dst[v.steps(done)*cols:], src[done*ld:], ld, cols, k-done)
	}
}

// transposeBlock does what transposeGo does.
func transposeBlock(_ level, dst []float32, stride int, src []float32, ld, rows, k int) {
	if rows == 1 { // whose steps may lie closer than they are many
		transposeGo(dst, stride, src, ld, rows, k)
		return
	}
	vec.Transpose(dst, src, rows, k, stride, ld)
}

// copyBlock does what copyGo does.
func copyBlock(_ level, dst []float32, stride int, src []float32, ld, cols, k int) {
	copyGo(dst, stride, src, ld, cols, k)
}

// padBlock does what padGo does.
func padBlock(_ level, dst []float32, width int, src []float32, ld, cols, k int) {
	padGo(dst, width, src, ld, cols, k)
}

// copyPanels packs k rows of n whole panels of a row-major B, rows ld apart, one panel after
// another.
func copyPanels(v level, dst, src []float32, ld, k, n int) {
	for p := range n {
		copyGo(dst[p*k*v.nr():], v.nr(), src[p*v.nr():], ld, v.nr(), k)
	}
}
