package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// PoolKind selects what a pooling window computes.
type PoolKind uint8

const (
	// MaxPool is ONNX MaxPool-12: the largest element inside the image, -Inf for a window without
	// any; a NaN wins.
	MaxPool PoolKind = iota
	// AveragePool is ONNX AveragePool-19: the mean, over the elements inside the image or, with
	// CountPad, over those inside the image and its pads. It is within 1.6e-5 of that, relative to
	// the mean of magnitudes, for windows of any size: at most 128 float32 additions follow each
	// other along the rows of a window, and 128 along its columns. Rows are added up first, on
	// every path of instructions, so that the bits are the same. A window whose sum leaves the
	// range of float32 has an infinite mean, or NaN.
	AveragePool
)

// PoolParams describes pooling over each of Planes planes.
type PoolParams struct {
	Window
	Kind     PoolKind
	CountPad bool
	Planes   int // N*C
	// Out overrides the size of the output, which without it is rounded down: ceil_mode makes it
	// larger. Zero leaves it.
	Out [3]int
}

// Pool is a planned pooling. It is immutable and may be used by many goroutines at once.
//
// Where vectors can be loaded under masks, a vector of outputs is reduced from what its windows see
// (see poolBand), if these are small. Elsewhere each output row first reduces the rows of its
// window into one and then the columns of that: with kernels for both where there are some (see
// separablePool), or with the columns spread so that those that neighbouring outputs see first,
// second, ... are neighbours.
type Pool struct {
	p      PoolParams // its axes rotated
	out    [3]int     // as the caller's axes have it
	paired bool       // see runPaired
	band   *poolBand  // if set, what runBands computes, without its memory
	// if set, what runSeparable computes, without its memory, so many lines at a time
	separable *separablePool
	lines     int
	level     level
	planes    int   // per chunk
	rows      int   // of outputs of a plane, per chunk: all of them but of large planes
	phase     int   // floats of one remainder of the columns modulo the stride
	offsets   []int // of each column of the kernel in the spread row
	columns   []float32
}

// poolWork is the elements of a chunk of pooling, and rowsWork about those of a chunk of some rows
// of a plane that has more: they take less than a millisecond.
const (
	poolWork = 1 << 16
	rowsWork = 1 << 18
)

// NewPool plans pooling. Errors are of kind ErrParams.
func NewPool(p PoolParams) (*Pool, error) {
	out, err := p.Window.setDefaults()
	if err != nil {
		return nil, err
	}
	if p.Out == [3]int{} {
		p.Out = out
	}
	for i := range 3 {
		if p.Out[i] < 1 || (p.Out[i]-1)*p.Stride[i] >= p.In[i]+p.PadLo[i]+p.PadHi[i] {
			return nil, fmt.Errorf(
				"%w: axis %d: the last of %d windows starts after the padded image", ErrParams, i,
				p.Out[i])
		}
	}
	if p.Planes < 0 {
		return nil, fmt.Errorf("%w: %d planes", ErrParams, p.Planes)
	}
	if err := checkSizes([3]int{1, p.Planes, volume(p.In)}, p.Out,
		[3]int{1, p.Planes, volume(p.Out)}); err != nil {
		return nil, err
	}
	o := planPool(p.rotated())
	o.out = p.Out
	return o, nil
}

func (p PoolParams) rotated() PoolParams {
	p.Out = rotated(p.Out, p.Window.rotateAxes())
	return p
}

func planPool(p PoolParams) *Pool {
	work := volume(p.Out)/p.Out[2]*volume(p.Kernel)/p.Kernel[2]*p.In[2] + volume(p.Out)*p.Kernel[2]
	o := &Pool{p: p, level: currentLevel(), planes: max(1, poolWork/work)}
	switch {
	case p.separable(o.level):
		o.planSeparable()
	case hasPoolBand(o.level) && p.banded():
		o.planBand()
	default:
		o.planSpread()
	}
	o.rows = p.Out[0] * p.Out[1]
	if bands := (work + rowsWork - 1) / rowsWork; o.planes == 1 && bands > 1 {
		o.rows = (o.rows + bands - 1) / bands
	}
	return o
}

// planSpread plans what is reduced row by row.
func (o *Pool) planSpread() {
	p := &o.p
	o.paired = p.pairs()
	o.phase = p.Out[2] + (p.Kernel[2]-1)*p.Dilate[2]/p.Stride[2]
	for k := range p.Kernel[2] {
		q := k * p.Dilate[2]
		o.offsets = append(o.offsets, q%p.Stride[2]*o.phase+q/p.Stride[2])
	}
	for x := range p.Out[2] {
		o.columns = append(o.columns, float32(p.divisor(2, x)))
	}
}

// divisor returns how many elements of the kernel, along one axis and at one output position, count
// towards the mean.
func (p *PoolParams) divisor(axis, pos int) int {
	if p.CountPad {
		_, n := inside(pos*p.Stride[axis], p.Dilate[axis], p.In[axis]+p.PadLo[axis]+p.PadHi[axis],
			p.Kernel[axis])
		return n
	}
	lo, hi := p.tapsInside(axis, pos)
	return hi - lo
}

// Out returns the spatial size of the output.
func (o *Pool) Out() [3]int { return o.out }

