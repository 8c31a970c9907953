package conv

import (
	"math/rand/v2"
	"testing"
)

// TestTilesAtTheRightEdge moves the right edge of the image over the ends of the vectors that a row
// of tiles is cut from.
func TestTilesAtTheRightEdge(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		if !hasWinograd(currentLevel()) {
			t.Skip("no kernels for this processor")
		}
		r := rand.New(rand.NewPCG(23, 24))
		for width := 26; width <= 70; width++ {
			for pad := range 3 {
				p := Params{N: 1, C: 1, M: 1, Group: 1, Reused: true}
				p.Window = square(1, 1, 1, 3, 1, pad, 1).Window
				p.In = [3]int{1, 5, width}
				checkTransformed(t, r, p)
			}
		}
	})
}
