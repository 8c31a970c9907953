package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestPackPanels packs panel by panel, the last first, and wants the bits of all at once. That
// those are right, tests of Run tell.
func TestPackPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	winograd := square(40, 72, 30, 3, 1, 1, 1)
	winograd.Reused = true
	bf16 := square(24, 48, 9, 3, 1, 1, 2)
	bf16.Format = gemm.BF16
	for _, p := range []Params{winograd, bf16, square(40, 72, 9, 1, 1, 0, 1),
		square(36, 75, 5, 3, 1, 1, 3), square(40, 40, 7, 3, 1, 1, 40),
		square(30, 90, 40, 3, 2, 1, 1)} {
		op, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		w := make([]float32, op.weightsLen())
		for i := range w {
			w[i] = r.Float32()
		}
		whole, parts := make([]float32, op.PackedLen()), make([]float32, op.PackedLen())
		op.PackWeights(whole, w)
		scratch := make([]float32, op.RepackLen())
		end := p.M
		for i := op.Panels() - 1; i >= 0; i-- {
			for j := range scratch {
				scratch[j] = float32(math.NaN())
			}
			first := op.PanelStart(i)
			if first >= end {
				t.Fatalf("%s of %+v: panel %d begins at channel %d, the next at %d", op.Algorithm(),
					p, i, first, end)
			}
			each := len(w) / p.M
			op.RepackPanels(parts, w[first*each:end*each:end*each], i, i+1, scratch)
			end = first
		}
		if end != 0 {
			t.Errorf("%s of %+v: the first panel begins at channel %d", op.Algorithm(), p, end)
		}
		for i := range whole {
			if math.Float32bits(whole[i]) != math.Float32bits(parts[i]) {
				t.Fatalf("%s of %+v: word %d of %d is %v, want %v", op.Algorithm(), p, i,
					len(whole), parts[i], whole[i])
			}
		}
	}
}
