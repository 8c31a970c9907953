package op

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestSequences(t *testing.T) {
	a, b, c := seq(2), seq(3, 2), seq()
	none, abc := tensor.NewSequence(), tensor.NewSequence(a, b, c)
	at := func(v int64) *tensor.Tensor { return tensor.Scalar(v) }
	runCases(t, []evalCase{
		{op: "SequenceEmpty", want: list(none)},
		{op: "SequenceEmpty", name: "int4 to come", attrs: Attrs{IntAttr("dtype", 999)},
			err: ErrAttr},
		{op: "SequenceConstruct", in: list(a, b, c), want: list(abc)},
		{op: "SequenceConstruct", name: "mixed", in: list(a, i64(1)), err: ErrInput},
		{op: "SequenceAt", in: list(abc, at(1)), want: list(b)},
		{op: "SequenceAt", name: "from the back", in: list(abc, tensor.Scalar[int32](-3)),
			want: list(a)},
		{op: "SequenceAt", name: "beyond", in: list(abc, at(3)), err: ErrInput},
		{op: "SequenceAt", name: "before", in: list(abc, at(-4)), err: ErrInput},
		{op: "SequenceAt", name: "nowhere", in: list(none, at(0)), err: ErrInput},
		{op: "SequenceAt", name: "of a tensor", in: list(a, at(0)), err: ErrInput},
		{op: "SequenceAt", name: "of an optional", in: list(tensor.NewOptional(a), at(0)),
			err: ErrInput},
		{op: "SequenceInsert", in: list(none, a), want: list(tensor.NewSequence(a))},
		{op: "SequenceInsert", name: "front", in: list(tensor.NewSequence(b, c), a, at(0)),
			want: list(abc)},
		{op: "SequenceInsert", name: "before the last",
			in: list(tensor.NewSequence(a, c), b, at(-1)), want: list(abc)},
		{op: "SequenceInsert", name: "end", in: list(tensor.NewSequence(a, b), c, at(2)),
			want: list(abc)},
		{op: "SequenceInsert", name: "beyond the end", in: list(abc, c, at(4)), err: ErrInput},
		{op: "SequenceInsert", name: "another type", in: list(abc, i64(1)), err: ErrInput},
		{op: "SequenceInsert", name: "a sequence", in: list(none, abc), err: ErrInput},
		{op: "SequenceErase", in: list(abc), want: list(tensor.NewSequence(a, b))},
		{op: "SequenceErase", name: "first", in: list(abc, at(-3)),
			want: list(tensor.NewSequence(b, c))},
		{op: "SequenceErase", name: "of nothing", in: list(none), err: ErrInput},
		{op: "SequenceErase", name: "extreme", in: list(abc, at(math.MinInt64)), err: ErrInput},
		{op: "SequenceLength", in: list(abc), want: list(at(3))},
		{op: "SequenceLength", name: "none", in: list(none), want: list(at(0))},
	})
}

