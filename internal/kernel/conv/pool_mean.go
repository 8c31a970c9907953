package conv

import "github.com/weirgpu/weir/internal/kernel/vec"

// meanTaps bounds the windows whose elements are added up one after another.
const meanTaps = 128

// longMeans reports whether the sums of windows are those of [vec.ColumnSums].
func (p *PoolParams) longMeans() bool {
	return p.Kind == AveragePool && volume(p.Kernel) > meanTaps
}

// meanScratch is what the sums of rows and then those of columns need.
func (o *Pool) meanScratch() int {
	p := &o.p
	if !p.longMeans() {
		return 0
	}
	return max(vec.ColumnSumScratch(p.Kernel[0]*p.Kernel[1], p.In[2]),
		vec.ColumnSumScratch(p.Kernel[2], p.Out[2]))
}

// meanRow is row for means over long windows, with scratch for sums.
func (o *Pool) meanRow(dst, src, row, spreadRow, scratch []float32, at int) {
	p := &o.p
	z, y := at/p.Out[1], at%p.Out[1]
	o.sumRows(row, src, scratch, z, y)
	spread(o.level, spreadRow, row, p.PadLo[2], p.Stride[2], o.phase)
	out := dst[at*p.Out[2]:][:p.Out[2]]
	sums := vec.MakeColumnSums(out, scratch)
	for _, off := range o.offsets {
		sums.Add(spreadRow[off:][:len(out)])
	}
	sums.Finish()
	n := float32(p.divisor(0, z) * p.divisor(1, y))
	for x, c := range o.columns {
		out[x] /= n * c
	}
}

// sumRows adds up the rows of the image under the windows at z and y.
func (o *Pool) sumRows(row, src, scratch []float32, z, y int) {
	p := &o.p
	z0, z1 := p.tapsInside(0, z)
	y0, y1 := p.tapsInside(1, y)
	sums := vec.MakeColumnSums(row, scratch)
	for kz := z0; kz < z1; kz++ {
		iz := z*p.Stride[0] - p.PadLo[0] + kz*p.Dilate[0]
		for ky := y0; ky < y1; ky++ {
			iy := y*p.Stride[1] - p.PadLo[1] + ky*p.Dilate[1]
			sums.Add(src[(iz*p.In[1]+iy)*p.In[2]:][:p.In[2]])
		}
	}
	sums.Finish()
}
