package conv

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestNothingOutsideIsTouched pools and convolves images of all widths about those of vectors that
// begin, or end, where memory does.
func TestNothingOutsideIsTouched(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 3))
	for _, atStart := range []bool{true, false} {
		atLevels(t, func(t *testing.T) {
			for size := 1; size <= 35; size++ {
				for stride := 1; stride <= 3; stride++ {
					poolFenced(t, r, size, stride, atStart)
					p := square(2, 2, size, 3, stride, 1, 2)
					p.In[1] = 2 + r.IntN(4)
					convolveFenced(t, r, p, atStart)
				}
			}
		})
	}
}

// fencedCopy returns x where nothing before it, or after it, may be touched.
func fencedCopy(t *testing.T, x []float32, atStart bool) []float32 {
	t.Helper()
	y := cputest.Fenced(t, max(len(x), 1), atStart)[:len(x)]
	copy(y, x)
	return y
}

func poolFenced(t *testing.T, r *rand.Rand, size, stride int, atStart bool) {
	t.Helper()
	p := PoolParams{Window: square(1, 1, size, 1+r.IntN(min(size, 5)), stride, r.IntN(2), 1).Window,
		Kind: PoolKind(r.IntN(2)), Planes: 2}
	p.In[1] = p.Kernel[1] + r.IntN(4)
	checkPoolOf(t, r, p, func(x []float32) []float32 { return fencedCopy(t, x, atStart) })
}

// TestNothingOutsideIsTouchedByProducts convolves such images by every algorithm that adds up
// channels, with borders and without.
func TestNothingOutsideIsTouchedByProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 3))
	for _, atStart := range []bool{true, false} {
		atLevels(t, func(t *testing.T) {
			for size := 3; size <= 19; size++ {
				p := square(1+r.IntN(fewChannels+2), 1+r.IntN(20), size, 1+2*r.IntN(2), 1+size%3,
					r.IntN(2), 1)
				p.In[1], p.Reused = 3+r.IntN(4), true
				for _, p.Algorithm = range p.Algorithms() {
					convolveFenced(t, r, p, atStart)
				}
			}
		})
	}
}

// TestNothingOutsideIsTouchedByRunsOfColumns convolves images of more channels than are copied
// under all taps at once, whose neighbouring columns lie in several rows.
func TestNothingOutsideIsTouchedByRunsOfColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 3))
	for _, atStart := range []bool{true, false} {
		atLevels(t, func(t *testing.T) {
			for size := 3; size <= 32; size++ {
				for stride := 1; stride <= 3; stride++ {
					p := square(fewChannels+1+r.IntN(3), 1+r.IntN(8), size, 3, stride, 0, 1)
					p.PadLo[2], p.In[1] = r.IntN(2), 7+r.IntN(4)
					for _, p.Algorithm = range []Algorithm{AlgoProduct, AlgoPixels} {
						convolveFenced(t, r, p, atStart)
					}
				}
			}
		})
	}
}

// TestPanelsOfPatches fills panels of columns in several rows of the output, of which nothing
// before or after may be touched, by kernels and without.
func TestPanelsOfPatches(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 3))
	for _, atStart := range []bool{true, false} {
		atLevels(t, func(t *testing.T) {
			for size := 3; size <= 32; size++ {
				for stride := 1; stride <= 3; stride++ {
					w := square(1, 1, size, 3, stride, 0, 1).Window
					w.In[1], w.PadLo[2] = 2*size, r.IntN(2)
					fillFenced(t, r, w, []int{5, 6, 7, 8, 16}[size%5], atStart)
				}
			}
		})
	}
}

func fillFenced(t *testing.T, r *rand.Rand, w Window, width int, atStart bool) {
	t.Helper()
	out, err := w.setDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := newPatches(w, out, fewChannels+1)
	k, n := p.c*len(p.taps), volume(out)
	src, _ := guarded(r, p.c*p.plane)
	src = fencedCopy(t, src, atStart)
	plain := p
	plain.level, plain.direct, plain.tables = levelGo, false, false
	for j := 0; j+width <= n; j += width {
		got := fencedCopy(t, make([]float32, k*width), atStart)
		want := make([]float32, k*width)
		p.fill(got, src, 0, k, j, j+width)
		plain.fill(want, src, 0, k, j, j+width)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: panel of %d columns from %d differs", w, width, j)
		}
	}
}

func convolveFenced(t *testing.T, r *rand.Rand, p Params, atStart bool) {
	t.Helper()
	p.Bias, p.Residual = true, r.IntN(2) == 0
	args := dataFor(t, r, p)
	for _, x := range []*[]float32{&args.X, &args.W, &args.Bias, &args.Residual, &args.Y} {
		*x = fencedCopy(t, *x, atStart)
	}
	runOp(t, r, p, args)
	got := args.Y
	args.Y = make([]float32, len(got))
	Reference(p, &args)
	compare(t, p.Problem(), got, args.Y, 1e-4)
}

// TestNothingOutsideIsTouchedByTiles convolves images of bytes that end where memory does.
func TestNothingOutsideIsTouchedByTiles(t *testing.T) {
	if !HasNHWC() || !gemm.U8S8.OnTiles() {
		t.Skip("this processor has no tiles")
	}
	r := rand.New(rand.NewPCG(23, 3))
	for range 150 {
		k := randomTiled(r)
		op, err := NewNHWC(k.p, k.planar, k.flipX, k.shift)
		if err != nil {
			t.Fatal(err)
		}
		a := k.args(op)
		a.Weights = fencedCopy(t, a.Weights, false)
		a.X, a.Y, a.Image = fencedBytes(t, a.X), fencedBytes(t, a.Y), fencedBytes(t, a.Image)
		for i := range op.ImageChunks() {
			op.FillImage(i, a)
		}
		for c := range op.Chunks() {
			op.Run(c, a)
		}
		k.compare(t, a.Y, op.Out())
	}
}

// fencedBytes returns a copy of x behind which nothing may be touched.
func fencedBytes(t *testing.T, x []byte) []byte {
	t.Helper()
	words := cputest.Fenced(t, len(x)/4+1, false)
	all := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words))
	y := all[len(all)-len(x):]
	copy(y, x)
	return y
}
