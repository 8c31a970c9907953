package conv

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

const canary = float32(-12345.5)

var inf = float32(math.Inf(1))

// atLevels runs f once on each path of instructions that the machine has.
func atLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	cputest.EachPath(t, f)
}

// guarded returns n random floats off a vector boundary, and a check that nothing around them was
// written.
func guarded(r *rand.Rand, n int) (x []float32, check func(t *testing.T, what string)) {
	const pad = 37
	buf := make([]float32, n+2*pad)
	for i := range buf {
		buf[i] = canary
	}
	lead := 17 + r.IntN(20)
	x = buf[lead : lead+n : lead+n]
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x, func(t *testing.T, what string) {
		t.Helper()
		for i, v := range buf {
			if (i < lead || i >= lead+n) && v != canary {
				t.Fatalf("%s: wrote %g at %d, outside its %d floats", what, v, i-lead, n)
			}
		}
	}
}

func compare(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.IsNaN(g) && math.IsNaN(w) || g == w {
			continue
		}
		if !(math.Abs(g-w) <= tol*max(1, math.Abs(w))) {
			t.Fatalf("%s: element %d is %g, want %g", what, i, g, w)
		}
	}
}

// randomWindow draws the geometry of one image whose kernel fits.
func randomWindow(r *rand.Rand, axes, size int) Window {
	w := Window{In: [3]int{1, 1, 1}, Kernel: [3]int{1, 1, 1}}
	for i := 3 - axes; i < 3; i++ {
		w.Kernel[i] = 1 + r.IntN(4)
		if r.IntN(3) == 0 {
			w.Kernel[i] = 3
		}
		w.Stride[i] = 1 + max(0, r.IntN(5)-2)
		w.Dilate[i] = 1 + max(0, r.IntN(4)-2)
		w.PadLo[i], w.PadHi[i] = r.IntN(3), r.IntN(3)
		least := max(1, (w.Kernel[i]-1)*w.Dilate[i]+1-w.PadLo[i]-w.PadHi[i])
		w.In[i] = least + r.IntN(size)
	}
	if r.IntN(6) == 0 { // an image of one column, or of one element
		for range 1 + r.IntN(2) {
			w.In, w.Kernel, w.Stride, w.Dilate = turnedLeft(w.In), turnedLeft(w.Kernel),
				turnedLeft(w.Stride), turnedLeft(
					w.Dilate)
			w.PadLo, w.PadHi = turnedLeft(w.PadLo), turnedLeft(w.PadHi)
		}
	}
	if r.IntN(6) == 0 {
		w.Kernel, w.Stride, w.PadLo, w.PadHi = [3]int{1, 1, 1}, [3]int{}, [3]int{}, [3]int{}
	}
	return w
}

func turnedLeft(n [3]int) [3]int { return [3]int{n[1], n[2], n[0]} }

func randomParams(r *rand.Rand) Params {
	axes := 1 + min(2, r.IntN(5))
	p := Params{
		Window: randomWindow(r, axes, []int{0, 70, 24, 6}[axes]),
		N:      1 + r.IntN(2),
		Group:  1 + r.IntN(3),
	}
	p.C, p.M = p.Group*(1+r.IntN(4)), p.Group*(1+r.IntN(18))
	if r.IntN(2) == 0 {
		p.Group = 1 + r.IntN(5)
		p.C, p.M = p.Group, p.Group*(1+r.IntN(2))
	}
	if p.C > p.Group && r.IntN(3) == 0 {
		p.Format = gemm.BF16
	}
	p.Bias, p.Residual = r.IntN(2) == 0, r.IntN(2) == 0
	if r.IntN(3) == 0 {
		p.Clamp, p.Lo, p.Hi = true, -0.5, 0.75
	}
	if r.IntN(3) == 0 {
		p.Map = func(dst, x []float32) {
			for i, v := range x {
				dst[i] = v*v + 1
			}
		}
	}
	return p
}

// runOp plans p and runs it.
func runOp(t *testing.T, r *rand.Rand, p Params, args Args) {
	t.Helper()
	op, err := New(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	runPlanned(t, r, op, args)
}

// runPlanned packs the weights and runs the chunks in random order over dirty scratch.
func runPlanned(t *testing.T, r *rand.Rand, op *Convolution, args Args) {
	t.Helper()
	packed, checkW := guarded(r, op.PackedLen())
	op.PackWeights(packed, args.W)
	checkW(t, "packed weights")
	args.W = packed
	scratch, check := guarded(r, op.ScratchLen())
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, &args, scratch)
	}
	check(t, "scratch")
}

