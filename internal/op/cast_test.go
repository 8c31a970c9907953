package op

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestCast(t *testing.T) {
	to := func(d tensor.DType) Attrs { return Attrs{IntAttr("to", int64(d))} }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	str := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	u8 := func(v ...uint8) *tensor.Tensor { return tensor.From(v, len(v)) }
	b := func(v ...bool) *tensor.Tensor { return tensor.From(v, len(v)) }
	runCases(t, []evalCase{
		{op: "Cast", name: "same", attrs: to(tensor.Float32), in: list(f(1, nan)),
			want: list(f(1, nan))},
		{op: "Cast", name: "float to int", attrs: to(tensor.Int64), in: list(f(1.9, -1.9, 0)),
			want: list(i64(1, -1, 0))},
		{op: "Cast", name: "out of range", attrs: to(tensor.Int64),
			in:   list(f(nan, inf, -inf, 1e30)),
			want: list(i64(0, math.MaxInt64, math.MinInt64, math.MaxInt64))},
		{op: "Cast", name: "float to uint8", attrs: to(tensor.Uint8), in: list(f(255.9, 300, -1)),
			want: list(u8(255, 255, 0))},
		{op: "Cast", name: "float to int32 end", attrs: to(tensor.Int32), in: list(f(2147483648)),
			want: list(tensor.From(list[int32](math.MaxInt32), 1))},
		{op: "Cast", name: "float to bool", attrs: to(tensor.Bool),
			in:   list(f(0, float32(math.Copysign(0, -1)), 0.5, nan)),
			want: list(b(false, false, true, true))},
		{op: "Cast", name: "bool to float", attrs: to(tensor.Float32), in: list(b(true, false)),
			want: list(f(1, 0))},
		{op: "Cast", name: "int64 to int32 keeps low bits", attrs: to(tensor.Int32),
			in: list(i64(1<<32+5, -1)), want: list(tensor.From(list[int32](5, -1), 2))},
		{op: "Cast", name: "int64 to bool", attrs: to(tensor.Bool), in: list(i64(0, 256)),
			want: list(b(false, true))},
		{op: "Cast", name: "int64 to uint8", attrs: to(tensor.Uint8), in: list(i64(257, -1)),
			want: list(u8(1, 255))},
		{op: "Cast", name: "uint64 to double", attrs: to(tensor.Float64),
			in:   list(tensor.From(list[uint64](math.MaxUint64), 1)),
			want: list(tensor.From(list(float64(math.MaxUint64)), 1))},
		{op: "Cast", name: "double to uint64", attrs: to(tensor.Uint64),
			in:   list(tensor.From(list(1e19, 1e30), 2)),
			want: list(tensor.From(list[uint64](1e19, math.MaxUint64), 2))},
		{op: "Cast", name: "float to half", attrs: to(tensor.Float16),
			in:   list(f(1.0009765, 65520, 1e-8)),
			want: list(tensor.From(list[tensor.Half](0x3c01, 0x7c00, 0), 3))},
		{op: "Cast", name: "half to float", attrs: to(tensor.Float32),
			in: list(tensor.From(list[tensor.Half](0x3c00, 0xfc00), 2)), want: list(f(1, -inf))},
		{op: "Cast", name: "float to bfloat16", attrs: to(tensor.BFloat16),
			in:   list(f(1.00390625, 1.01171875)),
			want: list(tensor.From(list[tensor.BHalf](0x3f80, 0x3f82), 2))},
		{op: "Cast", name: "bfloat16 to int8", attrs: to(tensor.Int8),
			in:   list(tensor.From(list(tensor.BHalfOf(-200)), 1)),
			want: list(tensor.From(list[int8](-128), 1))},
		{op: "Cast", name: "print", attrs: to(tensor.String),
			in:   list(f(1, 0.1, -2.5e-7, 1e20, nan, -inf)),
			want: list(str("1.0", "0.1", "-2.5e-07", "1e+20", "NaN", "-INF"))},
		{op: "Cast", name: "print integers", attrs: to(tensor.String), in: list(i64(-7, 0)),
			want: list(str("-7", "0"))},
		{op: "Cast", name: "print uint64", attrs: to(tensor.String),
			in:   list(tensor.From(list[uint64](math.MaxUint64), 1)),
			want: list(str("18446744073709551615"))},
		{op: "Cast", name: "parse", attrs: to(tensor.Float32),
			in:   list(str("3.14", "1e-5", "1E8", "NaN", "INF", "+INF", "-inf", "-2")),
			want: list(f(3.14, 1e-5, 1e8, nan, inf, inf, -inf, -2))},
		{op: "Cast", name: "parse integers", attrs: to(tensor.Int64),
			in: list(str("9007199254740993", "-5")), want: list(i64(9007199254740993, -5))},
		{op: "Cast", name: "parse words", attrs: to(tensor.Int64), in: list(str("five")),
			err: ErrInput},
		{op: "Cast", name: "shape", attrs: to(tensor.Int32), in: list(i64(2, 3)),
			want: list(tensor.From(list[int32](2, 3), 2))},
		{op: "Cast", name: "to nothing", attrs: to(0), in: list(f(1)), err: ErrAttr},
		{op: "Cast", name: "to a type of the future", attrs: to(27), in: list(f(1)), err: ErrAttr},
		{op: "Cast", name: "to complex", attrs: to(tensor.Complex64), in: list(f(1)),
			err: ErrUnsupported},
		{op: "Cast", name: "from complex", attrs: to(tensor.Float32),
			in: list(tensor.From(list[complex64](1), 1)), err: ErrUnsupported},
		{op: "CastLike", in: list(f(1.5), i64()), want: list(i64(1))},
	})
}

