package conv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// referenceWeights is the definition, with sums in float64.
func referenceWeights(p WeightsParams, args *WeightsArgs) {
	sums := make([]float64, len(args.DW))
	depth, taps, places := p.C/p.Group, volume(p.Kernel), volume(p.Out)
	for n := range p.N {
		for m := range p.M {
			for at := range places {
				pos := [3]int{at / p.Out[2] / p.Out[1], at / p.Out[2] % p.Out[1], at % p.Out[2]}
				g := float64(p.Format.Round(args.DY[(n*p.M+m)*places+at]))
				for i := range depth * taps {
					from, ok := p.tapAt(i%taps, pos)
					if !ok {
						continue
					}
					ch := n*p.C + m/(p.M/p.Group)*depth + i/taps
					x := p.Format.Round(args.X[ch*volume(p.In)+from])
					sums[m*depth*taps+i] += g * float64(x)
				}
			}
		}
	}
	for i, s := range sums {
		args.DW[i] = float32(s)
	}
}

func TestRandomWeights(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 4))
		stages := [3]int{}
		for i := range 150 {
			axes := 1 + r.IntN(3)
			p := WeightsParams{Window: randomWindow(r, axes, 9-2*axes), N: 1 + r.IntN(3),
				Group: 1 + r.IntN(3)}
			p.C, p.M = p.Group*(1+r.IntN(5)), p.Group*(1+r.IntN(20))
			switch r.IntN(6) {
			case 0:
				p.C, p.Kernel = p.Group*(20+r.IntN(70)), [3]int{1, 1, 1}
			case 1:
				p.In[2] += 300 / (p.In[0] * p.In[1])
			case 2:
				p.C = p.Group
			case 3:
				p.Format = gemm.BF16
			}
			out, err := p.Window.setDefaults()
			if err != nil {
				continue
			}
			for a := range out {
				p.Out[a] = max(1, out[a]-max(0, r.IntN(5)-3))
			}
			op, err := NewWeights(p)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case op.planes != nil:
				stages[0]++
			case op.parts > 1:
				stages[1]++
			case op.colBlocks > 1:
				stages[2]++
			}
			testWeights(t, r, fmt.Sprint(i, p), p, op)
		}
		if stages[0] < 10 || stages[1] < 10 {
			t.Errorf("of planes, in parts and in blocks of columns: %v, want several", stages)
		}
	})
}

// testWeights compares what the chunks compute, in any order, with the definition.
func testWeights(t *testing.T, r *rand.Rand, name string, p WeightsParams, op *Weights) {
	t.Helper()
	x, _ := guarded(r, p.N*p.C*volume(p.In))
	dy, _ := guarded(r, p.N*p.M*volume(p.Out))
	got, check := guarded(r, p.M*p.C/p.Group*volume(p.Kernel))
	scratch, checkScratch := guarded(r, op.ScratchLen())
	parts, checkParts := guarded(r, op.PartsLen())
	args := WeightsArgs{X: x, DY: dy, DW: make([]float32, len(got)), Parts: parts,
		Packed: make([]float32, op.PackedLen())}
	referenceWeights(p, &args)
	want := args.DW
	args.DW = got
	for _, c := range r.Perm(op.Packs()) {
		op.Pack(c, &args, scratch)
	}
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, &args, scratch)
	}
	for c := range op.Sums() {
		op.Sum(c, &args)
	}
	check(t, name)
	checkScratch(t, name)
	checkParts(t, name)
	compare(t, name, got, want, 1e-4)
}

