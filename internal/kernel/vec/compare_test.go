package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// TestEqualInt32: every level says what the definition says, of any number of elements, and writes
// nothing beyond them.
func TestEqualInt32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []int32{0, 1, -1, 1 << 16, 1 << 24, math.MinInt32, math.MaxInt32}
	atEachLevel(t, func(t *testing.T) {
		for n := range 100 {
			x, want := make([]int32, n), make([]bool, n)
			for i := range x {
				x[i] = values[r.IntN(len(values))]
			}
			v := values[r.IntN(len(values))]
			equalInt32Ref(want, x, v)
			got := slices.Repeat([]bool{true}, n+64)
			EqualInt32(got[:n], x, v)
			if !slices.Equal(got[:n], want) {
				t.Fatalf("%d elements of %v: %v", n, v, got[:n])
			}
			if slices.Contains(got[n:], false) {
				t.Fatalf("%d elements: wrote beyond them", n)
			}
			// comparisons of some architectures look at the lowest bit alone
			for _, b := range unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), len(got)) {
				if b > 1 {
					t.Fatalf("%d elements: %#x is no bool", n, b)
				}
			}
		}
		x := slices.Repeat([]int32{7}, 2*chunk+5)
		got := make([]bool, len(x))
		if EqualInt32(got, x, 7); slices.Contains(got, false) {
			t.Error("of many equal elements some are said to differ")
		}
	})
}
