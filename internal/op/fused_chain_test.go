package op

import (
	"errors"
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestChain states weir:Chain in numbers: each link, rounded to float32, with what is kept.
func TestChain(t *testing.T) {
	x := f32([]int{5}, 1, -2, 4, 0.3, 16777216)
	for name, c := range map[string]struct {
		links  []Link
		values []float32
		want   []float32
	}{
		"arithmetic": {list(LinkAdd, LinkMul, LinkDiv), []float32{1, 0, 0, 3, 0, 0, 2, 0, 0},
			[]float32{3, -1.5, 7.5, 1.95, 25165824}},
		"limits": {list(LinkClip), []float32{-1, 3, 0}, []float32{1, -1, 3, 0.3, 3}},
		"grid":   {list(LinkGrid), []float32{0.5, -3, 7}, []float32{1, -1.5, 3.5, 0.5, 3.5}},
		"times":  {list(LinkMul, LinkTimes), []float32{2, 0, 0, 0, 0, 0}, nil},
		"sigmoid": {list(LinkSigmoid), []float32{0, 0, 0},
			[]float32{0.7310586, 0.11920292, 0.98201376, 0.57444252, 1}},
		"kept": {list(LinkClip, LinkKeep, LinkAdd, LinkTimes),
			[]float32{-1, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, []float32{2, 0, 12, 0.39, 12}},
	} {
		out, err := chainOn(t, LinksAttrs(c.links, c.values), x)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tensor.As[float32](x) {
			want := v * 2 * v
			if c.want != nil {
				want = c.want[i]
			}
			if got := tensor.As[float32](out)[i]; math.Abs(float64(got-want)) > 3e-7 {
				t.Errorf("%s of %v is %v, want %v", name, v, got, want)
			}
		}
	}
}

// TestChainRefuses states which attributes there are none for.
func TestChainRefuses(t *testing.T) {
	x := f32([]int{2}, 1, 2)
	for name, a := range map[string]Attrs{
		"nothing": nil, "too few numbers": LinksAttrs(list(LinkAdd), []float32{1, 2}),
		"another link": LinksAttrs(list(linkKinds), []float32{1, 2, 3}),
		"less":         LinksAttrs(list(Link(-1)), []float32{1, 2, 3}),
	} {
		if _, err := chainOn(t, a, x); !errors.Is(err, ErrAttr) {
			t.Errorf("%s: %v", name, err)
		}
	}
	add := LinksAttrs(list(LinkAdd), []float32{1, 0, 0})
	for name, in := range map[string][]*tensor.Tensor{
		"bytes": {u8([]int{1}, 1)}, "another of bytes": {x, u8([]int{1}, 1)},
		"a longer one": {x, f32([]int{3}, 1, 2, 3)}, "one of more axes": {x, f32([]int{1, 1}, 1)},
	} {
		if _, err := chainOn(t, add, in...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, k := range []float32{0, 2, -1, 0.5, 1.5, float32(math.NaN())} {
		a := LinksAttrs(list(LinkPlus), []float32{k, 0, 0})
		if _, err := chainOn(t, a, x, x); !errors.Is(err, ErrAttr) {
			t.Errorf("operand %v: %v", k, err)
		}
	}
}

// TestChainOfOperands states the links that take other operands, which broadcast to the first.
func TestChainOfOperands(t *testing.T) {
	x, r, by := f32([]int{2, 3}, 1, 2, 3, 4, 5, 6), f32([]int{2, 1}, 10, 20), f32([]int{3}, 1, 2, 3)
	out, err := chainOn(t, LinksAttrs(list(LinkPlus, LinkAdd, LinkBy),
		[]float32{1, 0, 0, 0.5, 0, 0, 2, 0, 0}), x, r, by)
	if err != nil {
		t.Fatal(err)
	}
	want := f32([]int{2, 3}, 11.5, 25, 40.5, 24.5, 51, 79.5)
	if !tensor.Equal(out, want) {
		t.Errorf("got %v, want %v", out, want)
	}
}

// chainOn evaluates weir:Chain.
func chainOn(t *testing.T, a Attrs, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	t.Helper()
	out, err := rawEval(t, &Call{Domain: FusedDomain, Type: "Chain", Version: 1, Attrs: a,
		NumIn: len(in), NumOut: 1}, in)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
