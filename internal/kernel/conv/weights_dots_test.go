package conv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// wholes are n small whole numbers, whose products add up without rounding, as bfloat16.
func wholes(r *rand.Rand, n int) []uint16 {
	x, h := make([]float32, n), make([]uint16, n)
	for i := range x {
		x[i] = float32(r.IntN(17) - 8)
	}
	vec.Float32ToBFloat16(h, x)
	return h
}

// fractions are n numbers whose products and sums are rounded.
func fractions(r *rand.Rand, n int) []uint16 {
	x, h := make([]float32, n), make([]uint16, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	vec.Float32ToBFloat16(h, x)
	return h
}

// TestDotTiles holds tiles against their definition, to the bit: columns that begin anywhere, rows
// of any distance, one tile and several calls of them, of sums that are rounded and such that are
// not.
func TestDotTiles(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 4))
		for i := range 60 {
			d := dotTile{steps: 1 + r.IntN(9), tiles: 1 + r.IntN(5), ldc: dotCols + r.IntN(9)}
			if i == 0 {
				d.steps, d.tiles = 700, 11
			}
			d.lda = d.steps*dotStep + r.IntN(40)
			rows, numbers := d.tiles*dotRows, wholes
			if i%2 == 1 {
				numbers = fractions
			}
			d.a = numbers(r, (rows-1)*d.lda+d.steps*dotStep)
			last := r.IntN(200)
			d.b = numbers(r, last+d.steps*dotStep)
			for j := range d.offs {
				d.offs[j] = r.IntN(last + 1)
			}
			got, check := guarded(r, (rows-1)*d.ldc+dotCols)
			for i := range got {
				got[i] = float32(r.IntN(100))
			}
			want := slices.Clone(got)
			d.c = want
			d.model()
			d.c = got
			d.run()
			check(t, fmt.Sprint(i))
			if !slices.Equal(got, want) {
				t.Fatalf("%d: tiles of %d steps: %v, want %v", i, d.steps, got, want)
			}
		}
	})
}

// randomDots is a gradient of whole numbers that is planned by dot products whatever its size. Some
// are cut into fewer parts than planned, as gradients of many weights are, so that a chunk goes
// from block to block.
func randomDots(r *rand.Rand) (p WeightsParams, o *Weights, ok bool) {
	p = WeightsParams{Window: randomWindow(r, 1+r.IntN(2), 9), N: 1 + r.IntN(4),
		Group: 1 + r.IntN(3), Format: gemm.BF16}
	p.C, p.M = p.Group*(1+r.IntN(9)), p.Group*(1+r.IntN(14))
	switch r.IntN(9) {
	case 0:
		p.Kernel, p.PadLo, p.PadHi = [3]int{1, 1, 1}, [3]int{}, [3]int{}
	case 1: // images that are cut
		p.In[1], p.In[2] = max(p.In[1], 60+r.IntN(30)), max(p.In[2], 80+r.IntN(20))
		p.N, p.Group, p.C, p.M = 1+r.IntN(2), 1, 1+r.IntN(2), 1+r.IntN(6)
	case 2:
		p.N = 20 + r.IntN(40)
	case 3: // filters that are
		p.In, p.Kernel = [3]int{1, 36 + r.IntN(5), 40}, [3]int{1, 1, 1}
		p.PadLo, p.PadHi = [3]int{}, [3]int{}
		p.N, p.Group, p.C, p.M = 1, 1, 1+r.IntN(3), 300+r.IntN(20)
	case 4:
		p.Kernel, p.Stride = [3]int{1, 3, 3}, [3]int{1, 1, 1}
		p.PadLo, p.PadHi = [3]int{0, 1, 1}, [3]int{0, 1, 1}
	case 5: // more zeros than taps reach to
		p.PadLo, p.PadHi = [3]int{0, r.IntN(9), r.IntN(9)}, [3]int{0, r.IntN(9), r.IntN(9)}
	case 6: // rows without zeros between, but with such between images
		p.Kernel, p.Stride, p.N = [3]int{1, 2 + r.IntN(3), 1}, [3]int{1, 1, 1}, 2+r.IntN(8)
		p.PadLo, p.PadHi = [3]int{0, r.IntN(2), 0}, [3]int{0, r.IntN(2), 0}
	case 7: // blocks of as many rows at the top and at the bottom of an image
		p.In, p.Kernel, p.Stride = [3]int{1, 64, 96}, [3]int{1, 3, 3}, [3]int{1, 1, 1}
		p.Dilate, p.PadLo, p.PadHi = p.Stride, [3]int{0, 1, 1}, [3]int{0, 1, 1}
		p.N, p.Group, p.C, p.M = 1+r.IntN(2), 1, 1+r.IntN(2), 1+r.IntN(6)
	case 8: // columns that are fewer than a stride
		p.In, p.Kernel = [3]int{1, 1 + r.IntN(40), 1 + r.IntN(2)}, [3]int{1, 1 + r.IntN(3), 5}
		p.Stride, p.Dilate = [3]int{1, 1 + r.IntN(3), 3 + r.IntN(2)}, [3]int{1, 1, 1}
		p.PadLo, p.PadHi = [3]int{0, 1, r.IntN(5)}, [3]int{0, 1, 4}
	}
	out, err := p.Window.setDefaults()
	if err != nil {
		return p, nil, false
	}
	for a := range out {
		p.Out[a] = max(1, out[a]-max(0, r.IntN(6)-4))
	}
	given := p
	places := p.Window.rotateAxes()
	p.Out = rotated(p.Out, places)
	o = &Weights{p: p, filters: p.M / p.Group, columns: p.C / p.Group * volume(p.Kernel)}
	if ok = o.planDots(); ok && r.IntN(2) == 0 {
		o.parts = 1 + r.IntN(o.parts)
	}
	return given, o, ok
}

