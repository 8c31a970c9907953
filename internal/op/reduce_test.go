package op

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestReduce(t *testing.T) {
	x := f32([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	last, flat := Attrs{IntsAttr("axes", -1)}, Attrs{IntAttr("keepdims", 0)}
	runCases(t, []evalCase{
		{op: "ReduceSum", in: list(x), want: list(f32([]int{1, 1}, 21))},
		{op: "ReduceSum", name: "to a scalar", attrs: flat, in: list(x),
			want: list(tensor.Scalar[float32](21))},
		{op: "ReduceSum", name: "axes input", in: list(x, i64(0)),
			want: list(f32([]int{1, 3}, 5, 7, 9))},
		{op: "ReduceSum", name: "axes attribute", version: 11, attrs: last, in: list(x),
			want: list(f32([]int{2, 1}, 6, 15))},
		{op: "ReduceSum", name: "no axes, nothing done",
			attrs: Attrs{IntAttr("noop_with_empty_axes", 1)}, in: list(x, i64()),
			want: list(x)},
		{op: "ReduceSum", name: "nothing", in: list(f32([]int{0, 2}), i64(0)),
			want: list(f32([]int{1, 2}, 0, 0))},
		{op: "ReduceSum", name: "axis twice", in: list(x, i64(1, -1)), err: ErrAttr},
		{op: "ReduceSum", name: "axis outside", in: list(x, i64(2)), err: ErrAttr},
		{op: "ReduceMean", version: 13, attrs: append(last, flat...), in: list(x),
			want: list(vec(2, 5))},
		{op: "ReduceMean", name: "axes attribute is gone", version: 18, attrs: last, in: list(x),
			want: list(f32([]int{1, 1}, 3.5))},
		{op: "ReduceMean", name: "integers truncate", attrs: flat, in: list(i64(1, 2, 4)),
			want: list(tensor.Scalar[int64](2))},
		{op: "ReduceMean", name: "of integers whose sum is beyond them", attrs: flat,
			in: list(tensor.From([]int8{100, 100, 103}, 3)), want: list(tensor.Scalar[int8](101))},
		{op: "ReduceMean", name: "of halves whose sum is beyond them", attrs: flat,
			in:   list(tensor.From([]tensor.Half{tensor.HalfOf(65504), tensor.HalfOf(65504)}, 2)),
			want: list(tensor.Scalar(tensor.HalfOf(65504)))},
		{op: "ReduceMean", name: "of no integers", in: list(tensor.From([]int32{}, 0), i64(0)),
			want: list(tensor.From([]int32{0}, 1))},
		{op: "ReduceSumSquare", name: "integers wrap around", attrs: flat,
			in: list(tensor.From([]int8{100, 1}, 2)), want: list(tensor.Scalar[int8](17))},
		{op: "ReduceL1", name: "of the least integer", attrs: flat,
			in: list(tensor.From([]int8{-128, -1}, 2)), want: list(tensor.Scalar[int8](-127))},
		{op: "ReduceSum", name: "infinite", attrs: flat, in: list(vec(3e38, 3e38, inf, -3e38)),
			want: list(tensor.Scalar(inf))},
		{op: "ReduceSum", name: "beyond the range on the way", attrs: flat,
			in: list(vec(3e38, 3e38, -3e38, -3e38)), want: list(tensor.Scalar[float32](0))},
		{op: "ReduceLogSum", name: "of none", in: list(vec(), i64(0)), want: list(vec(-inf))},
		{op: "ReduceProd", in: list(x, i64(1)), want: list(f32([]int{2, 1}, 6, 120))},
		{op: "ReduceMax", in: list(x, i64(0)), want: list(f32([]int{1, 3}, 4, 5, 6))},
		{op: "ReduceMax", name: "of none", in: list(vec(), i64(0)), want: list(vec(-inf))},
		{op: "ReduceMax", name: "of no int8", in: list(tensor.From([]int8{}, 0), i64(0)),
			want: list(tensor.From([]int8{-128}, 1))},
		{op: "ReduceMin", name: "of no uint16", in: list(tensor.From([]uint16{}, 0), i64(0)),
			want: list(tensor.From([]uint16{math.MaxUint16}, 1))},
		{op: "ReduceMin", name: "truths", in: list(truths(true, false)), want: list(truths(false))},
		{op: "ReduceL1", in: list(vec(-1, 2, -3)), want: list(vec(6))},
		{op: "ReduceL2", in: list(vec(3, -4)), want: list(vec(5))},
		{op: "ReduceL2", name: "integers", in: list(i64(3, -4)), want: list(i64(5))},
		{op: "ReduceSumSquare", in: list(i64(3, -4)), want: list(i64(25))},
		{op: "ReduceSumSquare", name: "no axes, each squared",
			attrs: Attrs{IntAttr("noop_with_empty_axes", 1)}, in: list(vec(3, 4)),
			want: list(vec(9, 16))},
		{op: "ReduceLogSum", in: list(vec(1, 2, 3)), want: list(vec(float32(math.Log(6))))},
		{op: "ReduceLogSumExp", in: list(vec(1000, 1000)), want: list(vec(1000 + math.Ln2))},
		{op: "ReduceLogSumExp", name: "of none", in: list(vec(), i64(0)), want: list(vec(-inf))},
		{op: "ReduceLogSumExp", name: "infinite", in: list(vec(1, inf)), want: list(vec(inf))},
	})
}

func TestSearch(t *testing.T) {
	x := f32([]int{2, 3}, 3, 1, 3, 2, 5, 4)
	runCases(t, []evalCase{
		{op: "ArgMax", in: list(x), want: list(tensor.From([]int64{0, 1, 1}, 1, 3))},
		{op: "ArgMax", name: "last of equals",
			attrs: Attrs{IntAttr("axis", 1), IntAttr("keepdims", 0),
				IntAttr("select_last_index", 1)},
			in: list(x), want: list(i64(2, 1))},
		{op: "ArgMin", attrs: Attrs{IntAttr("axis", -1)}, in: list(x),
			want: list(tensor.From([]int64{1, 0}, 2, 1))},
		{op: "ArgMax", name: "NaN", attrs: Attrs{IntAttr("axis", 0)},
			in: list(vec(1, nan, inf, nan)), want: list(i64(1))},
		{op: "ArgMin", name: "NaN", attrs: Attrs{IntAttr("axis", 0)},
			in: list(vec(1, nan, -inf, nan)), want: list(i64(1))},
		{op: "ArgMax", name: "last NaN",
			attrs: Attrs{IntAttr("axis", 0), IntAttr("select_last_index", 1)},
			in:    list(vec(nan, 1, nan, inf)),
			want:  list(i64(2))},
		{op: "ArgMax", name: "of none", in: list(f32([]int{0, 2})), err: ErrInput},
		{op: "TopK", in: list(x, i64(2)),
			want: list(f32([]int{2, 2}, 3, 3, 5, 4), tensor.From([]int64{0, 2, 1, 2}, 2, 2))},
		{op: "TopK", name: "smallest on axis 0",
			attrs: Attrs{IntAttr("axis", 0), IntAttr("largest", 0)}, in: list(x, i64(1)),
			want: list(f32([]int{1, 3}, 2, 1, 3), tensor.From([]int64{1, 0, 0}, 1, 3))},
		{op: "TopK", name: "attribute", version: 9, attrs: Attrs{IntAttr("k", 1)},
			in: list(vec(1, 2)), want: list(vec(2), i64(1))},
		{op: "TopK", name: "too many", in: list(vec(1, 2), i64(3)), want: list(vec(), i64()),
			err: ErrInput},
		{op: "TopK", name: "none", in: list(vec(1, 2), i64(0)), want: list(vec(), i64())},
	})
}

func TestCumulative(t *testing.T) {
	axis := tensor.Scalar[int64](0)
	runCases(t, []evalCase{
		{op: "CumSum", in: list(vec(1, 2, 3), axis), want: list(vec(1, 3, 6))},
		{op: "CumSum", name: "exclusive", attrs: Attrs{IntAttr("exclusive", 1)},
			in: list(vec(1, 2, 3), axis), want: list(vec(0, 1, 3))},
		{op: "CumSum", name: "reverse", attrs: Attrs{IntAttr("reverse", 1)},
			in: list(i64(1, 2, 3), axis), want: list(i64(6, 5, 3))},
		{op: "CumSum", name: "both", attrs: Attrs{IntAttr("reverse", 1), IntAttr("exclusive", 1)},
			in:   list(f32([]int{2, 2}, 1, 2, 3, 4), tensor.Scalar[int64](-1)),
			want: list(f32([]int{2, 2}, 2, 0, 4, 0))},
		{op: "CumProd", version: 26, in: list(vec(2, 3, 4), axis), want: list(vec(2, 6, 24))},
		{op: "CumSum", name: "axis outside", in: list(vec(1), tensor.Scalar[int64](1)),
			err: ErrAttr},
	})
}

// TestReduceOfParts checks that reducing in two steps, or reducing what was concatenated, is
// reducing at once.
func TestReduceOfParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		x := randomTensor(rng, 3)
		x = tensor.From(slices.Clone(tensor.As[float32](eval1(t, "Round", nil, x))), x.Shape...)
		for _, name := range []string{"ReduceSum", "ReduceMax", "ReduceMin"} {
			at := int64(rng.IntN(3))
			first := eval1(t, name, nil, x, i64(at))
			same(t, name, eval1(t, name, nil, x),
				eval1(t, name, nil, first, i64((at+1)%3, (at+2)%3)))
			both := eval1(t, "Concat", Attrs{IntAttr("axis", at)}, x, x)
			whole := eval1(t, name, nil, both, i64(at))
			if name == "ReduceSum" {
				first = eval1(t, "Add", nil, first, first)
			}
			same(t, name+" of Concat", whole, first)
		}
	}
}

// TestTopKIsSorted checks TopK of everything against its inputs.
func TestTopKIsSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 50 {
		n := 1 + rng.IntN(20)
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.IntN(6))
		}
		out, err := rawEval(t, &Call{Type: "TopK", Version: 11, NumIn: 2, NumOut: 2},
			list(vec(v...), i64(int64(n))))
		if err != nil {
			t.Fatal(err)
		}
		got, at := tensor.As[float32](out[0]), tensor.As[int64](out[1])
		for i := range got {
			if v[at[i]] != got[i] ||
				i > 0 && (got[i] > got[i-1] || got[i] == got[i-1] && at[i] < at[i-1]) {
				t.Fatalf("TopK of %v is %v at %v", v, got, at)
			}
		}
	}
}
