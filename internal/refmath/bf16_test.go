package refmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestDotBF16RoundsToOdd compares with sums in numbers of any precision, over operands whose
// magnitudes are alike, so that sums cancel, and far apart.
func TestDotBF16RoundsToOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inexact := 0
	for range 20_000 {
		spread := 1 + r.IntN(80)
		exponent := func() uint32 { return uint32(127 - spread/2 + r.IntN(spread)) }
		draw := func() uint32 { return r.Uint32()&0x807f | exponent()<<7 }
		a, b := draw()<<16|draw(), draw()<<16|draw()
		sum := math.Float32frombits(r.Uint32()&0x807fffff | exponent()<<23)
		exact := func(x uint32) *big.Float {
			return big.NewFloat(float64(math.Float32frombits(x))).SetPrec(2000)
		}
		low := new(big.Float).Mul(exact(a<<16), exact(b<<16))
		pair := odd(low.Add(low, new(big.Float).Mul(exact(a&^0xffff), exact(b&^0xffff))))
		all := big.NewFloat(pair).SetPrec(2000)
		want := odd(all.Add(all, big.NewFloat(float64(sum))))
		if got := DotBF16(sum, a, b); float64(got) != want {
			t.Fatalf("%#x . %#x + %v is %v, want %v", a, b, sum, got, want)
		}
		if nearest, _ := all.Float32(); float64(nearest) != want {
			inexact++
		}
	}
	if inexact < 5000 {
		t.Errorf("only %d sums are others than the nearest", inexact)
	}
}

// odd rounds to 24 bits: towards zero, and then away from it where the last bit is not set.
func odd(x *big.Float) float64 {
	cut := new(big.Float).SetPrec(24).SetMode(big.ToZero).Set(x)
	f, _ := cut.Float64()
	if cut.Acc() != big.Exact && math.Float32bits(float32(f))&1 == 0 {
		f = float64(math.Float32frombits(math.Float32bits(float32(f)) + 1))
	}
	return f
}

// TestDotBF16OfSpecialNumbers holds what is no rounding.
func TestDotBF16OfSpecialNumbers(t *testing.T) {
	const one, minusOne, inf, nan, tiny, max = 0x3f80, 0xbf80, 0x7f80, 0xffc1, 0x0001, 0x7f7f
	const least = 0x0080
	for _, c := range []struct{ sum, a, b, want uint32 }{
		{0, one, one, 0x3f800000},
		{0, one << 16, one << 16, 0x3f800000},
		{0x80000000, 0, 0, 0},                                 // -0 + 0
		{0x80000000, 0x80008000, 0, 0x80000000},               // -0 + (-0 + -0)
		{0xbf800000, one, one, 0},                             // -1 + 1
		{0x00000001, 0, 0, 0},                                 // a subnormal sum
		{0x807fffff, 0, 0, 0},                                 // -0 + 0
		{0, tiny, max, 0},                                     // a subnormal factor
		{0, least, one - 0x80, 0},                             // a subnormal product
		{0, least | 0x8000, one, 0x80800000},                  // not subnormal
		{0x00800001, least | 0x8000, one, 0},                  // a subnormal difference
		{0x80800001, least, one, 0x80000000},                  // and its sign
		{0, max, max, 0x7f800000},                             // too large
		{0, max | 0x8000, max, 0xff800000},                    //
		{0x7f7fffff, max, 0x3f00, 0x7f800000},                 // a sum too large
		{0x7f7fffff, least << 1, one, 0x7f7fffff},             // the largest is odd and stays
		{0x3f800000, nan, one, 0x7fc00000},                    //
		{0xffffffff, one, one, 0x7fc00000},                    //
		{0, inf, 0, 0x7fc00000},                               //
		{0xff800000, inf, one, 0x7fc00000},                    //
		{0, inf<<16 | inf, one<<16 | minusOne, 0x7fc00000},    //
		{0x3f800000, inf<<16 | one, one<<16 | one, inf << 16}, //
	} {
		got := math.Float32bits(DotBF16(math.Float32frombits(c.sum), c.a, c.b))
		if got != c.want {
			t.Errorf("%#x + %#x . %#x is %#x, want %#x", c.sum, c.a, c.b, got, c.want)
		}
	}
}
