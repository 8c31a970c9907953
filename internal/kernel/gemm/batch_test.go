package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// randomBatch draws products of a batch whose operands are packed: most of them may be computed
// several a call, the others differ in one thing that forbids it.
func randomBatch(r *rand.Rand) Params {
	f := Format(r.IntN(2))
	p := Params{Format: f, M: 1 + r.IntN(3*f.PanelRows()), N: 1 + r.IntN(f.PanelColumns()),
		K: r.IntN(40), PackedA: true, PackedB: true, Batch: 2 + r.IntN(30)}
	switch r.IntN(12) {
	case 0: // several blocks of K
		p.M, p.N, p.K, p.Batch = 1+r.IntN(3), 1+r.IntN(8), 4100, 40
	case 1: // several panels
		p.N += f.PanelColumns()
	case 2:
		p.TransC = true
	case 3:
		p.Bias = BiasPerRow
	case 4:
		p.Bias = BiasPerCol
	case 5:
		p.Residual = ResidualFull
	case 6:
		p.Map = func(dst, x []float32) {
			for i, v := range x {
				dst[i] = v + 1
			}
		}
	}
	p.LdC = stored(p.M, p.N, p.TransC) + r.IntN(3)
	q := p
	q.setDefaults()
	p.StrideA = f.PackedALen(p.M, p.K) + r.IntN(5)
	p.StrideB = f.PackedBLen(p.K, p.N) + r.IntN(5)
	p.StrideC = q.StrideC + r.IntN(5)
	table := func(step int) []int {
		x := r.Perm(p.Batch)
		for i := range x {
			x[i] *= step
		}
		return x
	}
	switch r.IntN(8) {
	case 0:
		p.OffA = table(p.StrideA)
	case 1:
		p.OffB = table(p.StrideB)
	case 2:
		p.OffC = table(p.StrideC)
	}
	return p
}

// runAll runs all chunks of p and returns its plan.
func runAll(t *testing.T, p Params, a *Args) *Product {
	t.Helper()
	o, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, o.ScratchLen())
	for i := range o.Chunks() {
		o.Run(i, a, scratch)
	}
	return o
}

// TestBatchesHaveTheBitsOfTheirProducts holds that products of a batch, of which one call may
// compute several, have the bits that each has alone, wherever tables and strides put them.
func TestBatchesHaveTheBitsOfTheirProducts(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(47, 48))
		repeated, batches, least := 0, 600, 100
		switch {
		case cpuinfo.TilesDefined():
			batches, least = 30, 1 // their definition is slow
		case !currentLevel(BF16).chains():
			least = 50 // half of them are of bfloat16, and repeat nothing
		}
		for range batches {
			p := randomBatch(r)
			q := p
			q.setDefaults()
			_, _, size := q.extents()
			a := Args{A: make([]float32, p.Batch*p.StrideA), B: make([]float32, p.Batch*p.StrideB),
				Bias: random(r, max(p.M, p.N)), Residual: random(r, size)}
			for b := range p.Batch {
				p.Format.PackA(a.A[b*p.StrideA:], random(r, p.M*p.K), p.M, p.K, 0, false)
				p.Format.PackB(a.B[b*p.StrideB:], random(r, p.K*p.N), p.K, p.N, 0, false)
			}
			c, check := guarded(r, size)
			want := slices.Clone(c)
			a.C = c
			o := runAll(t, p, &a)
			check(t, "C")
			if o.repeats > 1 {
				repeated++
			}
			a.C = want
			for b := range p.Batch {
				one := p
				one.Batch = 1
				one.OffA = []int{offset(p.OffA, p.StrideA, b)}
				one.OffB = []int{offset(p.OffB, p.StrideB, b)}
				one.OffC = []int{offset(p.OffC, p.StrideC, b)}
				runAll(t, one, &a)
			}
			if !slices.Equal(c, want) {
				t.Fatalf("%+v: other bits than its products one by one, %d a call", p, o.repeats)
			}
		}
		if currentLevel(F32).chains() && repeated < least {
			t.Errorf("only %d batches had several products a call", repeated)
		}
	})
}

// TestCallsAreBounded holds that a call of several tiles is short, with storing them.
func TestCallsAreBounded(t *testing.T) {
	const most = 2 << 20 // multiply-adds: 30 microseconds of a core of 134 GFLOP/s
	v := currentLevel(F32)
	for _, k := range []int{0, 1, 4, 24, 64, 256, 2048} {
		o, err := New(Params{M: 28, N: v.nr(), K: k, PackedA: true, PackedB: true, Batch: 5000})
		if err != nil {
			t.Fatal(err)
		}
		if n := o.repeats * 28 * v.nr() * max(k, 32); o.repeats > 1 && n > most {
			t.Errorf("a call computes %d products of %d steps", o.repeats, k)
		}
		x := tile{rows: v.mr(), cols: v.nr(), k: k}
		n := x.atOnce(v, 1<<20)
		if n > 1 && n*x.rows*v.nr()*max(k, 32) > most { // 32 steps take as long as storing
			t.Errorf("a call computes %d tiles of %d steps", n, k)
		}
	}
}

// TestTheTileAfterACallIsFetched holds what the last of several tiles of a call fetches ahead.
func TestTheTileAfterACallIsFetched(t *testing.T) {
	const k, batch, all = 8, 3, 60
	mr := currentLevel(F32).mr()
	o, err := New(Params{M: 3*mr + 2, N: 4, K: k, PackedA: true, PackedB: true, Batch: batch,
		PanelRows: mr, StrideA: all * k})
	if err != nil {
		t.Fatal(err)
	}
	args := Args{A: make([]float32, batch*all*k)}
	x := tile{rows: mr}
	o.fetchA(&x, panels{step: k}, window{i1: 3*mr + 2}, &args, mr, 2)
	at := (int(x.aheadLast) - int(uintptr(unsafe.Pointer(&args.A[0])))) / 4
	if at != 3*mr*k || x.againAheadLast != 4*all*k {
		t.Errorf("the last tile of a call fetches from %d, that of the next product %d bytes "+
			"further, want %d and %d", at, x.againAheadLast, 3*mr*k, 4*all*k)
	}
}
