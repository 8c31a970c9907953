package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestFinishingIsItsDefinition compares the epilogue of blocks from tiles, of every combination of
// its parts, sizes and special numbers, with that of the other levels.
func TestFinishingIsItsDefinition(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	r := rand.New(rand.NewPCG(18, 3))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for flags := range uint32(2 * flagHi) {
		for range 4 {
			x := tile{rows: 1 + r.IntN(40), cols: 1 + r.IntN(tilesNR), alpha: 0.5, beta: -2,
				lo: -0.25, hi: 0.5, flags: flags}
			x.mask = uint32(1)<<x.cols - 1
			x.ldc, x.ldr = x.cols+r.IntN(3), r.IntN(2)*(x.cols+2)
			x.bias, x.res = random(r, max(x.rows, x.cols)), random(r, (x.rows-1)*x.ldr+x.cols)
			block := random(r, x.rows*tilesNR)
			for range 5 {
				block[r.IntN(len(block))] = []float32{nan, inf, -inf, 0, 0.5}[r.IntN(5)]
			}
			c, check := guarded(r, (x.rows-1)*x.ldc+x.cols)
			want := slices.Clone(c)
			y := x
			x.c, y.c = c, want
			finish(levelTilesBF16, &x, block)
			y.finishGo(block)
			sameBits(t, "finished rows", c, want)
			check(t, "C")
		}
	}
}

// TestRowsForTilesAreJoined compares the rounding of rows to groups of words with its definition.
func TestRowsForTilesAreJoined(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	r := rand.New(rand.NewPCG(18, 4))
	for k := range 600 {
		rows, ld := 1+r.IntN(tilesMR), k+r.IntN(3)
		src := random(r, max((rows-1)*ld+k, 0))
		got, check := guarded(r, rows*levelTilesBF16.steps(k))
		want := slices.Clone(got)
		joinRows(levelTilesBF16, got, src, ld, rows, k)
		joinRowsGo(want, src, ld, rows, k)
		sameBits(t, "joined", got, want)
		check(t, "rows")
	}
}
