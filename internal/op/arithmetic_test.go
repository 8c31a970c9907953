package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// vec is a float32 vector, vec64 a float64 one.
func vec(v ...float32) *tensor.Tensor   { return tensor.From(v, len(v)) }
func vec64(v ...float64) *tensor.Tensor { return tensor.From(v, len(v)) }
func truths(v ...bool) *tensor.Tensor   { return tensor.From(v, len(v)) }

// halves is a float16 vector.
func halves(v ...float32) *tensor.Tensor {
	h := make([]tensor.Half, len(v))
	for i, x := range v {
		h[i] = tensor.HalfOf(x)
	}
	return tensor.From(h, len(h))
}

func TestBinaryArithmetic(t *testing.T) {
	runCases(t, []evalCase{
		{op: "Add", in: list(vec(1, 2, 3), vec(10, 20, 30)), want: list(vec(11, 22, 33))},
		{op: "Add", name: "row and column", in: list(f32([]int{2, 1}, 1, 2), vec(10, 20, 30)),
			want: list(f32([]int{2, 3}, 11, 21, 31, 12, 22, 32))},
		{op: "Add", name: "scalar first", in: list(tensor.Scalar[float32](3), vec(1, 2)),
			want: list(vec(4, 5))},
		{op: "Add", name: "half rounds once", in: list(halves(2048), halves(1)),
			want: list(halves(2048))},
		{op: "Add", name: "int8 wraps",
			in:   list(tensor.From([]int8{127}, 1), tensor.From([]int8{1}, 1)),
			want: list(tensor.From([]int8{-128}, 1))},
		{op: "Add", name: "empty", in: list(f32([]int{0, 2}), vec(1, 2)),
			want: list(f32([]int{0, 2}))},
		{op: "Add", name: "mismatch", in: list(vec(1, 2), vec(1, 2, 3)), err: tensor.ErrShape},
		{op: "Add", name: "types differ", in: list(vec(1), i64(1)), err: ErrInput},
		{op: "Add", name: "text",
			in:  list(tensor.FromStrings(list("a"), 1), tensor.FromStrings(list("b"), 1)),
			err: ErrInput},
		{op: "Sub", in: list(i64(5, 3), i64(7, 1)), want: list(i64(-2, 2))},
		{op: "Sub", name: "unsigned wraps",
			in:   list(tensor.From([]uint8{1}, 1), tensor.From([]uint8{2}, 1)),
			want: list(tensor.From([]uint8{255}, 1))},
		{op: "Mul", in: list(vec64(1.5, -2), vec64(2, 4)), want: list(vec64(3, -8))},
		{op: "Mul", name: "int64 is exact", in: list(i64(1<<53+1), i64(3)),
			want: list(i64(3<<53 + 3))},
		{op: "Div", in: list(vec(1, -1, 7), vec(4, 0, 2)), want: list(vec(0.25, -inf, 3.5))},
		{op: "Div", name: "truncates", in: list(i64(-7, 7), i64(2, -2)), want: list(i64(-3, -3))},
		{op: "Div", name: "by zero", in: list(i64(1), i64(0)), err: ErrInput},
		{op: "Mod", name: "sign of divisor", in: list(i64(-7, 7, -6, 7), i64(3, -3, 3, 3)),
			want: list(i64(2, -2, 0, 1))},
		{op: "Mod", name: "fmod", attrs: Attrs{IntAttr("fmod", 1)},
			in: list(i64(-7, 7), i64(3, -3)), want: list(i64(-1, 1))},
		{op: "Mod", name: "fmod of floats", attrs: Attrs{IntAttr("fmod", 1)},
			in:   list(vec(-5.5, 5.5), vec(2, -2)),
			want: list(vec(-1.5, 1.5))},
		{op: "Mod", name: "floats",
			in:   list(vec(-5, 5, -0.5, 6), vec(3, -3, float32(math.Inf(1)), 3)),
			want: list(vec(1, -1, float32(math.Inf(1)), 0))},
		{op: "BitShift", name: "signed", attrs: Attrs{StringAttr("direction", "RIGHT")},
			in:   list(tensor.From([]int8{-8, -8, 8, -8}, 4), tensor.From([]int8{1, 9, 9, -1}, 4)),
			want: list(tensor.From([]int8{-4, -1, 0, -1}, 4))},
		{op: "BitShift", name: "signed to the left", attrs: Attrs{StringAttr("direction", "LEFT")},
			in:   list(tensor.From([]int8{-8, 64, 8, -8}, 4), tensor.From([]int8{1, 1, 9, -1}, 4)),
			want: list(tensor.From([]int8{-16, -128, 0, 0}, 4))},
		{op: "Mod", name: "floats need fmod", version: 27, in: list(vec(1), vec(1)), err: ErrAttr},
		{op: "Mod", name: "by zero", in: list(i64(1), i64(0)), err: ErrInput},
		{op: "Pow", in: list(vec(2, 3, 4), vec(3, 0, 0.5)), want: list(vec(8, 1, 2))},
		{op: "Pow", name: "base keeps its type", in: list(i64(2, 3), vec(3, 2)),
			want: list(i64(8, 9))},
		{op: "Pow", name: "integers are exact",
			in:   list(i64(3, -2, 2, -1, 1), i64(39, 3, -1, -3, -5)),
			want: list(i64(4052555153018976267, -8, 0, -1, 1))},
		{op: "BitShift", attrs: Attrs{StringAttr("direction", "LEFT")},
			in:   list(tensor.From([]uint8{1, 255, 1}, 3), tensor.From([]uint8{3, 1, 8}, 3)),
			want: list(tensor.From([]uint8{8, 254, 0}, 3))},
		{op: "BitShift", name: "no direction",
			in: list(tensor.From([]uint8{1}, 1), tensor.From([]uint8{1}, 1)), err: ErrAttr},
		{op: "BitwiseXor", in: list(i64(6, -1), i64(3, 1)), want: list(i64(5, -2))},
		{op: "BitwiseNot", in: list(tensor.From([]uint8{1, 0}, 2)),
			want: list(tensor.From([]uint8{254, 255}, 2))},
	})
}

