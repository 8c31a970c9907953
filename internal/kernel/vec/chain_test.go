package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// randomLinks draws links, and what each does to one element y, with what is kept, in plain Go.
func randomLinks(r *rand.Rand) (links []Link, plain []func(y, kept float32) (float32, float32)) {
	do := func(l Link, f func(y float32) float32) {
		links = append(links, l)
		plain = append(plain, func(y, kept float32) (float32, float32) { return f(y), kept })
	}
	for range 1 + r.IntN(18) {
		a := []float32{3, -0.25, 1.5, 6, 0.1, float32(math.Inf(1)), 1e-38}[r.IntN(7)]
		switch r.IntN(9) {
		case 8:
			do(SigmoidLink(), func(y float32) float32 { return one(Sigmoid, y) })
		case 0:
			do(AddLink(a), func(y float32) float32 { return y + a })
		case 1:
			do(MulLink(a), func(y float32) float32 { return y * a })
		case 2:
			do(DivLink(a), func(y float32) float32 { return y / a })
		case 3:
			do(ClipLink(-1, a), func(y float32) float32 {
				return one(func(d, x []float32) {
					clipRef(d, x, -1, a)
				}, y)
			})
		case 4:
			links = append(links, KeepLink())
			plain = append(plain, func(y, _ float32) (float32, float32) { return y, y })
		case 5:
			links = append(links, TimesLink())
			plain = append(plain, func(y, kept float32) (float32, float32) {
				return y * kept, kept
			})
		default:
			scale, lo, hi := 0.01*r.Float32(), -float32(r.IntN(1<<16)), float32(r.IntN(1<<16))
			if r.IntN(40) == 0 {
				scale = 1e-42 // which only the definition serves
			}
			do(GridLink(scale, lo, hi), func(y float32) float32 {
				return one(func(d, x []float32) {
					gridPlain(d, x, scale, lo, hi)
				}, y)
			})
		}
	}
	return links, plain
}

// one is f of one element.
func one(f func(dst, x []float32), y float32) float32 {
	x := []float32{y}
	f(x, x)
	return x[0]
}

// TestChain holds that links have the bits of the operators that they are named after, in all
// lengths and in place, and that nothing beyond is written.
func TestChain(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), 1e38, -1e38,
		float32(math.Inf(1)), float32(math.Inf(-1)), 1e-40}
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, uint64(cpuinfo.Current())))
		for range 300 {
			links, plain := randomLinks(r)
			n := r.IntN(800)
			x, y := make([]float32, n), make([]float32, n+8)
			for i := range x {
				if x[i] = float32(r.NormFloat64()) * 3; r.IntN(20) == 0 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			Chain(y[:n], x, links)
			for i, v := range append(x, make([]float32, 8)...) {
				want, kept := v, v
				for _, f := range plain {
					want, kept = f(want, kept)
				}
				if i >= n {
					want = 0
				}
				if math.Float32bits(y[i]) != math.Float32bits(want) && (y[i] == y[i] ||
					want == want) {
					t.Fatalf("%d of %d: %v of %v is %v, want %v", i, n, links, v, y[i], want)
				}
			}
			Chain(x, x, links)
			for i := range x {
				if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
					t.Fatalf("%d of %d: %v in place is %v, want %v", i, n, links, x[i], y[i])
				}
			}
		}
	})
}
