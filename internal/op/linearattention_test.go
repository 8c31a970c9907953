package op

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// along cuts a tensor of rank 3 at position at of an axis.
func along(t *testing.T, x *tensor.Tensor, axis, at int) (before, after *tensor.Tensor) {
	t.Helper()
	call := &Call{Type: "Split", Version: latest, Attrs: Attrs{IntAttr("axis", int64(axis))},
		NumIn: 2, NumOut: 2}
	out, err := Run(t.Context(), row(t, call), call,
		list(x, i64(int64(at), int64(x.Shape[axis]-at))))
	if err != nil {
		t.Fatal(err)
	}
	return out[0], out[1]
}

func concatenated(t *testing.T, axis int, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	call := &Call{Type: "Concat", Version: latest, Attrs: Attrs{IntAttr("axis", int64(axis))},
		NumIn: len(in), NumOut: 1}
	out, err := Run(t.Context(), row(t, call), call, in)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestLinearAttentionCarriesItsState cuts sequences in two: the second part with the state of the
// first gives what the whole gives.
func TestLinearAttentionCarriesItsState(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(5, 6))}
	f := func(shape ...int) *tensor.Tensor { return r.tensor(tensor.Float64, shape) }
	for rule, has := range updateRules {
		in := list(f(2, 5, 4*3), f(2, 5, 2*3), f(2, 5, 2*2), nil, nil, nil)
		if has.gated {
			in[linearDecay] = f(2, 5, 2*3)
		}
		if has.delta {
			in[linearBeta] = f(2, 5, 1)
		}
		call := &Call{Type: "LinearAttention", Version: latest, NumIn: 6, NumOut: 2,
			Attrs: Attrs{StringAttr("update_rule", rule), IntAttr("q_num_heads", 4),
				IntAttr("kv_num_heads", 2)}}
		whole, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		first, second := make([]*tensor.Tensor, 6), make([]*tensor.Tensor, 6)
		for i, x := range in {
			if x != nil {
				first[i], second[i] = along(t, x, 1, 2)
			}
		}
		a, err := rawEval(t, call, first)
		if err != nil {
			t.Fatal(err)
		}
		second[linearPast] = a[1]
		b, err := rawEval(t, call, second)
		if err != nil {
			t.Fatal(err)
		}
		if err := tensor.Close(concatenated(t, 1, a[0], b[0]), whole[0], 1e-9, 1e-9); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
		if err := tensor.Close(b[1], whole[1], 1e-9, 1e-9); err != nil {
			t.Errorf("%s: state: %v", rule, err)
		}
	}
}

func TestLinearAttention(t *testing.T) {
	attrs := func(rule string) Attrs {
		return Attrs{StringAttr("update_rule", rule), IntAttr("q_num_heads", 1),
			IntAttr("kv_num_heads", 1), FloatAttr("scale", 1)}
	}
	q, k, v := f32([]int{1, 2, 1}, 1, 2), f32([]int{1, 2, 1}, 3, 1), f32([]int{1, 2, 1}, 2, 5)
	zero := f32([]int{1, 2, 1}, 0, 0)
	runCases(t, []evalCase{
		{op: "LinearAttention", name: "linear", attrs: attrs("linear"), in: list(q, k, v),
			want: list(f32([]int{1, 2, 1}, 6, 22), f32([]int{1, 1, 1, 1}, 11))},
		{op: "LinearAttention", name: "delta", attrs: attrs("delta"),
			in:   list(q, k, v, nil, nil, f32([]int{1, 2, 1}, 1, 1)),
			want: list(f32([]int{1, 2, 1}, 6, 10), f32([]int{1, 1, 1, 1}, 5))},
		{op: "LinearAttention", name: "gate open", attrs: attrs("gated"),
			in: list(q, k, v, nil, zero), want: list(f32([]int{1, 2, 1}, 6, 22))},
		{op: "LinearAttention", name: "no decay", attrs: attrs("gated"), in: list(q, k, v),
			err: ErrInput},
		{op: "LinearAttention", name: "decay unasked", attrs: attrs("linear"),
			in: list(q, k, v, nil, zero), err: ErrInput},
		{op: "LinearAttention", name: "rule", attrs: attrs("rwkv"), in: list(q, k, v),
			err: ErrAttr},
		{op: "LinearAttention", name: "heads", in: list(q, k, v, nil, zero, zero), err: ErrAttr},
	})
}

