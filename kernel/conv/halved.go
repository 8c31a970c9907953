package conv

import "math"

// halvedPlanes is one call of the depthwise kernel for 3x3 taps, strides of 2 and a border of one
// zero above and on the left. It needs no copy of the input with its border. The assembly reads
// this struct, of which masks are for AVX-512 and what follows them for AVX2.
type halvedPlanes struct {
	src, dst *float32
	res      *float32 // laid out as dst, with flagResidual
	w        *float32 // nine a plane
	bias     *float32 // one a plane; nil for none
	masks    []halvedMask
	in, cols int // columns of the image and of the output
	size     int // as in smallPlanes
	planes   int
	rows     int // of the output
	// of them, those that see a row of the image below the one that they are in the middle of
	below    int
	srcPitch int // bytes of a row
	pitch    int
	srcSkip  int // bytes from the vector after the last of a plane to the next plane
	dstSkip  int
	lo, hi   float32
	flags    uint32
}

// halvedMask says which of 32 columns of the input there are, and which of 16 of the output.
type halvedMask struct{ low, high, store uint16 }

// halvedFactor is about how many times faster than with copies of their rows these planes are
// computed.
const halvedFactor = 2

// halves reports whether halvedPlanes computes the convolution.
func (p *Params) halves(v level, out [3]int) bool {
	return hasHalvedPlanes(v) && p.withResidual(v) && p.Kernel == [3]int{1, 3, 3} &&
		p.Stride[1] == 2 && p.Stride[2] == 2 && p.Dilate[1] == 1 && p.Dilate[2] == 1 &&
		p.PadLo == [3]int{0, 1, 1} && p.PadHi[1] <= 1 && p.PadHi[2] <= 1 && p.fitBand(out)
}

// halvedMasks returns the masks of rows of so many columns of the input and the output.
func halvedMasks(cols, out int) (masks []halvedMask) {
	for x := 0; x < out; x += 16 {
		there := bitRange(0, min(32, cols-2*x))
		masks = append(masks, halvedMask{uint16(there), uint16(there >> 16),
			uint16(bitRange(0, min(16, out-x)))})
	}
	return masks
}

// runHalved computes planes first to last.
func (o *Convolution) runHalved(args *Args, first, last int) {
	p, n, in := &o.p, volume(o.out), volume(o.p.In)
	t := halvedPlanes{masks: o.depthwise.halved, in: p.In[2], cols: o.out[2], rows: o.out[1],
		below:    min(p.In[1]/2, o.out[1]),
		srcPitch: 4 * p.In[2], pitch: 4 * o.out[2],
		lo: float32(math.Inf(-1)), hi: float32(math.Inf(1))}
	each := p.M / p.C // planes of output for one of input
	width := 4 * o.depthwise.level.columns(o.out[2])
	t.srcSkip, t.dstSkip = -2*width, 4*n-width
	if each == 1 {
		t.srcSkip, each = 4*in-2*width, p.M
	}
	if p.Clamp {
		t.lo, t.hi = p.Lo, p.Hi
	}
	if p.Residual {
		t.flags = flagResidual
	}
	for from := first; from < last; from += t.planes {
		m := from % p.M
		t.planes, t.size = min(last-from, each-m%each), 4*n*(last-from)
		t.src, t.dst, t.w = &args.X[from/(p.M/p.C)*in], &args.Y[from*n], &args.W[9*m]
		if p.Bias {
			t.bias = &args.Bias[m]
		}
		if p.Residual {
			t.res = &args.Residual[from*n]
		}
		runHalvedPlanes(o.depthwise.level, &t)
	}
	if p.Map != nil {
		x := args.Y[first*n : last*n]
		p.Map(x, x)
	}
}
