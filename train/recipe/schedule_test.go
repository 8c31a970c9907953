package recipe_test

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/train/recipe"
)

// TestSchedules holds the rates of ten updates, two of them to warm up in, to their definitions.
func TestSchedules(t *testing.T) {
	for _, tc := range []struct {
		s    recipe.Schedule
		want [10]float64
	}{
		{recipe.Schedule{Kind: recipe.Constant, Warmup: 2},
			[10]float64{0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{recipe.Schedule{Kind: recipe.Linear, Warmup: 2, Floor: 0.2},
			[10]float64{0.5, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3}},
		{recipe.Schedule{Kind: recipe.Cosine, Warmup: 6},
			[10]float64{1. / 6, 2. / 6, 0.5, 4. / 6, 5. / 6, 1, 1, (1 + math.Sqrt2/2) / 2, 0.5,
				(1 - math.Sqrt2/2) / 2}},
		{recipe.Schedule{Kind: recipe.Steps, Every: 4, Factor: 0.5},
			[10]float64{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25}},
	} {
		for i, want := range tc.want {
			if got := tc.s.At(int64(i)+1, 10); math.Abs(got-want) > 1e-12 {
				t.Errorf("%+v: update %d at %v of the rate, want %v", tc.s, i+1, got, want)
			}
		}
	}
}
