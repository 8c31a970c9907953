package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// TestOneOrderOfAdditions convolves images whose pixels are equal by filters that are equal. In
// every algorithm, outputs whose windows see the image under the same taps must be the same bits,
// whatever channel, vector, tile and chunk they fall into.
func TestOneOrderOfAdditions(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 7))
		for range 25 {
			p := equalParams(r)
			for _, algorithm := range p.Algorithms() {
				p.Algorithm = algorithm
				checkOrder(t, r, p)
			}
		}
	})
}

// TestOneOrderOfManyAdditions does so with as many channels and pixels as make several chunks.
func TestOneOrderOfManyAdditions(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(42, 7))
		for _, p := range []Params{square(24, 1000, 13, 1, 1, 0, 1),
			square(20, 130, 14, 3, 1, 1, 1),
			square(9, 45, 17, 3, 2, 1, 1), square(40, 40, 41, 5, 1, 2, 40),
			square(200, 200, 19, 3, 1, 1, 200), square(120, 120, 30, 3, 2, 1, 120),
			square(36, 54, 11, 3, 1, 1, 6), square(60, 31, 7, 3, 1, 1, 1),
			square(20, 16, 24, 3, 1, 1, 1)} {
			p.N, p.Reused, p.Bias, p.Residual = 2, true, true, true
			for _, algorithm := range p.Algorithms() {
				p.Algorithm = algorithm
				checkOrder(t, r, p)
			}
		}
	})
}

// equalParams draws a convolution with an epilogue that is the same for all elements.
func equalParams(r *rand.Rand) Params {
	p := randomParams(r)
	if p.Reused = true; r.IntN(3) == 0 {
		p = square(1+r.IntN(40), 1+r.IntN(70), 3+r.IntN(30), 3, 1, 1, 1)
		p.Reused = true
	}
	if p.Group == 1 && r.IntN(2) == 0 {
		p.C *= 1 + r.IntN(20)
	}
	p.Map = nil
	p.N = 1 + r.IntN(3)
	return p
}

// checkOrder holds that outputs of p which see the same are equal.
func checkOrder(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	o, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	group, plane, taps := max(p.Group, 1), volume(p.In), volume(p.Kernel)
	c := p.C / group
	for i := range args.X { // equal images of equal groups of channels
		args.X[i] = float32(math.Sin(float64(i/plane%c*7 + 1)))
	}
	for i := range args.W {
		args.W[i] = float32(math.Cos(float64(i%(c*taps)*3 + 2)))
	}
	for _, x := range [][]float32{args.Bias, args.Residual} {
		vec.Fill(x, 0.1)
	}
	runPlanned(t, r, o, args)
	first := map[[3]int]float32{}
	out := o.out // axes as computed, which lie in memory as those of the caller
	for i, x := range args.Y {
		at := i % volume(out)
		key := o.sees([3]int{at / out[2] / out[1], at / out[2] % out[1], at % out[2]})
		want, seen := first[key]
		if first[key] = x; seen && math.Float32bits(want) != math.Float32bits(x) {
			t.Fatalf("%s: %s, element %d is %x, one that sees the same %x", o.Algorithm(),
				fmt.Sprintf("%+v", p), i, x, want)
		}
	}
}

// sees identifies what an output is computed from: along each axis the taps inside the image. In
// tiles that is all that the tile sees, and the place of the output in it.
func (o *Convolution) sees(pos [3]int) (key [3]int) {
	p := o.p.Window
	for axis, x := range pos {
		key[axis] = seenTaps(&p, axis, x)
		if o.kind == kindWinograd && axis > 0 {
			first := x / tileOut * tileOut
			key[axis] = x % tileOut
			for i := range tileIn {
				at := first - p.PadLo[axis] + i
				if key[axis] *= 2; at >= 0 && at < p.In[axis] {
					key[axis]++
				}
			}
		}
	}
	return key
}

// seenTaps has a bit for each tap inside the image.
func seenTaps(w *Window, axis, x int) (bits int) {
	for k := range w.Kernel[axis] {
		at := x*w.Stride[axis] - w.PadLo[axis] + k*w.Dilate[axis]
		if bits *= 2; at >= 0 && at < w.In[axis] {
			bits++
		}
	}
	return bits
}
