package conv

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// pixelCase is a convolution of pixels with all that decides its bytes.
type pixelCase struct {
	p                    Params
	planar, flipX, flipW bool
	x, w                 []byte
	shift                int32 // of the weights
	zero                 byte  // as it is multiplied
	requantize           []vec.Requantization
	grid                 func(*NHWCGrid, []int32)
}

// randomPixels draws a convolution of one group, or of as many as there are channels.
func randomPixels(r *rand.Rand, depthwise bool) *pixelCase {
	size := func(most int) int { return 1 + r.IntN(most) }
	k := &pixelCase{p: Params{N: size(2), C: size(20), M: size(80), Group: 1},
		flipX: r.IntN(3) == 0, flipW: r.IntN(2) == 0, zero: byte(r.Uint32())}
	w := &k.p.Window
	*w = Window{In: [3]int{1, size(12), size(34)}, Kernel: [3]int{1, size(4), size(4)},
		Stride: [3]int{1, size(2), size(3)}, Dilate: [3]int{1, 1, 1}}
	if r.IntN(3) == 0 {
		w.Kernel, w.Stride = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	}
	for a := 1; a < 3; a++ {
		w.PadLo[a], w.PadHi[a] = r.IntN(w.Kernel[a]), r.IntN(w.Kernel[a])
		if r.IntN(8) == 0 {
			w.In[a] = w.Kernel[a]
			w.PadLo[a], w.PadHi[a] = 0, 0
		}
		w.In[a] = max(w.In[a], w.Kernel[a])
	}
	switch {
	case depthwise:
		if k.p.C = size(150); r.IntN(3) == 0 {
			k.p.C = 1 << r.IntN(5) // several pixels make a block
		}
		if r.IntN(2) == 0 {
			w.Kernel, w.Stride = [3]int{1, 3, 3}, [3]int{1, 1 + w.Stride[1]%2, 1 + w.Stride[1]%2}
			w.PadLo, w.PadHi = [3]int{0, r.IntN(3), r.IntN(2)}, [3]int{0, r.IntN(3), r.IntN(3)}
			w.In[1], w.In[2] = w.In[1]+2, w.In[2]+2
		}
		k.p.M, k.p.Group = k.p.C, k.p.C
		for a := 1; a < 3; a++ {
			if w.Dilate[a] = size(2); (w.Kernel[a]-1)*w.Dilate[a] >= w.In[a]+w.PadLo[a]+w.PadHi[a] {
				w.Dilate[a] = 1
			}
		}
	case r.IntN(3) == 0:
		k.p.C, k.planar = size(4), true
	case r.IntN(2) == 0:
		k.p.C = 4 * size(10)
	}
	k.x, k.w = make([]byte, k.p.N*k.p.C*volume(w.In)),
		make([]byte, k.p.M*k.p.C/k.p.Group*volume(w.Kernel))
	for _, b := range [][]byte{k.x, k.w} {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	if r.IntN(3) == 0 {
		k.shift = int32(r.IntN(255) - 127)
	}
	k.drawGrid(r)
	return k
}

// drawGrid draws what becomes of the sums: bytes all over their range, one channel in three on
// scales that put many in the middle of two, seldom beyond all integers or no number.
func (k *pixelCase) drawGrid(r *rand.Rand) {
	to, then := vec.Bytes{Zero: int32(r.IntN(256)), Signed: false},
		vec.Bytes{Zero: int32(r.IntN(256)) - 128, Signed: true}
	if r.IntN(2) == 0 {
		to, then = then, to
	}
	twice := r.IntN(3) == 0
	k.requantize = make([]vec.Requantization, k.p.M)
	add, scale, bias := make([]int32, k.p.M), make([]float32, k.p.M), make([]float32, k.p.M)
	thenScale := make([]float32, k.p.M)
	for c := range k.requantize {
		add[c], scale[c] = int32(r.IntN(1<<17)-1<<16), float32(r.ExpFloat64()*0.01)
		bias[c] = float32(r.NormFloat64() * 50)
		thenScale[c] = bias[c] / 60
		if r.IntN(3) == 0 {
			scale[c] = float32(math.Ldexp(1, -4-r.IntN(6)))
			bias[c], thenScale[c] = float32(math.Round(float64(bias[c]))), 0.5
		}
		if r.IntN(12) == 0 {
			scale[c] = []float32{1e30, -1e30, float32(math.NaN()), float32(math.Inf(1)), 0,
				-0.01}[r.IntN(6)]
		}
		k.requantize[c].Sums(add[c], scale[c], to)
		if twice {
			k.requantize[c].Then(thenScale[c], bias[c], then)
		}
	}
	k.grid = func(g *NHWCGrid, less []int32) {
		for c := range add {
			g.Set(c, add[c]-less[c], scale[c], to)
			if twice {
				g.Then(c, thenScale[c], bias[c], then)
			}
		}
	}
}

// want computes the result by the definition of a convolution and of a Requantization, with the
// channels in the last axis. It needs nothing that the kernels use.
func (k *pixelCase) want(out [2]int) []byte {
	p := &k.p
	y := make([]byte, p.N*out[0]*out[1]*p.M)
	each := p.C / p.Group
	for i := range y {
		m, at := i%p.M, i/p.M
		x, row, n := at%out[1], at/out[1]%out[0], at/out[1]/out[0]
		sum := int32(0)
		for c := range each {
			for ky := range p.Kernel[1] {
				for kx := range p.Kernel[2] {
					iy, ix := row*p.Stride[1]+ky*p.Dilate[1]-p.PadLo[1],
						x*p.Stride[2]+kx*p.Dilate[2]-p.PadLo[2]
					if iy < 0 || iy >= p.In[1] || ix < 0 || ix >= p.In[2] {
						continue // the zero point less itself
					}
					b := int32(asMultiplied(k.x[k.at(n, m/(p.M/p.Group)*each+c, iy, ix)],
						k.flipX)) - int32(k.zero)
					w := int32(int8(k.w[((m*each+c)*p.Kernel[1]+ky)*p.Kernel[2]+kx]))
					if k.flipW {
						w = int32(k.w[((m*each+c)*p.Kernel[1]+ky)*p.Kernel[2]+kx]) - 128
					}
					sum += b * (w + k.shift)
				}
			}
		}
		vec.RequantizeInts(y[i:i+1], []int32{sum}, &k.requantize[m])
	}
	return y
}

// at is where an element of the image lies.
func (k *pixelCase) at(n, c, y, x int) int {
	p := &k.p
	if k.planar {
		return ((n*p.C+c)*p.In[1]+y)*p.In[2] + x
	}
	return ((n*p.In[1]+y)*p.In[2]+x)*p.C + c
}

// times multiplies the sums of weights by the zero point of the image, which a kernel has
// multiplied with them.
func (k *pixelCase) times(sums []int32) []int32 {
	less := slices.Clone(sums)
	for i := range less {
		less[i] *= int32(k.zero)
	}
	return less
}

// guardedBytes makes a slice of n bytes and a check that nothing around it was written.
func guardedBytes(n int) ([]byte, func(*testing.T, string)) {
	const guard = 128
	all := bytes.Repeat([]byte{0xa5}, n+2*guard)
	return all[guard : guard+n : guard+n], func(t *testing.T, name string) {
		t.Helper()
		for i, b := range all {
			if (i < guard || i >= guard+n) && b != 0xa5 {
				t.Fatalf("%s: byte %d of %d was written", name, i-guard, n)
			}
		}
	}
}

func (k *pixelCase) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	op, err := NewNHWC(k.p, k.planar, k.flipX, k.shift)
	if err != nil {
		t.Fatalf("%+v: %v", k.p, err)
	}
	weights, grid := make([]float32, op.PackedLen()), op.Grid()
	sums := make([]int32, k.p.M)
	op.Pack(weights, sums, k.w, k.flipW)
	k.grid(grid, k.times(sums))
	image, checkImage := guardedBytes(op.ImageLen())
	y, checkY := guardedBytes(k.p.N * op.Out()[0] * op.Out()[1] * k.p.M)
	a := &NHWCArgs{X: k.x, Y: y, Weights: weights, Image: image, Grid: grid, Zero: k.zero,
		Flip: k.flipX}
	for _, i := range r.Perm(op.ImageChunks()) {
		op.FillImage(i, a)
	}
	checkImage(t, "image")
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, a)
	}
	checkY(t, "result")
	k.compare(t, y, op.Out())
}

