package gemm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// TestFetchingAheadChangesNoBit runs every tile with and without fetching memory meanwhile.
func TestFetchingAheadChangesNoBit(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 32))
		v := currentLevel(F32)
		for rows := 1; rows <= v.mr(); rows++ {
			for cols := 1; cols <= v.nr(); cols++ {
				k := 1 + r.IntN(20)
				x := tile{a: random(r, k*rows), b: random(r, k*v.nr()), k: k, rows: rows,
					cols: cols, lda: rows, ldb: v.nr(), ldc: cols, ldr: cols,
					mask: uint32(1)<<cols - 1, flags: flagResidual | flagLo | flagHi, beta: 1,
					hi: 1, res: random(r, rows*cols), c: make([]float32, rows*cols)}
				x.ahead = uintptr(unsafe.Pointer(unsafe.SliceData(x.b)))
				runTile(v, &x)
				want := slices.Clone(x.c)
				clear(x.c)
				x.aheadStep = 4 * rows
				runTile(v, &x)
				if !slices.Equal(x.c, want) {
					t.Fatalf("%d x %d tile of %d steps differs where it fetches ahead", rows, cols,
						k)
				}
			}
		}
	})
}

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()
	}
	return x
}

// TestTilesOfAAreFetchedInTheirOrder follows the addresses through a batch whose products take some
// of the rows of a packed A: after the last one come the rows below of the first.
func TestTilesOfAAreFetchedInTheirOrder(t *testing.T) {
	const rows, k, batch, all = 20, 8, 3, 40
	mr := currentLevel(F32).mr()
	o, err := New(Params{M: rows, N: 4, K: k, PackedA: true, PackedB: true, Batch: batch,
		StrideA: all * k})
	if err != nil {
		t.Fatal(err)
	}
	a := make([]float32, batch*all*k)
	args := Args{A: a[:]}
	var tiles []tile
	var starts []int
	for b := range batch {
		for i := 0; i < rows; i += mr {
			x := tile{rows: min(mr, rows-i)}
			w := window{batch: b, i1: rows}
			o.fetchA(&x, panels{step: k}, w, &args, i, 1)
			tiles, starts = append(tiles, x), append(starts, (b*all+i)*k)
		}
	}
	for i, x := range tiles {
		want := rows * k
		if i+1 < len(tiles) {
			want = starts[i+1]
		}
		at := (int(x.aheadLast) - int(uintptr(unsafe.Pointer(&a[0])))) / 4
		if at != want || x.aheadStep != 4*x.rows {
			t.Errorf("tile %d fetches %d bytes a step from %d, want %d from %d", i, x.aheadStep, at,
				4*x.rows, want)
		}
	}
}

// TestTurnedResultsAreWrittenInWholeRows holds that blocks of a product whose result is turned and
// whose A is read where it lies share no row of C, where there are pixels enough for a chunk.
func TestTurnedResultsAreWrittenInWholeRows(t *testing.T) {
	for _, p := range []Params{{M: 196, N: 1024, K: 256}, {M: 49, N: 2048, K: 512}} {
		t.Run(fmt.Sprintf("%dx%dx%d", p.M, p.N, p.K), func(t *testing.T) {
			p.TransA, p.TransC, p.PackedB = true, true, true
			o, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			if o.directA && o.mBlocks != 1 {
				t.Errorf("%d blocks of rows, want 1", o.mBlocks)
			}
			if o.chunks < 8 {
				t.Errorf("%d chunks, too few to share out", o.chunks)
			}
		})
	}
}
