package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// half is a named type, as those of a tensor package are.
type half uint16

func equal[T comparable](a, b T) bool { return a == b }

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || isNaN(a) && isNaN(b)
}

func sameFloat16(a, b uint16) bool {
	return a == b || isNaN(widenFloat16(a)) && isNaN(widenFloat16(b))
}

func sameBFloat16(a, b uint16) bool {
	return a == b || isNaN(math.Float32frombits(uint32(a)<<16)) &&
		isNaN(math.Float32frombits(uint32(b)<<16))
}

// checkConversion compares a conversion with its reference at every tail length.
func checkConversion[D, S any](t *testing.T, fast, ref func(dst []D, x []S),
	random func(r *rand.Rand) S,
	guard D, same func(a, b D) bool) {
	t.Helper()
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(14, 15))
		for _, n := range tailLengths() {
			x, want := make([]S, n+1)[1:], make([]D, n)
			for i := range x {
				x[i] = random(r)
			}
			got, intact := guarded(n, n%3, guard, same)
			ref(want, x)
			fast(got, x)
			for i := range want {
				if !same(got[i], want[i]) {
					t.Fatalf("n=%d: at %d, of %v: got %v, want %v", n, i, x[i], got[i], want[i])
				}
			}
			if err := intact(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func randomFloat(r *rand.Rand) float32 {
	var x [1]float32
	fill(x[:], r)
	return x[0]
}

func TestConversions(t *testing.T) {
	word := func(r *rand.Rand) uint16 { return uint16(r.Uint32()) }
	t.Run("Float16ToFloat32", func(t *testing.T) {
		checkConversion(t, Float16ToFloat32[uint16], float16ToFloat32Ref, word, -7, sameFloat)
	})
	t.Run("Float32ToFloat16", func(t *testing.T) {
		checkConversion(t, Float32ToFloat16[uint16], float32ToFloat16Ref, randomFloat, 0x1234,
			sameFloat16)
	})
	t.Run("BFloat16ToFloat32", func(t *testing.T) {
		checkConversion(t, BFloat16ToFloat32[uint16], bfloat16ToFloat32Ref, word, -7, sameFloat)
	})
	t.Run("Float32ToBFloat16", func(t *testing.T) {
		checkConversion(t, Float32ToBFloat16[uint16], float32ToBFloat16Ref, randomFloat, 0x1234,
			sameBFloat16)
	})
	t.Run("Int32ToFloat32", func(t *testing.T) {
		checkConversion(t, Int32ToFloat32, int32ToFloat32Ref, func(r *rand.Rand) int32 {
			return int32(r.Uint32())
		}, -7, sameFloat)
	})
	t.Run("Float32ToInt32", func(t *testing.T) {
		checkConversion(t, Float32ToInt32, float32ToInt32Ref, randomFloat, -7, equal)
	})
	t.Run("Int64ToFloat32", func(t *testing.T) {
		checkConversion(t, Int64ToFloat32, int64ToFloat32Ref, func(r *rand.Rand) int64 {
			return int64(r.Uint64()) >> r.IntN(60)
		}, -7, sameFloat)
	})
	t.Run("Float32ToInt64", func(t *testing.T) {
		checkConversion(t, Float32ToInt64, float32ToInt64Ref, randomFloat, -7, equal)
	})
	t.Run("Float32ToUint8", func(t *testing.T) {
		checkConversion(t, Float32ToUint8, float32ToUint8Ref, nearByte, 7, equal)
	})
	t.Run("Float32ToInt8", func(t *testing.T) {
		checkConversion(t, Float32ToInt8, float32ToInt8Ref, nearByte, -7, equal)
	})
	t.Run("Uint8ToFloat32", func(t *testing.T) {
		checkConversion(t, Uint8ToFloat32, uint8ToFloat32Ref, func(r *rand.Rand) uint8 {
			return uint8(r.Uint32())
		}, -7, sameFloat)
	})
	t.Run("Int8ToFloat32", func(t *testing.T) {
		checkConversion(t, Int8ToFloat32, int8ToFloat32Ref, func(r *rand.Rand) int8 {
			return int8(r.Uint32())
		}, -7, sameFloat)
	})
}

// nearByte draws numbers around the range of bytes, ties, infinities and NaN among them.
func nearByte(r *rand.Rand) float32 {
	switch r.IntN(8) {
	case 0:
		return randomFloat(r)
	case 1:
		return float32(r.IntN(700)-350) + 0.5
	}
	return r.Float32()*700 - 350
}

// Every half-precision number survives the way to float32 and back.
func TestHalvesRoundTrip(t *testing.T) {
	x, y := make([]half, 1<<16), make([]half, 1<<16)
	wide := make([]float32, 1<<16)
	for i := range x {
		x[i] = half(i)
	}
	atEachLevel(t, func(t *testing.T) {
		Float16ToFloat32(wide, x)
		Float32ToFloat16(y, wide)
		for i := range x {
			if !sameFloat16(uint16(x[i]), uint16(y[i])) {
				t.Fatalf("binary16 %#04x came back as %#04x", x[i], y[i])
			}
		}
		BFloat16ToFloat32(wide, x)
		Float32ToBFloat16(y, wide)
		for i := range x {
			if !sameBFloat16(uint16(x[i]), uint16(y[i])) {
				t.Fatalf("bfloat16 %#04x came back as %#04x", x[i], y[i])
			}
		}
	})
}

func TestRoundingToHalf(t *testing.T) {
	cases := []struct {
		x            float32
		half, bfloat uint16
	}{
		{1, 0x3c00, 0x3f80},
		{1 + 0x1p-11, 0x3c00, 0x3f80},    // halfway between two binary16: to even, down
		{1 + 0x3p-11, 0x3c02, 0x3f80},    // halfway: to even, up
		{1 + 0x1p-8, 0x3c04, 0x3f80},     // halfway between two bfloat16: down
		{1 + 0x3p-8, 0x3c0c, 0x3f82},     // halfway: up
		{65519, 0x7bff, 0x4780},          // below the limit of binary16
		{65520, 0x7c00, 0x4780},          // at the limit: infinite
		{0x1p-24, 0x0001, 0x3380},        // least subnormal binary16
		{0x1p-25, 0x0000, 0x3300},        // halfway to it
		{0x1.000002p-25, 0x0001, 0x3300}, // a little more
		{math.MaxFloat32, 0x7c00, 0x7f80},
	}
	atEachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			var x [16]float32
			var h, b [16]uint16
			Fill(x[:], c.x)
			Float32ToFloat16(h[:], x[:])
			Float32ToBFloat16(b[:], x[:])
			if h[0] != c.half || h[15] != c.half || b[0] != c.bfloat || b[15] != c.bfloat {
				t.Errorf("%v: binary16 %#04x, bfloat16 %#04x, want %#04x, %#04x", c.x, h[0], b[0],
					c.half, c.bfloat)
			}
		}
	})
}

