package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// layouts say again, from the formats' own texts, what each type's code means.
var layouts = []struct {
	d               DType
	bias, fraction  int
	last            uint8 // the largest code of a finite magnitude
	nan, inf        bool  // codes above last are NaN, and the first of them infinity
	negativeZeroNaN bool
}{
	{d: Float8E4M3FN, bias: 7, fraction: 3, last: 0x7e, nan: true},
	{d: Float8E4M3FNUZ, bias: 8, fraction: 3, last: 0x7f, negativeZeroNaN: true},
	{d: Float8E5M2, bias: 15, fraction: 2, last: 0x7b, nan: true, inf: true},
	{d: Float8E5M2FNUZ, bias: 16, fraction: 2, last: 0x7f, negativeZeroNaN: true},
	{d: Float4E2M1, bias: 1, fraction: 1, last: 0x7},
}

// asFloat32 reads a magnitude as the upper bits of a float32, whose bias is 127: the machine's own
// subnormals give those of the small type.
func asFloat32(code uint8, fraction, bias int) float64 {
	return math.Ldexp(float64(math.Float32frombits(uint32(code)<<(23-fraction))), 127-bias)
}

func TestMinifloatValues(t *testing.T) {
	for _, l := range layouts {
		signBit := uint8(1) << (l.d.Bits() - 1)
		for code := range 1 << l.d.Bits() {
			c := uint8(code)
			magnitude := c &^ signBit
			want := asFloat32(magnitude, l.fraction, l.bias)
			switch {
			case l.negativeZeroNaN && c == signBit,
				l.nan && magnitude > l.last && (!l.inf || magnitude > l.last+1):
				want = math.NaN()
			case magnitude > l.last:
				want = math.Inf(1)
			}
			if c&signBit != 0 {
				want = -want
			}
			got := float64(l.d.Minifloat(c))
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || !math.IsNaN(want) &&
				math.Signbit(got) != math.Signbit(want) {
				t.Errorf("%v: code %#x is %v, want %v", l.d, c, got, want)
			}
			if back := MinifloatOf(l.d, want, false); back != c && !math.IsNaN(want) {
				t.Errorf("%v: %v became code %#x, want %#x", l.d, want, back, c)
			}
		}
	}
}

// nearest finds the magnitude by trying all of them and one step beyond, ties to the even code.
func nearest(values []float64, v float64) (best int) {
	for c := range values {
		switch was, is := math.Abs(v-values[best]), math.Abs(v-values[c]); {
		case is < was, is == was && c%2 == 0:
			best = c
		}
	}
	return best
}

// Every half, every bfloat16, the midpoints of all neighbours and what is just beside them round to
// the nearest value.
func TestMinifloatOf(t *testing.T) {
	for _, l := range layouts {
		var values []float64
		for c := range int(l.last) + 2 {
			values = append(values, asFloat32(uint8(c), l.fraction, l.bias))
		}
		inputs := randomFloats(200)
		for bits := range 1 << 15 {
			inputs = append(inputs, float64(Half(bits).Float32()), float64(BHalf(bits).Float32()))
		}
		for c := range int(l.last) + 1 {
			m := (values[c] + values[c+1]) / 2
			inputs = append(inputs, m, math.Nextafter(m, 0), math.Nextafter(m, 1e9))
		}
		signBit := uint8(1) << (l.d.Bits() - 1)
		for _, v := range inputs {
			if math.IsNaN(v) {
				continue
			}
			want := uint8(nearest(values, min(v, 1e6)))
			beyond := want > l.last || math.IsInf(v, 1)
			check := func(saturate bool, want uint8) {
				if got := MinifloatOf(l.d, v, saturate); got != want {
					t.Fatalf("%v: %v, saturate %v, became code %#x, want %#x", l.d, v, saturate,
						got, want)
				}
				negative := want | signBit
				if l.negativeZeroNaN && (want == 0 || beyond && !saturate) {
					negative = want
				}
				if got := MinifloatOf(l.d, -v, saturate); got != negative {
					t.Fatalf("%v: %v, saturate %v, became code %#x, want %#x", l.d, -v, saturate,
						got, negative)
				}
			}
			switch {
			case !beyond:
				check(true, want)
				check(false, want)
			case l.negativeZeroNaN:
				check(true, l.last)
				check(false, signBit)
			case l.nan:
				check(true, l.last)
				check(false, l.last+1)
			default:
				check(true, l.last)
				check(false, l.last)
			}
		}
	}
}

