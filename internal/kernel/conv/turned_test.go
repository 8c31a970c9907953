package conv

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestTurned holds packed weights that are turned to those that were turned before, to the bit, by
// every algorithm and format, panel after panel.
func TestTurned(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		p := Params{Window: Window{In: [3]int{1 + r.IntN(2), 9, 9}, Kernel: [3]int{1, 3, 3}}, N: 1,
			C: 1 + r.IntN(70), M: 1 + r.IntN(70), Reused: true}
		if r.IntN(2) == 0 {
			p.Kernel = [3]int{1, 1 + r.IntN(3), 1 + r.IntN(4)}
		}
		if r.IntN(4) == 0 && p.C > 1 {
			p.Format = gemm.BF16
		}
		for _, way := range p.Algorithms() {
			p.Algorithm = way
			samePacked(t, r, p)
		}
	}
}

// samePacked packs weights and the same turned.
func samePacked(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	taps := volume(p.Kernel)
	w, around := make([]float32, p.M*p.C*taps), make([]float32, p.M*p.C*taps)
	for i := range w {
		w[i] = float32(r.NormFloat64())
		m, c, tap := i/taps/p.C, i/taps%p.C, i%taps
		around[(c*p.M+m)*taps+taps-1-tap] = w[i]
	}
	plain, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Turned = true
	turned, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	want, got := make([]float32, plain.PackedLen()), make([]float32, turned.PackedLen())
	plain.PackWeights(want, w)
	scratch := make([]float32, turned.RepackLen())
	for i := range turned.Panels() {
		turned.RepackPanels(got, around, i, i+1, scratch)
	}
	if !slices.Equal(words(got), words(want)) {
		t.Fatalf("%s: turned weights are packed differently", p.Problem())
	}
}

// words are the bits of floats.
func words(v []float32) []uint32 {
	out := make([]uint32, len(v))
	for i, x := range v {
		out[i] = math.Float32bits(x)
	}
	return out
}

// TestTransformedKernels holds the transform of kernels to its definition, to the bit.
func TestTransformedKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for range 200 {
		n, channels := 1+r.IntN(gemm.F32.PanelRows()), 1+r.IntN(packedChannels)
		at := kernels{9 * channels, 9, 1}
		if r.IntN(2) == 0 {
			at = kernels{9, 9 * n, -1}
		}
		w := make([]float32, 9*n*channels)
		for i := range w {
			w[i] = float32(r.NormFloat64())
		}
		want := make([]float32, frequencies*n*packedChannels)
		got := slices.Clone(want)
		winogradWeightsGo(want, w, n, channels, at)
		if !hasWinograd(currentLevel()) {
			t.Skip("no transform at this level")
		}
		winogradWeights(currentLevel(), got, w, n, channels, at)
		if !slices.Equal(words(got), words(want)) {
			t.Fatalf("%d rows, %d channels, %+v: not the transform", n, channels, at)
		}
	}
}
