package conv

import (
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// newDense plans the products of the groups of all images: M/group x (taps*C/group) weights by the
// patches or, when it wastes fewer lanes, the patches by the weights with the result transposed.
func newDense(p *Params, out [3]int, pixelRows bool) (*gemm.Product, error) {
	m, c := p.M/p.Group, p.C/p.Group
	q := gemm.Params{
		Near:   !p.Reused,
		Format: p.Format, K: c * volume(p.Kernel), Batch: max(p.N*p.Group, 1),
		Epilogue: gemm.Epilogue{Clamp: p.Clamp, Lo: p.Lo, Hi: p.Hi, Map: p.Map},
	}
	fill := newPatches(p.Window, out, c)
	if p.Residual {
		q.Residual = gemm.ResidualFull
	}
	if pixelRows {
		q.M, q.N, q.PackedB, q.TransC = volume(out), m, true, true
		q.TransA, q.StrideA = true, c*volume(p.In)
		q.OffB = groupOffsets(q.Batch, p.Group, p.Format.PackedBLen(q.K, m))
		q.Bias = gemm.BiasPerCol
		if !p.pointwise() {
			q.FillA = fill.fill
		}
	} else {
		q.M, q.N, q.PackedA, q.PanelRows = m, volume(out), true, p.Format.EvenRows(m)
		q.StrideB = c * volume(p.In)
		q.OffA = groupOffsets(q.Batch, p.Group, p.Format.PackedALen(m, q.K))
		q.Bias = gemm.BiasPerRow
		if !p.pointwise() {
			fill.width = p.Format.PanelColumns()
			fill.list()
			q.Fill = fill.fill
		}
	}
	if q.OffBias = groupOffsets(q.Batch, p.Group, m); !p.Bias {
		q.Bias = gemm.NoBias
	}
	if p.N == 0 {
		q.M = 0
	}
	return gemm.New(q)
}

// groupOffsets is where each product of a batch finds what belongs to its group.
func groupOffsets(batch, groups, size int) []int {
	off := make([]int, batch)
	for b := range off {
		off[b] = b % groups * size
	}
	return off
}

// Costs in cycles, for one vector of the result, by which pixelsAsRows compares the two
// arrangements of a product: per step of K, copying a vector of pixels into a panel (copyCycles)
// or, for each tile that reads the vector in the image, reading it across two lines of the cache
// (splitCycles), or with AVX2, whose steps take less time, reading it there at all (readCycles);
// and once, finishing the vector (finishCycles) and transposing it (transposeCycles).
const (
	copyCycles      = 7.5
	splitCycles     = 1.7
	readCycles      = 4
	finishCycles    = 3.6
	transposeCycles = 10.7
	// aliasBytes is the distance at which the same pixels of all channels fall into few lines of
	// any cache.
	aliasBytes = 1 << 16
)

// pixelsAsRows decides whether the pixels of the output are the rows of tiles and the output
// channels their columns, or the other way round. Rows may be of any number; columns come in whole
// vectors. Where patches are copied, pixels become rows if that saves more lanes than transposing
// the result costs. Where the patches are the image itself, which is then read where it lies, they
// become rows if that takes less time; and never where it comes from far.
func (p *Params) pixelsAsRows(out [3]int) bool {
	m, pixels, lanes := p.M/p.Group, volume(out), panelWidth()/2
	vectors := func(n int) float64 { return float64((n + lanes - 1) / lanes) }
	if !p.pointwise() || p.Format != gemm.F32 {
		return float64(m)/vectors(m) > 1.04*float64(pixels)/vectors(pixels)
	}
	if 4*pixels%aliasBytes == 0 || gemm.ComesFar(p.C/p.Group*pixels) {
		return false
	}
	k, perStep, columns := float64(p.C/p.Group), float64(m), vectors(m)
	narrow := currentLevel() == levelAVX2
	if narrow && columns > 1 {
		// tiles of one vector of columns have too few sums, and take as long as those of two
		columns = 2 * float64((m+2*lanes-1)/(2*lanes))
	}
	switch read := (gemm.Params{M: m, N: pixels, K: p.C / p.Group, PackedA: true}).ReadsB(); {
	case !read:
		perStep += copyCycles
	case pixels%lanes != 0:
		tile := gemm.F32.PanelRows()
		perStep += splitCycles * float64((m+tile-1)/tile)
	case narrow:
		perStep += readCycles
	}
	asColumns := vectors(pixels) * (k*perStep + finishCycles*float64(m))
	return columns*float64(pixels)*(k+finishCycles+transposeCycles) < asColumns
}

// pointwise reports whether the patches are the image itself.
func (w *Window) pointwise() bool {
	one := [3]int{1, 1, 1}
	return w.Kernel == one && w.Stride == one && w.PadLo == [3]int{} && w.PadHi == [3]int{}
}

// panelWidth is the width of the panels that gemm asks for at the current level.
func panelWidth() int { return gemm.F32.PanelColumns() }

// panelChannels is how many output channels a panel of packed weights holds.
func (o *Convolution) panelChannels() int {
	if o.kind == kindPixelRows {
		return o.p.Format.PanelColumns()
	}
	if o.kind == kindWinograd {
		return o.p.Format.PanelRows()
	}
	return o.p.Format.EvenRows(o.p.M / o.p.Group)
}

// packDense packs a panel of n output channels, the first of which is given and is where w begins.
// Channels come fastest in K, so that the patches of one tap of the kernel are whole rows of the
// panel. Where that needs the weights transposed, because there are several taps, transposed is the
// scratch for it.
func (o *Convolution) packDense(dst, w []float32, first, n int, transposed []float32) {
	p := &o.p
	m, c, taps := p.M/p.Group, p.C/p.Group, volume(p.Kernel)
	k, step := c*taps, o.panelChannels()
	size, words := o.PackedLen()/p.Group, p.Format.PackedALen(1, k)
	if o.kind == kindPixelRows {
		words = p.Format.PackedBLen(k, step) / step
	}
	panel := dst[first/m*size+first%m*words:]
	ld, turned := 0, p.Turned && taps == 1
	switch {
	case turned:
		ld = m
	case p.Turned:
		turnTaps(transposed, w, n, c, taps, m)
		w = transposed[:n*k]
	case taps > 1 && c > 1:
		transposeTaps(transposed, w[:n*k], c, taps)
		w = transposed[:n*k]
	}
	if o.kind == kindPixelRows {
		p.Format.PackB(panel, w, k, n, ld, !turned)
	} else {
		p.Format.PackA(panel, w, n, k, ld, turned)
	}
}

// turnTaps writes c rows of n x taps floats, m x taps apart, as n x taps x c, the last tap first.
func turnTaps(dst, src []float32, n, c, taps, m int) {
	const some = 16 // channels that are neighbours in a line of the cache
	for ch := 0; ch < c; ch += some {
		to := dst[ch:]
		for i := range n * taps {
			at := i/taps*taps*c + (taps-1-i%taps)*c
			line := to[at:min(at+some, at+c-ch)]
			for j := range line {
				line[j] = src[(ch+j)*m*taps+i]
			}
		}
	}
}

// transposeTaps writes rows of c x taps floats as taps x c.
func transposeTaps(dst, src []float32, c, taps int) {
	for k := c * taps; len(src) > 0; dst, src = dst[k:], src[k:] {
		for ch := range c {
			for t, v := range src[ch*taps:][:taps] {
				dst[t*c+ch] = v
			}
		}
	}
}

// patches produces panels of the matrix of patches: row tap*c+channel, column the output position.
type patches struct {
	w     Window
	out   [3]int
	c     int // channels of the group
	plane int // elements of a channel
	level level
	width int // of the panels; 0 for panels as wide as the columns asked for
	taps  []tap
	// direct says that the level can copy the elements under neighbouring columns under a mask;
	// even that the last column of a row and the first of the next see neighbours, too, counting
	// those outside the image.
	direct, even bool
	tables       bool        // a kernel for all taps is used, where the level has one
	whole        []tapCopy   // see wholeTaps
	panels       [][]tapCopy // see list
}

// newPatches prepares the matrix of patches of c channels.
func newPatches(w Window, out [3]int, c int) patches {
	p := patches{w: w, out: out, c: c, plane: volume(w.In), level: currentLevel(), taps: w.taps()}
	p.direct = hasMasks(p.level) && w.Stride[2] <= 2
	if p.tables = p.level.copiesTaps(w.Stride[2], c); p.tables {
		p.whole = p.wholeTaps()
	}
	p.even = w.Stride == [3]int{1, 1, 1} && w.In[2] == out[2] && (out[0] == 1 || w.In[1] == out[1])
	return p
}

// tap is where an element of the kernel looks, from where the first one does.
type tap struct{ z, y, x int }

// taps lists the elements of the kernel.
func (w *Window) taps() []tap {
	var taps []tap
	for z := range w.Kernel[0] {
		for y := range w.Kernel[1] {
			for x := range w.Kernel[2] {
				taps = append(taps, tap{z * w.Dilate[0], y * w.Dilate[1], x * w.Dilate[2]})
			}
		}
	}
	return taps
}

// run is a stretch of columns of a panel that lie in one row of the output.
type run struct {
	lane, n int // first column and number
	z, y, x int // input position of the first column under the first tap
}

// fill is the gemm.Params.Fill of a convolution.
func (p patches) fill(dst, src []float32, k0, k1, j0, j1 int) {
	width := p.width
	if width == 0 {
		width = j1 - j0
	}
	if p.panels != nil && k0%p.c == 0 && k1%p.c == 0 {
		p.copyListed(dst, src, width, p.panels[j0/width][k0/p.c:k1/p.c])
		return
	}
	var buf [32]run
	runs := p.split(&buf, j0, j1)
	if p.tables && hasTapCopies(p.level, width) {
		p.copyRuns(dst, src, width, runs, k0, k1)
		return
	}
	ch := k0 % p.c
	for t := k0 / p.c; k0 < k1; t++ {
		n := min(p.c-ch, k1-k0)
		p.tap(dst[:n*width], src[ch*p.plane:], width, runs, p.taps[t], n)
		dst = dst[n*width:]
		k0 += n
		ch = 0
	}
}

// split cuts columns j0 to j1 into runs.
func (p *patches) split(buf *[32]run, j0, j1 int) []run {
	w := &p.w
	x, row := j0%p.out[2], j0/p.out[2]
	y, z := row%p.out[1], row/p.out[1]
	n := 0
	for j := j0; j < j1; n++ {
		r := &buf[n]
		r.lane, r.n = j-j0, min(j1-j, p.out[2]-x)
		r.z, r.y, r.x = z*w.Stride[0]-w.PadLo[0], y*w.Stride[1]-w.PadLo[1], x*w.Stride[2]-w.PadLo[2]
		j += r.n
		x = 0
		if y++; y == p.out[1] {
			y, z = 0, z+1
		}
	}
	return buf[:n]
}

// tap gathers n channels from src of what one element of the kernel sees, in rows of width floats.
func (p *patches) tap(dst, src []float32, width int, runs []run, t tap, n int) {
	if p.direct && (len(runs) == 1 || p.even) {
		at, lanes := p.lanes(runs, t)
		copyLanes(p.level, dst, width, src, at, p.plane, p.w.Stride[2], n, lanes)
		return
	}
	if !p.pairs(dst, src, width, runs, t, n) {
		p.gather(dst, src, width, runs, t, n)
	}
}

// gather does what tap does, one run after another.
func (p *patches) gather(dst, src []float32, width int, runs []run, t tap, n int) {
	filled := 0
	for i := range runs {
		lo, hi, _ := runs[i].inside(&p.w, t)
		filled += hi - lo
	}
	if filled < width {
		clear(dst)
	}
	if filled == 0 {
		return
	}
	for i := range runs {
		r := &runs[i]
		if lo, hi, at := r.inside(&p.w, t); lo < hi {
			gather(p.level, dst, width, r.lane+lo, r.lane+hi, src[at:], p.plane, p.w.Stride[2], n)
		}
	}
}

// lanes returns the lanes of runs of one stretch of the image that a tap sees inside it, and where
// lane 0 is in a channel.
func (p *patches) lanes(runs []run, t tap) (at int, lanes uint32) {
	for i := range runs {
		r := &runs[i]
		if lo, hi, from := r.inside(&p.w, t); lo < hi {
			at = from - (r.lane+lo)*p.w.Stride[2]
			lanes |= (uint32(1)<<(hi-lo) - 1) << (r.lane + lo)
		}
	}
	return at, lanes
}

// inside returns the columns lo to hi of the run that see the image by a tap, and the offset of the
// first in a channel.
func (r *run) inside(w *Window, t tap) (lo, hi, at int) {
	z, y, x := r.z+t.z, r.y+t.y, r.x+t.x
	if uint(z) >= uint(w.In[0]) || uint(y) >= uint(w.In[1]) {
		return 0, 0, 0
	}
	lo, hi = 0, r.n
	if x < 0 || x+(r.n-1)*w.Stride[2] >= w.In[2] {
		lo, hi = inside(x, w.Stride[2], w.In[2], r.n)
		hi = max(lo, hi)
	}
	return lo, hi, (z*w.In[1]+y)*w.In[2] + x + lo*w.Stride[2]
}

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
