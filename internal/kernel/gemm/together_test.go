package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// several is some tiles below each other, of some products, with what each of them reads and adds.
type several struct {
	tile
	tiles, products int
	a, b, c         []float32 // of all products
	bias, res       []float32 // of all tiles
	stepA, stepC    int       // from one product to the next
}

// randomSeveral draws tiles of a level with or without gaps behind those of a product.
func randomSeveral(r *rand.Rand, v level) *several {
	rows, cols, k := 1+r.IntN(v.mr()), 1+r.IntN(v.nr()), r.IntN(23)
	s := &several{tiles: 1 + r.IntN(4), products: 1 + r.IntN(4)}
	ldc := cols + r.IntN(3)
	s.stepA = s.tiles*rows*k + r.IntN(9)
	s.stepC = s.tiles*rows*ldc + r.IntN(9)
	s.a, s.b = random(r, s.products*s.stepA+1), random(r, s.products*k*v.nr())
	s.c = random(r, s.products*s.stepC)
	s.bias, s.res = random(r, s.tiles*rows), random(r, s.tiles*rows*cols)
	s.tile = tile{k: k, rows: rows, cols: cols, lda: rows, ldb: v.nr(), ldc: ldc, ldr: cols,
		alpha: 2, beta: 0.5, lo: 0.4, hi: 3, mask: uint32(1)<<cols - 1,
		nextA: 4 * rows * k, nextC: 4 * rows * ldc, nextBias: 4 * rows, nextRes: 4 * rows * cols}
	s.flags = uint32(r.IntN(flagHi<<1)) &^ flagBiasCol
	return s
}

// one is tile i of product p.
func (s *several) one(p, i int) *tile {
	t := s.tile
	rows := i * t.rows
	t.a, t.b = s.a[p*s.stepA+rows*t.k:][:t.rows*t.k], s.b[p*t.k*t.ldb:][:t.k*t.ldb]
	t.c = s.c[p*s.stepC+rows*t.ldc:][:(t.rows-1)*t.ldc+t.cols]
	t.bias, t.res = s.bias[rows:][:t.rows], s.res[rows*t.ldr:][:t.rows*t.cols]
	return &t
}

// TestTilesOfOneCall holds that tiles which one call computes have the bits that they have alone,
// and touch nothing else, whether they fetch what comes next or not.
func TestTilesOfOneCall(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		v := currentLevel(F32)
		for range 3000 {
			s := randomSeveral(r, v)
			if !v.chains() {
				s.products = 1
			}
			if s.products > 1 {
				s.flags &^= flagBiasRow | flagResidual
				s.nextBias, s.nextRes = 0, 0
			}
			before := slices.Clone(s.c)
			for p := range s.products {
				for i := range s.tiles {
					runTile(v, s.one(p, i))
				}
			}
			want := slices.Clone(s.c)
			copy(s.c, before)
			all := s.one(0, 0)
			all.a, all.c, all.bias, all.res = s.a, s.c, s.bias, s.res
			all.againA = 4*s.stepA - (s.tiles-1)*all.nextA
			all.againC = 4*s.stepC - (s.tiles-1)*all.nextC
			all.againB = 4 * all.k * all.ldb
			if r.IntN(2) == 0 {
				all.aheadStep, all.aheadLast = 4*all.rows, uintptr(unsafe.Pointer(&s.a[0]))
			}
			runTiles(v, all, s.tiles, s.products-1)
			if !slices.Equal(s.c, want) {
				t.Fatalf("%d products of %d tiles of %d x %d, %d steps, flags %#x: other bits",
					s.products, s.tiles, s.rows, s.cols, s.k, s.flags)
			}
		}
	})
}

// TestWhatFollowsIsFetched follows the addresses that several tiles of several products fetch
// ahead: each tile the next, and the last of a product the first of the next product.
func TestWhatFollowsIsFetched(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	v := currentLevel(F32)
	if !v.chains() {
		t.Skip("only those that compute several tiles a call fetch ahead")
	}
	const k, tiles, products = 8, 3, 4
	rows := v.mr()
	s := &several{tiles: tiles, products: products, stepA: tiles*rows*k + 24}
	s.a, s.b = random(r, products*s.stepA), random(r, products*k*v.nr())
	s.c = make([]float32, products*tiles*rows*v.nr())
	x := tile{k: k, rows: rows, cols: v.nr(), lda: rows, ldb: v.nr(), ldc: v.nr(), mask: 1<<32 - 1,
		a: s.a, b: s.b, c: s.c, nextA: 4 * rows * k, nextC: 4 * rows * v.nr(),
		againB: 4 * k * v.nr(), aheadStep: 4 * rows}
	x.againA, x.againC = 4*s.stepA-(tiles-1)*x.nextA, x.nextC
	x.aheadLast, x.againAheadLast = uintptr(unsafe.Pointer(&s.a[s.stepA])), 4*s.stepA
	for last := range products { // where the last tile of a call stops, which the struct says
		y := x
		runTiles(v, &y, tiles, last)
		want := (last + 1) * s.stepA
		at := (int(y.ahead)-int(uintptr(unsafe.Pointer(&s.a[0]))))/4 - rows*k
		if at != want {
			t.Errorf("the last tile of product %d fetches from %d, want %d", last, at, want)
		}
	}
}
