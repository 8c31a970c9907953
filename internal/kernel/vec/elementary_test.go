package vec

import (
	"math"
	"testing"
)

func elementaryCases() []elementwise {
	return []elementwise{
		unary("Neg", Neg, negRef, exact),
		unary("Abs", Abs, absRef, exact),
		unary("Square", Square, squareRef, exact),
		unary("Cube", Cube, cubeRef, exact),
		unary("RoundEven", RoundEven, roundEvenRef, exact),
		unary("Floor", Floor, floorRef, exact),
		unary("Ceil", Ceil, ceilRef, exact),
		unary("Sqrt", Sqrt, sqrtRef, exact),
		unary("Rsqrt", Rsqrt, rsqrtRef, exact),
		unary("Reciprocal", Reciprocal, withScalar(rdivScalarRef, 1), exact),
		unary("Exp", Exp, expRef, transcendental),
		unary("Log", Log, logRef, transcendental),
		unary("Tanh", Tanh, tanhRef, transcendental),
		unary("Erf", Erf, erfRef, transcendental),
	}
}

func TestElementary(t *testing.T) { testElementwise(t, elementaryCases()) }

// accuracyStep is coprime to powers of two, so that every exponent meets many fractions.
const accuracyStep = 9973

func TestElementaryAccuracy(t *testing.T) {
	const limit = 3e-7
	inf := float32(math.Inf(1))
	cases := []struct {
		name   string
		f      func(dst, x []float32)
		ref    func(float64) float64
		lo, hi float32
	}{
		{"Exp", Exp, math.Exp, -87.3, 88.7},
		{"Log", Log, math.Log, 1e-45, inf},
		{"Tanh", Tanh, math.Tanh, -12, 12},
		{"Erf", Erf, math.Erf, -5, 5},
		{"Sqrt", Sqrt, math.Sqrt, 0, inf},
	}
	atEachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			worst, at := worstError(c.lo, c.hi, accuracyStep, c.f, c.ref)
			t.Logf("%s: %.3g at %v", c.name, worst, at)
			if !(worst <= limit) {
				t.Errorf("%s: relative error %.3g at %v, want at most %.3g", c.name, worst, at,
					limit)
			}
		}
	})
}

// Both functions are odd, grow, and stay within -1..1; rounding may undo growth by some units in
// the last place.
func TestTanhAndErfAreOddAndGrow(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		var x, y, minus [512]float32
		for _, f := range []func(dst, x []float32){Tanh, Erf} {
			for i := range x {
				x[i] = float32(i) / 50
			}
			f(y[:], x[:])
			Neg(x[:], x[:])
			f(minus[:], x[:])
			for i := range x {
				if ulps(minus[i], -y[i]) > 4 {
					t.Errorf("f(%v) = %v, f(%v) = %v", x[i], minus[i], -x[i], y[i])
				}
				if i > 0 && y[i] < y[i-1] && ulps(y[i], y[i-1]) > 4 || y[i] > 1 {
					t.Errorf("f(%v) = %v after %v", -x[i], y[i], y[max(i-1, 0)])
				}
			}
		}
	})
}
