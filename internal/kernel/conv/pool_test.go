package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

func TestRandomPools(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 3))
		for range 400 {
			checkPool(t, r, randomPool(t, r))
		}
	})
}

func randomPool(t *testing.T, r *rand.Rand) PoolParams {
	p := PoolParams{
		Window: randomWindow(r, 1+r.IntN(3), 9), Planes: 1 + r.IntN(5),
		Kind: PoolKind(r.IntN(2)), CountPad: r.IntN(2) == 0,
	}
	if r.IntN(4) == 0 {
		p.In[2] += r.IntN(60)
	}
	if r.IntN(4) == 0 {
		w := square(1, 1, 2*(1+r.IntN(20)), 2, 2, 0, 1).Window
		w.In[1] = 2 * (1 + r.IntN(9))
		p.Window, p.Planes = w, 1+r.IntN(40)
	}
	out, err := p.Window.setDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if r.IntN(2) == 0 {
		for i := range 3 {
			if out[i]*p.Stride[i] < p.In[i]+p.PadLo[i] {
				out[i]++
			}
		}
		p.Out = out
	}
	return p
}

// TestMeansHaveTheSameBits holds that means are the same bits on every level, over images that
// windows tile too.
func TestMeansHaveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	for range 200 {
		p := randomPool(t, r)
		p.Kind = AveragePool
		x := make([]float32, p.Planes*volume(p.In))
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		var first []float32
		atLevels(t, func(t *testing.T) {
			o, err := NewPool(p)
			if err != nil {
				t.Fatal(err)
			}
			y, scratch := make([]float32, p.Planes*volume(o.Out())), make([]float32, o.ScratchLen())
			for c := range o.Chunks() {
				o.Run(c, x, y, scratch)
			}
			if first == nil {
				first = y
			}
			for i, v := range y {
				if math.Float32bits(v) != math.Float32bits(first[i]) {
					t.Fatalf("%+v: element %d is %x, on another level %x", p, i, v, first[i])
				}
			}
		})
	}
}

// TestPoolsOfLargeImages pools planes that take more than one call, and so many small ones that
// there are several chunks.
func TestPoolsOfLargeImages(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 3))
		for stride := 1; stride <= 2; stride++ {
			for kind := range PoolKind(2) {
				checkPool(t, r, PoolParams{Window: square(1, 1, 301, 3, stride, 1, 1).Window,
					Kind: kind, Planes: 3})
				checkPool(t, r, PoolParams{Window: square(1, 1, 5, 3, stride, 1, 1).Window,
					Kind: kind, Planes: 2000})
			}
		}
	})
}

// TestLargePlanesAreCut holds that one plane is several chunks, in each way to pool.
func TestLargePlanesAreCut(t *testing.T) {
	deep := square(1, 1, 50, 3, 1, 1, 1).Window
	deep.In[0], deep.Kernel[0], deep.PadLo[0] = 13, 2, 1
	pairs := square(1, 1, 10, 2, 2, 0, 1).Window
	pairs.In[1] = 20_002
	for name, w := range map[string]Window{"3x3": square(1, 1, 301, 3, 1, 1, 1).Window,
		"stride 3": square(1, 1, 601, 3, 3, 1, 1).Window, "deep": deep, "pairs": pairs,
		"long means": square(1, 1, 351, 12, 5, 2, 1).Window} {
		t.Run(name, func(t *testing.T) {
			atLevels(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(2, 4))
				for kind := range PoolKind(2) {
					p := PoolParams{Window: w, Kind: kind, Planes: 2}
					o, err := NewPool(p)
					if err != nil {
						t.Fatal(err)
					}
					if o.Chunks() <= p.Planes {
						t.Errorf("kind %d: %d chunks for %d planes", kind, o.Chunks(), p.Planes)
					}
					checkPool(t, r, p)
				}
			})
		})
	}
}

// TestLongMeans averages over windows that are long in one axis or another, beyond the pads too, of
// numbers whose rounding errors have one sign.
func TestLongMeans(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, size := range [][3]int{{1, 1, 20_000}, {1, 20_000, 1}, {20_000, 1, 2}, {2, 130, 129},
			{3, 1, 66}} {
			for stride := 1; stride <= 3; stride++ {
				w := square(1, 1, 8, 1, stride, 0, 1).Window
				for i, n := range size {
					w.In[i], w.Kernel[i] = n+1, n
					if i > 0 && n > 2 {
						w.PadLo[i], w.PadHi[i] = 2, 1
					}
				}
				checkLongMean(t, PoolParams{Window: w, Kind: AveragePool, Planes: 2,
					CountPad: stride == 2})
			}
		}
	})
}

