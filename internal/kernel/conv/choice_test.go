package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkChoice times every way of computing a convolution in turn, and reports the time of the
// one that New chooses over that of the fastest, of each the least of all rounds. It is what
// measuring instead of estimating could gain.
func BenchmarkChoice(b *testing.B) {
	for _, p := range []Params{
		square(64, 64, 56, 3, 1, 1, 1),
		square(128, 128, 28, 3, 1, 1, 1),
		square(256, 256, 14, 3, 1, 1, 1),
		square(512, 512, 7, 3, 1, 1, 1),
		square(128, 128, 40, 3, 2, 1, 1),
		square(64, 256, 56, 1, 1, 0, 1),
		square(512, 2048, 7, 1, 1, 0, 1),
		square(384, 64, 14, 1, 1, 0, 1),
		square(96, 24, 80, 3, 1, 1, 1),
		square(16, 16, 160, 3, 1, 1, 1),
	} {
		p.Reused = true
		b.Run(fmt.Sprintf("c%d-m%d-%d-k%d-s%d", p.C, p.M, p.In[2], p.Kernel[2], p.Stride[2]),
			func(b *testing.B) { benchmarkChoice(b, p) })
	}
}

func benchmarkChoice(b *testing.B, p Params) {
	ways := waysOf(b, p)
	best := make([]time.Duration, len(ways))
	for b.Loop() {
		for i, run := range ways {
			start := time.Now()
			run()
			if took := time.Since(start); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	fastest := best[0]
	for _, t := range best {
		fastest = min(fastest, t)
	}
	b.ReportMetric(float64(best[0])/float64(fastest), "chosen/fastest")
}

// waysOf returns what runs a convolution in each way that it can be computed, that which New
// chooses first.
func waysOf(b *testing.B, p Params) (ways []func()) {
	r := rand.New(rand.NewPCG(1, 1))
	x, _ := guarded(r, p.N*p.C*volume(p.In))
	for _, p.Algorithm = range p.Algorithms() {
		op, err := New(p)
		if err != nil {
			b.Fatal(err)
		}
		w, _ := guarded(r, op.weightsLen())
		args := Args{
			X: x,
			W: make([]float32, op.PackedLen()),
			Y: make([]float32, p.N*p.M*volume(op.Out())),
		}
		op.PackWeights(args.W, w)
		scratch := make([]float32, op.ScratchLen())
		ways = append(ways, func() {
			for c := range op.Chunks() {
				op.Run(c, &args, scratch)
			}
		})
	}
	return ways
}
