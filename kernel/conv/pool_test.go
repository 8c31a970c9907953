package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRandomPools(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 3))
		for range 400 {
			checkPool(t, r, randomPool(t, r))
		}
	})
}

func randomPool(t *testing.T, r *rand.Rand) PoolParams {
	p := PoolParams{
		Window: randomWindow(r, 1+r.IntN(3), 9), Planes: 1 + r.IntN(5),
		Kind: PoolKind(r.IntN(2)), CountPad: r.IntN(2) == 0,
	}
	if r.IntN(4) == 0 {
		p.In[2] += r.IntN(60)
	}
	if r.IntN(4) == 0 {
		w := square(1, 1, 2*(1+r.IntN(20)), 2, 2, 0, 1).Window
		w.In[1] = 2 * (1 + r.IntN(9))
		p.Window, p.Planes = w, 1+r.IntN(40)
	}
	out, err := p.Window.setDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if r.IntN(2) == 0 {
		for i := range 3 {
			if out[i]*p.Stride[i] < p.In[i]+p.PadLo[i] {
				out[i]++
			}
		}
		p.Out = out
	}
	return p
}

func checkPool(t *testing.T, r *rand.Rand, p PoolParams) {
	t.Helper()
	op, err := NewPool(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	x, _ := guarded(r, p.Planes*volume(p.In))
	if r.IntN(3) == 0 {
		x[r.IntN(len(x))] = float32(math.NaN())
		x[r.IntN(len(x))] = inf
	}
	y, check := guarded(r, p.Planes*volume(op.Out()))
	want := make([]float32, len(y))
	scratch, checkScratch := guarded(r, op.ScratchLen())
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, x, y, scratch)
	}
	check(t, "y")
	checkScratch(t, "scratch")
	ReferencePool(p, x, want)
	compare(t, fmt.Sprintf("%+v", p), y, want, 1e-5)
}

func BenchmarkPool(b *testing.B) {
	w := square(1, 1, 112, 3, 2, 1, 1).Window
	for name, kind := range map[string]PoolKind{"max": MaxPool, "average": AveragePool} {
		b.Run(name, func(b *testing.B) {
			op, err := NewPool(PoolParams{Window: w, Kind: kind, Planes: 64})
			if err != nil {
				b.Fatal(err)
			}
			x, y := make([]float32, 64*112*112), make([]float32, 64*56*56)
			scratch := make([]float32, op.ScratchLen())
			b.SetBytes(int64(4 * (len(x) + len(y))))
			for b.Loop() {
				for c := range op.Chunks() {
					op.Run(c, x, y, scratch)
				}
			}
		})
	}
}
