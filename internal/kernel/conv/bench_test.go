package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func BenchmarkConvolution(b *testing.B) {
	for _, p := range []Params{
		square(3, 64, 224, 7, 2, 3, 1),
		square(64, 64, 56, 3, 1, 1, 1),
		square(128, 128, 28, 3, 1, 1, 1),
		square(256, 256, 14, 3, 1, 1, 1),
		square(512, 512, 7, 3, 1, 1, 1),
		square(64, 256, 56, 1, 1, 0, 1),
		square(256, 64, 56, 1, 1, 0, 1),
		square(512, 2048, 7, 1, 1, 0, 1),
		square(256, 512, 56, 1, 2, 0, 1),
		square(128, 128, 56, 3, 2, 1, 1),
		square(3, 32, 224, 3, 2, 1, 1),
		square(96, 24, 56, 1, 1, 0, 1),
		square(32, 32, 112, 3, 1, 1, 32),
		square(96, 96, 112, 3, 2, 1, 96),
		square(384, 384, 14, 3, 1, 1, 384),
		square(960, 960, 7, 3, 1, 1, 960),
		square(576, 576, 14, 3, 2, 1, 576),
		square(120, 120, 28, 5, 1, 2, 120),
	} {
		p.Bias, p.Clamp, p.Hi = true, true, inf
		b.Run(
			fmt.Sprintf("c%d-m%d-%d-k%d-s%d-g%d", p.C, p.M, p.In[2], p.Kernel[2], p.Stride[2],
				p.Group),
			func(b *testing.B) {
				benchmarkOp(b, p)
			},
		)
	}
}

// benchmarkOp runs p from random data and reports GFLOP/s of one core, the mean and the best of the
// iterations: on a shared machine the best says more about the kernel.
func benchmarkOp(b *testing.B, p Params) {
	r := rand.New(rand.NewPCG(1, 1))
	floats := func(n int) []float32 {
		x, _ := guarded(r, n)
		return x
	}
	op, err := New(p)
	if err != nil {
		b.Fatal(err)
	}
	args := Args{
		X:    floats(p.N * p.C * volume(p.In)),
		Bias: floats(p.M),
		Y:    floats(p.N * p.M * volume(op.Out())),
	}
	args.W = make([]float32, op.PackedLen())
	op.PackWeights(args.W, floats(op.weightsLen()))
	scratch := make([]float32, op.ScratchLen())
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		for c := range op.Chunks() {
			op.Run(c, &args, scratch)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(op.FLOP())*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	b.ReportMetric(float64(op.FLOP())/float64(best.Nanoseconds()), "best-GFLOP/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(op.Chunks()),
		"us/chunk")
}
