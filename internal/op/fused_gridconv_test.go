package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestGridSumsFit asks for sums of 32 bits: the most that the products of an output come to is what
// the integer that is farthest from its zero point makes of all weights together.
func TestGridSumsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 1))
	for range 400 {
		d := []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)]
		w, _ := tensor.New(d, 3, 1+r.IntN(300))
		zeros, _ := tensor.New(d, 1+2*r.IntN(2))
		for _, x := range []*tensor.Tensor{w, zeros} {
			for i := range x.Data {
				x.Data[i] = byte(r.Uint32())
			}
		}
		zero := tensor.Scalar(uint16(r.Uint32()))
		values, _ := w.Floats()
		around, _ := zeros.Floats()
		from, want := float64(tensor.As[uint16](zero)[0]), true
		for c := range 3 {
			sum := 0.0
			for _, x := range values[c*w.Shape[1]:][:w.Shape[1]] {
				sum += math.Abs(x - around[c%len(around)])
			}
			want = want && sum*max(from, math.MaxUint16-from) < 1<<31
		}
		if got := GridSumsFit(zero, w, zeros); got != want {
			t.Fatalf("%v around %v by integers around %v: %v, want %v", w, zeros, zero, got, want)
		}
	}
	if f := f32([]int{1}, 1); GridSumsFit(f, f, f) {
		t.Error("sums of floats fit")
	}
}
