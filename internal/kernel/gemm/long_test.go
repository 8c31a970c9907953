package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestLongProducts multiplies rows and columns of many numbers of one sign, so that rounding errors
// of running sums add up, and holds the bound that the package's comment derives, on every path.
// With WEIR_LONG set there are 10^7.
func TestLongProducts(t *testing.T) {
	sizes := []int{3000, 300_000}
	if os.Getenv("WEIR_LONG") != "" {
		sizes = append(sizes, 1e7)
	}
	for _, k := range sizes {
		for _, shape := range [][2]int{{1, 1}, {1, 5}, {3, 2}} {
			for _, f := range []Format{F32, BF16} {
				t.Run(fmt.Sprintf("%dx%dx%d/%v", shape[0], k, shape[1], f), func(t *testing.T) {
					p := Params{M: shape[0], N: shape[1], K: k, Format: f, TransB: true}
					cputest.EachPath(t, func(t *testing.T) { checkLongProduct(t, p) })
					p.Near = true
					cputest.EachPath(t, func(t *testing.T) { checkLongProduct(t, p) })
				})
			}
		}
	}
}

func checkLongProduct(t *testing.T, p Params) {
	t.Helper()
	// Numbers that bfloat16 holds, whose products it does not.
	a := make([]float32, max(p.M, p.N)*p.K)
	for i := range a {
		a[i] = 0x1.9ap-4 + float32(i%3/2)*0x1p-10
	}
	args := Args{A: a[:p.M*p.K], B: a[:p.N*p.K], C: make([]float32, p.M*p.N)}
	run(t, rand.New(rand.NewPCG(1, 1)), p, args)
	block := 2048
	switch {
	case p.Format == BF16:
		block *= 2
	case p.Near:
		block = nearSteps
	}
	bound := float64(block+p.K/block+1) * 0x1p-24
	for i := range p.M {
		for j := range p.N {
			want := 0.0
			for k := range p.K {
				want += float64(args.A[i*p.K+k]) * float64(args.B[j*p.K+k])
			}
			if got := float64(args.C[i*p.N+j]); !(math.Abs(got-want) <= bound*want) {
				t.Fatalf("element %d, %d is %v, want %v: off by %g, at most %g", i, j, got, want,
					math.Abs(got/want-1), bound)
			}
		}
	}
}