func dataFor(t *testing.T, r *rand.Rand, p Params) Args {
	t.Helper()
	out, err := p.Window.setDefaults()
	if err != nil {
		t.Fatal(err)
	}
	floats := func(n int) []float32 {
		x, _ := guarded(r, n)
		return x
	}
	y := p.N * p.M * volume(out)
	return Args{
		X:        floats(p.N * p.C * volume(p.In)),
		W:        floats(p.M * p.C / max(p.Group, 1) * volume(p.Kernel)),
		Bias:     floats(p.M),
		Residual: floats(y),
		Y:        floats(y),
	}
}

func checkAgainstReference(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	y, check := guarded(r, len(args.Y))
	args.Y = y
	runOp(t, r, p, args)
	check(t, "Y")
	args.Y = make([]float32, len(y))
	Reference(p, &args)
	compare(t, fmt.Sprintf("%+v", p), y, args.Y, 1e-4)
}

func TestRandomConvolutions(t *testing.T) {
	check := func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			checkAgainstReference(t, r, randomParams(r))
		}
	}
	atLevels(t, check)
	cputest.OnTiles(t, check)
}

// TestSmallPlanes draws depthwise convolutions of the kind that have a kernel of their own: 3x3
// taps with a border of one.
func TestSmallPlanes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 2))
		for range 60 {
			p := randomParams(r)
			drawn := square(1, 1, 1, 3, 1, 1, 1)
			drawn.N, drawn.C, drawn.In = p.N, 1+r.IntN(12), [3]int{
				1,
				1 + r.IntN(20),
				1 + r.IntN(100),
			}
			drawn.M, drawn.Group = drawn.C*(1+r.IntN(3)), drawn.C
			drawn.Bias, drawn.Residual, drawn.Clamp, drawn.Lo, drawn.Hi, drawn.Map = p.Bias,
				p.Residual, p.Clamp, p.Lo, p.Hi, p.Map
			checkAgainstReference(t, r, drawn)
		}
	})
}

// TestHalvedPlanes draws the same with strides of 2, of any number of columns, with and without a
// border behind the image.
func TestHalvedPlanes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 5))
		for range 60 {
			p := randomParams(r)
			drawn := square(1, 1, 1, 3, 2, 1, 1)
			drawn.N, drawn.C, drawn.In = p.N, 1+r.IntN(12), [3]int{
				1,
				2 + r.IntN(20),
				2 + r.IntN(100),
			}
			drawn.M, drawn.Group = drawn.C*(1+r.IntN(3)), drawn.C
			drawn.PadHi = [3]int{0, r.IntN(2), r.IntN(2)}
			drawn.Bias, drawn.Residual, drawn.Clamp, drawn.Lo, drawn.Hi, drawn.Map = p.Bias,
				p.Residual, p.Clamp, p.Lo, p.Hi, p.Map
			checkAgainstReference(t, r, drawn)
		}
	})
}

// TestResidualInPlace adds a residual that lies where the results go, for rows of all widths, by
// every algorithm.
func TestResidualInPlace(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 8))
		for size := 3; size <= 37; size++ {
			for _, p := range []Params{square(4, 4, size, 3, 1, 1, 4),
				square(4, 4, size, 3, 2, 1, 4), square(4, 4, size, 3, 1, 0, 4),
				square(3, 5, size, 3, 1, 1, 1)} {
				p.In[1], p.Residual, p.Reused = 3+size%4, true, true
				for _, p.Algorithm = range p.Algorithms() {
					checkInPlace(t, r, p)
				}
			}
		}
	})
}

func checkInPlace(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	want := args
	want.Y = make([]float32, len(args.Y))
	Reference(p, &want)
	args.Y = args.Residual
	runOp(t, r, p, args)
	compare(t, fmt.Sprintf("%s: %s", p.Problem(), p.Algorithm), args.Y, want.Y, 1e-4)
}

