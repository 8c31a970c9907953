package conv

import "math"

// planeRun is what one call of either depthwise kernel for 3x3 taps and a border of one zero takes:
// some planes of output, which need no copy of the input with its border. The assembly reads it.
type planeRun struct {
	src, dst *float32
	res      *float32 // laid out as dst, with flagResidual
	w        *float32 // nine a plane
	bias     *float32 // one a plane; nil for none
	size     int      // bytes from dst on of which any may be written before their own results
	planes   int
	rows     int // of the output
	cols     int
	pitch    int // bytes of a row of the output
	srcSkip  int // bytes from the vector after the last of a plane to the next plane
	dstSkip  int
	lo, hi   float32
	flags    uint32
}

// smallPlanes is one call of the kernel whose strides are 1: output and input planes are of one
// size, no larger than a band. The assembly reads this struct; masks are for AVX-512.
type smallPlanes struct {
	planeRun
	masks []planeMask
}

// planeMask says which lanes of a vector of columns have an input to the left, above or below, and
// to the right of them, and which there are.
type planeMask struct{ left, mid, right, store uint16 }

// smallFactor is about how many times faster than with copies of their rows, border included,
// narrow planes are computed.
const smallFactor = 3

// fitBand reports whether planes are no larger than a band, of which one call computes several.
func (p *Params) fitBand(out [3]int) bool {
	return (volume(p.Kernel)+4)*volume(out) <= depthwiseWork
}

// withResidual reports whether the kernels of smallPlanes and halvedPlanes can serve these Params
// as far as the residual goes. With AVX2 they store some results twice, and would add a residual
// that lies where the results go twice.
func (p *Params) withResidual(v level) bool { return !p.Residual || v != levelAVX2 }

// small reports whether smallPlanes computes the convolution.
func (p *Params) small(v level, out [3]int) bool {
	one := [3]int{1, 1, 1}
	border := [3]int{0, 1, 1}
	return hasSmallPlanes(v) && p.withResidual(v) &&
		p.Kernel == [3]int{1, 3, 3} && p.Stride == one && p.Dilate[1] == 1 && p.Dilate[2] == 1 &&
		p.PadLo == border && p.PadHi == border && p.fitBand(out) && v.wideEnough(out[2], 1)
}

// wideEnough reports whether rows of so many outputs have a vector that lies within the image, also
// one at the left edge with strides of 2. Only kernels without masks ask for it.
func (v level) wideEnough(out, stride int) bool { return v != levelNEON || out >= 3+stride }

// columns is how many columns the kernels of smallPlanes and halvedPlanes walk over for so many of
// the output: whole vectors, of which the last lies over the one before with AVX2. With NEON they
// stay at the first.
func (v level) columns(out int) int {
	switch v {
	case levelAVX512:
		return (out + 15) / 16 * 16
	case levelNEON:
		return 0
	}
	return max(out, 8)
}

// planeMasks returns the masks of rows of so many columns.
func planeMasks(cols int) (masks []planeMask) {
	for x := 0; x < cols; x += 16 {
		there := uint16(bitRange(0, min(16, cols-x)))
		m := planeMask{left: there, mid: there, right: there & uint16(bitRange(0, cols-1-x)),
			store: there}
		if x == 0 {
			m.left &^= 1
		}
		masks = append(masks, m)
	}
	return masks
}

// runSmall computes planes first to last.
func (o *Convolution) runSmall(args *Args, first, last int) {
	t := smallPlanes{masks: o.depthwise.small}
	o.eachRun(&t.planeRun, args, first, last, func() { runSmallPlanes(o.depthwise.level, &t) })
}

// eachRun has run compute planes first to last, as many at a time as lie evenly in memory: those of
// one plane of input or, where each has its own, of one image.
func (o *Convolution) eachRun(t *planeRun, args *Args, first, last int, run func()) {
	p, n, in := &o.p, volume(o.out), volume(o.p.In)
	t.cols, t.rows, t.pitch = o.out[2], o.out[1], 4*o.out[2]
	t.lo, t.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	each := p.M / p.C // planes of output for one of input
	width := 4 * o.depthwise.level.columns(o.out[2])
	t.srcSkip, t.dstSkip = -width*p.Stride[2], 4*n-width
	if each == 1 {
		t.srcSkip, each = t.srcSkip+4*in, p.M
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
		run()
	}
	if p.Map != nil {
		x := args.Y[first*n : last*n]
		p.Map(x, x)
	}
}
