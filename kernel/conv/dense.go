package conv

import (
	"github.com/weirgpu/weir/kernel/gemm"
)

// newDense plans the products of the groups of all images: M/group x (taps*C/group) weights by the patches.
func newDense(o *Op) (*gemm.Op, error) {
	p := &o.p
	m, c, plane, outPlane := p.M/p.Group, p.C/p.Group, volume(p.In), volume(o.out)
	q := gemm.Params{
		M: m, N: outPlane, K: c * volume(p.Kernel), PackedA: true, Batch: p.N * p.Group,
		Epilogue: gemm.Epilogue{Clamp: p.Clamp, Lo: p.Lo, Hi: p.Hi, Map: p.Map},
	}
	if p.N == 0 {
		q.N, q.Batch = 0, 1
	}
	q.StrideB = c * plane
	if p.Bias {
		q.Bias = gemm.BiasPerRow
	}
	if p.Residual {
		q.Residual = gemm.ResidualFull
	}
	q.OffA = make([]int, q.Batch)
	q.OffBias = make([]int, q.Batch)
	for b := range q.Batch {
		q.OffA[b] = b % p.Group * m * q.K
		q.OffBias[b] = b % p.Group * m
	}
	if !p.pointwise() {
		q.Fill = patches{w: p.Window, out: o.out, c: c, plane: plane, level: currentLevel(), width: panelWidth()}.fill
	}
	return gemm.New(q)
}

// pointwise reports whether the patches are the image itself.
func (w *Window) pointwise() bool {
	one := [3]int{1, 1, 1}
	return w.Kernel == one && w.Stride == one && w.PadLo == [3]int{} && w.PadHi == [3]int{}
}

// panelWidth is the width of the panels that gemm asks for at the current level.
func panelWidth() int {
	o, err := gemm.New(gemm.Params{})
	if err != nil {
		return 0
	}
	return o.PanelWidth()
}

// packDense packs the weights of each group with the channels fastest in K, so that the patches of one tap of the kernel
// are whole rows of the panels.
func (o *Op) packDense(dst, w []float32) {
	p := &o.p
	m, c, taps := p.M/p.Group, p.C/p.Group, volume(p.Kernel)
	k := c * taps
	turned := make([]float32, m*k)
	for g := range p.Group {
		src := w[g*m*k:][:m*k]
		for i := range m {
			for ch := range c {
				for t := range taps {
					turned[i*k+t*c+ch] = src[i*k+ch*taps+t]
				}
			}
		}
		gemm.PackA(dst[g*m*k:][:m*k], turned, m, k, 0, false)
	}
}

// patches produces panels of the matrix of patches: row tap*c+channel, column the output position.
type patches struct {
	w     Window
	out   [3]int
	c     int // channels of the group
	plane int // elements of a channel
	level level
	width int
}

// run is a stretch of columns of a panel that lie in one row of the output.
type run struct {
	lane, n int // first column and number
	z, y, x int // input position of the first column under the first tap
}

// fill is the gemm.Params.Fill of a convolution.
func (p patches) fill(dst, src []float32, k0, k1, j0, j1 int) {
	var buf [32]run
	runs := p.split(buf[:0], j0, j1)
	for k0 < k1 {
		tap, ch := k0/p.c, k0%p.c
		n := min(p.c-ch, k1-k0)
		p.tap(dst[:n*p.width], src[ch*p.plane:], runs, tap, n)
		dst = dst[n*p.width:]
		k0 += n
	}
}

// split cuts columns j0 to j1 into runs.
func (p *patches) split(runs []run, j0, j1 int) []run {
	w := &p.w
	for j := j0; j < j1; {
		x, row := j%p.out[2], j/p.out[2]
		n := min(j1-j, p.out[2]-x)
		runs = append(runs, run{
			lane: j - j0, n: n,
			z: row/p.out[1]*w.Stride[0] - w.PadLo[0],
			y: row%p.out[1]*w.Stride[1] - w.PadLo[1],
			x: x*w.Stride[2] - w.PadLo[2],
		})
		j += n
	}
	return runs
}

// tap gathers n channels from src of what one element of the kernel sees.
func (p *patches) tap(dst, src []float32, runs []run, tap, n int) {
	w := &p.w
	kx, ky, kz := tap%w.Kernel[2], tap/w.Kernel[2]%w.Kernel[1], tap/w.Kernel[2]/w.Kernel[1]
	var seen [32]stretch
	found, filled := seen[:0], 0
	for i := range runs {
		r := &runs[i]
		z, y, x := r.z+kz*w.Dilate[0], r.y+ky*w.Dilate[1], r.x+kx*w.Dilate[2]
		if uint(z) >= uint(w.In[0]) || uint(y) >= uint(w.In[1]) {
			continue
		}
		if lo, hi := inside(x, w.Stride[2], w.In[2], r.n); lo < hi {
			found = append(found, stretch{r.lane + lo, r.lane + hi, (z*w.In[1]+y)*w.In[2] + x + lo*w.Stride[2]})
			filled += hi - lo
		}
	}
	if filled < p.width {
		clear(dst)
	}
	for _, s := range found {
		gather(p.level, dst, p.width, s.lo, s.hi, src[s.at:], p.plane, w.Stride[2], n)
	}
}

// stretch is the part of a run that lies inside the image: columns lo to hi of the panel, from offset at of a channel.
type stretch struct{ lo, hi, at int }

// inside returns the columns lo to hi of n whose positions x + column*stride lie in [0, size).
func inside(x, stride, size, n int) (lo, hi int) {
	if stride == 1 {
		return max(0, -x), min(n, size-x)
	}
	if x < 0 {
		lo = (-x + stride - 1) / stride
	}
	if x >= size {
		return 0, 0
	}
	return lo, min(n, (size-x+stride-1)/stride)
}