func TestFloatToIntegerSaturates(t *testing.T) {
	inf := float32(math.Inf(1))
	cases := []struct {
		x    float32
		want int32
	}{{2.9, 2}, {-2.9, -2}, {1 << 31, math.MaxInt32}, {-(1 << 31), math.MinInt32},
		{-3e9, math.MinInt32},
		{inf, math.MaxInt32}, {-inf, math.MinInt32}, {float32(math.NaN()), 0}}
	atEachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			var x [16]float32
			var y [16]int32
			Fill(x[:], c.x)
			Float32ToInt32(y[:], x[:])
			if y[0] != c.want || y[15] != c.want {
				t.Errorf("Float32ToInt32(%v) = %d, want %d", c.x, y[0], c.want)
			}
		}
	})
}

// TestBFloat16KeepsNaN: a NaN all of whose set bits are cut stays one.
func TestBFloat16KeepsNaN(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		x, got := make([]float32, 37), make([]uint16, 37)
		for i := range x {
			x[i] = math.Float32frombits(0x7f800001 | uint32(i%2)<<31)
		}
		Float32ToBFloat16(got, x)
		for i, g := range got {
			if want := 0x7fc0 | uint16(i%2)<<15; g != want {
				t.Fatalf("NaN %d becomes %#x, want %#x", i, g, want)
			}
		}
	})
}
