package conv

import "github.com/weirgpu/weir/internal/kernel/vec"

// imageSlack16 is how many elements behind an image tiles may read.
const imageSlack16 = stretch

// imageLen is the elements of the copy of one image.
func (o *NHWC16) imageLen() int { return o.phases[0] * o.phases[1] * o.high * o.wide * o.size }

// ImageLen returns how many elements the copy of the images takes, 0 if they are not copied.
// ImageChunks returns in how many pieces the copy is made; all of them must be made before the
// first chunk runs.
func (o *NHWC16) ImageLen() int {
	if !o.copies {
		return 0
	}
	return o.images*o.imageLen() + imageSlack16
}

// ImageChunks is described with [NHWC16.ImageLen].
func (o *NHWC16) ImageChunks() int {
	if !o.copies {
		return 0
	}
	per := o.imageRows()
	return (o.images*o.phases[0]*o.phases[1]*o.high + per - 1) / per
}

// imageRows is the number of rows of phases that are made at a time.
func (o *NHWC16) imageRows() int { return max(1, (64<<10)/(2*o.wide*o.size)) }

// FillImage makes piece i of 0 <= i < ImageChunks of the copy of the images.
func (o *NHWC16) FillImage(i int, a *NHWC16Args) {
	per, pitch := o.imageRows(), o.wide*o.size
	rows := o.images * o.phases[0] * o.phases[1] * o.high
	for r := i * per; r < min((i+1)*per, rows); r++ {
		o.fillRow(a, a.Image[r*pitch:][:pitch], r)
	}
	if (i+1)*per >= rows {
		clear(a.Image[rows*pitch:])
	}
}

// fillRow makes row r of all phases of all images.
func (o *NHWC16) fillRow(a *NHWC16Args, row []uint16, r int) {
	p := &o.p
	y, phase := r%o.high, r/o.high%(o.phases[0]*o.phases[1])
	image, phaseY, phaseX := r/o.high/(o.phases[0]*o.phases[1]), phase/o.phases[1],
		phase%o.phases[1]
	at := y*o.step[0] + phaseY - p.PadLo[1]
	if at < 0 || at >= p.In[1] {
		clear(row)
		return
	}
	// pixel x of the row is pixel x*step + first of the image's
	step, first := o.step[1], phaseX-p.PadLo[2]
	lo := max(0, (step-1-first)/step)
	hi := min(o.wide, max(lo, (p.In[2]-first+step-1)/step))
	clear(row[:lo*o.size])
	clear(row[hi*o.size:])
	if hi == lo {
		return
	}
	row = row[lo*o.size : hi*o.size]
	from := (image*p.In[1]+at)*p.In[2] + lo*step + first
	if o.planar {
		from += image * (p.C - 1) * p.In[1] * p.In[2]
		if joinPlanes16(row, a.Planes[from:], p.In[1]*p.In[2], p.C, hi-lo) {
			a.odd.Store(true)
		}
		return
	}
	spreadPixels(row, a.X[from*p.C:], hi-lo, p.C, step*p.C, o.size)
}

// separate computes outputs from first to end, from copies in which what no output sees is zero: in
// an image with numbers that are not finite, whose products with weights of zero are NaN.
func (r *halfRun) separate(c *halfCall, first, end int) {
	o, k := r.o, r.o.k()
	rows := vec.AsHalves(r.apart[:halfRows*k/2])
	part := *c
	part.offs, part.lda, part.x = o.side, 2*k, rows
	for b := first; b < end; b += halfRows {
		clear(rows)
		part.rows = min(halfRows, end-b)
		for i := range part.rows {
			for s, off := range o.offs {
				copy(rows[i*k+s*stretch:][:o.seen[s]], r.x[(b+i)*o.apart+off/2:])
			}
		}
		part.sums = c.sums[(b-first)*halfCols:]
		part.multiply(r.kept)
	}
}
