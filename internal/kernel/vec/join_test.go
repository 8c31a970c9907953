package vec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestJoinWords holds that pairs of sums are joined as the reference does it, whatever overflows,
// and that nothing beyond the numbers is written.
func TestJoinWords(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 70 {
			x := make([]int32, 2*n)
			for i := range x {
				x[i] = int32(r.Uint32()) >> r.IntN(32)
			}
			add, scale, bias := int32(r.Uint32()), r.Float32(), r.Float32()
			got, want := make([]float32, n+8), make([]float32, n+8)
			JoinWords(got[:n], x, add, scale, bias)
			joinWordsRef(want[:n], x, add, scale, bias)
			if !slices.Equal(got, want) {
				t.Fatalf("%d numbers of %v and %d: got %v, want %v", n, x, add, got, want)
			}
		}
	})
	sums := []int32{-70000, 300000, 255, -1}
	got, want := make([]float32, 2), []float32{76730007*0.5 - 1, 2}
	if JoinWords(got, sums, 7, 0.5, -1); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
