package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// numbersForGrids are numbers on and around the steps of a grid and its ends, and arbitrary bits.
func numbersForGrids(r *rand.Rand, n int, scale float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(5) {
		case 0:
			x[i] = math.Float32frombits(r.Uint32())
		case 3: // and the floats around it
			x[i] = (float32(r.IntN(1<<18)-1<<17) + 0.5) * scale
			x[i] = math.Float32frombits(math.Float32bits(x[i]) + r.Uint32N(5) - 2)
		case 1: // the middle of two steps
			x[i] = (float32(r.IntN(1<<18)-1<<17) + 0.5) * scale
		case 2:
			x[i] = (float32(r.IntN(5)) - 2.5) * scale * (1 + float32(r.NormFloat64()*1e-7))
		default:
			x[i] = float32(r.NormFloat64()) * 20000 * scale
		}
	}
	return x
}

// wordsAgree holds that integers of 16 bits are made as their definition says, and that Grid is the
// way there and back, on random grids.
func wordsAgree[T int16 | uint16](t *testing.T, r *rand.Rand, n int, zero T, least float32,
	quantizeRef func(dst []T, x []float32, scale, zero, lo, hi float32),
	dequantizeRef func(dst []float32, x []T, scale, zero float32)) {
	t.Helper()
	scale := float32(math.Exp(r.NormFloat64() * 5))
	x, z := numbersForGrids(r, n, scale), float32(zero)
	lo, hi := least-z, least+math.MaxUint16-z
	q, want := make([]T, n+1), make([]T, n+1)
	q[n], want[n] = 77, 77
	QuantizeWords(q[:n], x, scale, z)
	quantizeRef(want[:n], x, scale, z, lo, hi)
	back, there, grid := make([]float32, n+1), make([]float32, n), make([]float32, n)
	back[n] = 77
	DequantizeWords(back[:n], q[:n], scale, z)
	dequantizeRef(there, want[:n], scale, z)
	Grid(grid, x, scale, lo, hi)
	bits := math.Float32bits
	for i, v := range x {
		if q[i] != want[i] || bits(back[i]) != bits(there[i]) || bits(grid[i]) != bits(there[i]) {
			t.Fatalf("%v of %d elements, scale %v, zero point %v: %v, %v, grid %v, want %v, %v", v,
				n, scale, zero, q[i], back[i], grid[i], want[i], there[i])
		}
	}
	if q[n] != 77 || back[n] != 77 {
		t.Fatalf("%d elements: wrote beyond", n)
	}
}

func TestWords(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(16, 16))
		for range 20 {
			for _, n := range append(tailLengths(), 1, 15, 16, 17, 49) {
				wordsAgree(t, r, n, uint16(r.Uint32()), 0, quantizeUint16Ref, dequantizeUint16Ref)
				wordsAgree(t, r, n, int16(r.Uint32()), math.MinInt16, quantizeInt16Ref,
					dequantizeInt16Ref)
			}
		}
	})
}

// TestWordsAreONNXs states the rounding in numbers: to even before the zero point is added, and
// saturation; +0 of what is just below zero.
func TestWordsAreONNXs(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{3, 5, -1, 1e9, -1e9, inf, nan}
	q := make([]uint16, len(x))
	QuantizeWords(q, x, 2, 1)
	for i, want := range []uint16{3, 3, 1, 65535, 0, 65535, 0} {
		if q[i] != want {
			t.Errorf("%v became %d, want %d", x[i], q[i], want)
		}
	}
	s := make([]int16, len(x))
	QuantizeWords(s, x, 1, -3)
	for i, want := range []int16{0, 2, -4, 32767, -32768, 32767, -32768} {
		if s[i] != want {
			t.Errorf("%v became %d, want %d", x[i], s[i], want)
		}
	}
	y := []float32{-0.2, nan, 3}
	Grid(y, y, 2, -1, 7)
	if math.Float32bits(y[0]) != 0 || y[1] != -2 || y[2] != 4 {
		t.Errorf("on the grid: %v", y)
	}
}

// TestGridOfAnyScale takes scales up to the ends of float32 and bounds that are no integers, with
// each of which no product with an inverse is the quotient.
func TestGridOfAnyScale(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(18, 6))
		got, want := make([]float32, 67), make([]float32, 67)
		for i := range 4000 {
			scale := math.Float32frombits(r.Uint32() >> 1)
			lo := float32(-r.IntN(1 << 17))
			hi := lo + float32(r.IntN(1<<16))
			if i%8 == 0 {
				lo, hi = lo+0.3, hi+0.6
			}
			x := numbersForGrids(r, len(got), scale)
			Grid(got, x, scale, lo, hi)
			gridPlain(want, x, scale, lo, hi)
			for j := range got {
				if math.Float32bits(got[j]) != math.Float32bits(want[j]) &&
					!(math.IsNaN(float64(got[j])) && math.IsNaN(float64(want[j]))) {
					t.Fatalf("%g on steps of %g from %g to %g: %g, want %g", x[j], scale, lo, hi,
						got[j], want[j])
				}
			}
		}
	})
}

// TestLookupWords looks up each element in any length, and writes nothing beyond.
func TestLookupWords(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 6))
	var table [1 << 16]uint16
	for i := range table {
		table[i] = uint16(r.Uint32())
	}
	for n := range 70 {
		x, want := make([]uint16, n+1), make([]uint16, n+1)
		for i := range x {
			x[i] = uint16(r.Uint32())
			if want[i] = x[i]; i < n {
				want[i] = table[x[i]]
			}
		}
		if LookupWords(x[:n], &table); !slices.Equal(x, want) {
			t.Fatalf("%d elements: %v, want %v", n, x, want)
		}
	}
}
