package vec

import (
	"math"
	"testing"
)

func arithmeticCases() []elementwise {
	nan := float32(math.NaN())
	return []elementwise{
		binary("Add", Add, addRef, exact),
		binary("Sub", Sub, subRef, exact),
		binary("Mul", Mul, mulRef, exact),
		binary("Div", Div, divRef, exact),
		binary("Max", Max, maximumRef, exact),
		binary("Min", Min, minimumRef, exact),
		unary("AddScalar", withScalar(AddScalar, 1.25), withScalar(addScalarRef, 1.25), exact),
		unary("SubScalar", withScalar(SubScalar, 1.25), withScalar(addScalarRef, -1.25), exact),
		unary("RSubScalar", withScalar(RSubScalar, 1.25), withScalar(rsubScalarRef, 1.25), exact),
		unary("MulScalar", withScalar(MulScalar, 1.3), withScalar(mulScalarRef, 1.3), exact),
		unary("DivScalar", withScalar(DivScalar, 1.3), withScalar(divScalarRef, 1.3), exact),
		unary("RDivScalar", withScalar(RDivScalar, 1.3), withScalar(rdivScalarRef, 1.3), exact),
		unary("MaxScalar", withScalar(MaxScalar, 0.5), withScalar(maxScalarRef, 0.5), exact),
		unary("MinScalar", withScalar(MinScalar, 0.5), withScalar(minScalarRef, 0.5), exact),
		unary("MaxScalar NaN", withScalar(MaxScalar, nan), withScalar(maxScalarRef, nan), exact),
		unary("Affine", withScalars(Affine, 1.5, -0.25), withScalars(affineRef, 1.5, -0.25), exact),
		binary("Axpy",
			func(dst, x, y []float32) { Axpy(dst, 0.7, x, y) },
			func(dst, x, y []float32) { axpyRef(dst, x, y, 0.7) }, exact),
		{name: "FMA", inputs: 3, tol: exact,
			fast: func(dst []float32, in [3][]float32) { FMA(dst, in[0], in[1], in[2]) },
			ref:  func(dst []float32, in [3][]float32) { fmaRef(dst, in[0], in[1], in[2]) }},
	}
}

func TestArithmetic(t *testing.T) { testElementwise(t, arithmeticCases()) }

// TestFusedSumsRoundOnce holds that a product and a sum are rounded once on every path. Here their
// exact value is a little above or below the middle of two float32, by less than float64 shows
// beside the sum: rounded to float64 first, it is the middle, which goes to the even neighbour.
func TestFusedSumsRoundOnce(t *testing.T) {
	const (
		a    = 1 + 0x1p-11
		half = 0x1p-24 // of the step behind 1
		x    = half * (1 - 0x1p-11 + 0x1p-22)
	)
	if p := a * x; p <= half || p > half+0x1p-53 { // exact, as constants are
		t.Fatalf("the product is not just above the middle")
	}
	above, even := math.Nextafter32(1, 2), math.Nextafter32(math.Nextafter32(1, 2), 2)
	for _, tc := range []struct{ a, x, y, want float32 }{
		{a, x, 1, above},                        // the middle and something: up
		{-a, x, above, 1},                       // the middle less something: down
		{a, x, even, math.Nextafter32(even, 3)}, // between an even number and an odd one
		{-a, -x, 1, above},
		{a, -x, -1, -above},
		{1, half, 1, 1}, // the middle itself: to even
		{1, half, above, even},
	} {
		atEachLevel(t, func(t *testing.T) {
			const n = 37
			fill := func(v float32) []float32 {
				s := make([]float32, n)
				Fill(s, v)
				return s
			}
			for name, sum := range map[string]func(dst []float32){
				"Axpy":   func(dst []float32) { Axpy(dst, tc.a, fill(tc.x), fill(tc.y)) },
				"FMA":    func(dst []float32) { FMA(dst, fill(tc.a), fill(tc.x), fill(tc.y)) },
				"Affine": func(dst []float32) { Affine(dst, fill(tc.x), tc.a, tc.y) },
			} {
				dst := make([]float32, n)
				sum(dst)
				for i, v := range dst {
					if v != tc.want {
						t.Fatalf("%s: %g·%g + %g at %d is %g, want %g", name, tc.a, tc.x, tc.y, i,
							v, tc.want)
					}
				}
			}
		})
	}
}

func TestFill(t *testing.T) {
	for _, n := range []int{0, 1, 33, 64, 65, 1000, 5000} {
		dst, intact := guardedFloats(n, 1)
		Fill(dst, 2.5)
		for i, v := range dst {
			if v != 2.5 {
				t.Errorf("Fill, n=%d: at %d: %v", n, i, v)
			}
		}
		if err := intact(); err != nil {
			t.Error(err)
		}
	}
}

func TestShortInputPanics(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		dst := make([]float32, 8)
		defer func() {
			if recover() == nil {
				t.Error("Add with a short input did not panic")
			}
			for i, v := range dst {
				if v != 0 {
					t.Errorf("dst[%d] = %v was written before the panic", i, v)
				}
			}
		}()
		Add(dst, make([]float32, 8), make([]float32, 7))
	})
}

func TestInt32Wraps(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		a, b, got := make([]int32, 77), make([]int32, 77), make([]int32, 77)
		for i := range a {
			a[i], b[i] = int32(i)*0x7654321, int32(i*i)-0x7fffff00
		}
		AddInt32(got, a, b)
		for i := range got {
			if got[i] != a[i]+b[i] {
				t.Fatalf("%d: %d + %d is %d", i, a[i], b[i], got[i])
			}
		}
		AddInt32Scalar(got, a, -0x7fffff12)
		for i := range got {
			if got[i] != a[i]-0x7fffff12 {
				t.Fatalf("%d: %d - 0x7fffff12 is %d", i, a[i], got[i])
			}
		}
		copy(got, b)
		AxpyInt32(got, -0x1234567, a, got)
		for i := range got {
			if want := -0x1234567*a[i] + b[i]; got[i] != want {
				t.Fatalf("%d: -0x1234567*%d + %d is %d", i, a[i], b[i], got[i])
			}
		}
	})
}

// TestAffineRoundsOnce: the sums lie so near the middle of two floats, normal and subnormal ones,
// that one in float64 is the middle itself, from where it would go up.
func TestAffineRoundsOnce(t *testing.T) {
	const ulp = 1.0 / (1 << 23)
	small := math.Float32frombits(1<<20 + 1) // in steps of 2 to the -149
	half := float32(math.Ldexp(1, -75))
	for _, c := range []struct{ x, scale, bias float32 }{
		{1 - ulp, (1 + ulp) / (1 << 24), 1 + ulp},
		{(1 - ulp) * half, (1 + ulp) * half, small},
	} {
		got := make([]float32, 1)
		affineRef(got, []float32{c.x}, c.scale, c.bias)
		if got[0] != c.bias {
			t.Errorf("%g times %g and %g: got %.9g, want %.9g", c.x, c.scale, c.bias, got[0],
				c.bias)
		}
	}
}
