package conv

// slack is how many floats past its end a vector kernel may read of a padded row.
const slack = 16

// paddedFloats is about how many floats of padded rows are held at a time, half of a small level-1
// cache.
const paddedFloats = 4096

// depthwiseWork is about the multiply-adds of a band of rows of a depthwise convolution, and
// planesWork those of a chunk of several planes. Where there are several chunks of planes, their
// number is a multiple of chunkStep, so that two or four workers have as many each.
const (
	depthwiseWork = 1 << 19
	planesWork    = 1 << 17
	chunkStep     = 4
)

// depthwise is the plan of a convolution with one input channel per group. Some rows of a plane at
// a time are copied into scratch with its padding, the columns of each row sorted by their
// remainder modulo the stride, so that under each tap the inputs of consecutive outputs are
// consecutive.
type depthwise struct {
	level   level
	phase   int          // floats of one remainder of a row
	pitch   int          // floats of a padded row
	offsets []int        // of each tap, in floats from the first element of the window
	reach   int          // largest offset
	window  rowsWindow   // as in rows
	small   []planeMask  // if set, planes are computed by smallPlanes, without scratch
	halved  []halvedMask // if set, planes are computed by halvedPlanes, without scratch
	// for strides of 1 and 2, the elements of 16*stride padded columns that lie in the image
	masks   []uint32
	step    int // output rows that are padded and computed at a time
	band    int // output rows per chunk
	bands   int
	planes  int // planes per chunk, more than 1 only when a band is a plane
	chunks  int
	scratch int
}

func planDepthwise(p *Params, out [3]int) depthwise {
	d := depthwise{level: currentLevel()}
	d.layout(p, out)
	row := out[2] * (volume(p.Kernel) + 4)
	d.band = min(max(depthwiseWork/row, 4), out[1])
	d.bands = (out[1] + d.band - 1) / d.band
	total := p.N * p.M
	d.planes = 1
	if d.bands == 1 {
		work := planesWork
		switch {
		case p.small(d.level, out):
			work *= smallFactor
		case p.halves(d.level, out):
			work *= halvedFactor
		}
		chunks := max(1, (total*row*out[1]+work-1)/work)
		if chunks > 1 {
			chunks = (chunks + chunkStep - 1) / chunkStep * chunkStep
		}
		d.planes = max(1, (total+chunks-1)/chunks)
	}
	d.chunks = d.bands * ((total + d.planes - 1) / d.planes)
	if p.small(d.level, out) {
		d.small = planeMasks(p.In[2])
		return d
	}
	if p.halves(d.level, out) {
		d.halved = halvedMasks(p.In[2], out[2])
		return d
	}
	d.step = (paddedFloats/d.pitch-d.inputRows(p, 1))/p.Stride[1] + 1
	d.step = min(max(d.step/4*4, 4), d.band)
	d.scratch = d.inputRows(p, d.step)*d.pitch + slack
	return d
}

// layout plans the padded rows.
func (d *depthwise) layout(p *Params, out [3]int) {
	sw := p.Stride[2]
	d.phase = (out[2] + (p.Kernel[2]-1)*p.Dilate[2]/sw + 15) / 16 * 16
	d.pitch = sw * d.phase
	for ky := range p.Kernel[1] {
		for kx := range p.Kernel[2] {
			q := kx * p.Dilate[2]
			off := ky*p.Dilate[1]*d.pitch + q%sw*d.phase + q/sw
			d.offsets, d.reach = append(d.offsets, off), max(d.reach, off)
		}
	}
	if sw > 2 {
		return
	}
	for q := 0; q < d.pitch; q += 16 * sw {
		d.masks = append(d.masks,
			uint32(bitRange(p.PadLo[2]-q, p.PadLo[2]+p.In[2]-q)&(1<<(16*sw)-1)))
	}
	d.window = p.rowsWindow()
}

