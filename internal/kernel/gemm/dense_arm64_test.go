//go:build !noasm

package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTilesOfDenseRowsHaveTheSameBitsOnArm64 computes tiles with the steps of A side by side, for
// which there are kernels that read some at once, and with the same steps apart. Behind what tiles
// may read of A and B come NaNs.
func TestTilesOfDenseRowsHaveTheSameBitsOnArm64(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 6))
	for rows := 1; rows <= levelNEON.mr(); rows++ {
		for _, cols := range []int{1, 7, 8, 9, 15, 16} {
			for k := 1; k <= 21; k++ {
				for _, flags := range []uint32{0, flagAccumulate | flagScale | flagBiasRow,
					flagBiasCol | flagResidual | flagLo | flagHi} {
					for _, ldb := range []int{(cols + 7) / 8 * 8, 16, 19} {
						checkDense(t, r, rows, cols, k, ldb, flags)
					}
				}
			}
		}
	}
}

// checkDense compares one tile.
func checkDense(t *testing.T, r *rand.Rand, rows, cols, k, ldb int, flags uint32) {
	t.Helper()
	random := func(n int) []float32 {
		x := make([]float32, n, n+32)
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		for i := range x[n : n+32] {
			x[n : n+32][i] = float32(math.NaN())
		}
		return x
	}
	apart := rows + 3
	tl := tile{a: random(k * rows), b: random((k-1)*ldb + (cols+7)/8*8), bias: random(16), k: k,
		rows: rows, cols: cols, lda: rows, ldb: ldb, ldc: cols, ldr: cols, alpha: 0.75, beta: 1.25,
		lo: -0.5, hi: 0.5, flags: flags, res: random(rows * cols)}
	c := random(rows * cols)
	dense, spaced := tl, tl
	dense.c, spaced.c = append([]float32(nil), c...), append([]float32(nil), c...)
	spaced.lda, spaced.a = apart, random((k-1)*apart+rows)
	spread(spaced.a, apart, tl.a, rows, k, rows)
	runTile(levelNEON, &dense)
	runTile(levelNEON, &spaced)
	for i, want := range spaced.c {
		if math.Float32bits(dense.c[i]) != math.Float32bits(want) {
			t.Fatalf("%d rows, %d columns, %d steps, B %d apart, flags %#x: element %d is %v, "+
				"and with steps apart %v", rows, cols, k, ldb, flags, i, dense.c[i], want)
		}
	}
}