func (k *pixelCase) compare(t *testing.T, got []byte, out [2]int) {
	t.Helper()
	want := k.want(out)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%+v planar %v flips %v %v: byte %d is %d, want %d", k.p, k.planar, k.flipX,
				k.flipW, i, got[i], want[i])
		}
	}
}

func (k *pixelCase) checkWindows(t *testing.T, r *rand.Rand) {
	t.Helper()
	op, err := NewNHWCWindows(k.p, false, k.shift)
	if err != nil {
		t.Fatalf("%+v: %v", k.p, err)
	}
	weights, grid := make([]byte, op.PackedLen()), op.Grid()
	sums := make([]int32, k.p.M)
	op.Pack(weights, sums, k.w, k.flipW)
	k.grid(grid, k.times(sums))
	y, checkY := guardedBytes(k.p.N * op.Out()[0] * op.Out()[1] * k.p.M)
	scratch, checkScratch := guardedBytes(op.ScratchLen())
	for _, c := range r.Perm(op.Chunks()) {
		op.Run(c, &NHWCWindowArgs{X: k.x, Y: y, Weights: weights, Grid: grid, Zero: k.zero,
			Flip: k.flipX}, scratch)
	}
	checkY(t, "result")
	checkScratch(t, "scratch")
	k.compare(t, y, op.Out())
}

