package vec

import (
	"math"
	"testing"
)

// proportional allows an absolute error that grows with the argument, and the loss of subnormal
// results.
func proportional(factor float64) func(x float32) float64 {
	return func(x float32) float64 { return math.Max(0x1p-126, factor*math.Abs(float64(x))) }
}

func activationCases() []elementwise {
	geluTanhTolerance := tolerance{ulps: 4, absolute: func(x float32) float64 {
		v := float64(x)
		a := math.Sqrt2 / math.SqrtPi * (v + 0.044715*v*v*v)
		relative := 4e-7 * (1 + math.Abs(a))
		return max(0x1p-126*max(1, math.Abs(v)), relative*math.Abs(v/(1+math.Exp(-2*a))))
	}}
	return []elementwise{
		unary("Relu", Relu, reluRef, exact),
		unary("Clip", withScalars(Clip, -0.5, 6), withScalars(clipRef, -0.5, 6), exact),
		unary("Clip crossed", withScalars(Clip, 6, -0.5), withScalars(clipRef, 6, -0.5), exact),
		unary("Grid", grid3(Grid, 0.37, -100, 65435), grid3(gridPlain, 0.37, -100, 65435), exact),
		unary("Grid crossed", grid3(Grid, -3, 6, -5), grid3(gridPlain, -3, 6, -5), exact),
		unary("LeakyRelu", withScalar(LeakyRelu, 0.01), withScalar(leakyReluRef, 0.01), exact),
		unary("HardSigmoid", withScalars(HardSigmoid, 0.2, 0.5),
			withScalars(hardSigmoidRef, 0.2, 0.5), tolerance{ulps: 1}),
		unary("HardSwish", HardSwish, hardSwishRef,
			tolerance{ulps: 4, absolute: func(x float32) float64 {
				v := math.Abs(float64(x))
				return 6e-8 * max(v, v*v)
			}}),
		unary("Sigmoid", Sigmoid, sigmoidRef, transcendental),
		unary("Silu", Silu, siluRef, tolerance{ulps: 4, absolute: proportional(0x1p-126)}),
		unary("Gelu", Gelu, geluRef, tolerance{ulps: 4, absolute: proportional(2e-7)}),
		unary("GeluTanh", GeluTanh, geluTanhRef, geluTanhTolerance),
		unary("Softplus", Softplus, softplusRef, transcendental),
		unary("Elu", withScalar(Elu, 0.7), withScalar(eluRef, 0.7), transcendental),
		unary("Mish", Mish, mishRef, tolerance{ulps: 4, absolute: proportional(0x1p-126)}),
	}
}

// grid3 gives the parameters of Grid.
func grid3(f func(dst, x []float32, scale, lo, hi float32), scale, lo, hi float32) func(dst,
	x []float32) {
	return func(dst, x []float32) { f(dst, x, scale, lo, hi) }
}

func TestActivation(t *testing.T) { testElementwise(t, activationCases()) }

func TestActivationAccuracy(t *testing.T) {
	logistic := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	soft := func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	cases := []struct {
		name   string
		f      func(dst, x []float32)
		ref    func(float64) float64
		lo, hi float32
	}{
		{"Sigmoid", Sigmoid, logistic, -87, 100},
		{"Silu", Silu, func(x float64) float64 { return x * logistic(x) }, -85, 100},
		{"Softplus", Softplus, soft, -87, 100},
		{"Elu", withScalar(Elu, 1), math.Expm1, -30, 0},
		{"Mish", Mish, func(x float64) float64 { return x * math.Tanh(soft(x)) }, -80, 100},
	}
	const limit = 4e-7
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

// The properties that define the functions, apart from any reference.
func TestActivationIdentities(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		var x, minus, y, z [401]float32
		for i := range x {
			x[i] = float32(i-200) / 20
		}
		Neg(minus[:], x[:])
		Sigmoid(y[:], x[:])
		Sigmoid(z[:], minus[:])
		for i := range x {
			if s := y[i] + z[i]; math.Abs(float64(s)-1) > 2e-7 {
				t.Errorf("sigmoid(%v) + sigmoid(-x) = %v", x[i], s)
			}
		}
		for name, f := range map[string]func(dst, x []float32){"Gelu": Gelu, "GeluTanh": GeluTanh,
			"Silu": Silu} {
			f(y[:], x[:])
			f(z[:], minus[:])
			for i := range x {
				if d := y[i] - z[i]; math.Abs(float64(d-x[i])) > 4e-7*(1+math.Abs(float64(x[i]))) {
					t.Errorf("%s(%v) - %s(-x) = %v", name, x[i], name, d)
				}
			}
		}
	})
}
