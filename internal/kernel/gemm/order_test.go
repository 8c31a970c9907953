package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestOneOrderOfAdditions multiplies equal rows by equal columns. Whatever tile, panel and chunk an
// element falls into, it must come out as the same bits: a softmax over large equal scores, or an
// argmax, makes a result of a difference in the last place.
func TestOneOrderOfAdditions(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(31, 7))
		for _, format := range []Format{F32, BF16} {
			v, each := currentLevel(format), 1
			if v.tiles() {
				each = 16 // their definition is slow
			}
			for m := 1; m <= 2*v.mr()+1; m++ {
				for n := 1 + r.IntN(each); n <= 2*v.nr()+1; n += each {
					checkOrder(t, r, equalParams(r, format, m, n, 3+r.IntN(30)))
				}
			}
		}
	})
}

// TestOneOrderOfManyAdditions does so with products of several chunks, and of several blocks of K.
func TestOneOrderOfManyAdditions(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(32, 7))
		for _, size := range [][3]int{{169, 1000, 64}, {1, 333, 300}, {2, 40, 2100}, {3, 100, 130},
			{3, 41, 130}, {4, 40, 130}, {7, 24, 131}, {16, 520, 97}, {130, 200, 150}} {
			for _, format := range []Format{F32, BF16} {
				for range 2 {
					checkOrder(t, r, equalParams(r, format, size[0], size[1], size[2]))
				}
			}
		}
	})
}

// TestNoOrderOfWorkChangesABit holds that the bits of a product are the same whether one worker
// computes its chunks one after the other, or several compute them at once in any order.
func TestNoOrderOfWorkChangesABit(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(33, 7))
		several := 0
		for i := range 24 {
			p := randomParams(r, 40, 60)
			p.Batch, p.StrideA, p.StrideB, p.Map = 1, 0, 0, nil
			if p.Format = Format(i % 2); i < 3 {
				p.M, p.N, p.K = 40+r.IntN(60), 700+r.IntN(300), 300+r.IntN(60)
				p.LdA, p.LdB, p.LdC = 0, 0, 0
			}
			if p.PanelRows = 0; cpuinfo.TilesDefined() && i < 3 {
				p.M, p.K, p.Format, p.PackedB = 8+r.IntN(2), 2*tilesKC+32, BF16, true
			}
			args := dataFor(r, p)
			pack(p, &args)
			before := slices.Clone(args.C)
			o := runAll(t, p, &args)
			want := slices.Clone(args.C)
			copy(args.C, before)
			order := r.Perm(o.Chunks())
			if several += len(order) - 1; len(order) == 1 {
				continue
			}
			var all sync.WaitGroup
			for worker := range 3 {
				all.Go(func() {
					scratch := random(rand.New(rand.NewPCG(34, uint64(worker))), o.ScratchLen())
					for c := worker; c < len(order); c += 3 {
						o.Run(order[c], &args, scratch)
					}
				})
			}
			all.Wait()
			sameBits(t, fmt.Sprintf("%+v in %d chunks", p, len(order)), args.C, want)
		}
		if several < 4 {
			t.Errorf("%d chunks beside the first ones", several)
		}
	})
}

// equalParams draws a product whose epilogue is the same for all elements.
func equalParams(r *rand.Rand, format Format, m, n, k int) Params {
	p := Params{M: m, N: n, K: k, Format: format,
		TransA: r.IntN(3) == 0, TransB: r.IntN(3) == 0, TransC: r.IntN(4) == 0,
		PackedA: r.IntN(2) == 0, PackedB: r.IntN(2) == 0, Near: r.IntN(2) == 0}
	p.Residual = Residual(r.IntN(3))
	if r.IntN(2) == 0 {
		p.PanelRows = format.EvenRows(m)
	}
	if p.Bias = Bias(r.IntN(3)); r.IntN(2) == 0 {
		p.Clamp, p.Lo, p.Hi = true, -inf, inf
	}
	if r.IntN(3) == 0 {
		p.Alpha, p.Beta = 0.7, 1.3
	}
	return p
}

// checkOrder holds that p, of equal rows and columns, has equal elements.
func checkOrder(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(r, p)
	a, b := make([]float32, p.K), make([]float32, p.K)
	for k := range p.K {
		a[k], b[k] = r.Float32()*2-1, r.Float32()*2-1
	}
	repeat(args.A, a, p.M, p.TransA)
	repeat(args.B, b, p.N, !p.TransB)
	for _, x := range [][]float32{args.C, args.Bias, args.Residual} {
		for i := range x {
			x[i] = 0.1
		}
	}
	run(t, r, p, args)
	for i, x := range args.C {
		if math.Float32bits(x) != math.Float32bits(args.C[0]) {
			t.Fatalf("%s: element %d is %x, the first %x", fmt.Sprintf("%+v", p), i, x, args.C[0])
		}
	}
}

// repeat writes n times the row x, or with trans n columns.
func repeat(dst, x []float32, n int, trans bool) {
	for i := range n {
		for k, v := range x {
			if trans {
				dst[k*n+i] = v
			} else {
				dst[i*len(x)+k] = v
			}
		}
	}
}
