package nbits

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
)

// FuzzProduct compares products, in both formats, and widened weights with the dense weights on
// every path of instructions, and a row alone with itself among others.
func FuzzProduct(f *testing.F) {
	for _, s := range shapes[:8] {
		f.Add(uint64(s.m), uint8(s.m), uint8(s.n), uint16(s.k), uint8(s.block/32), false)
		f.Add(uint64(s.n), uint8(s.m), uint8(s.n), uint16(s.k), uint8(s.block/32), true)
	}
	f.Fuzz(func(t *testing.T, seed uint64, rows, columns uint8, depth uint16, block uint8,
		zeroPoints bool) {
		m, n, k := int(rows)%30+1, int(columns)%70+1, int(depth)%700+1
		zeros := Centred
		if zeroPoints {
			zeros = Nibbles
		}
		for _, path := range cputest.Paths() {
			undo := cpuinfo.Limit(path)
			r := rand.New(rand.NewPCG(seed, 1))
			w := newRandom(t, r, n, k, 16<<(block%5), zeros)
			a := randomRows(r, m, k)
			w.expect(t, w.product(F32, a, m), a, m)
			all, last := w.product(Int8, a, m), a[(m-1)*k:]
			if one := w.product(Int8, last, 1); !slices.Equal(one, all[(m-1)*n:]) {
				t.Fatalf("%v: row %d alone is %v, among others %v", path, m-1, one, all[(m-1)*n:])
			}
			for i := range m {
				round(a[i*k:][:k], w.Block)
			}
			w.expect(t, all, a, m)
			k0 := r.IntN(k)
			w.widens(t, r.IntN(w.Panels()), w.Columns()+r.IntN(9), k0, k0+1+r.IntN(k-k0))
			undo()
		}
	})
}

// FuzzPackRow compares the rounding of rows of any magnitude, bit for bit, with its definition.
func FuzzPackRow(f *testing.F) {
	for i := range uint64(8) {
		f.Add(i, uint8(i), uint16(40*i), int16(37*i-150), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, block uint8, depth uint16, exponent int16, ties uint8) {
		k, size := int(depth)%700+1, 16<<(block%5)
		r := rand.New(rand.NewPCG(seed, 2))
		w := newRandom(t, r, 1, k, size, Centred)
		padded := make([]float32, w.blocks*size)
		for i := range k {
			v := r.NormFloat64()
			if r.IntN(256) < int(ties) { // halves of what is a step where 127 is the greatest
				v = float64(r.IntN(509)-254) / 2
			}
			padded[i] = float32(math.Ldexp(v, int(exponent)%120))
		}
		want := make([]byte, w.RowBytes(Int8))
		quantiseGo(want, padded, size)
		for _, path := range cputest.Paths() {
			undo := cpuinfo.Limit(path)
			at, err := New(1, k, size, Centred)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, w.RowBytes(Int8))
			if at.PackRow(Int8, got, padded[:k]); !bytes.Equal(got, want) {
				t.Fatalf("%v: got %v, want %v", path, got, want)
			}
			undo()
		}
	})
}
