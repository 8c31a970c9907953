package microsoft

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

func TestRoundBlocks(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tt := range []struct {
		name    string
		in, out []float32
	}{
		{"to whole steps, ties to even", []float32{127, 0.5, 1.5, -2.5}, []float32{127, 0, 2, -2}},
		{"scale of a block", []float32{-254, 3, 5, 0, 1}, []float32{-254, 4, 4, 0, 1}},
		{"nothing", []float32{0, 0, 0, 0}, []float32{0, 0, 0, 0}},
		{"below the normal numbers", []float32{1e-37, 0, 0, 0, 2}, []float32{0, 0, 0, 0, 2}},
		{"no number", []float32{nan, 1, 2, 3, 127}, []float32{nan, nan, nan, nan, 127}},
		{"infinite", []float32{1, -inf, 2, 3, 127}, []float32{nan, nan, nan, nan, 127}},
	} {
		got := append([]float32(nil), tt.in...)
		roundBlocks(got, len(got), 4)
		for i, want := range tt.out {
			if got[i] != want && (got[i] == got[i] || want == want) {
				t.Errorf("%s: element %d is %v, want %v", tt.name, i, got[i], want)
			}
		}
	}
}

// TestRoundedNBits holds that accuracy_level 4 rounds A in weir:MatMulNBits, that other levels do
// not, and that A itself stays as it is.
func TestRoundedNBits(t *testing.T) {
	packed := make([]byte, 8)
	packed[0] = 0x98 // 0 and 1 above the middle
	for level, want := range []float32{1: 0.6, 4: 1} {
		if want == 0 {
			continue
		}
		a := tensor.From([]float32{127, 0.6}, 1, 2)
		e := &op.Eval{Call: &op.Call{Domain: op.FusedDomain, Type: "MatMulNBits", Version: 1,
			NumIn:  3,
			NumOut: 1, Attrs: op.Attrs{op.IntAttr("K", 2), op.IntAttr("N", 1),
				op.IntAttr("block_size", 16), op.IntAttr("accuracy_level", int64(level))}},
			Out: make([]*tensor.Tensor, 1),
			In:  []*tensor.Tensor{a, tensor.From(packed, 1, 1, 8), tensor.From([]float32{1}, 1, 1)}}
		if err := evalFusedNBits(e); err != nil {
			t.Fatal(err)
		}
		if got := tensor.As[float32](e.Out[0])[0]; got != want {
			t.Errorf("level %d: %v, want %v", level, got, want)
		}
		if tensor.As[float32](a)[1] != 0.6 {
			t.Errorf("level %d changed A", level)
		}
	}
}
