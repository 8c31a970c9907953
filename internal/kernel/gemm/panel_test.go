package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestPanelsFetchNothingElse holds that what kernels fetch ahead beside one panel of columns is
// that panel: address 0 would be looked for in the page tables each time.
func TestPanelsFetchNothingElse(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, f := range []Format{F32, BF16} {
			x := BlockPanel{B: make([]float32, f.PackedBLen(70, 7)), Rows: 40, Cols: 7, K: 70,
				LdC: 7, Alpha: 1}
			one := x.tile(currentLevel(f))
			if one.ahead != uintptr(unsafe.Pointer(&x.B[0])) || one.aheadStep != 0 {
				t.Errorf("format %d fetches from %#x on, %d bytes a step", f, one.ahead,
					one.aheadStep)
			}
		}
	})
}

// TestMultiply compares block times panel with the reference: packed and in place, first and added,
// with edges of all sizes.
func TestMultiply(t *testing.T) { atLevels(t, testMultiply) }

func testMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for range 400 {
		p := Params{M: r.IntN(70) + 1, K: r.IntN(90) + 1, Alpha: 1, Format: Format(r.IntN(2))}
		nr := p.Format.PanelColumns()
		p.N = min(r.IntN(nr+nr/2)+1, nr)
		inPlace := p.Format == F32 && r.IntN(2) == 0
		x := BlockPanel{Rows: p.M, Cols: p.N, K: p.K, Alpha: 1, LdC: p.N + r.IntN(3),
			Add: r.IntN(2) == 0}
		args := Args{}
		p.TransA = inPlace
		p.LdA = stored(p.M, p.K, inPlace) + r.IntN(3)
		args.A, _ = guarded(r, span(p.M, p.K, p.LdA, inPlace))
		args.B, _ = guarded(r, p.K*p.N)
		args.C = make([]float32, (p.M-1)*x.LdC+p.N)
		p.LdC = x.LdC
		var c func(*testing.T, string)
		x.C, c = guarded(r, len(args.C))
		if x.Add {
			p.Residual, args.Residual = ResidualFull, append([]float32(nil), x.C...)
		} else if p.Alpha = 0.25; r.IntN(2) == 0 {
			p.Bias = BiasPerRow
			args.Bias, _ = guarded(r, p.M)
			x.Bias = args.Bias
		}
		x.Alpha = p.Alpha
		x.B = make([]float32, p.Format.PackedBLen(p.K, p.N))
		p.Format.PackB(x.B, args.B, p.K, p.N, 0, false)
		if p.Format == F32 && p.N == nr && r.IntN(2) == 0 {
			x.B, x.LdB = args.B, nr
		}
		if x.A = args.A; inPlace {
			x.LdA = p.LdA
		} else {
			x.A = make([]float32, p.Format.PackedALen(p.M, p.K))
			p.Format.PackA(x.A, args.A, p.M, p.K, p.LdA, false)
		}
		p.Format.Multiply(&x)
		Reference(p, &args, nr)
		what := fmt.Sprintf("%+v", p)
		c(t, what)
		for i := range p.M {
			for j := range p.N {
				want, got := args.C[i*x.LdC+j], x.C[i*x.LdC+j]
				if d := got - want; d > 2e-5 || d < -2e-5 {
					t.Fatalf("%s: (%d,%d) is %g, want %g", what, i, j, got, want)
				}
			}
		}
	}
}
