package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

const canary = float32(-12345.5)

var inf = float32(math.Inf(1))

// guarded returns n random floats that start off a vector boundary, and a check that nothing around
// them was written.
func guarded(r *rand.Rand, n int) (x []float32, check func(t *testing.T, what string)) {
	const pad = 37
	buf := make([]float32, n+2*pad)
	for i := range buf {
		buf[i] = canary
	}
	lead := 17 + r.IntN(20)
	x = buf[lead : lead+n : lead+n]
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x, func(t *testing.T, what string) {
		t.Helper()
		for i, v := range buf {
			if (i < lead || i >= lead+n) && v != canary {
				t.Fatalf("%s: wrote %g at %d, outside its %d floats", what, v, i-lead, n)
			}
		}
	}
}

// randomParams draws a product; every option has a fair chance.
func randomParams(r *rand.Rand, maxMN, maxK int) Params {
	p := Params{
		M: r.IntN(maxMN) + 1, N: r.IntN(maxMN) + 1, K: r.IntN(maxK + 1),
		TransA: r.IntN(3) == 0, TransB: r.IntN(3) == 0, TransC: r.IntN(4) == 0,
		PackedA: r.IntN(3) == 0, PackedB: r.IntN(3) == 0,
		Batch: 1 + max(0, r.IntN(6)-3),
	}
	p.Near = r.IntN(2) == 0
	if p.Format = Format(r.IntN(2)); r.IntN(2) == 0 {
		p.PanelRows = 1 + r.IntN(p.Format.PanelRows())
	}
	if r.IntN(4) == 0 {
		p.M = r.IntN(4) + 1
	}
	p.LdA = stored(p.M, p.K, p.TransA) + r.IntN(3)
	p.LdB = stored(p.K, p.N, p.TransB) + r.IntN(3)
	p.LdC = stored(p.M, p.N, p.TransC) + r.IntN(3)
	if r.IntN(2) == 0 {
		p.Alpha = 0.75
	}
	p.Bias = Bias(r.IntN(3))
	p.Residual = Residual(r.IntN(3))
	if r.IntN(2) == 0 {
		p.Beta = -1.5
	}
	if r.IntN(3) == 0 {
		p.Clamp, p.Lo, p.Hi = true, -0.5, 0.75
	}
	if r.IntN(3) == 0 {
		p.Map = func(dst, x []float32) {
			for i, v := range x {
				dst[i] = v*v + 1
			}
		}
	}
	if r.IntN(2) == 0 && !p.PackedA {
		p.StrideA = stored(p.K, p.M, p.TransA) * p.LdA
	}
	if r.IntN(2) == 0 && !p.PackedB {
		p.StrideB = stored(p.N, p.K, p.TransB) * p.LdB
	}
	return p
}

// run plans p and runs its chunks in random order over dirty scratch.
func run(t *testing.T, r *rand.Rand, p Params, args Args) {
	t.Helper()
	op, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	pack(p, &args)
	scratch, check := guarded(r, op.ScratchLen())
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, &args, scratch)
	}
	check(t, "scratch")
}

// packA packs A, as many rows at a time as p says.
func packA(p Params, a []float32) []float32 {
	packed := make([]float32, p.Format.PackedALen(p.M, p.K))
	ld, rows := max(p.LdA, stored(p.M, p.K, p.TransA)), p.PanelRows
	if rows == 0 {
		rows = p.M
	}
	for i := 0; i < p.M && p.K > 0; i += rows {
		from := i
		if !p.TransA {
			from *= ld
		}
		p.Format.PackA(packed[p.Format.PackedALen(i, p.K):], a[from:], min(rows, p.M-i), p.K, ld,
			p.TransA)
	}
	return packed
}

func dataFor(r *rand.Rand, p Params) Args {
	q := p
	q.PackedA, q.PackedB = false, false
	q.setDefaults()
	a, b, c := q.extents()
	floats := func(n int) []float32 {
		x, _ := guarded(r, n)
		return x
	}
	return Args{A: floats(a), B: floats(b), C: floats(c), Bias: floats(max(p.M, p.N)),
		Residual: floats(max(c, p.N))}
}

// tolerance bounds the difference of two orders of a sum of k products of numbers below one, whose
// rounding errors have either sign.
func tolerance(k int) float64 { return 1e-6 * math.Sqrt(float64(k+16)) }

func checkAgainstReference(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(r, p)
	c, check := guarded(r, len(args.C))
	want := append([]float32(nil), c...)
	args.C = c
	run(t, r, p, args)
	check(t, "C")
	args.C = want
	Reference(p, &args, 32)
	compare(t, fmt.Sprintf("%+v", p), c, want, tolerance(p.K))
}

func compare(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.IsNaN(g) && math.IsNaN(w) || g == w {
			continue
		}
		if !(math.Abs(g-w) <= tol*max(1, math.Abs(w))) {
			t.Fatalf("%s: element %d is %g, want %g", what, i, g, w)
		}
	}
}

