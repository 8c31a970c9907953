package vec

import (
	"math"
	"testing"
)

func TestElementary(t *testing.T) {
	testElementwise(t, []elementwise{
		unary("Neg", Neg, negRef, exact),
		unary("Abs", Abs, absRef, exact),
		unary("Square", Square, squareRef, exact),
		unary("Cube", Cube, cubeRef, exact),
		unary("Sqrt", Sqrt, sqrtRef, exact),
		unary("Rsqrt", Rsqrt, rsqrtRef, exact),
		unary("Reciprocal", Reciprocal, withScalar(rdivScalarRef, 1), exact),
		unary("Exp", Exp, expRef, transcendental),
		unary("Log", Log, logRef, transcendental),
		unary("Tanh", Tanh, tanhRef, transcendental),
		unary("Erf", Erf, erfRef, transcendental),
	})
}

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
				t.Errorf("%s: relative error %.3g at %v, want at most %.3g", c.name, worst, at, limit)
			}
		}
	})
}

// Both functions are odd, grow, and stay within -1..1; rounding may undo growth by some units in the last place.
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

func FuzzElementwise(f *testing.F) {
	f.Add(uint32(0x3f800000), uint32(0xbf800000), uint32(0x7f800000), uint8(3))
	f.Add(uint32(0x42b17218), uint32(0xc2cff1b5), uint32(0x00000001), uint8(17))
	f.Add(uint32(0x7fc00000), uint32(0x80000000), uint32(0xff7fffff), uint8(40))
	list := append(elementaryFuzz(), binary("Add", Add, addRef, exact), binary("Div", Div, divRef, exact),
		binary("Max", Max, maximumRef, exact), binary("Min", Min, minimumRef, exact))
	f.Fuzz(func(t *testing.T, a, b, c uint32, length uint8) {
		var in [3][]float32
		pattern := [3]uint32{a, b, c}
		for i := range in {
			in[i] = make([]float32, length)
			for k := range in[i] {
				in[i][k] = math.Float32frombits(pattern[(i+k)%3])
			}
		}
		want, got := make([]float32, length), make([]float32, length)
		atEachLevel(t, func(t *testing.T) {
			for _, e := range list {
				e.ref(want, in)
				e.fast(got, in)
				checkSlices(t, e.name, e.tol, in[0], got, want)
			}
		})
	})
}

func elementaryFuzz() []elementwise {
	return []elementwise{
		unary("Exp", Exp, expRef, transcendental),
		unary("Log", Log, logRef, transcendental),
		unary("Tanh", Tanh, tanhRef, transcendental),
		unary("Erf", Erf, erfRef, transcendental),
		unary("Sigmoid", Sigmoid, sigmoidRef, transcendental),
		unary("Relu", Relu, reluRef, exact),
	}
}
