package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// benchmarkOp runs p from random data and reports GFLOP/s of one core, the mean and the best of the
// iterations: on a shared machine the best says more about the kernel.
func benchmarkOp(b *testing.B, p Params) {
	r := rand.New(rand.NewPCG(1, 1))
	args := dataFor(r, p)
	args.Store = func([]float32, int, int, int, int, int, int) {}
	if p.PackedA {
		a := make([]float32, p.Format.PackedALen(p.M, p.K))
		p.Format.PackA(a, args.A, p.M, p.K, 0, p.TransA)
		args.A = a
	}
	if p.PackedB {
		x := make([]float32, p.Format.PackedBLen(p.K, p.N))
		p.Format.PackB(x, args.B, p.K, p.N, 0, p.TransB)
		args.B = x
	}
	op, err := New(p)
	if err != nil {
		b.Fatal(err)
	}
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

func BenchmarkProduct(b *testing.B) {
	for _, p := range []Params{
		{M: 256, N: 256, K: 256},
		{M: 1024, N: 1024, K: 1024},
		{M: 1024, N: 1024, K: 1024, PackedB: true},
		{M: 128, N: 3072, K: 768, PackedB: true},
		{M: 128, N: 768, K: 3072, PackedB: true},
		{M: 128, N: 768, K: 3072, PackedB: true, Format: BF16},
		{M: 128, N: 3072, K: 768, PackedB: true, Format: BF16},
		{M: 128, N: 768, K: 768, PackedA: true, PackedB: true, Format: BF16},
		{M: 128, N: 3072, K: 768, PackedA: true, PackedB: true, Format: BF16},
		{M: 128, N: 768, K: 3072, PackedA: true, PackedB: true, Format: BF16},
		{M: 64, N: 3136, K: 576, PackedA: true, Format: BF16},
		{M: 1, N: 1000, K: 2048, PackedB: true, Format: BF16},
		{M: 64, N: 3136, K: 576, PackedA: true},
		{M: 128, N: 128, K: 64, TransB: true, Batch: 12, StrideA: 128 * 64, StrideB: 128 * 64},
		{M: 128, N: 64, K: 128, Batch: 12, StrideA: 128 * 128, StrideB: 128 * 64},
		{M: 128, N: 768, K: 3072 / 4, PackedB: true, Format: U8S8, ToStore: true},
		{M: 128, N: 3072, K: 768 / 4, PackedB: true, Format: U8S8, ToStore: true},
		{M: 2048, N: 2048, K: 2048 / 4, PackedB: true, Format: U8S8, ToStore: true},
		{M: 64, N: 3136, K: 576 / 4, PackedA: true, Format: S8U8, ToStore: true},
		{M: 1, N: 1000, K: 2048, PackedB: true},
		{M: 1, N: 1000, K: 2048},
		{M: 1, N: 1000, K: 2048, TransB: true},
	} {
		b.Run(fmt.Sprintf("%d/%dx%dx%dx%d/tB=%v/pA=%v/pB=%v", p.Format, max(p.Batch, 1), p.M,
			p.N, p.K, p.TransB, p.PackedA, p.PackedB),
			func(b *testing.B) { benchmarkOp(b, p) })
	}
}

// BenchmarkSmall measures products whose fixed costs matter: one step of a recurrent layer, a small
// head.
func BenchmarkSmall(b *testing.B) {
	for _, p := range []Params{
		{M: 1, N: 256, K: 64, PackedB: true},
		{M: 1, N: 512, K: 512, PackedB: true},
		{M: 2, N: 1000, K: 1280, PackedB: true},
		{M: 4, N: 1000, K: 1280, PackedB: true},
		{M: 8, N: 1000, K: 1280, PackedB: true},
		{M: 16, N: 384, K: 384, PackedB: true},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", p.M, p.N, p.K), func(b *testing.B) { benchmarkOp(b, p) })
	}
}

// BenchmarkPointwise measures products of few steps of K as 1x1 convolutions have them.
func BenchmarkPointwise(b *testing.B) {
	inf := float32(math.Inf(1))
	for _, s := range [][3]int{{64, 3025, 16}, {96, 12544, 16}, {144, 3136, 24}, {192, 784, 32},
		{384, 196, 64}, {576, 196, 96}, {24, 3136, 144}, {64, 3136, 64}} {
		p := Params{M: s[0], N: s[1], K: s[2], PackedA: true}
		p.Bias, p.Clamp, p.Hi = BiasPerRow, true, inf
		b.Run(fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), func(b *testing.B) { benchmarkOp(b, p) })
	}
}
