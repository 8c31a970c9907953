package tensor_test

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestContainers(t *testing.T) {
	a, b := tensor.From([]float32{1, 2}, 2), tensor.From([]float32{3}, 1)
	m, err := tensor.NewMap(tensor.FromStrings([]string{"cat", "dog"}, 2), a)
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSequence(a, b)
	for text, v := range map[string]*tensor.Tensor{
		"sequence[2]{float32[2]{1, 2}, float32[1]{3}}": s,
		"sequence[0]{}":                       tensor.NewSequence(),
		"optional[1]{float32[1]{3}}":          tensor.NewOptional(b),
		"optional[0]{}":                       tensor.NewOptional(nil),
		"map[2]{cat: 1, dog: 2}":              m,
		"sequence[1]{map[2]{cat: 1, dog: 2}}": tensor.NewSequence(m),
		"optional[1]{sequence[1]{int64[]{7}}}": tensor.NewOptional(
			tensor.NewSequence(tensor.Scalar(int64(7)))),
	} {
		if v.String() != text {
			t.Errorf("%s, want %s", v, text)
		}
		if err := v.Check(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		c := v.Clone()
		if !tensor.Equal(v, c) || tensor.Close(c, v, 0, 0) != nil || v.Size() != c.Size() {
			t.Errorf("%s: its copy is %v", text, c)
		}
	}
	c := s.Clone()
	tensor.As[float32](c.Items[1])[0] = 4
	if tensor.Equal(c, s) || tensor.Close(c, s, 0, 0) == nil || tensor.As[float32](b)[0] != 3 {
		t.Error("a copy shares its items")
	}
	if s.Size() < 12 || m.Size() < 8+2*16+6 {
		t.Errorf("sizes %d and %d", s.Size(), m.Size())
	}
	if m.Keys().Strings[1] != "dog" || m.Values() != a || s.Keys() != nil || a.Values() != nil {
		t.Error("keys and values are not those of the map")
	}
}

func TestBrokenContainers(t *testing.T) {
	f, i := tensor.From([]float32{1, 2}, 2), tensor.Scalar(int64(1))
	ring := tensor.NewSequence(f)
	ring.Items[0] = ring
	for name, v := range map[string]*tensor.Tensor{
		"mixed types":   tensor.NewSequence(f, i),
		"nil item":      tensor.NewSequence(nil),
		"within itself": ring,
		"wrong length":  {DType: tensor.Sequence, Shape: []int{2}, Items: []*tensor.Tensor{f}},
		"two in an option": {DType: tensor.Optional, Shape: []int{2},
			Items: []*tensor.Tensor{f, f}},
		"broken item": tensor.NewSequence(&tensor.Tensor{DType: tensor.Float32,
			Shape: []int{3}}),
		"elements":          {DType: tensor.Sequence, Shape: []int{0}, Data: []byte{1}},
		"map without parts": {DType: tensor.Map, Shape: []int{0}},
		"float keys":        {DType: tensor.Map, Shape: []int{2}, Items: []*tensor.Tensor{f, f}},
		"short values": {DType: tensor.Map, Shape: []int{1},
			Items: []*tensor.Tensor{tensor.From([]int64{1}, 1), f}},
	} {
		if err := v.Check(); !errors.Is(err, tensor.ErrShape) && !errors.Is(err, tensor.ErrDType) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, parts := range [][2]*tensor.Tensor{{i, i}, {nil, f}, {f, f},
		{tensor.FromStrings([]string{"a", "b"}, 2), nil}} {
		if _, err := tensor.NewMap(parts[0], parts[1]); err == nil {
			t.Errorf("a map of %v to %v", parts[0], parts[1])
		}
	}
	if d := tensor.Sequence; d.Valid() || d.Size() != 0 || !d.IsContainer() ||
		tensor.Int64.IsContainer() {
		t.Error("sequence is an element type")
	}
	if _, err := tensor.New(tensor.Map, 2); !errors.Is(err, tensor.ErrDType) {
		t.Errorf("a new map: %v", err)
	}
}
