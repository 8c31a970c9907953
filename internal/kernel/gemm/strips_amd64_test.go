//go:build amd64 && !noasm

package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStripsHaveTheSameBits holds that tiles of few steps have the same bits in strips.
func TestStripsHaveTheSameBits(t *testing.T) {
	if currentLevel(F32) != levelAVX512 {
		t.Skip("strips are of AVX-512")
	}
	defer func(was bool) { shortWindow = was }(shortWindow)
	r := rand.New(rand.NewPCG(45, 46))
	for range 300 {
		s := randomSeveral(r, levelAVX512)
		s.flags |= flagHi
		before := slices.Clone(s.c)
		shortWindow = true
		runTile(levelAVX512, s.one(0, 0))
		want := slices.Clone(s.c)
		copy(s.c, before)
		shortWindow = false
		runTile(levelAVX512, s.one(0, 0))
		if !slices.Equal(s.c, want) {
			t.Fatalf("a tile of %d x %d, %d steps differs in strips", s.rows, s.cols, s.k)
		}
	}
}
