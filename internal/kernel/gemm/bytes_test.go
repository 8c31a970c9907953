package gemm

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// words returns n words of random bytes, extremes among them.
func words(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		w := r.Uint32()
		switch r.IntN(8) {
		case 0:
			w = 0xffffffff
		case 1:
			w = 0x80808080
		}
		x[i] = math.Float32frombits(w)
	}
	return x
}

// TestBytes compares sums of products of bytes with their definition, which they equal bit for bit.
func TestBytes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(21, 22))
		for k := range 200 {
			p := randomBytes(r, 60, 40)
			if k%20 == 0 {
				p.K = 600 + r.IntN(600)
				p.LdA, p.LdB = 0, 0
			}
			checkBytes(t, r, p)
		}
	})
}

// TestBytesOfSeveralBlocks holds that sums of products that take several blocks of K are added up.
func TestBytesOfSeveralBlocks(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(25, 26))
		for n := range 4 {
			p := Params{M: 1 + 6*(n/2), N: 17, K: 2600, Format: U8S8 + Format(n%2), ToStore: true}
			o, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			if o.kc >= p.K {
				t.Fatalf("one block of %d steps", o.kc)
			}
			checkBytes(t, r, p)
		}
	})
}

// randomBytes draws a product of bytes.
func randomBytes(r *rand.Rand, maxMN, maxK int) Params {
	p := randomParams(r, maxMN, maxK)
	p.Format, p.Epilogue, p.Alpha, p.Beta, p.LdC = U8S8+Format(r.IntN(2)), Epilogue{}, 0, 0, 0
	p.ToStore = true
	return p
}

func checkBytes(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	q := p
	q.PackedA, q.PackedB = false, false
	q.setDefaults()
	a, b, _ := q.extents()
	args := Args{A: words(r, a), B: words(r, b)}
	got := make([]float32, q.Batch*p.M*p.N)
	args.Store = func(x []float32, ld, batch, i0, i1, j0, j1 int) {
		for i := i0; i < i1; i++ {
			for j := j0; j < j1; j++ {
				row, col := i, j
				if p.TransC {
					row, col = j, i
				}
				got[(batch*p.M+row)*p.N+col] = x[(i-i0)*ld+j-j0]
			}
		}
	}
	want := sumsOfBytes(q, args)
	run(t, r, p, args)
	for i := range want {
		if math.Float32bits(got[i]) != uint32(want[i]) {
			t.Fatalf("%+v: sum %d is %d, want %d", p, i, int32(math.Float32bits(got[i])), want[i])
		}
	}
}

func sumsOfBytes(p Params, args Args) []int32 {
	var out []int32
	for batch := range p.Batch {
		a, b := args.A[batch*p.StrideA:], args.B[batch*p.StrideB:]
		elementA, elementB := p.elementA(a), p.elementB(b, 0)
		for i := range p.M {
			for j := range p.N {
				var sum int32
				for k := range p.K {
					sum += dot4(elementA(i, k), elementB(k, j), p.Format == S8U8)
				}
				out = append(out, sum)
			}
		}
	}
	return out
}

func TestBytesWantStore(t *testing.T) {
	for _, p := range []Params{
		{M: 2, N: 2, K: 2, Format: U8S8},
		{M: 2, N: 2, K: 2, Format: S8U8, ToStore: true, Alpha: 2},
		{M: 2, N: 2, K: 2, Format: U8S8, ToStore: true, Epilogue: Epilogue{Clamp: true}},
	} {
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: error %v, want ErrParams", p, err)
		}
	}
}