// Every pair of types is converted, and small whole numbers survive every way there and back.
func TestCastAllPairs(t *testing.T) {
	all := list(tensor.Float32, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16,
		tensor.Int32, tensor.Int64,
		tensor.String, tensor.Bool, tensor.Float16, tensor.Float64, tensor.Uint32, tensor.Uint64,
		tensor.BFloat16,
		tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ,
		tensor.Float8E8M0, tensor.Float4E2M1,
		tensor.Int4, tensor.Uint4, tensor.Int2, tensor.Uint2)
	v := make([]int64, castChunk+3)
	for i := range v {
		v[i] = int64(i % 2)
	}
	start := i64(v...)
	for _, a := range all {
		for _, b := range all {
			// its least number stands for zero, which it has not
			if a == tensor.Float8E8M0 && b == tensor.Bool {
				continue
			}
			x := eval1(t, "Cast", Attrs{IntAttr("to", int64(a))}, start)
			y := eval1(t, "Cast", Attrs{IntAttr("to", int64(b))}, x)
			back := eval1(t, "Cast", Attrs{IntAttr("to", int64(tensor.Int64))}, y)
			if !tensor.Equal(back, start) {
				t.Errorf("%v to %v: %v", a, b, show(back))
			}
		}
	}
}

// A conversion to a 16-bit type rounds once: the result is the nearest of its neighbours by exact
// arithmetic.
func TestCastRoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20000 {
		v := math.Float64frombits(rng.Uint64()&(1<<52-1) | uint64(1010+rng.IntN(26))<<52)
		if rng.IntN(2) == 0 { // a hair beside the middle between two halves
			h := tensor.Half(rng.IntN(0x7bff))
			v = math.Nextafter((float64(h.Float32())+float64((h+1).Float32()))/2,
				float64(rng.IntN(2)*100000))
		}
		got := tensor.HalfOf(roundToOdd(v))
		for _, o := range list(got-1, got+1) {
			if off(float64(o.Float32()), v).Cmp(off(float64(got.Float32()), v)) < 0 &&
				got&0x7fff != 0 && o < 0x7c00 {
				t.Fatalf("%v became %v, %v is nearer", v, got.Float32(), o.Float32())
			}
		}
	}
	for range 20000 {
		v := int64(rng.Uint64()) >> rng.IntN(60)
		got := tensor.BHalfOf(intToOdd(v))
		if v == 0 {
			continue
		}
		exact := new(big.Float).SetPrec(80).SetInt64(v)
		for _, o := range list(got-1, got+1) {
			a := new(big.Float).Sub(big.NewFloat(float64(o.Float32())).SetPrec(80), exact)
			b := new(big.Float).Sub(big.NewFloat(float64(got.Float32())).SetPrec(80), exact)
			if a.Abs(a).Cmp(b.Abs(b)) < 0 {
				t.Fatalf("%v became %v, %v is nearer", v, got.Float32(), o.Float32())
			}
		}
	}
}

func off(a, v float64) *big.Float {
	d := new(big.Float).Sub(big.NewFloat(a).SetPrec(200), big.NewFloat(v).SetPrec(200))
	return d.Abs(d)
}

// TestConditionsOnSizes follows the conditions that exporters compute from shapes before an If.
func TestConditionsOnSizes(t *testing.T) {
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Float32, Sym("N"), Known(3))}).
		step("s", "Shape", nil, "x")
	c.constant("k", i64(4, 3)).constant("yes", tensor.Scalar(true))
	c.step("eq", "Equal", nil, "s", "k")
	if e := c.values["eq"].Elems; len(e) != 2 || !e[0].IsUnknown() || !e[1].Is(1) {
		t.Errorf("N = 4, 3 = 3 are %v", e)
	}
	c.step("more", "Add", nil, "s", "k")
	c.step("less", "Less", nil, "s", "more").wantElems("less", Known(1), Known(1))
	c.step("not", "Not", nil, "less").wantElems("not", Known(0), Known(0))
	c.step("or", "Or", nil, "not", "yes").wantElems("or", Known(1), Known(1))
	c.step("and", "And", nil, "less", "yes").wantElems("and", Known(1), Known(1))
	c.step("int", "Cast", Attrs{IntAttr("to", 7)}, "and").wantElems("int", Known(1), Known(1))
	c.step("neg", "Neg", nil, "s").wantElems("neg", Sym("N").MulInt(-1), Known(-3))
	c.step("same", "Equal", nil, "less", "and").wantElems("same", Known(1), Known(1))
}

func TestCastKeepsSizes(t *testing.T) {
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Float32, Sym("N"), Known(3))}).
		step("s", "Shape", nil, "x")
	c.step("s32", "Cast", Attrs{IntAttr("to", 6)}, "s").wantElems("s32", Sym("N"), Known(3))
	c.constant("k", i64(0, 7)).step("b", "Cast", Attrs{IntAttr("to", 9)}, "k").
		wantElems("b", Known(0), Known(1))
	c.step("f", "Cast", Attrs{IntAttr("to", 1)}, "s").wantElems("f")
}