// randomFloats are float64 numbers of any exponent that the small types have, and around.
func randomFloats(n int) []float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Ldexp(1+rng.Float64(), rng.IntN(50)-28)
	}
	return append(out, 0, math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64)
}

func TestMinifloatNaN(t *testing.T) {
	for _, l := range layouts {
		for _, saturate := range []bool{false, true} {
			got := l.d.Minifloat(MinifloatOf(l.d, math.NaN(), saturate))
			if l.d == Float4E2M1 && got != 0 || l.d != Float4E2M1 && got == got {
				t.Errorf("%v, saturate %v: NaN became %v", l.d, saturate, got)
			}
		}
	}
}

func TestE8M0(t *testing.T) {
	for c := range 255 {
		v := math.Ldexp(1, c-127)
		if got := Float8E8M0.Minifloat(uint8(c)); float64(got) != v {
			t.Errorf("code %d is %v, want 2^%d", c, got, c-127)
		}
		next := min(uint8(c)+1, 0xfe)
		for _, tt := range []struct {
			times             float64
			up, down, nearest uint8
		}{
			{1, uint8(c), uint8(c), uint8(c)},
			{1 + 0x1p-50, next, uint8(c), uint8(c)},
			{1.25, next, uint8(c), uint8(c)},
			{1.5, next, uint8(c), next},
			{1.75, next, uint8(c), next},
		} {
			for round, want := range map[Round]uint8{RoundUp: tt.up, RoundDown: tt.down,
				RoundNearest: tt.nearest} {
				if got := E8M0Of(v*tt.times, round, true); got != want {
					t.Errorf("2^%d · %v, rounding %d: got code %#x, want %#x", c-127, tt.times,
						round, got, want)
				}
				if c == 0xfe && want > uint8(c) {
					want = 0xff
				}
				if c < 0xfe || tt.times == 1 {
					if got := E8M0Of(v*tt.times, round, false); got != want {
						t.Errorf("2^%d · %v, rounding %d, no saturation: got code %#x, want %#x",
							c-127, tt.times, round, got, want)
					}
				}
			}
		}
	}
}

// The table of special values in the text of operator Cast, version 24.
func TestE8M0SpecialValues(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		v           float64
		up, nearest uint8 // saturating, and not
	}{
		{0, 0, 0xff}, {math.NaN(), 0xff, 0xff}, {inf, 0xfe, 0xff}, {0x1p128, 0xfe, 0xff},
		{0x1.8p127, 0xfe, 0xff},
		{0x1p-128, 0, 0xff}, {1e-300, 0, 0xff}, {math.Copysign(0, -1), 0, 0xff}, {-1, 0xff, 0xff},
		{0x1.4p127, 0xfe, 0xfe},
	} {
		if got := E8M0Of(tt.v, RoundUp, true); got != tt.up {
			t.Errorf("%v, up, saturating: got %#x, want %#x", tt.v, got, tt.up)
		}
		if got := E8M0Of(tt.v, RoundNearest, false); got != tt.nearest {
			t.Errorf("%v, nearest, not saturating: got %#x, want %#x", tt.v, got, tt.nearest)
		}
	}
	if got := Float8E8M0.Minifloat(0xff); got == got {
		t.Errorf("code 0xff is %v, want NaN", got)
	}
}