func TestSplitAndConcatSequences(t *testing.T) {
	x := f32([]int{3, 2}, 0, 1, 2, 3, 4, 5)
	row := func(v ...float32) *tensor.Tensor { return tensor.From(v, 1, 2) }
	vec := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	rows := tensor.NewSequence(row(0, 1), row(2, 3), row(4, 5))
	flat := tensor.NewSequence(vec(0, 1), vec(2, 3), vec(4, 5))
	words := tensor.FromStrings(list("a", "b", "c"), 3)
	axis := func(v int64) Attr { return IntAttr("axis", v) }
	runCases(t, []evalCase{
		{op: "SplitToSequence", in: list(x), want: list(rows)},
		{op: "SplitToSequence", name: "keepdims off", attrs: Attrs{IntAttr("keepdims", 0)},
			in: list(x), want: list(flat)},
		{op: "SplitToSequence", name: "scalar", in: list(x, tensor.Scalar[int64](2)),
			want: list(tensor.NewSequence(f32([]int{2, 2}, 0, 1, 2, 3), row(4, 5)))},
		{op: "SplitToSequence", name: "scalar ignores keepdims",
			attrs: Attrs{IntAttr("keepdims", 0)}, in: list(x, tensor.Scalar[int32](1)),
			want: list(rows)},
		{op: "SplitToSequence", name: "lengths", attrs: Attrs{axis(1)}, in: list(x, i64(0, 2)),
			want: list(tensor.NewSequence(seq(3, 0), x))},
		{op: "SplitToSequence", name: "strings", attrs: Attrs{axis(-1)},
			in: list(words, tensor.Scalar[int64](2)),
			want: list(tensor.NewSequence(tensor.FromStrings(list("a", "b"), 2),
				tensor.FromStrings(list("c"), 1)))},
		{op: "SplitToSequence", name: "nothing", in: list(seq(0, 2)),
			want: list(tensor.NewSequence())},
		{op: "SplitToSequence", name: "lengths too short", in: list(x, i64(1, 1)), err: ErrInput},
		{op: "SplitToSequence", name: "negative length", in: list(x, i64(-1, 4)), err: ErrInput},
		{op: "SplitToSequence", name: "length zero", in: list(x, tensor.Scalar[int64](0)),
			err: ErrInput},
		{op: "SplitToSequence", name: "scalar input", in: list(seq()), err: ErrAttr},
		{op: "SplitToSequence", name: "more parts than memory",
			in: list(&tensor.Tensor{DType: tensor.Float32, Shape: []int{1 << 40, 0},
				Data: []byte{}}),
			err: tensor.ErrShape},
		{op: "ConcatFromSequence", attrs: Attrs{axis(0)}, in: list(rows), want: list(x)},
		{op: "ConcatFromSequence", name: "new axis", attrs: Attrs{axis(0), IntAttr("new_axis", 1)},
			in: list(flat), want: list(x)},
		{op: "ConcatFromSequence", name: "new last axis",
			attrs: Attrs{axis(-1), IntAttr("new_axis", 1)}, in: list(flat),
			want: list(f32([]int{2, 3}, 0, 2, 4, 1, 3, 5))},
		{op: "ConcatFromSequence", name: "no axis", in: list(rows), err: ErrAttr},
		{op: "ConcatFromSequence", name: "axis beyond", attrs: Attrs{axis(2)}, in: list(rows),
			err: ErrAttr},
		{op: "ConcatFromSequence", name: "nothing", attrs: Attrs{axis(0)},
			in: list(tensor.NewSequence()), err: ErrInput},
		{op: "ConcatFromSequence", name: "shapes differ",
			attrs: Attrs{axis(0), IntAttr("new_axis", 1)},
			in:    list(tensor.NewSequence(seq(2), seq(3))), err: ErrInput},
		{op: "ConcatFromSequence", name: "ranks differ",
			attrs: Attrs{axis(2), IntAttr("new_axis", 1)},
			in:    list(tensor.NewSequence(seq(2, 2), seq())), err: ErrInput},
	})
}

func TestOptionals(t *testing.T) {
	x, s := seq(2), tensor.NewSequence(seq(2))
	yes, no := tensor.Scalar(true), tensor.Scalar(false)
	none := tensor.NewOptional(nil)
	runCases(t, []evalCase{
		{op: "Optional", in: list(x), want: list(tensor.NewOptional(x))},
		{op: "Optional", name: "sequence", in: list(s), want: list(tensor.NewOptional(s))},
		{op: "Optional", name: "empty", attrs: Attrs{TypeAttr("type", Unranked(tensor.Float32))},
			want: list(none)},
		{op: "Optional", name: "twice", in: list(none), err: ErrInput},
		{op: "OptionalHasElement", in: list(tensor.NewOptional(x)), want: list(yes)},
		{op: "OptionalHasElement", name: "empty", in: list(none), want: list(no)},
		{op: "OptionalHasElement", name: "absent", want: list(no)},
		{op: "OptionalHasElement", name: "tensor", in: list(x), want: list(yes)},
		{op: "OptionalHasElement", name: "sequence", in: list(tensor.NewSequence()),
			want: list(yes)},
		{op: "OptionalGetElement", in: list(tensor.NewOptional(x)), want: list(x)},
		{op: "OptionalGetElement", name: "sequence in it", in: list(tensor.NewOptional(s)),
			want: list(s)},
		{op: "OptionalGetElement", name: "sequence", in: list(s), want: list(s)},
		{op: "OptionalGetElement", name: "empty", in: list(none), err: ErrInput},
		{op: "Identity", name: "sequence", in: list(s), want: list(s)},
		{op: "Identity", name: "optional", in: list(none), want: list(none)},
	})
	call := &Call{Type: "Optional", Version: latest, NumOut: 1}
	if _, err := InferTypes(row(t, call), call, nil, nil); !errors.Is(err, ErrAttr) {
		t.Errorf("an Optional of nothing: %v", err)
	}
}

