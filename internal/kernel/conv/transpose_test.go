package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

func TestRandomTransposed(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 4))
		for done := 0; done < 200; {
			p := TransposeParams{Window: randomWindow(r, 1+r.IntN(3), 7), N: 1 + r.IntN(2),
				Group: 1 + r.IntN(3)}
			p.C, p.M = p.Group*(1+r.IntN(5)), p.Group*(1+r.IntN(5))
			p.OutPad[2] = r.IntN(2)
			if r.IntN(3) == 0 {
				p.Stride, p.Dilate, p.PadLo, p.PadHi, p.OutPad = p.Kernel, [3]int{}, [3]int{},
					[3]int{}, [3]int{}
				p.In[2] += r.IntN(40)
			}
			p.Bias, p.Clamp, p.Lo, p.Hi = r.IntN(2) == 0, r.IntN(2) == 0, -0.5, 0.5
			p.Format = gemm.Format(r.IntN(2))
			op, err := NewTranspose(p)
			if err != nil {
				continue // pads larger than the output
			}
			done++
			floats := func(n int) []float32 {
				x, _ := guarded(r, n)
				return x
			}
			y, check := guarded(r, p.N*p.M*volume(op.Out()))
			args := Args{X: floats(p.N * p.C * volume(p.In)),
				W:    floats(p.C * p.M / p.Group * volume(p.Kernel)),
				Bias: floats(p.M), Y: make([]float32, len(y))}
			ReferenceTranspose(p, &args)
			want := args.Y
			packed := make([]float32, op.PackedLen())
			op.PackWeights(packed, args.W)
			args.W, args.Y = packed, y
			scratch := floats(op.ScratchLen())
			for _, c := range r.Perm(op.Chunks()) {
				op.Run(c, &args, scratch)
			}
			check(t, "y")
			compare(t, fmt.Sprintf("%+v", p), y, want, 1e-4)
		}
	})
}

// TestTransposedBlocks checks a transposed convolution whose channels are split into unequal
// blocks.
func TestTransposedBlocks(t *testing.T) {
	for _, f := range []gemm.Format{gemm.F32, gemm.BF16} {
		r := rand.New(rand.NewPCG(2, 4))
		p := TransposeParams{Window: Window{In: [3]int{1, 150, 160}, Kernel: [3]int{1, 2, 2},
			Stride: [3]int{1, 2, 2}}, N: 1, C: 6, M: 10, Group: 2, Format: f}
		op, err := NewTranspose(p)
		if err != nil {
			t.Fatal(err)
		}
		if op.last == nil {
			t.Fatal("want unequal blocks")
		}
		x, _ := guarded(r, 6*150*160)
		w, _ := guarded(r, 6*5*4)
		args := Args{X: x, W: w, Y: make([]float32, 10*300*320)}
		ReferenceTranspose(p, &args)
		want := args.Y
		args.W, args.Y = make([]float32, op.PackedLen()), make([]float32, len(want))
		op.PackWeights(args.W, w)
		scratch := make([]float32, op.ScratchLen())
		for c := range op.Chunks() {
			op.Run(c, &args, scratch)
		}
		compare(t, fmt.Sprint("blocks, format ", f), args.Y, want, 1e-5)
	}
}

func BenchmarkTransposed(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	w := Window{In: [3]int{1, 160, 160}, Kernel: [3]int{1, 2, 2}, Stride: [3]int{1, 2, 2}}
	op, err := NewTranspose(TransposeParams{Window: w, N: 1, C: 24, M: 24, Bias: true})
	if err != nil {
		b.Fatal(err)
	}
	x, _ := guarded(r, 24*160*160)
	weights, _ := guarded(r, op.PackedLen())
	args := Args{X: x, W: make([]float32, len(weights)), Bias: weights,
		Y: make([]float32, 24*320*320)}
	op.PackWeights(args.W, weights)
	scratch := make([]float32, op.ScratchLen())
	for b.Loop() {
		for c := range op.Chunks() {
			op.Run(c, &args, scratch)
		}
	}
	b.ReportMetric(float64(op.FLOP())*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(op.Chunks()),
		"us/chunk")
}