func TestVariadicArithmetic(t *testing.T) {
	runCases(t, []evalCase{
		{op: "Max", in: list(vec(1, 5, nan), vec(4, 2, 0), vec(3, 3, 3)),
			want: list(vec(4, 5, nan))},
		{op: "Max", name: "one", in: list(i64(3, 1)), want: list(i64(3, 1))},
		{op: "Min", in: list(i64(1, 5), tensor.Scalar[int64](2)), want: list(i64(1, 2))},
		{op: "Min", name: "unsigned",
			in:   list(tensor.From([]uint64{math.MaxUint64}, 1), tensor.From([]uint64{1 << 63}, 1)),
			want: list(tensor.From([]uint64{1 << 63}, 1))},
		{op: "Sum", in: list(vec(1, 2), f32([]int{2, 1}, 10, 20), vec(100, 100)),
			want: list(f32([]int{2, 2}, 111, 112, 121, 122))},
		{op: "Mean", in: list(vec(1, 2), vec(4, 4), vec(1, 3)), want: list(vec(2, 3))},
		{op: "Sum", name: "integers", in: list(i64(1)), err: ErrInput},
	})
}

func TestUnaryArithmetic(t *testing.T) {
	x := vec(-1.5, -0.5, 0, 0.5, 2.5)
	each := func(f func(float64) float64) []*tensor.Tensor {
		v := make([]float32, 5)
		for i, a := range tensor.As[float32](x) {
			v[i] = float32(f(float64(a)))
		}
		return list(vec(v...))
	}
	runCases(t, []evalCase{
		{op: "Neg", in: list(x), want: list(vec(1.5, 0.5, 0, -0.5, -2.5))},
		{op: "Abs", in: list(x), want: list(vec(1.5, 0.5, 0, 0.5, 2.5))},
		{op: "Abs", name: "int8", in: list(tensor.From([]int8{-128, -3}, 2)),
			want: list(tensor.From([]int8{-128, 3}, 2))},
		{op: "Sign", in: list(x), want: list(vec(-1, -1, 0, 1, 1))},
		{op: "Sign", name: "int", in: list(i64(-9, 0, 4)), want: list(i64(-1, 0, 1))},
		{op: "Ceil", in: list(x), want: list(vec(-1, 0, 0, 1, 3))},
		{op: "Floor", in: list(x), want: list(vec(-2, -1, 0, 0, 2))},
		{op: "Round", in: list(x), want: list(vec(-2, 0, 0, 0, 2))},
		{op: "Sqrt", in: list(vec(4, -1)), want: list(vec(2, nan))},
		{op: "Reciprocal", in: list(vec(4, 0)), want: list(vec(0.25, inf))},
		{op: "Exp", in: list(x), want: each(math.Exp)},
		{op: "Log", in: list(vec(1, 0, -1)), want: list(vec(0, -inf, nan))},
		{op: "Erf", in: list(vec(0, 0.5, -3)), want: list(vec(0, 0.5204998778, -0.9999779095))},
		{op: "Sin", in: list(x), want: each(math.Sin)},
		{op: "Atanh", in: list(vec(0.5)), want: list(vec(0.5493061443))},
		{op: "Acosh", in: list(vec(1)), want: list(vec(0))},
		{op: "IsNaN", in: list(vec(nan, 1, inf)), want: list(truths(true, false, false))},
		{op: "IsInf", in: list(vec(nan, -inf, inf)), want: list(truths(false, true, true))},
		{op: "IsInf", name: "positive", attrs: Attrs{IntAttr("detect_negative", 0)},
			in:   list(vec(-inf, inf)),
			want: list(truths(false, true))},
		{op: "Exp", name: "int", in: list(i64(1)), err: ErrInput},
	})
}

