package conv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// fencedHalves returns a copy of x before which, or behind which, nothing may be touched.
func fencedHalves(t *testing.T, x []uint16, atStart bool) []uint16 {
	t.Helper()
	all := vec.AsHalves(cputest.Fenced(t, len(x)/2+1, atStart))
	y := all[len(all)-len(x):]
	if atStart {
		y = all[:len(x)]
	}
	copy(y, x)
	return y
}

// fence has all operands, and the scratch of a goroutine, lie between fences.
func (c *halfCase) fence(t *testing.T, o *NHWC16, atStart bool) (scratch []float32) {
	t.Helper()
	a := &c.args
	for _, x := range []*[]uint16{&a.X, &a.Image, &a.Residual, &a.Y} {
		if len(*x) > 0 {
			*x = fencedHalves(t, *x, atStart)
		}
	}
	for _, x := range []*[]float32{&a.Planes, &a.W, &a.Bias} {
		if len(*x) > 0 {
			*x = fencedCopy(t, *x, atStart)
		}
	}
	return cputest.Fenced(t, o.ScratchLen(), atStart)
}

// TestNHWC16TouchesNothingOutside convolves images that begin, or end, where memory does.
func TestNHWC16TouchesNothingOutside(t *testing.T) {
	if !HasNHWC16() {
		t.Skip("this processor has no tiles")
	}
	r := rand.New(rand.NewPCG(24, 3))
	for i := range 400 {
		c := randomNHWC16(r, i%3 == 0)
		o, err := NewNHWC16(c.p, c.planar)
		if err != nil {
			t.Fatal(err)
		}
		c.fill(r, o)
		if c.planar && i%2 == 0 {
			c.args.Planes[0] = float32(math.NaN())
		}
		scratch := c.fence(t, o, i/2%2 == 0)
		c.args.Begin()
		for i := range o.ImageChunks() {
			o.FillImage(i, &c.args)
		}
		for i := range o.Chunks() {
			o.Run(i, &c.args, scratch)
		}
	}
}

// TestWindows16TouchNothingOutside takes windows of images that begin, or end, where memory does.
func TestWindows16TouchNothingOutside(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 3))
	for i := range 600 {
		kind := Window16Kind(i % 3)
		c := randomWindows(r, kind)
		o, err := NewWindows16(c.p, kind)
		if err != nil {
			t.Fatal(err)
		}
		a := c.operands(r, o)
		atStart := i/3%2 == 0
		a.X, a.Y = fencedHalves(t, a.X, atStart), fencedHalves(t, a.Y, atStart)
		if len(a.W) > 0 {
			a.W = fencedCopy(t, a.W, atStart)
		}
		if len(a.Means) > 0 {
			a.Means = fencedCopy(t, a.Means, atStart)
		}
		scratch := cputest.Fenced(t, max(1, o.ScratchLen()), atStart)[:o.ScratchLen()]
		for i := range o.Chunks() {
			o.Run(i, a, scratch)
		}
		c.compareWindows(t, o, a)
	}
}

// TestDotsTouchNothingOutside computes gradients of weights of what begins, or ends, where memory
// does.
func TestDotsTouchNothingOutside(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 3))
	for i := range 60 {
		p, o, ok := randomDots(r)
		if !ok {
			continue
		}
		atStart := i%2 == 0
		a := WeightsArgs{DY: cputest.Fenced(t, p.N*p.M*volume(p.Out), atStart),
			DW:     cputest.Fenced(t, p.M*o.columns, atStart),
			Parts:  fencedCopy(t, make([]float32, o.PartsLen()), atStart),
			Packed: fencedCopy(t, make([]float32, o.PackedLen()), atStart)}
		if n := p.N * p.C * volume(p.In); i/2%2 == 0 {
			a.X = cputest.Fenced(t, n, atStart)
		} else {
			a.Saved = fencedHalves(t, make([]uint16, n), atStart)
		}
		scratch := cputest.Fenced(t, o.ScratchLen(), atStart)
		for c := range o.Packs() {
			o.Pack(c, &a, scratch)
		}
		for c := range o.Chunks() {
			o.Run(c, &a, scratch)
		}
		for c := range o.Sums() {
			o.Sum(c, &a)
		}
	}
}
