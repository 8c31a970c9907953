package conv

import "fmt"

// PoolKind selects what a pooling window computes.
type PoolKind uint8

const (
	// MaxPool is ONNX MaxPool-12: the largest element inside the image, -Inf for a window without any; a NaN wins.
	MaxPool PoolKind = iota
	// AveragePool is ONNX AveragePool-19: the mean, over the elements inside the image or, with CountPad, over those
	// inside the image and its pads.
	AveragePool
)

// PoolParams describes pooling over each of Planes planes.
type PoolParams struct {
	Window
	Kind     PoolKind
	CountPad bool
	Planes   int // N*C
	// Out overrides the size of the output, which without it is rounded down: ceil_mode makes it larger. Zero leaves it.
	Out [3]int
}

// PoolOp is a planned pooling. It is immutable and may be used by many goroutines at once.
type PoolOp struct {
	p      PoolParams
	planes int // per chunk
}

// poolWork is the elements of a chunk of pooling.
const poolWork = 1 << 16

// NewPool plans pooling. Errors are of kind ErrParams.
func NewPool(p PoolParams) (*PoolOp, error) {
	out, err := p.Window.setDefaults()
	if err != nil {
		return nil, err
	}
	if p.Out == [3]int{} {
		p.Out = out
	}
	for i := range 3 {
		if p.Out[i] < 1 || (p.Out[i]-1)*p.Stride[i] >= p.In[i]+p.PadLo[i]+p.PadHi[i] {
			return nil, fmt.Errorf("%w: axis %d: the last of %d windows starts after the padded image", ErrParams, i, p.Out[i])
		}
	}
	if p.Planes < 0 || float64(p.Planes)*float64(max(volume(p.In), volume(p.Out))) > maxElements {
		return nil, fmt.Errorf("%w: %d planes of %v to %v, limit %d elements", ErrParams, p.Planes, p.In, p.Out, maxElements)
	}
	work := volume(p.Out)/p.Out[2]*volume(p.Kernel)/p.Kernel[2]*p.In[2] + volume(p.Out)*p.Kernel[2]
	return &PoolOp{p: p, planes: max(1, poolWork/work)}, nil
}

// Out returns the spatial size of the output.
func (o *PoolOp) Out() [3]int { return o.p.Out }

// Chunks returns the number of independent pieces of work.
func (o *PoolOp) Chunks() int { return (o.p.Planes + o.planes - 1) / o.planes }

// ScratchLen returns how many floats of scratch Run needs.
func (o *PoolOp) ScratchLen() int { return o.p.In[2] }

// Run computes chunk c of 0 <= c < Chunks from x, Planes x In, into y, Planes x Out, which must not overlap. Scratch
// holds at least ScratchLen floats that no other call uses meanwhile. Run panics when a slice is too short.
func (o *PoolOp) Run(c int, x, y, scratch []float32) {
	p := &o.p
	in, out := volume(p.In), volume(p.Out)
	if len(x) < p.Planes*in || len(y) < p.Planes*out || len(scratch) < o.ScratchLen() || uint(c) >= uint(o.Chunks()) {
		panic(fmt.Sprintf("conv: pooling chunk %d of %d with %d inputs, %d outputs and %d floats of scratch for %d planes of %v to %v",
			c, o.Chunks(), len(x), len(y), len(scratch), p.Planes, p.In, p.Out))
	}
	for plane := c * o.planes; plane < min((c+1)*o.planes, p.Planes); plane++ {
		o.plane(y[plane*out:][:out], x[plane*in:][:in], scratch[:p.In[2]])
	}
}

// plane pools one plane: each output row first reduces the rows of its window into one, then the columns of that.
func (o *PoolOp) plane(dst, src, row []float32) {
	p := &o.p
	for z := range p.Out[0] {
		z0, z1 := p.tapsInside(0, z)
		for y := range p.Out[1] {
			y0, y1 := p.tapsInside(1, y)
			p.start(row)
			for kz := z0; kz < z1; kz++ {
				iz := z*p.Stride[0] - p.PadLo[0] + kz*p.Dilate[0]
				for ky := y0; ky < y1; ky++ {
					iy := y*p.Stride[1] - p.PadLo[1] + ky*p.Dilate[1]
					p.reduce(row, src[(iz*p.In[1]+iy)*p.In[2]:][:p.In[2]])
				}
			}
			n := (z1 - z0) * (y1 - y0)
			if p.CountPad {
				n = p.counted(0, z) * p.counted(1, y)
			}
			p.columns(dst[(z*p.Out[1]+y)*p.Out[2]:][:p.Out[2]], row, n)
		}
	}
}

// tapsInside returns the elements k0 to k1 of the kernel that see the image along an axis at an output position.
func (p *PoolParams) tapsInside(axis, pos int) (k0, k1 int) {
	at := pos*p.Stride[axis] - p.PadLo[axis]
	k0, k1 = inside(at, p.Dilate[axis], p.In[axis], p.Kernel[axis])
	return k0, max(k0, k1)
}

// counted is the number of elements of the kernel that see the image or its pads.
func (p *PoolParams) counted(axis, pos int) int {
	_, n := inside(pos*p.Stride[axis], p.Dilate[axis], p.In[axis]+p.PadLo[axis]+p.PadHi[axis], p.Kernel[axis])
	return n
}

// start sets row to the neutral element.
func (p *PoolParams) start(row []float32) {
	if p.Kind == AveragePool {
		clear(row)
		return
	}
	for i := range row {
		row[i] = negInf
	}
}

// reduce adds src to row, or takes the larger of each pair.
func (p *PoolParams) reduce(row, src []float32) {
	src = src[:len(row)]
	if p.Kind == AveragePool {
		for i, v := range src {
			row[i] += v
		}
		return
	}
	for i, v := range src {
		row[i] = max(row[i], v)
	}
}

// columns reduces the columns of row into dst; n is what the rows contribute to the divisor of a mean.
func (p *PoolParams) columns(dst, row []float32, n int) {
	for x := range dst {
		k0, k1 := p.tapsInside(2, x)
		at := x*p.Stride[2] - p.PadLo[2]
		if p.Kind == MaxPool {
			v := negInf
			for k := k0; k < k1; k++ {
				v = max(v, row[at+k*p.Dilate[2]])
			}
			dst[x] = v
			continue
		}
		v := float32(0)
		for k := k0; k < k1; k++ {
			v += row[at+k*p.Dilate[2]]
		}
		count := k1 - k0
		if p.CountPad {
			count = p.counted(2, x)
		}
		dst[x] = v / float32(n*count)
	}
}