// TestWeightsInBlocks: more filters than a block has, and blocks of columns.
func TestWeightsInBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	p := WeightsParams{Window: Window{In: [3]int{1, 4, 5}, Kernel: [3]int{1, 3, 3},
		PadLo: [3]int{0, 1, 1}, PadHi: [3]int{0, 1, 1}}, Out: [3]int{1, 4, 5}, N: 2, C: 70,
		M: blockRows + 9}
	op, err := NewWeights(p)
	if err != nil {
		t.Fatal(err)
	}
	if op.rowBlocks != 2 || op.colBlocks < 2 {
		t.Fatalf("%d and %d blocks, want several", op.rowBlocks, op.colBlocks)
	}
	p.Group = 1
	_, _ = p.Window.setDefaults()
	testWeights(t, r, "blocks", p, op)
}

func TestWeightsRefuse(t *testing.T) {
	w := Window{In: [3]int{1, 4, 5}, Kernel: [3]int{1, 3, 3}}
	for _, p := range []WeightsParams{
		{Window: w, Out: [3]int{1, 3, 3}, N: 1, C: 2, M: 2},
		{Window: w, Out: [3]int{1, 0, 3}, N: 1, C: 2, M: 2},
		{Window: w, Out: [3]int{1, 2, 3}, N: 1, C: 2, M: 3, Group: 2},
	} {
		if _, err := NewWeights(p); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

func BenchmarkWeights(b *testing.B) {
	for _, c := range []struct{ size, kernel, stride, c, m, group int }{
		{56, 1, 1, 64, 256, 1}, {56, 1, 1, 256, 64, 1}, {56, 3, 1, 64, 64, 1},
		{28, 1, 1, 128, 512, 1}, {28, 3, 1, 128, 128, 1}, {56, 3, 2, 128, 128, 1},
		{14, 1, 1, 1024, 256, 1}, {14, 3, 1, 256, 256, 1}, {56, 1, 2, 256, 512, 1},
		{7, 1, 1, 512, 2048, 1}, {7, 3, 1, 512, 512, 1}, {224, 7, 2, 3, 64, 1},
		{112, 3, 1, 32, 32, 32},
	} {
		k, half := c.kernel, c.kernel/2
		p := WeightsParams{Window: Window{In: [3]int{1, c.size, c.size}, Kernel: [3]int{1, k, k},
			Stride: [3]int{1, c.stride, c.stride}, PadLo: [3]int{0, half, half},
			PadHi: [3]int{0, half, half}}, N: 8, C: c.c, M: c.m, Group: c.group,
			Out: [3]int{1, c.size / c.stride, c.size / c.stride}}
		for _, p.Format = range []gemm.Format{gemm.F32, gemm.BF16} {
			for _, saved := range []bool{false, true} {
				op, err := NewWeights(p)
				if err != nil {
					b.Fatal(err)
				}
				if saved && !op.TakesSaved() {
					continue
				}
				name := fmt.Sprintf("%dx%d g%d %d k%d s%d/format%d/saved=%v", p.M, p.C, p.Group,
					c.size, k, c.stride, p.Format, saved)
				b.Run(name, func(b *testing.B) { benchmarkWeights(b, &p, op, saved) })
			}
		}
	}
}

func benchmarkWeights(b *testing.B, p *WeightsParams, op *Weights, saved bool) {
	r := rand.New(rand.NewPCG(3, 4))
	x, _ := guarded(r, p.N*p.C*volume(p.In))
	dy, _ := guarded(r, p.N*p.M*volume(p.Out))
	args := WeightsArgs{X: x, DY: dy, DW: make([]float32, p.M*p.C*volume(p.Kernel)),
		Parts: make([]float32, op.PartsLen()), Packed: make([]float32, op.PackedLen())}
	if saved {
		args.Saved = make([]uint16, len(x))
		vec.Float32ToBFloat16(args.Saved, x)
	}
	scratch := make([]float32, op.ScratchLen())
	for b.Loop() {
		for c := range op.Packs() {
			op.Pack(c, &args, scratch)
		}
		for c := range op.Chunks() {
			op.Run(c, &args, scratch)
		}
		for c := range op.Sums() {
			op.Sum(c, &args)
		}
	}
	b.ReportMetric(float64(op.FLOP())*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}
