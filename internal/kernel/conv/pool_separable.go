package conv

import "github.com/weirgpu/weir/internal/kernel/vec"

// separablePool is one call of the two kernels that pool where windows are large, or vectors short
// and loads under masks dear: the first reduces the rows under each output row into a line with a
// border of what changes nothing, the second the columns of the lines. The assembly reads this
// struct.
type separablePool struct {
	src, dst []float32 // a vector may be stored over what follows in dst, up to its end
	lines    []float32
	rows     []poolRow // of each plane
	columns  []float32 // as in poolBand
	planes   int
	plane    int // bytes from one plane of the image to the next
	step     int // bytes from one row under a window to the next
	in       int // columns of the image
	lead     int // bytes of the border on the left
	cols     int // outputs of a row
	pitch    int // bytes of a line
	width    int // taps along a row
	tap      int // bytes from one to the next
	neutral  float32
}

// narrowLanes is the number of lanes of the vectors of separable pooling.
const narrowLanes = 8

// separable reports whether the two kernels of separablePool compute the pooling.
func (p *PoolParams) separable(v level) bool {
	return hasSeparablePool(v) && p.trivial(0) && p.Out[0] == 1 && p.Stride[2] <= 2 &&
		(p.Stride[2] == 1 || p.Dilate[2] == 1) && !p.longMeans() &&
		(!hasPoolBand(v) || p.manyTaps())
}

// manyTaps reports whether windows have so many elements that reducing their rows and then their
// columns takes less time than reducing all of them with vectors of twice the lanes (see poolBand),
// which maxima of three columns with a stride of 2 share.
func (p *PoolParams) manyTaps() bool {
	kh, kw := p.Kernel[1], p.Kernel[2]
	return kh*kw > 2*(kh+kw) && !(p.Kind == MaxPool && kw == 3 && p.Stride[2] == 2)
}

// planSeparable plans the calls.
func (o *Pool) planSeparable() {
	p := &o.p
	outs := max(p.Out[2], narrowLanes)
	pitch := max(p.PadLo[2]+max(p.In[2], narrowLanes),
		// two vectors from the last tap of the last vector on
		(outs-narrowLanes)*p.Stride[2]+(p.Kernel[2]-1)*p.Dilate[2]+2*narrowLanes)
	o.separable = &separablePool{
		rows: p.rows(), columns: p.columnDivisors(outs), plane: 4 * volume(p.In),
		step: 4 * p.Dilate[1] * p.In[2], in: p.In[2], lead: 4 * p.PadLo[2], cols: p.Out[2],
		pitch: 4 * pitch, width: p.Kernel[2], tap: 4 * p.Dilate[2], neutral: p.neutral(),
	}
	o.splitPlanes(o.separableCost(p.Out[1]))
	rows := min(paddedFloats/pitch, bandWork/o.separableCost(1), o.planes*p.Out[1])
	o.lines = max(rows, 1)
}

// separableCost is about the number of vectors taken for n rows of a plane.
func (o *Pool) separableCost(n int) int {
	p := &o.p
	vectors := (p.In[2]+narrowLanes-1)/narrowLanes*p.Kernel[1] +
		(p.Out[2]+narrowLanes-1)/narrowLanes*p.Kernel[2]
	return n * vectors
}

// runSeparable pools the output rows lo to hi of planes, as many at a time as there are lines.
func (o *Pool) runSeparable(dst, src, scratch []float32, lo, hi int) {
	s := *o.separable
	in, out := volume(o.p.In), volume(o.p.Out)
	s.lines = scratch[:o.lines*s.pitch/4]
	vec.Fill(s.lines, s.neutral)
	if most := o.lines / len(s.rows); most > 0 && hi-lo == len(s.rows) {
		for ; len(src) > 0; src, dst = src[s.planes*in:], dst[s.planes*out:] {
			s.planes = min(most, len(src)/in)
			s.src, s.dst = src, dst
			runSeparablePool(&s, o.p.Kind, o.p.Stride[2])
		}
		return
	}
	s.planes = 1
	for ; len(src) > 0; src, dst = src[in:], dst[out:] {
		for y := lo; y < hi; y += o.lines {
			s.rows = o.separable.rows[y:min(y+o.lines, hi)]
			s.src, s.dst = src, dst[y*s.cols:hi*s.cols]
			runSeparablePool(&s, o.p.Kind, o.p.Stride[2])
		}
	}
}