// bitRange returns a word with bits lo to hi set, as far as it has them.
func bitRange(lo, hi int) uint64 {
	lo, hi = min(max(lo, 0), 64), min(max(hi, 0), 64)
	if lo >= hi {
		return 0
	}
	return ^uint64(0) >> (64 - hi) &^ (1<<lo - 1)
}

// inputRows is the number of rows of the image, padding included, that n rows of the output see.
func (d *depthwise) inputRows(p *Params, n int) int {
	return (n-1)*p.Stride[1] + (p.Kernel[1]-1)*p.Dilate[1] + 1
}

// runDepthwise computes one chunk: a band of one plane, or some whole planes.
func (o *Convolution) runDepthwise(c int, args *Args, scratch []float32) {
	p, d := &o.p, &o.depthwise
	band, first := c%d.bands, c/d.bands*d.planes
	last := min(first+d.planes, p.N*p.M)
	if d.small != nil {
		o.runSmall(args, first, last)
		return
	}
	if d.halved != nil {
		o.runHalved(args, first, last)
		return
	}
	t := rows{
		offsets:   d.offsets,
		cols:      o.out[2],
		stride:    o.out[2],
		srcStride: p.Stride[1] * d.pitch,
		reach:     d.reach,
		window:    d.window,
		lo:        p.Lo,
		hi:        p.Hi,
	}
	if p.Residual {
		t.flags |= flagResidual
	}
	if p.Clamp {
		t.flags |= flagClamp
	}
	for plane := first; plane < last; plane++ {
		t.w = args.W[plane%p.M*len(d.offsets):][:len(d.offsets)]
		if p.Bias {
			t.bias = args.Bias[plane%p.M]
		}
		o.bandRows(&t, args, scratch, plane, band*d.band, min((band+1)*d.band, o.out[1]))
	}
}

// bandRows computes output rows y0 to y1 of a plane, as many at a time as keep their input in the
// level-1 cache.
func (o *Convolution) bandRows(t *rows, args *Args, scratch []float32, plane, y0, y1 int) {
	p, d := &o.p, &o.depthwise
	n, m := plane/p.M, plane%p.M
	src := args.X[(n*p.C+m/(p.M/p.C))*volume(p.In):][:volume(p.In)]
	at := plane * volume(o.out)
	for y := y0; y < y1; y += t.n {
		t.n = min(d.step, y1-y)
		o.padBand(scratch, src, y, y+t.n)
		t.src = scratch
		t.dst = args.Y[at+y*t.cols:][:t.n*t.cols]
		if p.Residual {
			t.res = args.Residual[at+y*t.cols:][:t.n*t.cols]
		}
		runRows(d.level, t)
	}
	if p.Map != nil {
		x := args.Y[at+y0*t.cols : at+y1*t.cols]
		p.Map(x, x)
	}
}

// padBand copies the rows of the image that output rows y0 to y1 see into scratch, with zeros
// around.
func (o *Convolution) padBand(scratch, src []float32, y0, y1 int) {
	p, d := &o.p, &o.depthwise
	top := y0*p.Stride[1] - p.PadLo[1]
	n := d.inputRows(p, y1-y0)
	r0 := min(max(-top, 0), n)
	r1 := min(max(p.In[1]-top, r0), n)
	clear(scratch[:r0*d.pitch])
	clear(scratch[r1*d.pitch : n*d.pitch])
	if r0 == r1 {
		return
	}
	dst, src := scratch[r0*d.pitch:r1*d.pitch], src[(top+r0)*p.In[2]:]
	if padRows(d, dst, src, r1-r0, p.In[2], p.PadLo[2]) {
		return
	}
	for r := range r1 - r0 {
		clear(dst[r*d.pitch:][:d.pitch])
		spread(d.level, dst[r*d.pitch:], src[r*p.In[2]:][:p.In[2]], p.PadLo[2], p.Stride[2],
			d.phase)
	}
}
