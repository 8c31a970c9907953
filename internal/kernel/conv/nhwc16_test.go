package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// onTiles runs a test of NHWC16 by the definition of tiles, with vector kernels around them and
// without, and on those of the processor where it has some.
func onTiles(t *testing.T, test func(t *testing.T)) {
	t.Run("defined", func(t *testing.T) {
		defer cpuinfo.TilesByDefinition()()
		test(t)
	})
	t.Run("without vectors", func(t *testing.T) {
		defer cpuinfo.TilesByDefinition()()
		defer cpuinfo.Limit(cpuinfo.PathPlain)()
		test(t)
	})
	if HasNHWC16() {
		t.Run("processor", test)
	}
}

// halfCase is a convolution with its operands.
type halfCase struct {
	p      Params
	planar bool
	args   NHWC16Args
	w      []float32
}

// bhalves are random bfloat16 of magnitude about 1.
func bhalves(r *rand.Rand, n int) []uint16 {
	x := make([]uint16, n)
	for i := range x {
		x[i] = uint16(tensor.BHalfOf(float32(r.NormFloat64())))
	}
	return x
}

// randomNHWC16 makes up a convolution.
func randomNHWC16(r *rand.Rand, planar bool) *halfCase {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	c := &halfCase{planar: planar}
	p := &c.p
	p.N, p.C = pick(1, 1, 2), pick(1, 8, 16, 24, 32, 33, 64, 96)
	p.M = pick(1, 7, 16, 32, 40, 64, 96)
	p.In, p.Kernel = [3]int{1, 1 + r.IntN(20), 1 + r.IntN(40)}, [3]int{1, 1, 1}
	p.Stride, p.Dilate = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	if planar {
		p.C = 1 + r.IntN(4)
	}
	if planar || r.IntN(3) > 0 {
		for axis := 1; axis < 3; axis++ {
			p.Kernel[axis], p.Stride[axis] = pick(1, 2, 3, 5, 7), pick(1, 2, 3)
			p.PadLo[axis], p.PadHi[axis] = r.IntN(4), r.IntN(4)
			if !planar {
				p.Dilate[axis] = pick(1, 1, 2, 3)
			}
			p.In[axis] += (p.Kernel[axis] - 1) * p.Dilate[axis]
		}
	}
	if r.IntN(2) == 0 {
		p.Clamp, p.Lo, p.Hi = true, 0, float32(pick(1, 6, 1000))
	}
	switch r.IntN(6) {
	case 0, 1:
		p.Map = func(dst, x []float32) { vec.HardSwish(dst, x) }
	case 2:
		p.Silu, p.Clamp = true, false
	}
	return c
}

// fill makes up the operands of a plan.
func (c *halfCase) fill(r *rand.Rand, o *NHWC16) {
	p, a := &c.p, &c.args
	if n := p.N * p.C * volume(p.In); c.planar {
		a.Planes = make([]float32, n)
		for i := range a.Planes {
			a.Planes[i] = float32(r.NormFloat64())
		}
	} else {
		a.X = bhalves(r, n)
	}
	c.w = make([]float32, p.M*p.C*volume(p.Kernel))
	for i := range c.w {
		c.w[i] = float32(r.NormFloat64())
	}
	if r.IntN(2) == 0 {
		p.Bias, a.Bias = true, make([]float32, p.M)
		for i := range a.Bias {
			a.Bias[i] = float32(r.NormFloat64())
		}
	}
	n := p.N * o.out[0] * o.out[1] * p.M
	if r.IntN(2) == 0 {
		p.Residual, a.Residual = true, bhalves(r, n)
	}
	a.Y = make([]uint16, n)
	a.Image = make([]uint16, o.ImageLen())
	for i := range a.Image {
		a.Image[i] = 0x7fc0
	}
	a.W = make([]float32, o.PackedLen())
	o.Pack(a.W, c.w, nil)
}

// run computes all chunks.
func (c *halfCase) run(o *NHWC16) {
	c.args.Begin()
	for i := range o.ImageChunks() {
		o.FillImage(i, &c.args)
	}
	scratch := make([]float32, o.ScratchLen())
	for i := range o.Chunks() {
		o.Run(i, &c.args, scratch)
	}
}

// reference is what Reference computes of the same operands, as pixels.
func (c *halfCase) reference(o *NHWC16) []float32 {
	p, a := c.p, &c.args
	p.Format = 1 // gemm.BF16
	toPlanes := func(x []uint16, ch, pixels int) []float32 {
		y := make([]float32, len(x))
		for i, v := range x {
			image, pixel := i/ch/pixels, i/ch%pixels
			y[(image*ch+i%ch)*pixels+pixel] = math.Float32frombits(uint32(v) << 16)
		}
		return y
	}
	pixels := o.out[0] * o.out[1]
	args := Args{X: a.Planes, W: c.w, Bias: a.Bias, Y: make([]float32, len(a.Y))}
	if !c.planar {
		args.X = toPlanes(a.X, p.C, volume(p.In))
	}
	if a.Residual != nil {
		args.Residual = toPlanes(a.Residual, p.M, pixels)
	}
	if p.Silu {
		p.Map = func(dst, x []float32) { vec.Silu(dst, x) }
	}
	Reference(p, &args)
	y := make([]float32, len(args.Y))
	for i := range y {
		image, pixel := i/p.M/pixels, i/p.M%pixels
		y[i] = args.Y[(image*p.M+i%p.M)*pixels+pixel]
	}
	return y
}

