package nbits

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// random are weights, packed, and what they stand for, K x N.
type random struct {
	*Weights
	packed []byte
	dense  []float32
}

func newRandom(t testing.TB, r *rand.Rand, n, k, block int, zeros Zeros) random {
	t.Helper()
	w, err := New(n, k, block, zeros)
	if err != nil {
		t.Fatal(err)
	}
	blocks := (k + block - 1) / block
	s := Source{Q: make([]byte, n*blocks*block/2), Scales: make([]float32, n*blocks)}
	zero := make([]float32, n*blocks)
	for i := range s.Q {
		s.Q[i] = byte(r.Uint32())
	}
	for i := range zero {
		s.Scales[i] = r.Float32() - 0.3
		switch zeros {
		case Centred:
			zero[i] = 8
		case Nibbles:
			zero[i] = float32(r.IntN(16))
		default:
			zero[i] = 16 * r.Float32()
		}
	}
	s.Zero = func(column, block int) float32 { return zero[column*blocks+block] }
	out := random{w, make([]byte, w.PackedBytes()), make([]float32, k*n)}
	w.Pack(out.packed, s, 0, w.Panels())
	for j := range n {
		for i := range k {
			q := s.Q[j*blocks*block/2+i/2] >> (i % 2 * 4) & 15
			out.dense[i*n+j] = (float32(q) - zero[j*blocks+i/block]) * s.Scales[j*blocks+i/block]
		}
	}
	return out
}

func randomRows(r *rand.Rand, m, k int) []float32 {
	a := make([]float32, m*k)
	for i := range a {
		a[i] = float32(r.NormFloat64())
	}
	return a
}

// product multiplies rows by all panels.
func (w random) product(p Format, a []float32, m int) []float32 {
	rows := make([]byte, m*w.RowBytes(p))
	for i := range m {
		w.PackRow(p, rows[i*w.RowBytes(p):], a[i*w.K:][:w.K])
	}
	c := make([]float32, m*w.N)
	for panel := range w.Panels() {
		w.Product(p, c, w.N, rows, m, w.packed, panel)
	}
	return c
}

// expect compares a product with that of the dense weights, added up in float64, to a few roundings
// of the largest summand.
func (w random) expect(t *testing.T, got, a []float32, m int) {
	t.Helper()
	for i := range m {
		for j := range w.N {
			want, size := 0.0, 0.0
			for k := range w.K {
				x := float64(a[i*w.K+k]) * float64(w.dense[k*w.N+j])
				want, size = want+x, size+math.Abs(x)
			}
			// 8 less the zero point, times the sum of a block, is a part of a sum: as large as 8 of
			// the 15 steps of a weight.
			if d := math.Abs(float64(got[i*w.N+j]) - want); !(d <= 2e-6*(size+1)*8) {
				t.Fatalf("%d x %d x %d in blocks of %d, zeros %d: row %d column %d is %v, want %v",
					m, w.N, w.K, w.Block, w.Zeros, i, j,
					got[i*w.N+j], want)
			}
		}
	}
}

var shapes = []struct{ m, n, k, block int }{
	{1, 1, 1, 16}, {1, 16, 32, 32}, {2, 17, 48, 16}, {3, 33, 100, 32}, {4, 40, 64, 64},
	{5, 15, 257, 128}, {12, 16, 64, 32}, {13, 31, 96, 32},
	{25, 8, 300, 256}, {11, 7, 33, 32}, {7, 48, 4097, 4096},
}

func TestProductOfFloats(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range shapes {
			for _, zeros := range []Zeros{Centred, Nibbles} {
				w := newRandom(t, r, s.n, s.k, s.block, zeros)
				a := randomRows(r, s.m, s.k)
				w.expect(t, w.product(F32, a, s.m), a, s.m)
			}
		}
	})
}

// round makes of a row what Int8 takes it for.
func round(row []float32, block int) {
	for ; len(row) > 0; row = row[min(block, len(row)):] {
		x := row[:min(block, len(row))]
		scale, inverse := scaleOf(x)
		for i := range x {
			x[i] = nearest(x[i], inverse) * scale
		}
	}
}

func TestProductOfBytes(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, s := range shapes {
			for _, zeros := range []Zeros{Centred, Nibbles} {
				w := newRandom(t, r, s.n, s.k, s.block, zeros)
				a := randomRows(r, s.m, s.k)
				got := w.product(Int8, a, s.m)
				for i := range s.m {
					round(a[i*s.k:][:s.k], s.block)
				}
				w.expect(t, got, a, s.m)
			}
		}
	})
}

// TestExtremes holds that the largest numbers of all kinds, which 16 bits hold the sums of only
// just, come out exactly.
func TestExtremes(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		w, err := New(16, 256, 256, Nibbles)
		if err != nil {
			t.Fatal(err)
		}
		for _, zero := range []float32{0, 15} {
			packed := make([]byte, w.PackedBytes())
			q := byte(0xff)
			if zero == 15 {
				q = 0
			}
			w.Pack(packed, Source{Q: bytes.Repeat([]byte{q}, 16*128),
				Scales: slices.Repeat([]float32{1}, 16),
				Zero:   func(int, int) float32 { return zero }}, 0, 1)
			for _, x := range []float32{127, -127} {
				rows := make([]byte, w.RowBytes(Int8))
				w.PackRow(Int8, rows, slices.Repeat([]float32{x}, 256))
				c := make([]float32, 16)
				w.Product(Int8, c, 16, rows, 1, packed, 0)
				if want := 256 * 15 * x * (1 - 2*zero/15); c[3] != want {
					t.Errorf("zero %v, %v: %v, want %v", zero, x, c[3], want)
				}
			}
		}
	})
}

