package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestNearProducts holds products whose sums are taken in parts against their definition, with
// every option, at depths around whole parts and blocks.
func TestNearProducts(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(61, 7))
		for _, k := range []int{0, 1, 384, 385, 767, 960, 2049, 4099} {
			for range 4 {
				p := randomParams(r, 40, 1)
				p.K, p.LdA, p.LdB, p.StrideA, p.StrideB, p.Near = k, 0, 0, 0, 0, true
				checkAgainstReference(t, r, p)
			}
		}
	})
}

// TestNearSums holds that sums with Near are about as near to the exact ones as those of parts of
// 256 that are added up one after the other, at sizes that leave rests of tiles, panels and parts.
func TestNearSums(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(62, 7))
		for i, size := range [][3]int{{61, 37, 960}, {15, 83, 961}, {47, 21, 4096},
			{16, 64, 4099}} {
			p := Params{M: size[0], N: size[1], K: size[2], Near: true, PackedA: i%2 == 0,
				TransA: i == 1, TransB: i > 1, TransC: i == 2, PackedB: i == 3}
			args := dataFor(r, p)
			run(t, r, p, args)
			near, parts := distances(p, &args)
			if !(near <= 1.3*parts) {
				t.Errorf("%s: %.3g from exact sums, those of parts of 256 are %.3g",
					fmt.Sprintf("%+v", p), near, parts)
			}
		}
	})
}

// distances returns how far C is from the exact product, in parts of its root mean square, and how
// far sums of parts of 256 are, of fused multiply-adds in order.
func distances(p Params, args *Args) (got, parts float64) {
	p.setDefaults()
	a, b := p.elementA(args.A), p.elementB(args.B, 0)
	var square float64
	for i := range p.M {
		for j := range p.N {
			var exact float64
			var sum, part float32
			for k := range p.K {
				x := float64(a(i, k)) * float64(b(k, j))
				exact += x
				if part = float32(float64(part) + x); k%256 == 255 || k+1 == p.K {
					sum, part = sum+part, 0
				}
			}
			at := i*p.LdC + j
			if p.TransC {
				at = j*p.LdC + i
			}
			square += exact * exact
			got += math.Pow(float64(args.C[at])-exact, 2)
			parts += math.Pow(float64(sum)-exact, 2)
		}
	}
	return math.Sqrt(got / square), math.Sqrt(parts / square)
}
