package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQuadsArePackedAsDefined compares the packing of rows and columns for products of matrices,
// on each level that has it, with its definition bit by bit, and holds that nothing else is
// written.
func TestQuadsArePackedAsDefined(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(51, 52))
		for _, f := range []Format{BF16, U8S8, S8U8} {
			v := currentLevel(f)
			if !v.matrix() {
				continue
			}
			for range 400 {
				cols, k := 1+r.IntN(18), 1+r.IntN(21)
				ld := cols + r.IntN(3)
				src := words(r, (k-1)*ld+cols)
				got, check := guarded(r, v.steps(k)*cols)
				want := make([]float32, len(got))
				joinPairs(v, got, src, ld, cols, k)
				quadsGo(v, want, src, ld, cols, k)
				check(t, "rows")
				sameBits(t, "rows", got, want)
				got, check = guarded(r, v.steps(k)*cols)
				want = slices.Clone(got)
				at := 2 * r.IntN((cols+1)/2)
				if at > 0 && at >= 2*cols-1 {
					at = 0
				}
				quadsAlong(v, got[at:], cols, src[:k])
				quadsAlongGo(v, want[at:], cols, src[:k])
				check(t, "a row")
				sameBits(t, "a row", got, want)
			}
		}
	})
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: word %d is %#x, want %#x", what, i, math.Float32bits(got[i]),
				math.Float32bits(want[i]))
		}
	}
}

// TestQuadsOrder holds the definition itself, by words that say where they come from.
func TestQuadsOrder(t *testing.T) {
	src := make([]float32, 3*4)
	for i := range src {
		src[i] = float32(10*(i/4+1) + i%4)
	}
	got := make([]float32, 4*3)
	quadsGo(levelMatrixU8S8, got, src, 4, 3, 3)
	if want := []float32{10, 20, 11, 21, 12, 22, 30, 0, 31, 0, 32, 0}; !slices.Equal(got, want) {
		t.Errorf("words: %v, want %v", got, want)
	}
	pair := func(a, b uint32) float32 { return math.Float32frombits(a | b<<16) }
	got = make([]float32, 2)
	quadsGo(levelMatrixBF16, got, []float32{1, 2, -1}, 1, 1, 3)
	if want := []float32{pair(0x3f80, 0x4000), pair(0xbf80, 0)}; !slices.Equal(got, want) {
		t.Errorf("floats: %v, want %v", got, want)
	}
}

// TestTilesOfQuadsHaveTheBitsOfTheDefinition compares tiles of BFMMLA with tileGoQuads, over words
// of any bits, among them infinities, NaN and subnormal numbers, and over such as cancel.
func TestTilesOfQuadsHaveTheBitsOfTheDefinition(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		v := currentLevel(BF16)
		if !v.matrix() {
			return
		}
		r := rand.New(rand.NewPCG(53, 54))
		draw := func(n int, tame bool) []float32 {
			x := words(r, n)
			for i := range x {
				if tame {
					w := math.Float32bits(x[i])&0x83ff83ff | 0x3c003c00
					x[i] = math.Float32frombits(w)
				}
			}
			return x
		}
		for n := range 3000 {
			rows, cols, k := 1+r.IntN(v.mr()), 1+r.IntN(v.nr()), 2*r.IntN(9)
			x := tile{k: k, rows: rows, cols: cols, ldb: v.nr(), ldc: cols + r.IntN(3), ldr: cols,
				alpha: 0.7, beta: -1.5, lo: -0.5, hi: 0.75, a: draw(k*rows, n%2 > 0),
				b: draw(k*v.nr(), n%2 > 0), bias: random(r, max(rows, cols)),
				res: random(r, rows*cols)}
			if n%3 == 0 {
				x.flags = uint32(r.IntN(flagHi<<1)) &^ []uint32{flagBiasRow, flagBiasCol}[r.IntN(2)]
			}
			got, check := guarded(r, (rows-1)*x.ldc+cols)
			want := slices.Clone(got)
			x.c = got
			runTile(v, &x)
			check(t, "tile")
			x.c = want
			if tileGoQuads(&x); x.flags&flagResidual == 0 {
				sameBits(t, "tile", nans(got), nans(want))
			} else {
				compare(t, "tile", got, want, 1e-6) // plain Go may round a product first
			}
		}
	})
}

// nans makes all NaN one.
func nans(x []float32) []float32 {
	for i := range x {
		if x[i] != x[i] {
			x[i] = float32(math.NaN())
		}
	}
	return x
}