func checkLongMean(t *testing.T, p PoolParams) {
	t.Helper()
	op, err := NewPool(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	x := make([]float32, p.Planes*volume(p.In))
	vec.Fill(x, 0.1)
	y := make([]float32, p.Planes*volume(op.Out()))
	want := make([]float32, len(y))
	scratch := make([]float32, op.ScratchLen())
	vec.Fill(scratch, float32(math.NaN()))
	for c := range op.Chunks() {
		op.Run(c, x, y, scratch)
	}
	ReferencePool(p, x, want)
	for i, v := range want {
		if d := math.Abs(float64(y[i]) - float64(v)); !(d <= 1.6e-5*float64(v)) {
			t.Fatalf("%+v: element %d is %v, want %v", p, i, y[i], v)
		}
	}
}

// TestPoolsOfThreeColumns walks over widths around those of vectors, with and without borders, for
// windows that are three columns wide.
func TestPoolsOfThreeColumns(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 3))
		for size := 3; size <= 70; size++ {
			p := PoolParams{Window: square(1, 1, size, 3, 2, r.IntN(3), 1).Window, Planes: 2}
			p.In[1], p.Kernel[1] = 4+r.IntN(5), 1+r.IntN(4)
			p.PadHi[1], p.PadHi[2] = r.IntN(2), r.IntN(3)
			checkPool(t, r, p)
		}
	})
}

// TestPoolWidths walks over widths of images around those of vectors, for windows of all small
// widths.
func TestPoolWidths(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 3))
		for size := 1; size <= 34; size++ {
			for kernel := 1; kernel <= min(size, 6); kernel++ {
				for stride := 1; stride <= 2; stride++ {
					w := square(1, 1, size, kernel, stride, r.IntN(2), 1).Window
					w.In[1], w.Kernel[1] = 3+r.IntN(4), 1+r.IntN(3)
					checkPool(t, r, PoolParams{Window: w, Kind: PoolKind(r.IntN(2)),
						Planes: 1 + r.IntN(3), CountPad: r.IntN(2) == 0})
				}
			}
		}
	})
}

func checkPool(t *testing.T, r *rand.Rand, p PoolParams) {
	t.Helper()
	checkPoolOf(t, r, p, func(x []float32) []float32 { return x })
}

// checkPoolOf compares with the reference what comes of images and goes where place puts them.
func checkPoolOf(t *testing.T, r *rand.Rand, p PoolParams, place func([]float32) []float32) {
	t.Helper()
	op, err := NewPool(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	x, _ := guarded(r, p.Planes*volume(p.In))
	if r.IntN(3) == 0 {
		x[r.IntN(len(x))] = float32(math.NaN())
		x[r.IntN(len(x))] = inf
	}
	y, check := guarded(r, p.Planes*volume(op.Out()))
	want := make([]float32, len(y))
	scratch, checkScratch := guarded(r, op.ScratchLen())
	vec.Fill(scratch, float32(math.NaN()))
	placedX, placedY := place(x), place(y)
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, placedX, placedY, scratch)
	}
	check(t, "y")
	checkScratch(t, "scratch")
	ReferencePool(p, x, want)
	compare(t, fmt.Sprintf("%+v", p), placedY, want, 1e-5)
}

func BenchmarkPool(b *testing.B) {
	for _, p := range []PoolParams{
		{Window: square(1, 1, 112, 3, 2, 1, 1).Window, Kind: MaxPool, Planes: 64},
		{Window: square(1, 1, 112, 3, 2, 1, 1).Window, Kind: AveragePool, Planes: 64},
		{Window: square(1, 1, 28, 3, 1, 1, 1).Window, Kind: AveragePool, Planes: 256},
		{Window: square(1, 1, 14, 3, 1, 1, 1).Window, Kind: MaxPool, Planes: 576},
		{Window: square(1, 1, 112, 2, 2, 0, 1).Window, Kind: MaxPool, Planes: 64},
		{Window: square(1, 1, 14, 2, 2, 0, 1).Window, Kind: AveragePool, Planes: 512},
		{Window: square(1, 1, 4, 2, 2, 0, 1).Window, Kind: MaxPool, Planes: 2048},
		{Window: square(1, 1, 20, 5, 1, 2, 1).Window, Kind: MaxPool, Planes: 128},
		{Window: square(1, 1, 13, 13, 1, 6, 1).Window, Kind: MaxPool, Planes: 128},
		{Window: square(1, 1, 7, 7, 1, 0, 1).Window, Kind: AveragePool, Planes: 1024},
	} {
		b.Run(fmt.Sprintf("%d-%d-k%d-s%d-x%d", p.Kind, p.In[2], p.Kernel[2], p.Stride[2], p.Planes),
			func(b *testing.B) {
				op, err := NewPool(p)
				if err != nil {
					b.Fatal(err)
				}
				x, y := make([]float32, p.Planes*volume(p.In)),
					make([]float32, p.Planes*volume(op.Out()))
				scratch := make([]float32, op.ScratchLen())
				b.SetBytes(int64(4 * (len(x) + len(y))))
				for b.Loop() {
					for c := range op.Chunks() {
						op.Run(c, x, y, scratch)
					}
				}
			})
	}
}