// TestLimitsThatAreNoNumbers holds that a limit that is NaN limits nothing.
func TestLimitsThatAreNoNumbers(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 9))
		nan := float32(math.NaN())
		for _, p := range []Params{square(4, 4, 11, 3, 1, 1, 4), square(4, 4, 11, 3, 2, 1, 4),
			square(4, 4, 11, 5, 1, 1, 4), square(3, 5, 11, 3, 1, 1, 1)} {
			p.Clamp, p.Reused = true, true
			for _, limits := range [][2]float32{{nan, 0.1}, {-0.1, nan}, {nan, nan}} {
				p.Lo, p.Hi = limits[0], limits[1]
				for _, p.Algorithm = range p.Algorithms() {
					checkAgainstReference(t, r, p)
				}
			}
		}
	})
}

// TestWholePlanes walks over widths and heights of the planes that have kernels of their own, which
// cut a row by its width and go down a plane several rows a round.
func TestWholePlanes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 10))
		for size := 3; size <= 48; size++ {
			for high := 2; high <= 9; high++ {
				p := square(1, 1, size, 3, 1, 1, 1)
				p.In[1], p.Bias, p.Residual = high, size%2 == 0, true
				checkAgainstReference(t, r, p)
				p.In[2], p.Stride = 2*size-high%2, [3]int{1, 2, 2}
				p.PadHi = [3]int{0, 1, 1 - high/2%2}
				checkAgainstReference(t, r, p)
			}
		}
	})
}

// TestManyPlanes convolves planes that are narrower than a vector, in several chunks.
func TestManyPlanes(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 6))
		checkAgainstReference(t, r, square(600, 600, 7, 3, 1, 1, 600))
		checkAgainstReference(t, r, square(900, 900, 11, 3, 2, 1, 900))
	})
}

// square describes a 2-D convolution with equal axes and padding.
func square(c, m, size, kernel, stride, pad, group int) Params {
	return Params{
		N: 1, C: c, M: m, Group: group,
		Window: Window{
			In: [3]int{
				1,
				size,
				size,
			},
			Kernel: [3]int{1, kernel, kernel},
			Stride: [3]int{1, stride, stride},
			PadLo:  [3]int{0, pad, pad},
			PadHi:  [3]int{0, pad, pad},
		},
	}
}

// TestWidths walks over output widths around the vector lengths, for the shapes that networks use
// most.
func TestWidths(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for size := 5; size <= 38; size++ {
			for _, p := range []Params{
				square(3, 5, size, 3, 1, 1, 1), square(2, 3, size, 3, 2, 1, 1),
				square(2, 3, size, 1, 2, 0, 1),
				square(fewChannels+1, 2, size, 3, 1, 1, 1),
				square(fewChannels+1, 2, size, 3, 2, 1, 1),
				square(3, 3, size, 3, 1, 1, 3), square(3, 3, size, 3, 2, 1, 3),
				square(2, 2, size, 5, 1, 2, 2), square(2, 2, size, 5, 2, 2, 2),
			} {
				p.Bias, p.Residual, p.Clamp, p.Lo, p.Hi = true, size%2 == 0, size%3 == 0, 0, 6
				checkAgainstReference(t, r, p)
			}
		}
	})
}

// TestRowsOfWindows holds that the kernels of the windows that have one of their own give the bits
// of the kernel for any window, whatever the width and the number of rows.
func TestRowsOfWindows(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 7))
		for range 150 {
			p := square(2, 2, 1, 3+2*r.IntN(2), 1, r.IntN(3), 2)
			p.In = [3]int{1, 5 + r.IntN(20), 5 + r.IntN(40)}
			p.Stride = [3]int{1, 1 + r.IntN(2), 1 + r.IntN(2)}
			p.Bias, p.Residual, p.Clamp, p.Lo, p.Hi = true, r.IntN(2) == 0, r.IntN(2) == 0, -1, 1
			op, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			op.depthwise.small, op.depthwise.halved = nil, nil
			if op.depthwise.step == 0 {
				continue // planned for a kernel of whole planes
			}
			args := dataFor(t, r, p)
			runPlanned(t, r, op, args)
			got := args.Y
			op.depthwise.window = anyWindow
			args.Y = make([]float32, len(got))
			runPlanned(t, r, op, args)
			if !slices.Equal(got, args.Y) {
				t.Fatalf("%s: other bits than by the kernel for any window", p.Problem())
			}
		}
	})
}

func TestLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	wide := Params{
		N:        1,
		C:        1,
		M:        1,
		Residual: true,
		Window: Window{
			In:     [3]int{1, 3, 60000},
			Kernel: [3]int{1, 1, 9},
			PadLo:  [3]int{0, 0, 4},
			PadHi:  [3]int{0, 0, 4},
		},
	}
	checkAgainstReference(t, r, wide)
	for _, p := range []Params{
		{N: 1, C: 1, M: 33, Window: Window{In: [3]int{1, 1, 640}, Kernel: [3]int{1, 1, 256},
			Stride: [3]int{1, 1, 128}}},
		{N: 2, C: 6, M: 40, Bias: true,
			Window: Window{In: [3]int{1, 90, 1}, Kernel: [3]int{1, 5, 1}}},
		square(64, 40, 14, 3, 1, 1, 1), square(3, 16, 65, 7, 2, 3, 1),
		square(96, 33, 7, 1, 1, 0, 1), square(24, 24, 200, 3, 1, 1, 24),
	} {
		checkAgainstReference(t, r, p)
	}
}

// TestNonFinite checks that a NaN or an infinity reaches exactly the outputs that see it: padding
// multiplies nothing.
func TestNonFinite(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, p := range []Params{square(2, 3, 9, 3, 1, 1, 1), square(2, 2, 9, 3, 2, 1, 2),
			square(3, 3, 20, 3, 1, 1, 3)} {
			for _, bad := range []float32{float32(math.NaN()), inf, 1e-42} {
				p.Clamp, p.Lo, p.Hi = true, 0, inf
				args := dataFor(t, r, p)
				args.X[0], args.X[40], args.X[len(args.X)-1] = bad, bad, bad
				runOp(t, r, p, args)
				got := args.Y
				args.Y = make([]float32, len(got))
				Reference(p, &args)
				compare(t, fmt.Sprint(bad), got, args.Y, 1e-4)
			}
		}
	})
}

// TestShift checks that moving the image moves the result.
func TestShift(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	p := square(3, 4, 24, 3, 1, 0, 1)
	args := dataFor(t, r, p)
	runOp(t, r, p, args)
	q := p
	q.In[2] = 23
	moved := args
	moved.X, moved.Y = nil, make([]float32, 4*22*21)
	for row := range 3 * 24 {
		moved.X = append(moved.X, args.X[row*24+1:][:23]...)
	}
	runOp(t, r, q, moved)
	for row := range 4 * 22 {
		compare(t, "shifted", moved.Y[row*21:][:21], args.Y[row*22+1:][:21], 1e-5)
	}
}

func TestBadParams(t *testing.T) {
	good := square(4, 4, 8, 3, 1, 1, 1)
	for name, change := range map[string]func(p *Params){
		"group":       func(p *Params) { p.Group = 3 },
		"kernel":      func(p *Params) { p.Kernel[2] = 20 },
		"no kernel":   func(p *Params) { p.Kernel[1] = 0 },
		"pad":         func(p *Params) { p.PadLo[1] = -1 },
		"huge":        func(p *Params) { p.In[2], p.In[1] = 1<<30, 1<<30 },
		"huge stride": func(p *Params) { p.Stride[2] = -1 },
	} {
		p := good
		change(&p)
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%s: error %v, want ErrParams", name, err)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, p := range []Params{square(4, 8, 12, 3, 1, 1, 1), square(4, 4, 12, 3, 2, 1, 4)} {
		args := dataFor(t, r, p)
		op, _ := New(p)
		scratch := make([]float32, op.ScratchLen())
		if n := testing.AllocsPerRun(10, func() { op.Run(0, &args, scratch) }); n != 0 {
			t.Errorf("%+v: a chunk allocates %g times", p, n)
		}
	}
}

// FuzzConvolution compares random convolutions, of floats and of bytes, with the reference on every
// path of instructions.
func FuzzConvolution(f *testing.F) {
	for s := range uint64(8) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		atLevels(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := randomParams(r)
			checkAgainstReference(t, r, p)
			p = Params{Window: p.Window, N: p.N, C: p.C, M: p.M, Group: p.Group}
			checkBytes(t, r, p, r.IntN(2) == 0, r.IntN(2) == 0, false)
		})
	})
}
