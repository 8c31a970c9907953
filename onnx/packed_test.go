package onnx

import (
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// counted is a tensor of n elements of a type of at most 8 bits, all codes in turn.
func counted(d tensor.DType, n int) *tensor.Tensor {
	codes := make([]uint8, n)
	for i := range codes {
		codes[i] = uint8(i)
	}
	return tensor.FromCodes(d, codes, n)
}

// TestSmallTypesInExternalData writes constants large enough for another file, with a byte that is
// not full at the end.
func TestSmallTypesInExternalData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	g := &graph.Graph{Name: "g", Opsets: map[string]int{"": 25}}
	for d := tensor.Float8E4M3FN; d <= tensor.Int2; d++ {
		g.Outputs = append(g.Outputs, graph.NewConst(d.String(), counted(d, 20_001)))
	}
	if err := WriteFile(path, g, WriteOptions{MaxInline: 1}); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, v := range m.Graph.Outputs {
		if want := g.Outputs[i].Const(); v.Const() == nil || !tensor.Equal(v.Const(), want) {
			t.Errorf("%v came back as %v", want.DType, v.Type)
		}
	}
}

// TestSparseSmallTypes spreads values that share bytes, and strings, over zeros.
func TestSparseSmallTypes(t *testing.T) {
	at := sub(2, number(1, 3), number(2, 7), blob(9, tensor.Bytes([]int64{6, 0, 3})))
	for _, tt := range []struct{ values, want *tensor.Tensor }{
		{tensor.FromCodes(tensor.Int4, []uint8{1, 15, 8}, 3),
			tensor.FromCodes(tensor.Int4, []uint8{15, 0, 0, 8, 0, 0, 1}, 7)},
		{tensor.FromCodes(tensor.Uint2, []uint8{1, 2, 3}, 3),
			tensor.FromCodes(tensor.Uint2, []uint8{2, 0, 0, 3, 0, 0, 1}, 7)},
		{tensor.FromStrings([]string{"a", "b", "c"}, 3),
			tensor.FromStrings([]string{"b", "", "", "c", "", "", "a"}, 7)},
	} {
		values, err := EncodeTensor("w", tt.values)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(modelOf(out("w"), sub(15, blob(1, values), at, number(3, 7))), "",
			Options{})
		if err != nil {
			t.Errorf("%v: %v", tt.values, err)
			continue
		}
		if got := m.Graph.Outputs[0].Const(); !tensor.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
	}
}

// TestMapsOfSmallTypes writes and reads maps whose values share bytes.
func TestMapsOfSmallTypes(t *testing.T) {
	for d := tensor.Float8E4M3FN; d <= tensor.Int2; d++ {
		want, err := tensor.NewMap(tensor.From([]int64{5, 6, 7}, 3), counted(d, 3))
		if err != nil {
			t.Fatal(err)
		}
		b, err := EncodeValue("m", want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeValue(b, op.ValueType(want))
		if err != nil || !tensor.Equal(got, want) {
			t.Errorf("%v became %v, %v", want, got, err)
		}
	}
}
