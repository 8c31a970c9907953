package tensor

import (
	"errors"
	"slices"
	"testing"
)

// TestWrap wraps numbers and strings without a copy, and refuses shapes that are not theirs.
func TestWrap(t *testing.T) {
	numbers, texts := []float32{1, 2, 3, 4, 5, 6}, []string{"a", "b"}
	x, err := Wrap(numbers, 2, 3)
	if err != nil || x.DType != Float32 || !slices.Equal(x.Shape, []int{2, 3}) || x.Check() != nil {
		t.Fatalf("%v, %v", x, err)
	}
	if got, err := Elements[float32](x); err != nil || &got[0] != &numbers[0] {
		t.Errorf("%v, %v", got, err)
	}
	s, err := Wrap(texts, 2)
	if err != nil || s.DType != String || s.Check() != nil {
		t.Fatalf("%v, %v", s, err)
	}
	if got, err := Elements[string](s); err != nil || &got[0] != &texts[0] {
		t.Errorf("%v, %v", got, err)
	}
	if one, err := Wrap([]int64{7}); err != nil || one.String() != "int64[]{7}" {
		t.Errorf("a scalar: %v, %v", one, err)
	}
	for _, shape := range [][]int{{5}, {}, {-2, -3}, {3, 1 << 30, 1 << 30, 1 << 30}} {
		if _, err := Wrap(numbers, shape...); !errors.Is(err, ErrShape) {
			t.Errorf("%v: %v", shape, err)
		}
	}
	_, number := Elements[int32](x)
	_, text := Elements[string](x)
	_, other := Elements[float32](s)
	for _, err := range []error{number, text, other} {
		if !errors.Is(err, ErrDType) {
			t.Error(err)
		}
	}
	for _, x := range []*Tensor{
		{DType: Float32, Shape: []int{3}, Data: x.Data[:8]},
		{DType: Float32, Shape: []int{1}, Data: x.Data[:8]},
		{DType: Float32, Shape: []int{-1}, Data: x.Data[:8]},
	} {
		if got, err := Elements[float32](x); !errors.Is(err, ErrShape) {
			t.Errorf("8 bytes of shape %v: %v, %v", x.Shape, got, err)
		}
	}
	if got, err := Elements[string](&Tensor{DType: String, Shape: []int{3},
		Strings: texts}); !errors.Is(err, ErrShape) {
		t.Errorf("2 strings of shape [3]: %v, %v", got, err)
	}
}
