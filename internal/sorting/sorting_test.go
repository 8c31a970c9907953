package sorting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBy: the order is that of slices.SortStableFunc.
func TestBy(t *testing.T) {
	type pair struct{ key, at int }
	byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		list := make([]pair, random.IntN(60))
		for i := range list {
			list[i] = pair{random.IntN(8), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		if By(list, byKey); !slices.Equal(list, want) {
			t.Fatalf("%v, want %v", list, want)
		}
	}
}
