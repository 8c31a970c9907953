package op

import (
	"errors"
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// ctcOf evaluates CTC, or its gradient for gradients of 1.
func ctcOf(t *testing.T, name string, scores, labels, lengths *tensor.Tensor, blank int64) (
	*tensor.Tensor, error) {
	t.Helper()
	o, err := Lookup(FusedDomain, name, 1)
	if err != nil {
		t.Fatal(err)
	}
	in := []*tensor.Tensor{scores, labels}
	if name == CTCGradient {
		ones := make([]float32, scores.Shape[0])
		for i := range ones {
			ones[i] = 1
		}
		in = append(in, tensor.From(ones, len(ones)))
	}
	if lengths != nil {
		in = append(in, lengths)
	}
	out, err := Run(t.Context(), o, &Call{Domain: FusedDomain, Type: name, Version: 1,
		NumIn: len(in), NumOut: 1, Attrs: Attrs{IntAttr(CTCBlank, blank)}}, in)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// TestCTCPaths: the probability is the sum over all paths that become the labels, listed one by
// one.
func TestCTCPaths(t *testing.T) {
	const steps, classes, blank = 4, 3, 1
	scores := []float32{0.3, -1, 2, 0.1, 0.2, -0.7, 1, 1, -2, 0.5, -0.25, 0.75}
	for _, labels := range [][]int64{{0, 2}, {2, 2}, {0, -1}, {-1, -1}, {2, 0}} {
		want := 0.0
		for path := range 81 { // 3^4
			p, k, before := 1.0, path, -1
			var got []int64
			for s := range steps {
				class := k % classes
				k /= classes
				sum := 0.0
				for _, v := range scores[s*classes:][:classes] {
					sum += math.Exp(float64(v))
				}
				p *= math.Exp(float64(scores[s*classes+class])) / sum
				if class != before && class != blank {
					got = append(got, int64(class))
				}
				before = class
			}
			for len(got) < 2 {
				got = append(got, -1)
			}
			if len(got) == 2 && got[0] == labels[0] && got[1] == labels[1] {
				want += p
			}
		}
		loss, err := ctcOf(t, CTC, tensor.From(scores, 1, steps, classes),
			tensor.From(labels, 1, 2), nil, blank)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(tensor.As[float32](loss)[0]); math.Abs(got+math.Log(want)) > 1e-5 {
			t.Errorf("%v: loss %v, over all paths %v", labels, got, -math.Log(want))
		}
	}
}

// TestCTCLengths: steps behind the length of a sample count for nothing, and labels that no path
// has make an infinite loss without gradient.
func TestCTCLengths(t *testing.T) {
	v := make([]float32, 2*5*3)
	for i := range v {
		v[i] = float32(i%7) - 3
	}
	labels := tensor.From([]int64{1, 2, 1, 1}, 2, 2)
	whole := tensor.From(v, 2, 5, 3)
	short := tensor.From(append(append([]float32{}, v[:9]...), v[15:24]...), 2, 3, 3)
	want, err := ctcOf(t, CTC, short, labels, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ctcOf(t, CTC, whole, labels, tensor.From([]int64{3, 3}, 2), 0)
	if err != nil || tensor.As[float32](got)[0] != tensor.As[float32](want)[0] ||
		tensor.As[float32](got)[1] != tensor.As[float32](want)[1] {
		t.Errorf("%v of so many steps, want %v: %v", got, want, err)
	}
	lengths := tensor.From([]int64{3, 2}, 2)
	loss, err := ctcOf(t, CTC, whole, labels, lengths, 0)
	if err != nil || !math.IsInf(float64(tensor.As[float32](loss)[1]), 1) {
		t.Errorf("two equal labels in two steps have loss %v: %v", loss, err)
	}
	d, err := ctcOf(t, CTCGradient, whole, labels, lengths, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range tensor.As[float32](d) {
		if i >= 9 && g != 0 || i < 9 && g == 0 {
			t.Errorf("gradient %d is %v", i, g)
		}
	}
	empty, err := ctcOf(t, CTC, whole, tensor.From([]int64{-1, -1, 1, -1}, 2, 2),
		tensor.From([]int64{0, 0}, 2), 0)
	if err != nil || tensor.As[float32](empty)[0] != 0 ||
		!math.IsInf(float64(tensor.As[float32](empty)[1]), 1) {
		t.Errorf("no steps have loss %v: %v", empty, err)
	}
}

// TestCTCRefused: operands that mean nothing are errors.
func TestCTCRefused(t *testing.T) {
	scores := tensor.From(make([]float32, 12), 1, 4, 3)
	for _, tc := range []struct {
		labels, lengths *tensor.Tensor
		blank           int64
	}{
		{tensor.From([]int64{3}, 1, 1), nil, 0}, {tensor.From([]int64{0}, 1, 1), nil, 0},
		{tensor.From([]int64{-2}, 1, 1), nil, 0}, {tensor.From([]int64{-1, 1}, 1, 2), nil, 0},
		{tensor.From([]int64{1}, 1, 1), nil, 3}, {tensor.From([]int64{1}, 1, 1), nil, -1},
		{tensor.From([]int64{1, 1}, 2, 1), nil, 0}, {tensor.From([]int32{1}, 1, 1), nil, 0},
		{tensor.From([]int64{1}, 1, 1), tensor.From([]int64{5}, 1), 0},
		{tensor.From([]int64{1}, 1, 1), tensor.From([]int64{-1}, 1), 0},
		{tensor.From([]int64{1}, 1, 1), tensor.From([]int64{1, 1}, 2), 0},
		{tensor.From([]int64{1}, 1), nil, 0},
	} {
		for _, name := range []string{CTC, CTCGradient} {
			if _, err := ctcOf(t, name, scores, tc.labels, tc.lengths, tc.blank); !errors.Is(err,
				ErrInput) && !errors.Is(err, ErrAttr) {
				t.Errorf("%s of labels %v, lengths %v, blank %d: %v", name, tc.labels, tc.lengths,
					tc.blank, err)
			}
		}
	}
}
