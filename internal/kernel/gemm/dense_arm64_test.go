//go:build !noasm

package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestTilesOfDenseRowsHaveTheSameBitsOnArm64 computes tiles with the steps of A side by side, for
// which there are kernels that read some at once, and with the same steps apart. Behind what tiles
// may read of A and B is no memory.
func TestTilesOfDenseRowsHaveTheSameBitsOnArm64(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 6))
	const most = 21
	a := cputest.Fenced(t, most*levelNEON.mr(), false)
	b := cputest.Fenced(t, most*19, false)
	for rows := 1; rows <= levelNEON.mr(); rows++ {
		for _, cols := range []int{1, 7, 8, 9, 15, 16} {
			for k := 1; k <= most; k++ {
				for _, flags := range []uint32{0, flagAccumulate | flagScale | flagBiasRow,
					flagBiasCol | flagResidual | flagLo | flagHi} {
					for _, ldb := range []int{(cols + 7) / 8 * 8, 16, 19} {
						checkDense(t, r, a, b, tile{rows: rows, cols: cols, k: k, ldb: ldb,
							flags: flags})
					}
				}
			}
		}
	}
}

// checkDense compares one tile, of which the operands are the ends of a and b.
func checkDense(t *testing.T, r *rand.Rand, a, b []float32, tl tile) {
	t.Helper()
	fill := func(x []float32) []float32 {
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		return x
	}
	random := func(n int) []float32 { return fill(make([]float32, n)) }
	last := func(x []float32, n int) []float32 { return fill(x[len(x)-n:]) }
	rows, cols, k := tl.rows, tl.cols, tl.k
	tl.a, tl.b = last(a, k*rows), last(b, (k-1)*tl.ldb+(cols+7)/8*8)
	tl.lda, tl.ldc, tl.ldr = rows, cols, cols
	tl.alpha, tl.beta, tl.lo, tl.hi = 0.75, 1.25, -0.5, 0.5
	tl.bias, tl.res = random(16), random(rows*cols)
	c := random(rows * cols)
	dense, spaced, apart := tl, tl, rows+3
	dense.c, spaced.c = append([]float32(nil), c...), append([]float32(nil), c...)
	spaced.lda, spaced.a = apart, random((k-1)*apart+rows)
	spread(spaced.a, apart, tl.a, rows, k, rows)
	runTile(levelNEON, &dense)
	runTile(levelNEON, &spaced)
	for i, want := range spaced.c {
		if math.Float32bits(dense.c[i]) != math.Float32bits(want) {
			t.Fatalf("%d rows, %d columns, %d steps, B %d apart, flags %#x: element %d is %v, "+
				"and with steps apart %v", rows, cols, k, tl.ldb, tl.flags, i, dense.c[i], want)
		}
	}
}
