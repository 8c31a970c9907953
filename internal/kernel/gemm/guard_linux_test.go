package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestNothingOutsideIsTouched multiplies matrices that begin, or end, where memory does: of about
// the rows and columns of few tiles, of few steps and of several parts of sums, and with rows far
// apart.
func TestNothingOutsideIsTouched(t *testing.T) {
	for _, atStart := range []bool{true, false} {
		atLevels(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(27, 3))
			for range 400 {
				p := randomParams(r, 20, 6)
				if r.IntN(8) == 0 {
					p.K += 380 + r.IntN(400)
				}
				far := 200 * r.IntN(2)
				p.LdA = stored(p.M, p.K, p.TransA) + r.IntN(3)*far
				p.LdB = stored(p.K, p.N, p.TransB) + r.IntN(2)*far
				p.LdC = stored(p.M, p.N, p.TransC) + r.IntN(2)*far
				p.StrideA, p.StrideB = 0, 0
				if !p.PackedA && r.IntN(2) == 0 {
					p.StrideA = stored(p.K, p.M, p.TransA) * p.LdA
				}
				multiplyFenced(t, r, p, atStart)
			}
		})
	}
}

func multiplyFenced(t *testing.T, r *rand.Rand, p Params, atStart bool) {
	t.Helper()
	args := dataFor(r, p)
	want := args
	want.C = append([]float32(nil), args.C...)
	for _, x := range []*[]float32{&args.A, &args.B, &args.C, &args.Bias, &args.Residual} {
		fenced := cputest.Fenced(t, max(len(*x), 1), atStart)[:len(*x)]
		copy(fenced, *x)
		*x = fenced
	}
	run(t, r, p, args)
	Reference(p, &want, 32)
	compare(t, fmt.Sprintf("%+v", p), args.C, want.C, tolerance(p.K))
}