func TestRandomProducts(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			checkAgainstReference(t, r, randomParams(r, 80, 60))
		}
	})
}

// TestWholePanelsOfNothing packs whole panels of columns of no rows.
func TestWholePanelsOfNothing(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 4))
		for _, format := range []Format{F32, BF16} {
			for i := range 8 {
				checkAgainstReference(t, r, Params{M: 3, N: 64, Format: format, PackedA: i&1 > 0,
					PackedB: i&2 > 0, TransB: i&4 > 0})
			}
		}
	})
}

func TestEveryTile(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for m := 1; m <= 15; m++ {
			for n := 1; n <= 34; n++ {
				p := randomParams(r, 1, 9)
				p.M, p.N, p.LdA, p.LdB, p.LdC, p.StrideA, p.StrideB = m, n, 0, 0, 0, 0, 0
				checkAgainstReference(t, r, p)
			}
		}
	})
}

func TestManyBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []Params{
		{M: 49, N: 120, K: 1100, PackedB: true, TransC: true,
			Epilogue: Epilogue{Bias: BiasPerCol, Clamp: true, Hi: inf}},
		{M: 130, N: 200, K: 1100},
		{M: 1, N: 333, K: 1500, TransB: true},
		{M: 3, N: 100, K: 1030, PackedB: true},
		{M: 5, N: 35, K: 9001, PackedA: true, PackedB: true},
		{M: 5, N: 35, K: 9001, PackedA: true, PackedB: true, TransA: true, TransB: true},
		{M: 129, N: 70, K: 1025, PackedA: true, TransB: true,
			Epilogue: Epilogue{Bias: BiasPerRow, Clamp: true, Hi: inf}},
		{M: 33, N: 17, K: 40, Batch: 50, StrideA: 33 * 40, StrideB: 17 * 40},
		{M: 31, N: 120, K: 2301, Format: BF16, PackedB: true, TransC: true,
			Epilogue: Epilogue{Bias: BiasPerCol, Clamp: true, Hi: inf}},
		{M: 129, N: 70, K: 2050, Format: BF16, PackedA: true, TransB: true,
			Epilogue: Epilogue{Residual: ResidualFull}},
		{M: 30, N: 100, K: 1100, Format: BF16, TransA: true},
	} {
		checkAgainstReference(t, r, p)
	}
}

// TestResidualIsC gives C itself as the residual, for depths of one block of K and of several.
func TestResidualIsC(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for range 60 {
			p := randomParams(r, 40, 1800)
			p.Residual = ResidualFull
			args := dataFor(r, p)
			c, check := guarded(r, len(args.C))
			args.Residual = append([]float32(nil), c...)
			want := append([]float32(nil), c...)
			args.C = want
			Reference(p, &args, 32)
			args.C, args.Residual = c, c
			run(t, r, p, args)
			check(t, "C")
			compare(t, fmt.Sprintf("%+v", p), c, want, tolerance(p.K))
		}
	})
}

func TestOffsetTables(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p := Params{M: 5, N: 6, K: 7, Batch: 3, OffA: []int{70, 0, 35}, OffB: []int{0, 42, 0},
		OffC: []int{60, 30, 0}, OffBias: []int{0, 5, 10}}
	p.Bias = BiasPerRow
	args := Args{A: make([]float32, 105), B: make([]float32, 84), C: make([]float32, 90),
		Bias: make([]float32, 15)}
	for _, x := range [][]float32{args.A, args.B, args.Bias} {
		for i := range x {
			x[i] = r.Float32()
		}
	}
	run(t, r, p, args)
	want := args
	want.C = make([]float32, 90)
	Reference(p, &want, 32)
	compare(t, "offsets", args.C, want.C, 1e-5)
}

func TestFill(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		width := F32.PanelColumns()
		fill := func(dst, src []float32, stride, k0, k1, j0, j1 int) {
			clear(dst[:(k1-k0)*stride])
			for k := k0; k < k1; k++ {
				for j := j0; j < j1; j++ {
					dst[(k-k0)*stride+j-j0] = src[(k*31+j*7)%len(src)]
				}
			}
		}
		for _, p := range []Params{
			{M: 20, N: 75, K: 530, PackedA: true,
				Fill: func(dst, src []float32, k0, k1, j0, j1 int) {
					fill(dst, src, width, k0, k1, j0, j1)
				}},
			{M: 49, N: 75, K: 530, PackedB: true, TransC: true,
				FillA: func(dst, src []float32, k0, k1, i0, i1 int) {
					fill(dst, src, i1-i0, k0, k1, i0, i1)
				}},
			{M: 49, N: 75, K: 1541, Format: BF16, PackedA: true,
				Fill: func(dst, src []float32, k0, k1, j0, j1 int) {
					fill(dst, src, BF16.PanelColumns(), k0, k1, j0, j1)
				}},
			{M: 49, N: 75, K: 1541, Format: BF16, PackedB: true, TransC: true,
				FillA: func(dst, src []float32, k0, k1, i0, i1 int) {
					fill(dst, src, i1-i0, k0, k1, i0, i1)
				}},
		} {
			args := dataFor(r, p)
			for _, x := range []*[]float32{&args.A, &args.B} {
				if len(*x) == 0 {
					*x = make([]float32, 101)
					for i := range *x {
						(*x)[i] = r.Float32()
					}
				}
			}
			run(t, r, p, args)
			got := args.C
			args.C = make([]float32, len(got))
			Reference(p, &args, p.Format.PanelColumns())
			compare(t, "fill", got, args.C, tolerance(p.K))
		}
	})
}