// TestSequenceTypes holds what the rules know of the values in sequences.
func TestSequenceTypes(t *testing.T) {
	n, k := Sym("N"), Known
	newChain(t, map[string]Type{"a": Ranked(tensor.Float32, n, k(3)),
		"b": Ranked(tensor.Float32, n, k(4)), "x": Ranked(tensor.Float32, k(6), n)}).
		constant("two", tensor.Scalar[int64](2)).
		constant("four", tensor.Scalar[int64](4)).
		constant("lens", i64(3, 3)).
		step("ab", "SequenceConstruct", nil, "a", "b").want("ab", "sequence(float32[N,?])").
		step("aa", "SequenceConstruct", nil, "a", "a").want("aa", "sequence(float32[N,3])").
		step("aaa", "SequenceInsert", nil, "aa", "a").want("aaa", "sequence(float32[N,3])").
		step("aab", "SequenceInsert", nil, "aa", "b", "two").want("aab", "sequence(float32[N,?])").
		step("less", "SequenceErase", nil, "aab", "two").want("less", "sequence(float32[N,?])").
		step("first", "SequenceAt", nil, "aa", "two").want("first", "float32[?,3]").
		step("joined", "ConcatFromSequence", Attrs{IntAttr("axis", 0)}, "aa").
		want("joined", "float32[?,3]").
		step("stacked", "ConcatFromSequence", Attrs{IntAttr("axis", 1), IntAttr("new_axis", 1)},
			"aa").want("stacked", "float32[?,?,3]").
		step("ones", "SplitToSequence", nil, "x").want("ones", "sequence(float32[1,N])").
		step("slices", "SplitToSequence", Attrs{IntAttr("keepdims", 0)}, "x").
		want("slices", "sequence(float32[N])").
		step("pairs", "SplitToSequence", nil, "x", "two").want("pairs", "sequence(float32[2,N])").
		step("uneven", "SplitToSequence", nil, "x", "four").
		want("uneven", "sequence(float32[?,N])").
		step("halves", "SplitToSequence", nil, "x", "lens").
		want("halves", "sequence(float32[3,N])").
		step("empty", "SequenceEmpty", Attrs{IntAttr("dtype", 7)}).
		want("empty", "sequence(int64[...])").
		step("length", "SequenceLength", nil, "aa").want("length", "int64[]").
		step("maybe", "Optional", nil, "aa").want("maybe", "optional(sequence(float32[N,3]))").
		step("got", "OptionalGetElement", nil, "maybe").want("got", "sequence(float32[N,3])").
		step("has", "OptionalHasElement", nil, "a").wantElems("has", k(1))
	for name, c := range map[string]struct {
		op string
		in []Type
	}{
		"mixed": {"SequenceConstruct",
			list(Unranked(tensor.Float32), Unranked(tensor.Int64))},
		"of sequences": {"SequenceConstruct", list(SequenceOf(Unranked(tensor.Float32)))},
		"another type": {"SequenceInsert",
			list(SequenceOf(Unranked(tensor.Float32)), Unranked(tensor.Int64))},
		"a sequence in": {"SequenceInsert",
			list(SequenceOf(Unranked(tensor.Float32)), SequenceOf(Unranked(tensor.Float32)))},
		"no sequence":    {"SequenceLength", list(Unranked(tensor.Int64))},
		"an optional":    {"SequenceLength", list(OptionalOf(SequenceOf(Unranked(tensor.Int64))))},
		"optional twice": {"Optional", list(OptionalOf(Unranked(tensor.Float32)))},
		"sum of sequence": {"Add",
			list(SequenceOf(Unranked(tensor.Float32)), Unranked(tensor.Float32))},
	} {
		call := &Call{Type: c.op, Version: latest, NumIn: len(c.in), NumOut: 1}
		if out, err := InferTypes(row(t, call), call, c.in, nil); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

// TestSequencesAsLists compares random insertions, removals and look-ups with Go's slices, which is
// what they mean.
func TestSequencesAsLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	eval := func(op string, in ...*tensor.Tensor) (*tensor.Tensor, error) {
		call := &Call{Type: op, Version: latest, NumIn: len(in), NumOut: 1}
		out, err := rawEval(t, call, in)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
	s, want := tensor.NewSequence(), []float32{}
	for range 3000 {
		at := rng.IntN(2*len(want)+5) - len(want) - 2
		i, n := at, len(want)
		if i < 0 {
			i += n
		}
		where, v := tensor.Scalar(int64(at)), rng.Float32()
		ok := i >= 0 && i < n
		var err error
		var got *tensor.Tensor
		switch k := rng.IntN(3); {
		case k == 0 && n < 40:
			ok = i >= 0 && at <= n
			if got, err = eval("SequenceInsert", s, tensor.Scalar(v), where); ok {
				want = slices.Insert(slices.Clone(want), i, v)
			}
		case k == 1:
			if got, err = eval("SequenceErase", s, where); ok {
				want = slices.Delete(slices.Clone(want), i, i+1)
			}
		default:
			if got, err = eval("SequenceAt", s, where); ok && err == nil &&
				tensor.As[float32](got)[0] != want[i] {
				t.Fatalf("value %d of %v is %v, want %v", at, s, got, want[i])
			}
			got = s
		}
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInput) {
			t.Fatalf("position %d of %d values: %v", at, n, err)
		}
		if err == nil {
			s = got
		}
		have := []float32{}
		for _, v := range s.Items {
			have = append(have, tensor.As[float32](v)[0])
		}
		if !slices.Equal(have, want) {
			t.Fatalf("%v, want %v", have, want)
		}
	}
}

// TestSplitThenConcat holds that what SplitToSequence parts, ConcatFromSequence joins.
func TestSplitThenConcat(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for range 200 {
		x := randomTensor(rng, 1+rng.IntN(3))
		axis := rng.IntN(x.Rank())
		attrs := Attrs{IntAttr("axis", int64(axis))}
		in := list(x)
		if rng.IntN(2) == 0 {
			in = append(in, tensor.Scalar(int64(1+rng.IntN(4))))
		}
		if x.Shape[axis] == 0 {
			continue
		}
		call := &Call{Type: "SplitToSequence", Version: latest, Attrs: attrs, NumIn: len(in),
			NumOut: 1}
		parts, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		rulesAgree(t, call, in, parts)
		call = &Call{Type: "ConcatFromSequence", Version: latest, Attrs: attrs, NumIn: 1, NumOut: 1}
		whole, err := rawEval(t, call, parts)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "joined", x, whole[0])
	}
}