func TestLogic(t *testing.T) {
	a, b := truths(true, true, false, false), truths(true, false, true, false)
	runCases(t, []evalCase{
		{op: "And", in: list(a, b), want: list(truths(true, false, false, false))},
		{op: "Or", in: list(a, b), want: list(truths(true, true, true, false))},
		{op: "Xor", in: list(a, b), want: list(truths(false, true, true, false))},
		{op: "Not", in: list(a), want: list(truths(false, false, true, true))},
		{op: "Equal", in: list(a, b), want: list(truths(true, false, false, true))},
		{op: "Equal", name: "NaN", in: list(vec(1, nan), vec(1, nan)),
			want: list(truths(true, false))},
		{op: "Equal", name: "text",
			in:   list(tensor.FromStrings(list("a", "b"), 2), tensor.FromStrings(list("b"), 1)),
			want: list(truths(false, true))},
		{op: "Greater", in: list(vec(1, 2, nan), vec(2, 1, 1)),
			want: list(truths(false, true, false))},
		{op: "Less", in: list(i64(1, 2), i64(2)), want: list(truths(true, false))},
		{op: "Less", name: "unsigned",
			in:   list(tensor.From([]uint64{1 << 63}, 1), tensor.From([]uint64{1}, 1)),
			want: list(truths(false))},
		{op: "GreaterOrEqual", in: list(vec(1, nan), vec(1, nan)), want: list(truths(true, false))},
		{op: "LessOrEqual", in: list(halves(1, 3), halves(2, 2)), want: list(truths(true, false))},
		{op: "And", name: "numbers", in: list(vec(1), vec(1)), err: ErrInput},
	})
}