// Chunks returns the number of independent pieces of work: some planes each, or some rows of a
// large one.
func (o *Pool) Chunks() int { return (o.p.Planes + o.planes - 1) / o.planes * o.bands() }

// bands is how many chunks a plane is cut into.
func (o *Pool) bands() int { return (o.p.Out[0]*o.p.Out[1] + o.rows - 1) / o.rows }

// ScratchLen returns how many floats of scratch Run needs.
func (o *Pool) ScratchLen() int {
	switch {
	case o.paired:
		return 2 * pairedFloats
	case o.band != nil:
		return 0
	case o.separable != nil:
		return o.lines * o.separable.pitch / 4
	}
	return o.p.In[2] + o.p.Stride[2]*o.phase + o.meanScratch()
}

// Run computes chunk c of 0 <= c < Chunks from x, Planes x In, into y, Planes x Out, which must not
// overlap. Scratch holds at least ScratchLen floats that no other call uses meanwhile. Run panics
// when a slice is too short.
func (o *Pool) Run(c int, x, y, scratch []float32) {
	p := &o.p
	in, out := volume(p.In), volume(p.Out)
	if len(x) < p.Planes*in || len(y) < p.Planes*out || len(scratch) < o.ScratchLen() ||
		uint(c) >= uint(o.Chunks()) {
		panic(fmt.Sprintf("conv: pooling chunk %d of %d with %d inputs, %d outputs and %d floats "+
			"of scratch for %d planes of %v to %v",
			c, o.Chunks(), len(x), len(y), len(scratch), p.Planes, p.In, p.Out))
	}
	c, lo := c/o.bands(), c%o.bands()*o.rows
	hi := min(lo+o.rows, p.Out[0]*p.Out[1])
	first, last := c*o.planes, min((c+1)*o.planes, p.Planes)
	switch {
	case o.paired:
		lo, hi = lo*p.Out[2], hi*p.Out[2]
		o.runPaired(y[first*out+lo:(last-1)*out+hi], x[first*in+4*lo:(last-1)*in+4*hi], scratch)
		return
	case o.band != nil:
		o.runBands(y[first*out:last*out], x[first*in:last*in], lo, hi)
		return
	case o.separable != nil:
		o.runSeparable(y[first*out:last*out], x[first*in:last*in], scratch, lo, hi)
		return
	}
	spreadRow := scratch[p.In[2]:][:p.Stride[2]*o.phase]
	vec.Fill(spreadRow, p.neutral())
	for plane := first; plane < last; plane++ {
		if dst, src := y[plane*out:][:out], x[plane*in:][:in]; p.longMeans() {
			for at := lo; at < hi; at++ {
				o.meanRow(dst, src, scratch[:p.In[2]], spreadRow,
					scratch[p.In[2]+len(spreadRow):], at)
			}
		} else {
			for at := lo; at < hi; at++ {
				o.row(dst, src, scratch[:p.In[2]], spreadRow, at)
			}
		}
	}
}

// row pools row at of the outputs of a plane. Row and spreadRow are scratch; the gaps of spreadRow
// hold the neutral element.
func (o *Pool) row(dst, src, row, spreadRow []float32, at int) {
	p := &o.p
	z, y := at/p.Out[1], at%p.Out[1]
	z0, z1 := p.tapsInside(0, z)
	y0, y1 := p.tapsInside(1, y)
	vec.Fill(row, p.neutral())
	for kz := z0; kz < z1; kz++ {
		iz := z*p.Stride[0] - p.PadLo[0] + kz*p.Dilate[0]
		for ky := y0; ky < y1; ky++ {
			iy := y*p.Stride[1] - p.PadLo[1] + ky*p.Dilate[1]
			reduceRow(o.level, p.Kind, row, src[(iz*p.In[1]+iy)*p.In[2]:][:p.In[2]])
		}
	}
	spread(o.level, spreadRow, row, p.PadLo[2], p.Stride[2], o.phase)
	o.reduceColumns(dst[at*p.Out[2]:][:p.Out[2]], spreadRow, p.divisor(0, z)*p.divisor(1, y))
}

// reduceColumns reduces the columns of a spread row into dst; n is what the rows contribute to the
// divisor of a mean.
func (o *Pool) reduceColumns(dst, spreadRow []float32, n int) {
	copy(dst, spreadRow)
	for _, off := range o.offsets[1:] {
		reduceRow(o.level, o.p.Kind, dst, spreadRow[off:][:len(dst)])
	}
	if o.p.Kind == AveragePool {
		for x, c := range o.columns {
			dst[x] /= float32(n) * c
		}
	}
}

// tapsInside returns the elements k0 to k1 of the kernel that see the image along an axis at an
// output position.
func (p *PoolParams) tapsInside(axis, pos int) (k0, k1 int) {
	at := pos*p.Stride[axis] - p.PadLo[axis]
	k0, k1 = inside(at, p.Dilate[axis], p.In[axis], p.Kernel[axis])
	return k0, max(k0, k1)
}

// neutral is what reducing with changes nothing.
func (p *PoolParams) neutral() float32 {
	if p.Kind == MaxPool {
		return negInf
	}
	return 0
}