func TestCausalConvWithState(t *testing.T) {
	x, w := f32([]int{1, 1, 3}, 1, 2, 3), f32([]int{1, 1, 3}, 100, 10, 1)
	past := f32([]int{1, 1, 2}, 8, 9)
	runCases(t, []evalCase{
		{op: "CausalConvWithState", in: list(x, w),
			want: list(f32([]int{1, 1, 3}, 1, 12, 123), f32([]int{1, 1, 2}, 2, 3))},
		{op: "CausalConvWithState", name: "past", in: list(x, w, vec(1000), past),
			want: list(f32([]int{1, 1, 3}, 1891, 1912, 1123))},
		{op: "CausalConvWithState", name: "shorter than the state",
			in:   list(f32([]int{1, 1, 1}, 1), w, nil, past),
			want: list(f32([]int{1, 1, 1}, 891), f32([]int{1, 1, 2}, 9, 1))},
		{op: "CausalConvWithState", name: "past of another size",
			in: list(x, w, nil, f32([]int{1, 1, 1}, 8)), err: ErrInput},
		{op: "CausalConvWithState", name: "activation",
			attrs: Attrs{StringAttr("activation", "relu")}, in: list(x, w), err: ErrAttr},
	})
}

// TestFlexAttentionWithoutModifiers is plain attention.
func TestFlexAttentionWithoutModifiers(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(7, 8))}
	f := func(shape ...int) *tensor.Tensor { return r.tensor(tensor.Float32, shape) }
	in := list(f(2, 4, 3, 5), f(2, 2, 6, 5), f(2, 2, 6, 2))
	got, err := rawEval(t, &Call{Domain: previewDomain, Type: "FlexAttention", Version: 1, NumIn: 3,
		NumOut: 1}, in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := rawEval(t, &Call{Type: "Attention", Version: latest, NumIn: 3, NumOut: 1}, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Close(got[0], want[0], 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// TestFlexAttentionRefuses changes one size at a time of operands that fit each other.
func TestFlexAttentionRefuses(t *testing.T) {
	run := func(q, k, v []int) error {
		in := list(seq(q...), seq(k...), seq(v...))
		_, err := rawEval(t, &Call{Domain: previewDomain, Type: "FlexAttention", Version: 1,
			NumIn: 3, NumOut: 1}, in)
		return err
	}
	fits := [][]int{{2, 4, 3, 5}, {2, 2, 6, 5}, {2, 2, 6, 2}}
	if err := run(fits[0], fits[1], fits[2]); err != nil {
		t.Fatal(err)
	}
	for operand, shape := range fits {
		for axis := range shape {
			if operand == 0 && axis == 2 || operand == 2 && axis == 3 {
				continue // the rows and columns of the result
			}
			for _, n := range []int{0, 3, 7} {
				if n == shape[axis] {
					continue
				}
				other := slices.Clone(fits)
				other[operand] = slices.Clone(shape)
				other[operand][axis] = n
				err := run(other[0], other[1], other[2])
				if none := operand == 0 && axis == 1 && n == 0; none != (err == nil) ||
					err != nil && !errors.Is(err, ErrInput) {
					t.Errorf("%v: error %v", other, err)
				}
			}
		}
	}
	if err := run([]int{2, 4, 3, 0}, []int{2, 2, 6, 0}, fits[2]); !errors.Is(err, ErrInput) {
		t.Errorf("rows of nothing: error %v", err)
	}
}

func TestFlexAttentionModifiers(t *testing.T) {
	one := f32([]int{1, 1, 1, 1}, 1)
	values := f32([]int{1, 1, 2, 1}, 10, 20)
	keys := f32([]int{1, 1, 2, 1}, 0, 0)
	mask := f32([]int{1, 1, 1, 2}, -1e30, 0)
	add := &steps{formals: 1, calls: list(step{op: "Add", in: []int{0, 1}}), results: []int{2}}
	double := &steps{formals: 1, calls: list(step{op: "Add", in: []int{0, 0}}), results: []int{2}}
	wrong := &steps{formals: 1, calls: list(step{op: "Shape", in: []int{0}}), results: []int{2}}
	run := func(in []*tensor.Tensor, captures int, attrs ...Attr) ([]*tensor.Tensor, error) {
		call := &Call{Domain: previewDomain, Type: "FlexAttention", Version: 1, NumIn: len(in),
			NumOut: 1, Captures: captures, Attrs: attrs}
		return Run(t.Context(), row(t, call), call, in)
	}
	for name, c := range map[string]struct {
		attrs []Attr
		want  float32
	}{
		"scores": {list(BodyAttr("score_mod", add)), 20},
		"both":   {list(BodyAttr("score_mod", add), BodyAttr("prob_mod", double)), 40},
	} {
		out, err := run(list(one, keys, values, mask), 1, c.attrs...)
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.As[float32](out[0])[0]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if _, err := run(list(one, keys, values, mask), 1, BodyAttr("score_mod", wrong)); err == nil {
		t.Error("a modifier that changes the type is allowed")
	}
}