// TestBroadcastAlgebra checks on random shapes that commutative operators commute and that a sum
// taken apart is whole.
func TestBroadcastAlgebra(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		to := make([]int, rng.IntN(5))
		for i := range to {
			to[i] = rng.IntN(4)
		}
		part := func() *tensor.Tensor {
			shape := append([]int{}, to[rng.IntN(len(to)+1):]...)
			for i := range shape {
				if rng.IntN(3) == 0 {
					shape[i] = 1
				}
			}
			v, err := tensor.New(tensor.Float32, shape...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tensor.As[float32](v) {
				tensor.As[float32](v)[i] = float32(rng.IntN(9) - 4)
			}
			return v
		}
		a, b := part(), part()
		for _, name := range []string{"Add", "Mul", "Max", "Min"} {
			same(t, name, eval1(t, name, nil, a, b), eval1(t, name, nil, b, a))
		}
		same(t, "Add and Sub", eval1(t, "Add", nil, eval1(t, "Sub", nil, a, b), b),
			eval1(t, "Add", nil, a, eval1(t, "Mul", nil, b, tensor.Scalar[float32](0))))
		same(t, "expanded first", eval1(t, "Add", nil, a, b),
			eval1(t, "Sum", nil, eval1(t, "Mul", nil, b, tensor.Scalar[float32](0)), b, a))
	}
}

func TestBroadcastDims(t *testing.T) {
	n, h := Sym("N"), Sym("H")
	for _, c := range []struct {
		a, b []Dim
		want string
	}{
		{list(n, Known(3)), list(Known(3)), "float32[N,3]"},
		{list(n, Known(1)), list(h), "float32[N,H]"},
		{list(n), list(n), "float32[N]"},
		{list(n), list(Known(5)), "float32[5]"},
		{list(n), list(h), "float32[?]"},
		{list(Known(1)), list(Unknown()), "float32[?]"},
		{list(Unknown()), list(Known(4)), "float32[4]"},
	} {
		d, err := BroadcastDims(c.a, c.b)
		if got := Ranked(tensor.Float32, d...).String(); err != nil || got != c.want {
			t.Errorf("%v with %v gives %s, %v; want %s", c.a, c.b, got, err, c.want)
		}
	}
	if _, err := BroadcastDims(list(Known(2)), list(Known(3))); err == nil {
		t.Error("2 broadcasts with 3")
	}
}

// TestShapeArithmetic follows what exporters compute from shapes.
func TestShapeArithmetic(t *testing.T) {
	x := Ranked(tensor.Int64, Known(2))
	x.Elems = list(Sym("N"), Known(12))
	one := Concrete(tensor.Int64)
	one.Elems = list(Sym("H"))
	c := newChain(t, map[string]Type{"x": x, "h": one})
	c.constant("two", tensor.Scalar[int64](2)).constant("pair", i64(3, 5)).
		step("twice", "Mul", nil, "x", "two").wantElems("twice", Sym("N").MulInt(2), Known(24)).
		step("half", "Div", nil, "twice", "two").wantElems("half", Sym("N"), Known(12)).
		step("more", "Add", nil, "x", "pair").wantElems("more", Sym("N").AddInt(3), Known(17)).
		step("less", "Sub", nil, "more", "pair").wantElems("less", Sym("N"), Known(12)).
		step("nh", "Mul", nil, "x", "h").
		wantElems("nh", Sym("N").Mul(Sym("H")), Sym("H").MulInt(12)).
		step("back", "Div", nil, "nh", "h").wantElems("back", Sym("N"), Known(12)).
		step("area", "ReduceProd", nil, "x").wantElems("area", Sym("N").MulInt(12)).
		step("most", "ReduceMax", nil, "pair").wantElems("most", Known(5)).
		step("lost", "Div", nil, "less", "pair").step("floor", "Div", nil, "more", "two")
	if got := c.values["floor"].Elems[1]; !got.Is(8) {
		t.Errorf("17 / 2 is %v", got)
	}
	if d := divDims(Sym("N").AddInt(-3), Known(2)); !d.IsUnknown() {
		t.Errorf("(N - 3) / 2 truncates toward zero and may be negative, got %v", d)
	}
}
