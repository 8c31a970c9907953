package refmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// pairOf is a word of two bfloat16 whose exponents lie between lo and hi.
func pairOf(r *rand.Rand, lo, hi int) uint32 {
	half := func() uint32 {
		return r.Uint32()&0x807f | uint32(lo+r.IntN(hi-lo+1))<<7
	}
	return half() | half()<<16
}

// bigSum adds in numbers of any precision and rounds as the definition says.
func bigSum(x, y *big.Float) float32 {
	sum := new(big.Float).SetPrec(2000).Add(x, y)
	at := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(sum)
	f, _ := at.Float32()
	if at.Sign() == 0 && x.Signbit() && y.Signbit() {
		return float32(math.Copysign(0, -1))
	}
	if least := big.NewFloat(0x1p-126); at.Sign() != 0 && new(big.Float).Abs(at).Cmp(least) < 0 {
		return float32(math.Copysign(0, float64(at.Sign())))
	}
	return f
}

// bigOf is the number of these bits, zero where it is subnormal.
func bigOf(bits uint32) *big.Float {
	return new(big.Float).SetPrec(2000).SetFloat64(float64(tileNumber(bits)))
}

func bigDot(c float32, a, b []uint32) float32 {
	product := func(x, y uint32) *big.Float {
		return new(big.Float).SetPrec(2000).Mul(bigOf(x), bigOf(y))
	}
	var even, odd float32
	for i := range a {
		even = bigSum(product(a[i]<<16, b[i]<<16), bigOf(math.Float32bits(even)))
		odd = bigSum(product(a[i]&^0xffff, b[i]&^0xffff), bigOf(math.Float32bits(odd)))
		if far(even) || far(odd) {
			return float32(math.NaN())
		}
	}
	both := bigSum(bigOf(math.Float32bits(even)), bigOf(math.Float32bits(odd)))
	if far(both) {
		return float32(math.NaN())
	}
	return bigSum(bigOf(math.Float32bits(c)), bigOf(math.Float32bits(both)))
}

// far reports whether a sum has overflowed: numbers of any precision do not tell what follows.
func far(x float32) bool { return math.IsInf(float64(x), 0) }

// TestDotTDPBF16PSRoundsOnce compares with sums in numbers of any precision: of like magnitudes,
// which cancel, of far ones, and about the least normal float and the largest.
func TestDotTDPBF16PSRoundsOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 4))
	for _, span := range [][2]int{{120, 135}, {1, 253}, {56, 70}, {63, 65}, {0, 2}, {126, 127}} {
		for range 400 {
			a, b := make([]uint32, r.IntN(17)), make([]uint32, 16)
			for i := range a {
				a[i], b[i] = pairOf(r, span[0], span[1]), pairOf(r, span[0], span[1])
				if r.IntN(6) == 0 {
					a[i] &= 0x80008000
				}
			}
			c := math.Float32frombits(pairOf(r, span[0], span[1]) & uint32(-int32(r.IntN(2))))
			want, got := bigDot(c, a, b), DotTDPBF16PS(c, a, b)
			if want == want && math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("%x + %x . %x is %x, want %x", math.Float32bits(c), a, b,
					math.Float32bits(got), math.Float32bits(want))
			}
		}
	}
}

// TestDotTDPBF16PSInNumbers states what no sum of numbers shows: the order of the sums, which NaN
// stays, and what invalid operations give.
func TestDotTDPBF16PSInNumbers(t *testing.T) {
	const one, inf, nan, quiet = 0x3f80, 0x7f80, 0x7f81, 0x7fc1
	f := math.Float32frombits
	for _, e := range []struct {
		name string
		c    uint32
		a, b []uint32
		want uint32
	}{
		{"nothing", 0x3f800000, nil, nil, 0x3f800000},
		{"two products", 0x3f800000, []uint32{one | one<<16}, []uint32{one | one<<16}, 0x40400000},
		// 2^30 - 2^30 on the odd side leaves the 1 of the even side whole
		{"even and odd apart", 0, []uint32{one | 0x4e80<<16, 0x4e80 << 16},
			[]uint32{one | one<<16, 0xbf80 << 16}, 0x3f800000},
		{"c after all", 0x4e800000, []uint32{one | one<<16, one | one<<16},
			[]uint32{one | one<<16, one | one<<16}, 0x4e800000},
		{"a before b", 0, []uint32{nan}, []uint32{nan + 1}, quiet << 16},
		{"b before the sum", 0, []uint32{nan + 1, one}, []uint32{one, nan}, quiet << 16},
		{"the sum", 0, []uint32{nan + 1, one}, []uint32{one, one}, (quiet + 1) << 16},
		{"c before the sums", 0x7f800005, []uint32{nan}, []uint32{one}, 0x7fc00005},
		{"even before odd", 0, []uint32{nan | (nan+1)<<16}, []uint32{one | one<<16}, quiet << 16},
		{"infinity times zero", 0, []uint32{inf}, []uint32{0}, 0xffc00000},
		{"infinities of two signs", 0xff800000, []uint32{inf}, []uint32{one}, 0xffc00000},
		{"a subnormal", 0x00000001, []uint32{1}, []uint32{one}, 0},
		{"up to a normal number", 0, []uint32{0x0080, 0x9780}, []uint32{one, 0x1780}, 0x00800000},
		{"zeros below zero", 0x80000001, []uint32{0x8080 | 0x8080<<16},
			[]uint32{0x3f00 | 0x3f00<<16}, 0x80000000},
		{"a subnormal below zero", 0x80000001, []uint32{0x8000}, []uint32{one}, 0},
	} {
		if got := DotTDPBF16PS(f(e.c), e.a, e.b); math.Float32bits(got) != e.want {
			t.Errorf("%s: %08x, want %08x", e.name, math.Float32bits(got), e.want)
		}
	}
}