// collectOften runs the garbage collector, which ends the program when it finds a pointer beyond an
// object, until the function that it returns is called.
func collectOften() (stop func()) {
	var done atomic.Bool
	var collector sync.WaitGroup
	collector.Go(func() {
		for !done.Load() {
			runtime.GC()
		}
	})
	return func() { done.Store(true); collector.Wait() }
}

func TestNHWC(t *testing.T) {
	defer collectOften()()
	cputest.EachPath(t, func(t *testing.T) {
		if !HasNHWC() {
			t.Skip("this path has no kernels for pixels")
		}
		r := rand.New(rand.NewPCG(41, 42))
		for range 250 {
			randomPixels(r, false).check(t, r)
		}
	})
}

func TestNHWCWindows(t *testing.T) {
	if !HasNHWC() {
		t.Skip("this processor has no kernels for pixels")
	}
	defer collectOften()()
	r := rand.New(rand.NewPCG(43, 44))
	for range 150 {
		randomPixels(r, true).checkWindows(t, r)
	}
}

// TestNHWCMaximum pools by the definition: padding is less than any byte.
func TestNHWCMaximum(t *testing.T) {
	if !HasNHWC() {
		t.Skip("this processor has no kernels for pixels")
	}
	defer collectOften()()
	r := rand.New(rand.NewPCG(45, 46))
	for range 100 {
		k := randomPixels(r, true)
		op, err := NewNHWCWindows(k.p, true, 0)
		if err != nil {
			t.Fatalf("%+v: %v", k.p, err)
		}
		out := op.Out()
		y, checkY := guardedBytes(k.p.N * out[0] * out[1] * k.p.C)
		scratch, checkScratch := guardedBytes(op.ScratchLen())
		for _, c := range r.Perm(op.Chunks()) {
			op.Run(c, &NHWCWindowArgs{X: k.x, Y: y, Flip: k.flipX}, scratch)
		}
		checkY(t, "result")
		checkScratch(t, "scratch")
		for i, got := range y {
			if want := k.greatest(i, out); got != want {
				t.Fatalf("%+v: byte %d is %d, want %d", k.p, i, got, want)
			}
		}
	}
}

// greatest is the greatest byte of the window of an output.
func (k *pixelCase) greatest(i int, out [2]int) (most byte) {
	p, flip := &k.p, byte(0)
	if k.flipX {
		flip = 0x80
	}
	c, at := i%p.C, i/p.C
	x, row, n := at%out[1], at/out[1]%out[0], at/out[1]/out[0]
	for ky := range p.Kernel[1] {
		for kx := range p.Kernel[2] {
			iy, ix := row*p.Stride[1]+ky*p.Dilate[1]-p.PadLo[1],
				x*p.Stride[2]+kx*p.Dilate[2]-p.PadLo[2]
			if iy >= 0 && iy < p.In[1] && ix >= 0 && ix < p.In[2] {
				most = max(most, k.x[k.at(n, c, iy, ix)]^flip)
			}
		}
	}
	return most ^ flip
}

// FuzzNHWC holds the kernels for pixels to the definition.
func FuzzNHWC(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, depthwise bool) {
		if !HasNHWC() {
			t.Skip("this processor has no kernels for pixels")
		}
		r := rand.New(rand.NewPCG(seed, 47))
		if k := randomPixels(r, depthwise); depthwise {
			k.checkWindows(t, r)
		} else {
			k.check(t, r)
		}
	})
}

// TestNHWCLayout packs the same weights for images of several sizes: equal layouts are equal
// words.
func TestNHWCLayout(t *testing.T) {
	r := rand.New(rand.NewPCG(48, 49))
	for range 40 {
		k := randomPixels(r, false)
		packed := map[NHWCLayout][]float32{}
		for size := range 4 {
			p := k.p
			p.In[1], p.In[2] = max(p.In[1], p.Kernel[1])+size, p.Kernel[2]+size
			op, err := NewNHWC(p, k.planar, k.flipX, k.shift)
			if err != nil {
				t.Fatal(err)
			}
			w := make([]float32, op.PackedLen())
			op.Pack(w, make([]int32, p.M), k.w, k.flipW)
			if have := packed[op.Layout()]; have != nil &&
				!slices.Equal(vec.AsWords(have), vec.AsWords(w)) {
				t.Fatalf("%+v: %+v packs differently", p, op.Layout())
			}
			packed[op.Layout()] = w
		}
	}
}