// TestNHWC16ComputesConvolutions compares with the definition of convolutions.
func TestNHWC16ComputesConvolutions(t *testing.T) {
	onTiles(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		rounds := 60
		if !cpuinfo.TilesDefined() {
			rounds = 600
		}
		for i := range rounds {
			c := randomNHWC16(r, i%3 == 0)
			o, err := NewNHWC16(c.p, c.planar)
			if err != nil {
				t.Fatal(err)
			}
			if c.p.N*o.flat*c.p.M*o.k() > 6<<20 {
				continue
			}
			c.fill(r, o)
			c.run(o)
			scale := math.Sqrt(float64(c.p.C * volume(c.p.Kernel)))
			for j, want := range c.reference(o) {
				got := tensor.BHalf(c.args.Y[j]).Float32()
				if diff := math.Abs(float64(got - want)); !(diff <= math.Abs(float64(want))/256+
					1e-5*scale) {
					t.Fatalf("%+v planar %v: element %d is %v, want %v", c.p, c.planar, j, got,
						want)
				}
			}
		}
	})
}

// TestNHWC16IsItsDefinition compares the processor's tiles, and the assembly around them, with
// their definition, bit by bit.
func TestNHWC16IsItsDefinition(t *testing.T) {
	if !HasNHWC16() {
		t.Skip("no tiles")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		c := randomNHWC16(r, i%3 == 0)
		o, err := NewNHWC16(c.p, c.planar)
		if err != nil {
			t.Fatal(err)
		}
		if c.p.N*o.flat*c.p.M*o.k() > 4<<20 {
			continue
		}
		c.fill(r, o)
		c.run(o)
		got := slices.Clone(c.args.Y)
		undo := cpuinfo.TilesByDefinition()
		c.run(o)
		undo()
		if !slices.EqualFunc(got, c.args.Y, func(a, b uint16) bool {
			return a == b || c.p.Silu && near16(a, b)
		}) {
			t.Fatalf("%+v planar %v: other bits than by the definition", c.p, c.planar)
		}
	}
}

// near16 reports whether two numbers are neighbours, or nearly zero.
func near16(a, b uint16) bool {
	x, y := tensor.BHalf(a).Float32(), tensor.BHalf(b).Float32()
	return math.Abs(float64(x-y)) <= math.Abs(float64(y))/127+1e-30
}

// TestNHWC16KeepsNaNsToThemselves holds that what is not finite reaches the outputs that see it and
// no others.
func TestNHWC16KeepsNaNsToThemselves(t *testing.T) {
	onTiles(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 40 {
			c := randomNHWC16(r, i%2 == 0)
			c.p.Clamp, c.p.Map = false, nil
			o, err := NewNHWC16(c.p, c.planar)
			if err != nil {
				t.Fatal(err)
			}
			if c.p.N*o.flat*c.p.M*o.k() > 1<<20 {
				continue
			}
			c.fill(r, o)
			if c.planar {
				c.args.Planes[r.IntN(len(c.args.Planes))] = []float32{float32(math.Inf(1)),
					float32(math.Inf(-1)), math.MaxFloat32, float32(math.NaN())}[i/2%4]
			} else {
				c.args.X[r.IntN(len(c.args.X))] = []uint16{0x7f80, 0x7fc0, 0xff80}[i/2%3]
			}
			c.run(o)
			for j, want := range c.reference(o) {
				got := tensor.BHalf(c.args.Y[j]).Float32()
				if (want-want == 0) != (got-got == 0) {
					t.Fatalf("%+v planar %v: element %d is %v, want %v", c.p, c.planar, j, got,
						want)
				}
			}
		}
	})
}

// TestNHWC16ForgetsNaNs holds that a run has what it computes, and allocates, from its own image,
// whatever the one before had.
func TestNHWC16ForgetsNaNs(t *testing.T) {
	onTiles(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		c := &halfCase{planar: true, p: Params{N: 1, C: 3, M: 40,
			Window: square(1, 1, 9, 3, 2, 1, 1).Window}}
		o, err := NewNHWC16(c.p, true)
		if err != nil {
			t.Fatal(err)
		}
		c.fill(r, o)
		c.run(o)
		want, x := slices.Clone(c.args.Y), c.args.Planes[50]
		c.args.Planes[50] = float32(math.NaN())
		c.run(o)
		if !c.args.odd.Load() || slices.Equal(c.args.Y, want) {
			t.Error("a NaN is not seen")
		}
		c.args.Planes[50] = x
		c.run(o)
		if c.args.odd.Load() || !slices.Equal(c.args.Y, want) {
			t.Error("what was no number is remembered")
		}
	})
}

