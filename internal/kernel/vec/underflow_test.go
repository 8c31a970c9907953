package vec

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// TestExponentialsThatRoundToZero holds what kernels that leave such arguments out make of them:
// zero for all from where the exponential rounds to it, and the least number right above; and that
// numbers which are none stay so.
func TestExponentialsThatRoundToZero(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	x := []float32{-inf, -math.MaxFloat32, -1000, -104.5, math.Nextafter32(-104, -inf), -104,
		math.Nextafter32(-104, 0), -103.98, -103.9, -103, -88, -87, 0, 1, nan, -104, nan, -inf, 89}
	cputest.EachPath(t, func(t *testing.T) {
		y := make([]float32, len(x))
		Exp(y, x)
		for i, v := range x {
			want := float32(math.Exp(float64(v)))
			switch {
			case v != v:
				if y[i] == y[i] {
					t.Errorf("exp of no number is %g", y[i])
				}
			case v <= -103.98:
				if math.Float32bits(y[i]) != 0 {
					t.Errorf("exp(%g) = %g, want 0", v, y[i])
				}
			case math.Abs(float64(y[i]-want)) > 2e-6*float64(want)+0x1p-149:
				t.Errorf("exp(%g) = %g, want %g", v, y[i], want)
			}
		}
		Softmax(y[:14], x[:14])
		for i, v := range y[:6] {
			if v != 0 {
				t.Errorf("softmax of %g beside 1 is %g, want 0", x[i], v)
			}
		}
	})
}
