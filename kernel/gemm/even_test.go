package gemm

import "testing"

// TestFewChunksKeepWorkersEquallyLong holds how products are cut whose chunks are few: by how much longer one, two and four workers
// take together than work that can be shared out freely.
func TestFewChunksKeepWorkersEquallyLong(t *testing.T) {
	for _, e := range []struct {
		name string
		p    Params
		most float64
	}{
		{"more channels", Params{M: 196, N: 384, K: 64, PackedB: true, TransA: true, TransC: true}, 1.3},
		{"fewer channels", Params{M: 196, N: 64, K: 384, PackedB: true, TransA: true, TransC: true}, 1.45},
		{"image of one panel", Params{M: 320, N: 49, K: 960, PackedA: true}, 1.45},
		{"batch", Params{M: 64, N: 196, K: 16, PackedA: true, Batch: 8}, 1.3},
	} {
		p := e.p
		p.setDefaults()
		b := plan(&p, currentLevel(F32))
		work := float64(p.Batch) * float64(p.M) * float64(p.N) * float64(p.K)
		if ratio := b.time(&p) / (3 * work); ratio > e.most+3*claimWork*float64(b.chunks)/(3*work) {
			t.Errorf("%s: %d chunks take %.2f of the time", e.name, b.chunks, ratio)
		}
	}
}