// TestNHWC16OnTilesThatAreGone holds that what is planned for tiles is computed by their definition
// where the system keeps none any more, as here on most machines.
func TestNHWC16OnTilesThatAreGone(t *testing.T) {
	if cpuinfo.TilesKept() {
		t.Skip("the system keeps tiles")
	}
	r := rand.New(rand.NewPCG(15, 16))
	for i := range 8 {
		undo := cpuinfo.TilesByDefinition()
		c := randomNHWC16(r, i%2 == 0)
		o, err := NewNHWC16(c.p, c.planar)
		if err != nil {
			t.Fatal(err)
		}
		c.fill(r, o)
		c.run(o)
		want := slices.Clone(c.args.Y)
		clear(c.args.Y)
		undo()
		c.run(o)
		if !slices.Equal(c.args.Y, want) {
			t.Fatalf("%+v planar %v: other results without tiles", c.p, c.planar)
		}
	}
}

// TestNHWC16AllocatesNothing holds that runs allocate nothing.
func TestNHWC16AllocatesNothing(t *testing.T) {
	if !HasNHWC16() {
		t.Skip("no tiles")
	}
	r := rand.New(rand.NewPCG(13, 14))
	for i := range 12 {
		c := randomNHWC16(r, i%2 == 0)
		o, err := NewNHWC16(c.p, c.planar)
		if err != nil {
			t.Fatal(err)
		}
		c.fill(r, o)
		if c.planar && i%4 == 0 {
			c.args.Planes[0] = float32(math.NaN())
		}
		scratch := make([]float32, o.ScratchLen())
		n := testing.AllocsPerRun(3, func() {
			c.args.Begin()
			for i := range o.ImageChunks() {
				o.FillImage(i, &c.args)
			}
			for i := range o.Chunks() {
				o.Run(i, &c.args, scratch)
			}
		})
		if n != 0 {
			t.Errorf("%+v planar %v: %v allocations", c.p, c.planar, n)
		}
	}
}

// halfShape is a convolution of c channels to m, of k x k, on a square image.
type halfShape struct{ c, m, in, k, stride int }

// halfShapes are convolutions of resnet50.
var halfShapes = []halfShape{
	{3, 64, 224, 7, 2}, {64, 64, 56, 1, 1}, {64, 256, 56, 1, 1}, {256, 64, 56, 1, 1},
	{64, 64, 56, 3, 1}, {128, 128, 56, 3, 2}, {128, 512, 28, 1, 1}, {512, 128, 28, 1, 1},
	{128, 128, 28, 3, 1}, {256, 256, 14, 3, 1}, {1024, 256, 14, 1, 1}, {256, 1024, 14, 1, 1},
	{512, 512, 7, 3, 1}, {2048, 512, 7, 1, 1}, {512, 2048, 7, 1, 1}, {1024, 2048, 14, 1, 2},
	{24, 144, 56, 1, 1}, {144, 24, 56, 1, 1}, {16, 96, 112, 1, 1}, {16, 96, 28, 1, 1},
	{32, 16, 112, 1, 1}, {64, 256, 14, 1, 1}, {16, 16, 160, 3, 1}, {32, 32, 80, 3, 1},
}

// params is a convolution of that shape, with so much padding that it keeps the size of an image.
func (s *halfShape) params() Params {
	pad := s.k / 2
	return Params{N: 1, C: s.c, M: s.m, Clamp: true, Hi: 1000,
		Window: Window{In: [3]int{1, s.in, s.in}, Kernel: [3]int{1, s.k, s.k},
			Stride: [3]int{1, s.stride, s.stride}, PadLo: [3]int{0, pad, pad},
			PadHi: [3]int{0, pad, pad}}}
}

// TestNHWC16ChunksAreShort holds that a chunk takes some tens of microseconds, whatever the shape,
// so that who shares the processor waits no longer.
func TestNHWC16ChunksAreShort(t *testing.T) {
	for _, s := range halfShapes {
		o, err := NewNHWC16(s.params(), s.c == 3)
		if err != nil {
			t.Fatal(err)
		}
		blocks := (o.blocks + o.blockParts - 1) / o.blockParts
		panels := (o.panels + o.panelParts - 1) / o.panelParts
		if work := blocks * panels * (len(o.offs) + blockWork); work > 3*mostHalfWork/2 {
			t.Errorf("%+v: a chunk has work of %d, of %d", s, work, mostHalfWork)
		}
	}
}

func BenchmarkNHWC16(b *testing.B) {
	if !HasNHWC16() {
		b.Skip("no tiles")
	}
	for _, s := range halfShapes {
		b.Run(fmt.Sprintf("%dx%d_%d_k%d_s%d", s.c, s.m, s.in, s.k, s.stride), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			c := &halfCase{planar: s.c == 3, p: s.params()}
			o, err := NewNHWC16(c.p, c.planar)
			if err != nil {
				b.Fatal(err)
			}
			c.fill(r, o)
			for b.Loop() {
				c.run(o)
			}
			flops := 2 * float64(s.c*s.m*s.k*s.k*o.out[0]*o.out[1])
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
