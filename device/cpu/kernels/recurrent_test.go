package kernels

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestComputedWeights holds that recurrent layers give the same bits whether their weights are
// packed at load or at each run.
func TestComputedWeights(t *testing.T) {
	pools := testPools(t)
	for _, name := range []string{"LSTM", "GRU", "RNN"} {
		key, compared := opKey{"", name}, 0
		for i := range uint64(60) {
			s := generator(key)(newSource(i, 3), key)
			s.fix(1, 2, 3)
			_, r, ok := s.request()
			if !ok {
				continue
			}
			k, err := prepare(r)
			if k == nil || err != nil {
				continue
			}
			want, err := s.run(t, r, k, pools[0])
			if err != nil {
				continue
			}
			s.constant = slices.Clone(s.constant)
			clear(s.constant)
			_, r, _ = s.request()
			if k, err = prepare(r); k == nil || err != nil {
				t.Fatalf("%v: weights that are computed have no kernel (%v)", s, err)
			}
			got, err := s.run(t, r, k, pools[1])
			if err != nil {
				t.Fatal(err)
			}
			for j := range want {
				if want[j] != nil && !bytes.Equal(got[j].Data, want[j].Data) {
					t.Errorf("%v: result %d has other bits where weights are computed", s, j)
				}
			}
			compared++
		}
		if compared < 20 {
			t.Errorf("%s: only %d calls compared", name, compared)
		}
	}
}

// TestRecurrentChunks holds layers, and gradients of such, against the reference where each of
// their regions has several chunks of which the last is smaller: batch entries, panels of weights,
// columns to add up, and units that are carried through many steps.
func TestRecurrentChunks(t *testing.T) {
	pools := testPools(t)
	back := opKey{op.FusedDomain, op.RecurrentGradient}
	for name, made := range map[string]func(r source) *sample{
		"LSTM": func(r source) *sample { return r.lstm(opKey{"", "LSTM"}, 2, 20, 7, 130) },
		"GRU":  func(r source) *sample { return r.recurrent(opKey{"", "GRU"}, 3, 20, 7, 130) },
		"RNN":  func(r source) *sample { return r.recurrent(opKey{"", "RNN"}, 2, 20, 7, 300) },
		"gradient": func(r source) *sample {
			return r.recurrentGradient(back, 3, 20, 130, 130)
		},
		"gradient of many steps": func(r source) *sample {
			s := r.recurrentGradient(back, 700, 2, 3, 70)
			s.atol = 1e-3 // gradients of weights add up 1400 terms
			return s
		},
	} {
		ran, calls := 0, 8
		if testing.Short() { // chunks are those of all calls, step after step
			calls = 1
		}
		for i := uint64(0); i < 40 && ran < calls; i++ {
			s := made(newSource(i, 5))
			w := tensor.As[float32](s.in[op.RNNR])
			for k := range w { // or errors grow from step to step
				w[k] /= 16
			}
			if s.check(t, pools) == served {
				ran++
			}
		}
		if ran < calls {
			t.Errorf("%s: only %d calls had a kernel", name, ran)
		}
	}
}

// TestInfiniteGradient: the cell of an LSTM takes an infinite gradient of the state on as it is.
func TestInfiniteGradient(t *testing.T) {
	gates, inf := []float32{0.5, 0.5, 0.5, 0.5}, float32(math.Inf(1))
	dc, some := []float32{0}, make([]float32, 2)
	lstmBack(gates, []float32{0.5}, []float32{1}, []float32{inf}, dc, some[:1], some[1:])
	if dc[0] != inf {
		t.Errorf("the gradient of the cell before is %v, want an infinity", dc[0])
	}
}