// TestNonFinite checks that a NaN or an infinity reaches exactly the elements that it belongs to.
func TestNonFinite(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, bad := range []float32{float32(math.NaN()), inf, -inf, 1e-42} {
			for _, format := range []Format{F32, BF16} {
				p := Params{M: 15, N: 37, K: 21, Format: format,
					Epilogue: Epilogue{Clamp: true, Lo: -2, Hi: 2}}
				args := dataFor(r, p)
				args.A[3*p.K+5] = bad
				args.B[7*p.N+33] = bad
				run(t, r, p, args)
				got := args.C
				args.C = make([]float32, len(got))
				Reference(p, &args, 32)
				compare(t, fmt.Sprint(bad), got, args.C, 1e-4)
			}
		}
	})
}

// TestLinear checks that the product of a sum is the sum of the products.
func TestLinear(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	p := Params{M: 31, N: 45, K: 64}
	x, y := dataFor(r, p), dataFor(r, p)
	y.A = x.A
	sum := x
	sum.B, sum.C = make([]float32, len(x.B)), make([]float32, len(x.C))
	for i := range sum.B {
		sum.B[i] = x.B[i] + y.B[i]
	}
	for _, a := range []Args{x, y, sum} {
		run(t, r, p, a)
	}
	for i := range x.C {
		x.C[i] += y.C[i]
	}
	compare(t, "A(X+Y)", sum.C, x.C, 1e-4)
}

func TestEmpty(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, p := range []Params{{M: 0, N: 3, K: 4}, {M: 3, N: 0, K: 4}} {
		op, err := New(p)
		if err != nil || op.Chunks() != 0 {
			t.Errorf("%+v: %d chunks, error %v; want none", p, op.Chunks(), err)
		}
	}
	p := Params{M: 3, N: 4, K: 0, Epilogue: Epilogue{Bias: BiasPerCol}}
	checkAgainstReference(t, r, p)
}

func TestBadParams(t *testing.T) {
	for _, p := range []Params{
		{M: -1, N: 1, K: 1},
		{M: 2, N: 2, K: 2, LdA: 1},
		{M: 2, N: 2, K: 2, LdB: 1},
		{M: 2, N: 2, K: 2, LdC: 1},
		{M: 2, N: 2, K: 2, Batch: 2, OffA: []int{0}},
		{M: 2, N: 2, K: 2, OffC: []int{-4}},
		{M: 2, N: 2, K: 2, PackedB: true, Fill: func(_, _ []float32, _, _, _, _ int) {}},
	} {
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: error %v, want ErrParams", p, err)
		}
	}
}

func TestShortSlicesPanic(t *testing.T) {
	op, _ := New(Params{M: 4, N: 4, K: 4})
	defer func() {
		if recover() == nil {
			t.Error("a short C was accepted")
		}
	}()
	x := make([]float32, 16)
	op.Run(0, &Args{A: x, B: x, C: x[:15]}, make([]float32, op.ScratchLen()))
}

func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	p := Params{M: 30, N: 50, K: 40,
		Epilogue: Epilogue{Bias: BiasPerRow, Map: func(_, _ []float32) {}}}
	args := dataFor(r, p)
	op, _ := New(p)
	scratch := make([]float32, op.ScratchLen())
	if n := testing.AllocsPerRun(10, func() { op.Run(0, &args, scratch) }); n != 0 {
		t.Errorf("a chunk allocates %g times", n)
	}
}

// FuzzProduct compares random products with the reference on every path of instructions, and sums
// of bytes bit for bit.
func FuzzProduct(f *testing.F) {
	for s := range uint64(8) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		atLevels(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			checkAgainstReference(t, r, randomParams(r, 70, 40))
			checkBytes(t, r, randomBytes(r, 70, 40))
		})
	})
}

// pack packs the operands that a product takes packed.
func pack(p Params, args *Args) {
	if p.PackedA {
		args.A = packA(p, args.A)
	}
	if p.PackedB {
		b := make([]float32, p.Format.PackedBLen(p.K, p.N))
		p.Format.PackB(b, args.B, p.K, p.N, p.LdB, p.TransB)
		args.B = b
	}
}
