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
		"kept": {list(LinkClip, LinkKeep, LinkAdd, LinkTimes),
			[]float32{-1, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, []float32{2, 0, 12, 0.39, 12}},
	} {
		out, err := chainOn(t, x, LinksAttrs(c.links, c.values))
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
		"another link": LinksAttrs(list(LinkGrid+1), []float32{1, 2, 3}),
		"less":         LinksAttrs(list(Link(-1)), []float32{1, 2, 3}),
	} {
		if _, err := chainOn(t, x, a); !errors.Is(err, ErrAttr) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := chainOn(t, u8([]int{1}, 1), LinksAttrs(list(LinkAdd), []float32{1, 0, 0}))
	if !errors.Is(err, ErrInput) {
		t.Errorf("bytes: %v", err)
	}
}

// chainOn evaluates weir:Chain.
func chainOn(t *testing.T, x *tensor.Tensor, a Attrs) (*tensor.Tensor, error) {
	t.Helper()
	out, err := rawEval(t, &Call{Domain: FusedDomain, Type: "Chain", Version: 1, Attrs: a, NumIn: 1,
		NumOut: 1}, list(x))
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
