package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestOptimizers(t *testing.T) {
	rate, first, later := vec(0.5), i64(0), i64(2)
	momentum := func(mode string) Attrs {
		return Attrs{StringAttr("mode", mode), FloatAttr("alpha", 0.5), FloatAttr("beta", 2),
			FloatAttr("norm_coefficient", 1)}
	}
	root := float32(math.Sqrt(0.75))
	runCases(t, []evalCase{
		{op: "Momentum", domain: trainingDomain, version: 1, attrs: momentum("standard"),
			in: list(rate, first, vec(2), vec(3), vec(4)), want: list(vec(-1.5), vec(7))},
		{op: "Momentum", domain: trainingDomain, version: 1, name: "later",
			attrs: momentum("standard"), in: list(rate, later, vec(2), vec(3), vec(4)),
			want: list(vec(-4), vec(12))},
		{op: "Momentum", domain: trainingDomain, version: 1, name: "nesterov",
			attrs: momentum("nesterov"), in: list(rate, first, vec(2), vec(3), vec(4)),
			want: list(vec(-2.25), vec(7))},
		{op: "Momentum", domain: trainingDomain, version: 1, name: "two tensors",
			attrs: momentum("standard"),
			in:    list(rate, first, vec(2), vec(0, 1), vec(3), vec(0, 0), vec(4), vec(0, 0)),
			want:  list(vec(-1.5), vec(0, 0.5), vec(7), vec(0, 1))},
		{op: "Momentum", domain: trainingDomain, version: 1, name: "mode", attrs: momentum("adam"),
			in: list(rate, first, vec(2), vec(3), vec(4)), err: ErrAttr},
		{op: "Momentum", domain: trainingDomain, version: 1, name: "attributes",
			in: list(rate, first, vec(2), vec(3), vec(4)), err: ErrAttr},
		{op: "Adagrad", domain: trainingDomain, version: 1,
			attrs: Attrs{FloatAttr("decay_factor", 0.5), FloatAttr("epsilon", 1)},
			in:    list(rate, later, vec(2), vec(3), vec(7)),
			want:  list(vec(2-0.25*3.0/5), vec(16))},
		{op: "Adagrad", domain: trainingDomain, version: 1, name: "shapes",
			in: list(rate, later, vec(2), vec(3, 4), vec(7)), err: ErrInput},
		{op: "Adagrad", domain: trainingDomain, version: 1, name: "count",
			in: list(rate, later, vec(2), vec(3), vec(7), vec(7)), err: ErrInput},
		{op: "Adam", domain: trainingDomain, version: 1,
			attrs: Attrs{FloatAttr("alpha", 0.5), FloatAttr("beta", 0.5), FloatAttr("epsilon", 1),
				FloatAttr("norm_coefficient_post", 0.5)},
			in:   list(rate, later, vec(2), vec(2), vec(4), vec(14)),
			want: list(vec((2-0.5*root/0.75*3/4)/2), vec(3), vec(9))},
	})
}

func TestDraws(t *testing.T) {
	logs := f32([]int{2, 3}, float32(math.Inf(-1)), 0, float32(math.Inf(-1)), 5,
		float32(math.Inf(-1)), float32(math.Inf(-1)))
	runCases(t, []evalCase{
		{op: "Bernoulli", in: list(vec(0, 1, 0, 1)), want: list(vec(0, 1, 0, 1))},
		{op: "Bernoulli", name: "type", attrs: Attrs{IntAttr("dtype", int64(tensor.Bool))},
			in: list(vec(0, 1)), want: list(truths(false, true))},
		{op: "Bernoulli", name: "no probability", in: list(vec(2)), err: ErrInput},
		{op: "Multinomial", attrs: Attrs{IntAttr("sample_size", 2)}, in: list(logs),
			want: list(tensor.From([]int32{1, 1, 0, 0}, 2, 2))},
		{op: "Multinomial", name: "size", attrs: Attrs{IntAttr("sample_size", 0)}, in: list(logs),
			err: ErrAttr},
	})
	call := &Call{Type: "Multinomial", Version: latest, NumIn: 1, NumOut: 1,
		Attrs: Attrs{IntAttr("sample_size", 4000), FloatAttr("seed", 1)}}
	out, err := rawEval(t, call, list(f32([]int{1, 2}, 0, float32(math.Log(3)))))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, v := range tensor.As[int32](out[0]) {
		sum += int(v)
	}
	if sum < 2900 || sum > 3100 { // 3000 ± 27
		t.Errorf("%d of 4000 draws are the class of weight 3/4", sum)
	}
}

// TestTwister compares with numpy.random.RandomState(7).uniform(0, 1, 3).
func TestTwister(t *testing.T) {
	g := newTwister(7)
	for _, want := range []float64{0.07630829, 0.77991879, 0.43840923} {
		if got := g.float64(); math.Abs(got-want) > 1e-8 {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
