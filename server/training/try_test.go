package training

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/server/oip"
)

// TestBest: scores that are no numbers, which JSON does not have, are the sample's fault.
func TestBest(t *testing.T) {
	if at, err := best([]float32{-3, 2, 2, 1}); at != 1 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := best([]float32{1, float32(v)}); oip.KindOf(err) != oip.Invalid {
			t.Errorf("%v: %v", v, err)
		}
	}
}
