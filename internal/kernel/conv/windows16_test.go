package conv

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// randomWindows makes up windows of a kind.
func randomWindows(r *rand.Rand, kind Window16Kind) *halfCase {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	c := &halfCase{}
	p := &c.p
	p.N, p.C = pick(1, 1, 2), pick(1, 7, 16, 31, 32, 33, 40, 64, 96, 130)
	p.In, p.Kernel = [3]int{1, 1 + r.IntN(20), 1 + r.IntN(30)}, [3]int{1, 1, 1}
	p.Stride, p.Dilate = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	for axis := 1; axis < 3 && kind != Mean16; axis++ {
		p.Kernel[axis], p.Stride[axis] = pick(1, 2, 3, 5, 7), pick(1, 2, 3)
		p.Dilate[axis] = pick(1, 1, 2)
		last := (p.Kernel[axis] - 1) * p.Dilate[axis]
		p.PadLo[axis], p.PadHi[axis] = r.IntN(1+last), r.IntN(1+last)
		p.In[axis] += last
	}
	p.M, p.Group = p.C, p.C
	if kind == Depthwise16 && r.IntN(2) == 0 {
		p.Clamp, p.Lo, p.Hi = true, 0, float32(pick(1, 6))
	}
	if kind == Depthwise16 {
		switch r.IntN(6) {
		case 0, 1:
			p.Map = func(dst, x []float32) { vec.HardSwish(dst, x) }
		case 2:
			p.Silu, p.Clamp = true, false
		}
	}
	return c
}

// runWindows computes all chunks.
func (c *halfCase) runWindows(o *Windows16, a *Window16Args) {
	scratch := make([]float32, o.ScratchLen())
	for i := range o.Chunks() {
		o.Run(i, a, scratch)
	}
}

// operands makes up what windows read.
func (c *halfCase) operands(r *rand.Rand, o *Windows16) *Window16Args {
	p := &c.p
	a := &Window16Args{X: bhalves(r, p.N*p.C*volume(p.In)), W: make([]float32, o.PackedLen()),
		Y: make([]uint16, p.N*p.C*o.out[0]*o.out[1]), Means: make([]float32, p.N*p.C)}
	if o.kind != Depthwise16 {
		return a
	}
	c.w = make([]float32, p.C*volume(p.Kernel))
	for i := range c.w {
		c.w[i] = float32(r.NormFloat64())
	}
	if r.IntN(2) == 0 {
		p.Bias, c.args.Bias = true, make([]float32, p.C)
		for i := range c.args.Bias {
			c.args.Bias[i] = float32(r.NormFloat64())
		}
	}
	o.Pack(a.W, c.w, c.args.Bias, nil)
	return a
}

// TestWindows16 compares with the definitions of convolutions and poolings, and the assembly with
// its own.
func TestWindows16(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 400 {
		kind := Window16Kind(i % 3)
		c := randomWindows(r, kind)
		o, err := NewWindows16(c.p, kind)
		if err != nil {
			t.Fatal(err)
		}
		a := c.operands(r, o)
		if kind == Max16 && i%2 == 0 {
			a.X[r.IntN(len(a.X))] = []uint16{0x7fc0, 0xffc0, 0x7f80, 0xff80}[r.IntN(4)]
		}
		c.runWindows(o, a)
		c.compareWindows(t, o, a)
	}
}

// compareWindows compares results with those of the definitions.
func (c *halfCase) compareWindows(t *testing.T, o *Windows16, a *Window16Args) {
	t.Helper()
	p := c.p
	pixels, wide := volume(p.In), make([]float32, len(a.X))
	for i, v := range a.X {
		image, pixel := i/p.C/pixels, i/p.C%pixels
		wide[(image*p.C+i%p.C)*pixels+pixel] = math.Float32frombits(uint32(v) << 16)
	}
	results := o.out[0] * o.out[1]
	want := make([]float32, p.N*p.C*results)
	switch o.kind {
	case Depthwise16:
		if p.Silu {
			p.Map = func(dst, x []float32) { vec.Silu(dst, x) }
		}
		Reference(p, &Args{X: wide, W: c.w, Bias: c.args.Bias, Y: want})
	case Max16:
		ReferencePool(PoolParams{Window: p.Window, Kind: MaxPool, Planes: p.N * p.C,
			Out: [3]int{1, o.out[0], o.out[1]}}, wide, want)
	case Mean16:
		for i := range want {
			for _, v := range wide[i*pixels:][:pixels] {
				want[i] += v / float32(pixels)
			}
		}
	}
	for i := range want {
		image, pixel := i/p.C/results, i/p.C%results
		w := want[(image*p.C+i%p.C)*results+pixel]
		var got float32
		tolerance := math.Abs(float64(w))/256 + 1e-5
		if o.kind == Mean16 {
			got, tolerance = a.Means[i], 1e-5
		} else {
			got = tensor.BHalf(a.Y[i]).Float32()
		}
		if o.kind == Max16 {
			tolerance = 0
		}
		same := got == w || got != got && w != w
		if !same && !(math.Abs(float64(got-w)) <= tolerance) {
			t.Fatalf("%+v kind %d: element %d is %v, want %v", p, o.kind, i, got, w)
		}
	}
}

