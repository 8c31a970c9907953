package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestAttention(t *testing.T) {
	e := float32(math.E)
	one := FloatAttr("scale", 1)
	q := f32([]int{1, 1, 2, 1}, 0, 1) // one head, two queries of size one
	k := f32([]int{1, 1, 2, 1}, 0, 1)
	v := f32([]int{1, 1, 2, 1}, 2, 4)
	y2 := (2 + 4*e) / (1 + e)
	past := f32([]int{1, 1, 1, 1}, 0)
	runCases(t, []evalCase{
		{op: "Attention", attrs: Attrs{one}, in: list(q, k, v),
			want: list(f32([]int{1, 1, 2, 1}, 3, y2))},
		{op: "Attention", name: "causal", attrs: Attrs{one, IntAttr("is_causal", 1)},
			in: list(q, k, v), want: list(f32([]int{1, 1, 2, 1}, 2, y2))},
		{op: "Attention", name: "mask", attrs: Attrs{one},
			in:   list(q, k, v, tensor.From([]bool{false, true, false, false}, 2, 2)),
			want: list(f32([]int{1, 1, 2, 1}, 4, 0))},
		{op: "Attention", name: "short mask", attrs: Attrs{one},
			in: list(q, k, v, f32([]int{2, 1}, 0, 5)), want: list(f32([]int{1, 1, 2, 1}, 2, 2))},
		{op: "Attention", name: "bias and scores",
			attrs: Attrs{one, IntAttr("qk_matmul_output_mode", 2)},
			in:    list(q, k, v, f32([]int{1, 2}, 1, 0)),
			want:  list(nil, k, v, f32([]int{1, 1, 2, 2}, 1, 0, 1, 1))},
		{op: "Attention", name: "cache", attrs: Attrs{one, IntAttr("is_causal", 1)},
			in: list(f32([]int{1, 1, 1, 1}, 0), f32([]int{1, 1, 1, 1}, 3),
				f32([]int{1, 1, 1, 1}, 4), nil, past, f32([]int{1, 1, 1, 1}, 2)),
			want: list(f32([]int{1, 1, 1, 1}, 3), f32([]int{1, 1, 2, 1}, 0, 3),
				f32([]int{1, 1, 2, 1}, 2, 4))},
		{op: "Attention", name: "padding", attrs: Attrs{one},
			in: list(q, k, v, nil, nil, nil, i64(1)), want: list(f32([]int{1, 1, 2, 1}, 2, 2))},
		{op: "Attention", name: "rank 3, grouped",
			attrs: Attrs{one, IntAttr("q_num_heads", 2), IntAttr("kv_num_heads", 1)},
			in: list(f32([]int{1, 1, 2}, 0, 1), f32([]int{1, 2, 1}, 0, 1),
				f32([]int{1, 2, 1}, 2, 4)), want: list(f32([]int{1, 1, 2}, 3, y2))},
		{op: "Attention", name: "no head count",
			in: list(f32([]int{1, 1, 2}, 0, 1), f32([]int{1, 2, 1}, 0, 1),
				f32([]int{1, 2, 1}, 2, 4)), err: ErrAttr},
		{op: "Attention", name: "lengths differ", in: list(q, k, f32([]int{1, 1, 1, 1}, 2)),
			err: ErrInput},
		{op: "RotaryEmbedding",
			in: list(f32([]int{1, 1, 1, 4}, 1, 2, 3, 4), f32([]int{1, 1, 2}, 0, 1),
				f32([]int{1, 1, 2}, 1, 0)),
			want: list(f32([]int{1, 1, 1, 4}, -3, 2, 1, 4))},
		{op: "RotaryEmbedding", name: "interleaved", attrs: Attrs{IntAttr("interleaved", 1)},
			in: list(f32([]int{1, 1, 1, 4}, 1, 2, 3, 4), f32([]int{1, 1, 2}, 0, 1),
				f32([]int{1, 1, 2}, 1, 0)),
			want: list(f32([]int{1, 1, 1, 4}, -2, 1, 3, 4))},
		{op: "RotaryEmbedding", name: "positions, part of the head",
			attrs: Attrs{IntAttr("num_heads", 1), IntAttr("rotary_embedding_dim", 2)},
			in: list(f32([]int{1, 2, 3}, 1, 2, 3, 4, 5, 6), f32([]int{2, 1}, 1, 0),
				f32([]int{2, 1}, 0, 1), tensor.From([]int64{1, 0}, 1, 2)),
			want: list(f32([]int{1, 2, 3}, -2, 1, 3, 4, 5, 6))},
		{op: "RotaryEmbedding", name: "position", attrs: Attrs{IntAttr("num_heads", 1)},
			in: list(f32([]int{1, 1, 2}, 1, 2), f32([]int{1, 1}, 1), f32([]int{1, 1}, 0),
				tensor.From([]int64{1}, 1, 1)), err: ErrInput},
	})
}

// TestAttentionIsComposed checks attention against the operators that exporters write it as.
func TestAttentionIsComposed(t *testing.T) {
	q, k, v := eval1(t, "Sin", nil, seq(2, 3, 4, 8)), eval1(t, "Cos", nil, seq(2, 3, 5, 8)),
		eval1(t, "Sin", nil, seq(2, 3, 5, 6))
	scores := eval1(t, "MatMul", nil, q,
		eval1(t, "Transpose", Attrs{IntsAttr("perm", 0, 1, 3, 2)}, k))
	scaled := eval1(t, "Div", nil, scores, tensor.Scalar(float32(math.Sqrt(8))))
	want := eval1(t, "MatMul", nil, eval1(t, "Softmax", nil, scaled), v)
	if err := tensor.Close(eval1(t, "Attention", nil, q, k, v), want, 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

func TestLoss(t *testing.T) {
	logs := f32([]int{2, 2}, -1, -2, -3, -4)
	reduced := func(how string) Attrs { return Attrs{StringAttr("reduction", how)} }
	half := float32(-math.Ln2)
	runCases(t, []evalCase{
		{op: "NegativeLogLikelihoodLoss", in: list(logs, i64(1, 0)),
			want: list(tensor.Scalar[float32](2.5))},
		{op: "NegativeLogLikelihoodLoss", name: "weighted mean",
			in: list(logs, i64(1, 0), vec(3, 1)), want: list(tensor.Scalar[float32](11. / 4))},
		{op: "NegativeLogLikelihoodLoss", name: "none", attrs: reduced("none"),
			in: list(logs, i64(1, 0)), want: list(vec(2, 3))},
		{op: "NegativeLogLikelihoodLoss", name: "ignored",
			attrs: append(reduced("sum"), IntAttr("ignore_index", -1)), in: list(logs, i64(-1, 0)),
			want: list(tensor.Scalar[float32](3))},
		{op: "NegativeLogLikelihoodLoss", name: "planes", attrs: reduced("none"),
			in:   list(f32([]int{1, 2, 2}, -1, -2, -3, -4), tensor.From([]int64{1, 0}, 1, 2)),
			want: list(f32([]int{1, 2}, 3, 2))},
		{op: "NegativeLogLikelihoodLoss", name: "label", in: list(logs, i64(1, 2)), err: ErrInput},
		{op: "NegativeLogLikelihoodLoss", name: "reduction", attrs: reduced("max"),
			in: list(logs, i64(1, 0)), err: ErrAttr},
		{op: "SoftmaxCrossEntropyLoss", in: list(f32([]int{1, 2}, 7, 7), i64(1)),
			want: list(tensor.Scalar(-half), f32([]int{1, 2}, half, half))},
	})
}
