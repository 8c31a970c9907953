package kernels

import (
	"bytes"
	"slices"
	"testing"
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