// TestDotsOfWeights compares gradients by dot products, of floats and of halves, with the
// definition, to the bit.
func TestDotsOfWeights(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 4))
		seen := map[string]int{}
		for i := range 150 {
			p, o, ok := randomDots(r)
			if !ok {
				continue
			}
			name := fmt.Sprint(i, p)
			for _, at := range o.dots.blocks {
				switch {
				case at.images > 1:
					seen["images"]++
				case at.rows < o.p.Out[1]:
					seen["rows"]++
				}
			}
			for what, is := range map[string]bool{"parts": o.parts > 1, "filters": o.rowBlocks > 1,
				"channels": o.colBlocks > 1, "strides": volume(o.p.Stride) > 1} {
				if is {
					seen[what]++
				}
			}
			args := WeightsArgs{Saved: wholes(r, p.N*p.C*volume(p.In)), Parts: make([]float32,
				o.PartsLen())}
			args.X = make([]float32, len(args.Saved))
			vec.BFloat16ToFloat32(args.X, args.Saved)
			args.DY = make([]float32, p.N*p.M*volume(p.Out))
			vec.BFloat16ToFloat32(args.DY, wholes(r, len(args.DY)))
			want := make([]float32, p.M*o.columns)
			args.DW = want
			referenceWeights(p, &args)
			saved := args.Saved
			for _, args.Saved = range [][]uint16{nil, saved} {
				got, check := guarded(r, len(want))
				scratch, checkScratch := guarded(r, o.ScratchLen())
				args.DW = got
				packed, checkPacked := guarded(r, o.PackedLen())
				args.Packed = packed
				for _, c := range r.Perm(o.Packs()) {
					o.Pack(c, &args, scratch)
				}
				for _, c := range r.Perm(o.Chunks()) {
					o.Run(c, &args, scratch)
				}
				for c := range o.Sums() {
					o.Sum(c, &args)
				}
				check(t, name)
				checkScratch(t, name)
				checkPacked(t, name)
				compare(t, name, got, want, 0)
			}
		}
		for _, what := range []string{"images", "rows", "parts", "filters", "channels",
			"strides"} {
			if seen[what] < 3 {
				t.Errorf("%d of %s, want several", seen[what], what)
			}
		}
	})
}

// TestDotsAreChosen: for long sums in bfloat16 where the processor has them and no tiles.
func TestDotsAreChosen(t *testing.T) {
	for _, p := range []WeightsParams{
		{Window: Window{In: [3]int{1, 28, 28}, Kernel: [3]int{1, 1, 1}}, N: 1, C: 8, M: 8,
			Format: gemm.BF16},
		{Window: Window{In: [3]int{1, 7, 7}, Kernel: [3]int{1, 1, 1}}, N: 1, C: 8, M: 8,
			Format: gemm.BF16},
		{Window: Window{In: [3]int{1, 28, 28}, Kernel: [3]int{1, 1, 1}}, N: 1, C: 8, M: 8},
	} {
		p.Out = p.In
		o, err := NewWeights(p)
		if err != nil {
			t.Fatal(err)
		}
		want := hasDots() && p.Format == gemm.BF16 && volume(p.Out) >= leastDotPlaces
		if o.TakesSaved() != want {
			t.Errorf("%+v: by dot products: %v", p, o.TakesSaved())
		}
	}
}