func TestSequenceMap(t *testing.T) {
	sums := &steps{formals: 2,
		calls: list(step{"Add", nil, list(0, 1)}, step{"Shape", nil, list(0)}), results: list(2, 3)}
	call := &Call{Type: "SequenceMap", Version: latest, Attrs: Attrs{BodyAttr("body", sums)},
		NumIn: 2, NumOut: 2}
	a, b := tensor.NewSequence(seq(2), seq(3, 1)), tensor.NewSequence(seq(2), seq(1, 1))
	for _, c := range []struct{ second, want *tensor.Tensor }{
		{b, tensor.NewSequence(f32([]int{2}, 0, 2), f32([]int{3, 1}, 0, 1, 2))},
		{tensor.Scalar[float32](1),
			tensor.NewSequence(f32([]int{2}, 1, 2), f32([]int{3, 1}, 1, 2, 3))},
	} {
		in := list(a, c.second)
		out, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "sums", c.want, out[0])
		same(t, "shapes", tensor.NewSequence(i64(2), i64(3, 1)), out[1])
		rulesAgree(t, call, in, out)
	}
	none := tensor.NewSequence()
	if out, err := rawEval(t, call, list(none, none)); err != nil || out[0].Check() != nil ||
		len(out[1].Items) != 0 {
		t.Errorf("no values: %v, %v", out, err)
	}
	for name, in := range map[string][]*tensor.Tensor{
		"lengths differ": {a, none}, "no sequence": {seq(2), a}, "left out": {a, nil},
		"does not add": {a, tensor.NewSequence(i64(1), i64(2))},
	} {
		if out, err := rawEval(t, call, in); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}