// TestMean16ChunksAreShort holds that means of large images are cut into chunks too.
func TestMean16ChunksAreShort(t *testing.T) {
	for _, s := range []struct{ c, in, least int }{
		{7, 300, 1}, {32, 112, 1}, {33, 112, 2}, {96, 112, 3}, {1280, 7, 1}, {2048, 7, 3},
		{512, 56, 16},
	} {
		o, err := NewWindows16(Params{N: 2, C: s.c, Window: Window{In: [3]int{1, s.in, s.in}}},
			Mean16)
		if err != nil {
			t.Fatal(err)
		}
		if n := o.Chunks(); n < 2*s.least {
			t.Errorf("%d channels of %d x %d: %d chunks, want at least %d", s.c, s.in, s.in, n,
				2*s.least)
		}
	}
}

// asThree has a call see windows of 3 x 3.
func (c *windows16Call) asThree(r *rand.Rand) {
	wide := 3 + c.pixels*2 + r.IntN(4)
	for i := range c.offs {
		c.offs[i] = 2 * c.channels * (i%3*wide + i/3)
		c.at[i] = 128 * (i%3*3 + i/3)
	}
	c.xStep = c.channels * (1 + r.IntN(2))
	c.x = bhalves(r, 3*wide*c.channels)
}

// TestWindows16IsItsDefinition compares the assembly with its definition, bit by bit.
func TestWindows16IsItsDefinition(t *testing.T) {
	if !cpuinfo.HasAVX512BF16() {
		t.Skip("no AVX512-BF16")
	}
	r := rand.New(rand.NewPCG(9, 10))
	for range 2000 {
		n, pixels := 1+r.IntN(30), 1+r.IntN(5)
		if r.IntN(2) == 0 {
			n, pixels = 9, 1+r.IntN(12)
		}
		c := windows16Call{channels: 1 + r.IntN(100), pixels: pixels, max: r.IntN(3) == 0,
			lo: float32(-r.IntN(2)), hi: float32(1 + r.IntN(3)), block: 32 * (n + 1)}
		if c.max {
			c.lo, c.hi = negInf, posInf
		}
		c.xStep = c.channels * (1 + r.IntN(2))
		for i := range n {
			c.offs = append(c.offs, 2*c.channels*i*(1+r.IntN(2)))
			c.at = append(c.at, 128*i)
		}
		slices.Sort(c.offs)
		c.x = bhalves(r, c.offs[n-1]/2+(pixels-1)*c.xStep+c.channels)
		if r.IntN(2) == 0 && len(c.x) > 0 {
			c.x[r.IntN(len(c.x))] = []uint16{0x7fc0, 0xffc0, 0x7f80, 0xff80, 0x7f81, 1}[r.IntN(6)]
		}
		c.w = make([]float32, (c.channels+31)/32*c.block)
		for i := range c.w {
			c.w[i] = float32(r.NormFloat64())
		}
		c.y = make([]uint16, pixels*c.channels)
		if c.three = n == 9; c.three {
			c.asThree(r)
		}
		if r.IntN(3) == 0 && !c.max {
			c.wide = make([]float32, pixels*c.channels)
		}
		c.run()
		y, wide := slices.Clone(c.y), slices.Clone(c.wide)
		c.model()
		for i := range y {
			if same := y[i] == c.y[i] || y[i]&0x7fff > 0x7f80 && c.y[i]&0x7fff > 0x7f80; !same {
				t.Fatalf("%d pixels, %d channels, %v, step %d, max %v, three %v: element %d is "+
					"%#x, want %#x", c.pixels, c.channels, c.offs, c.xStep, c.max, c.three, i,
					y[i], c.y[i])
			}
		}
		if !slices.EqualFunc(wide, c.wide, func(a, b float32) bool {
			return a == b || a != a && b != b
		}) {
			t.Fatalf("%d pixels, %d channels, %v, step %d: other floats", c.pixels, c.channels,
				c.offs, c.xStep)
		}
	}
}