// TestRowsDoNotDependOnEachOther holds that a row's result is the same bits alone and among others.
func TestRowsDoNotDependOnEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	w := newRandom(t, r, 40, 96, 32, Nibbles)
	a := randomRows(r, 14, w.K)
	all := w.product(Int8, a, 14)
	for i := range 14 {
		if one := w.product(Int8, a[i*w.K:][:w.K], 1); !slices.Equal(one, all[i*w.N:][:w.N]) {
			t.Errorf("row %d alone is %v, among others %v", i, one, all[i*w.N:][:w.N])
		}
	}
}

func TestWiden(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, zeros := range []Zeros{Centred, Nibbles, Reals} {
			for _, s := range shapes {
				w := newRandom(t, r, s.n, s.k, s.block, zeros)
				w.widens(t, w.Panels()-1, w.Columns(), 0, s.k) // whole blocks, several at once
				for range 10 {
					k0 := r.IntN(s.k)
					k1 := k0 + 1 + r.IntN(s.k-k0)
					w.widens(t, r.IntN(w.Panels()), w.Columns()+r.IntN(20), k0, k1)
				}
			}
		}
	})
}

// widens compares rows k0 to k1 of a panel, widened, with the dense weights.
func (w random) widens(t *testing.T, panel, stride, k0, k1 int) {
	t.Helper()
	got := make([]float32, (k1-k0)*stride)
	w.Widen(got, stride, w.packed, panel, k0, k1)
	for k := k0; k < k1; k++ {
		for c := range w.Columns() {
			want := float32(0)
			if j := panel*w.Columns() + c; j < w.N {
				want = w.dense[k*w.N+j]
			}
			v := got[(k-k0)*stride+c]
			if math.Abs(float64(v-want)) > 1e-6*math.Abs(float64(want)) {
				t.Fatalf("zeros %d, %d x %d in blocks of %d, rows %d to %d: row %d, column %d of "+
					"panel %d is %v, want %v", w.Zeros, w.K, w.N, w.Block, k0, k1, k, c, panel, v,
					want)
			}
		}
	}
}

// TestPackedRows compares the rounding of rows, bit for bit, with its definition.
func TestPackedRows(t *testing.T) {
	const k = 16 * 8
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, special := range [][]float32{nil, {0}, {127, 0.5, 1.5, -2.5},
			{math.MaxFloat32, -math.MaxFloat32}, {1e-38}, {1e-40, -1e-40}, {3e-36, -1e-36}} {
			w := newRandom(t, r, 1, k, 16, Centred)
			row := randomRows(r, 1, k)
			if special != nil {
				clear(row[16:32])
				copy(row[16:], special)
			}
			got, want := make([]byte, w.RowBytes(Int8)), make([]byte, w.RowBytes(Int8))
			w.PackRow(Int8, got, row)
			quantiseGo(want, row, 16)
			if !bytes.Equal(got, want) {
				t.Errorf("%v: got %v, want %v", special, got, want)
			}
		}
		for _, bad := range []float32{inf, -inf, nan} {
			w := newRandom(t, r, 3, 64, 32, Nibbles)
			row := randomRows(r, 1, 64)
			row[40] = bad
			for j, v := range w.product(Int8, row, 1) {
				if v == v {
					t.Errorf("%v in a row makes column %d %v, want NaN", bad, j, v)
				}
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, s := range [][4]int{{0, 1, 16}, {1, 0, 16}, {1, 1, 8}, {1, 1, 24}, {1, 1, 8192},
		{1, 1, 16, 3}} {
		if _, err := New(s[0], s[1], s[2], Zeros(s[3])); !errors.Is(err, ErrShape) {
			t.Errorf("%v: error %v, want ErrShape", s, err)
		}
	}
}

func BenchmarkProduct(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{{1, 384, 1536}, {1, 2048, 2048}, {12, 2048, 2048},
		{128, 384, 1536}} {
		for p, name := range []string{"F32", "Int8"} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", name, s.m, s.n, s.k), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				w := newRandom(b, r, s.n, s.k, 32, Centred)
				a := randomRows(r, s.m, s.k)
				rows, c := make([]byte, s.m*w.RowBytes(Format(p))), make([]float32, s.m*s.n)
				for b.Loop() {
					for i := range s.m {
						w.PackRow(Format(p), rows[i*w.RowBytes(Format(p)):], a[i*s.k:][:s.k])
					}
					for panel := range w.Panels() {
						w.Product(Format(p), c, s.n, rows, s.m, w.packed, panel)
					}
				}
				mean := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				b.ReportMetric(2*float64(s.m*s.n*s.k)/mean, "GFLOP/s")
				b.ReportMetric(float64(len(w.packed))/mean, "GB/s")
			})
		}
	}
}
